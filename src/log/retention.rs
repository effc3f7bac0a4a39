//! What may go from the front of the log: by request, by size, by age.
//!
//! Kafka: `UnifiedLog.deleteOldSegments`, `maybeIncrementLogStartOffset`. The raised log start is
//! durable before a segment is removed, so that a crash never leaves a hole that readers could see.

use std::sync::Arc;

use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::log::checkpoints::Change;
use crate::log::segment::Segment;
use crate::log::view::View;
use crate::log::writer::Writer;
use crate::storage::{Dir, Fenced};
use crate::types::{Offset, Timestamp};

/// What retention did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retained {
    /// How many segments went.
    pub deleted_segments: usize,
    /// Where the log starts.
    pub log_start_offset: Offset,
}

impl<D: Dir> Log<D> {
    /// Raises the log start to `offset`: records below it are never read again. Their segments go
    /// with the next [`Log::retain`]. Durable on return. At or below the log start nothing happens.
    ///
    /// # Errors
    /// `OffsetOutOfRange` above the high watermark.
    pub fn delete_records(&self, offset: Offset) -> Result<Offset> {
        let mut writer = self.changing("delete records")?;
        let view = self.view.load_full();
        if offset > view.high_watermark {
            return Err(Error::new(
                ErrorKind::OffsetOutOfRange,
                format!(
                    "delete records above the high watermark {}",
                    view.high_watermark
                ),
            )
            .at_path(self.path())
            .at_offset(offset)
            .next_step("delete up to the high watermark at most"));
        }
        self.raise_log_start(&mut writer, offset)?;
        Ok(self.log_start_offset())
    }

    /// Removes the oldest segments that the log start, `retention.bytes` and `retention.ms` allow,
    /// in this order. Only segments below the high watermark go, and one always stays.
    ///
    /// # Errors
    /// Those of the system.
    pub fn retain(&self, now: Timestamp) -> Result<Retained> {
        let mut writer = self.changing("apply retention")?;
        let mut deleted = self.delete_below_start(&mut writer, now)?;
        if self.config.delete {
            deleted = deleted.saturating_add(self.delete_by_size(&mut writer, now)?);
            deleted = deleted.saturating_add(self.delete_by_age(&mut writer, now)?);
        }
        Ok(Retained {
            deleted_segments: deleted,
            log_start_offset: self.log_start_offset(),
        })
    }

    fn delete_below_start(&self, writer: &mut Writer<Fenced<D>>, now: Timestamp) -> Result<usize> {
        let view = self.view.load_full();
        let start = view.log_start;
        self.delete_while(writer, now, |at, _| {
            let next = view.segments.get(at.saturating_add(1));
            Ok(next.is_some_and(|next| next.base <= start))
        })
    }

    fn delete_by_size(&self, writer: &mut Writer<Fenced<D>>, now: Timestamp) -> Result<usize> {
        let Ok(limit) = u64::try_from(self.config.retention_bytes) else {
            return Ok(0);
        };
        let Some(mut excess) = self.bytes().checked_sub(limit) else {
            return Ok(0);
        };
        let view = self.view.load_full();
        self.delete_while(writer, now, |_, segment| {
            let left = excess.checked_sub(view.bytes_of(segment));
            excess = left.unwrap_or(excess);
            Ok(left.is_some())
        })
    }

    fn delete_by_age(&self, writer: &mut Writer<Fenced<D>>, now: Timestamp) -> Result<usize> {
        if self.config.retention_ms < 0 {
            return Ok(0);
        }
        self.delete_while(writer, now, |_, segment| {
            let largest = if View::is_active(segment) {
                self.view.load().active_largest.0
            } else {
                self.handles.largest_timestamp(segment)?.0
            };
            // A segment without timestamps has no age: it stays until another rule takes it.
            Ok(largest.millis() >= 0 && now.millis_since(largest) > self.config.retention_ms)
        })
    }

    /// Removes segments from the oldest on while `may_go` says so, never at or above the high
    /// watermark.
    fn delete_while(
        &self,
        writer: &mut Writer<Fenced<D>>,
        now: Timestamp,
        mut may_go: impl FnMut(usize, &Segment<Fenced<D>>) -> Result<bool>,
    ) -> Result<usize> {
        let view = self.view.load_full();
        let mut count: usize = 0;
        for (at, segment) in view.segments.iter().enumerate() {
            let empty_last = View::is_active(segment) && view.bytes_of(segment) == 0;
            if empty_last || view.high_watermark < view.end_of(at) || !may_go(at, segment)? {
                break;
            }
            count = count.saturating_add(1);
        }
        if count == 0 {
            return Ok(0);
        }
        if count == view.segments.len() {
            self.roll_to(writer, view.log_end, now)?;
        }
        self.remove_oldest(writer, count)?;
        Ok(count)
    }

    fn remove_oldest(&self, writer: &mut Writer<Fenced<D>>, count: usize) -> Result<()> {
        let view = self.view.load_full();
        let Some(first_kept) = view.segments.get(count) else {
            return Ok(());
        };
        self.raise_log_start(writer, first_kept.base)?;
        self.publish(|view| {
            view.segments = Arc::new(view.segments.iter().skip(count).cloned().collect());
            view.generation = view.generation.wrapping_add(1);
        });
        for segment in view.segments.iter().take(count) {
            self.remove_files(writer, segment)?;
        }
        Ok(())
    }

    fn raise_log_start(&self, writer: &mut Writer<Fenced<D>>, start: Offset) -> Result<()> {
        let view = self.view.load_full();
        if start <= view.log_start {
            return Ok(());
        }
        if start > view.recovery_point {
            // A start above what a power cut leaves would not be believed, and deleted records come
            // back.
            self.sync_view(&view)?;
        }
        let mut facts = self.facts();
        facts.log_start = Some(start);
        self.checkpoints.write(Change::DeleteRecords, &facts)?;
        if writer.epochs.truncate_from_start(start) {
            self.write_epoch_file(&writer.epochs)?;
        }
        writer.producers.start_raised(start);
        let epochs = Arc::new(writer.epochs.clone());
        self.publish_with(|view, transactions| {
            transactions.replicated_below(start);
            view.log_start = start;
            view.high_watermark = view.high_watermark.max(start);
            view.recovery_point = view.recovery_point.max(start);
            view.synced_batches = view.synced_batches.max(start);
            view.epochs = epochs;
        });
        Ok(())
    }
}
