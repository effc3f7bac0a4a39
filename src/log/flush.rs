//! Making batches durable, checkpoints, and the clean end of a log.

use crate::checkpoint::LogFacts;
use crate::error::Result;
use crate::log::checkpoints::Change;
use crate::log::config::WatermarkPolicy;
use crate::log::segment::Body;
use crate::log::view::View;
use crate::log::{Log, barrier};
use crate::record::crc32_ieee;
use crate::storage::{Dir, Fenced};
use crate::types::Offset;

impl<D: Dir> Log<D> {
    /// Makes everything that was appended before the call durable; returns the flushed offset.
    ///
    /// Reads and appends go on meanwhile. The flushed offset moves in memory; `checkpoint` and
    /// `close` write it down, and until then the next open after a crash looks at the bytes again.
    ///
    /// # Errors
    /// A failed sync is final: the log is `Offline` until it is opened again.
    pub fn flush(&self) -> Result<Offset> {
        let mut writer = self.changing("flush")?;
        writer.active.save_indexes(&self.dir)?;
        drop(writer);
        self.sync_to(self.log_end_offset())?;
        Ok(self.recovery_point())
    }

    /// Waits until all below `end` is durable. The first who comes syncs for everybody whose bytes
    /// are written by then; the others wait for the flushed offset, not for one another. After a
    /// failed sync each of them fails at the fence, and one whose bytes a truncation took syncs
    /// what is there.
    pub(crate) fn sync_to(&self, end: Offset) -> Result<()> {
        let Some(turn) = self.turns.take_unless(|| self.recovery_point() >= end) else {
            return Ok(());
        };
        // Captured before the sync begins: what is appended during it is not covered.
        let view = self.view.load_full();
        self.sync_view(&view)?;
        self.publish(|next| {
            // A truncation in between has taken back a part of what was synced.
            let synced = view.log_end.min(next.log_end);
            next.recovery_point = next.recovery_point.max(synced);
            let batches = view.batches_end.min(next.batches_end);
            next.synced_batches = next.synced_batches.max(batches);
            if self.config.watermark_policy == WatermarkPolicy::Flushed {
                next.high_watermark = next.high_watermark.max(synced);
            }
        });
        drop(turn);
        Ok(())
    }

    /// Syncs the active segment of a view. Sealed ones were synced when they were sealed.
    pub(crate) fn sync_view(&self, view: &View<Fenced<D>>) -> Result<()> {
        match view.segments.last().map(|segment| &segment.body) {
            Some(Body::Active(live)) => {
                barrier::batches_before_acknowledgement(&self.dir, &live.log)
            }
            Some(Body::Sealed { .. }) | None => Ok(()),
        }
    }

    /// Writes recovery point, high watermark and log start to the checkpoint files of the data
    /// directory. Durable on return.
    ///
    /// # Errors
    /// Those of the system; the old values stand then.
    pub fn checkpoint(&self) -> Result<()> {
        let mut writer = self.changing("checkpoint")?;
        writer.active.sync_indexes(&self.dir)?;
        self.write_checkpoints(Change::Checkpoint)
    }

    pub(crate) fn write_checkpoints(&self, change: Change) -> Result<()> {
        self.save_completed_indexes()?;
        self.write_segments_file()?;
        self.checkpoints.write(change, &self.facts())
    }

    /// The values that the checkpoint files of the data directory hold of this log.
    pub(crate) fn facts(&self) -> LogFacts {
        let view = self.view.load();
        let raised = view.log_start > view.first_base();
        // Of a log that is empty at a start in a gap: the row stays as the truncation left it, for
        // our line, which alone vouches for the start, is a witness only with the row that it was
        // written with.
        let highest = if view.batches_end < view.log_start {
            view.batches_end
        } else if view.batches_end > view.recovery_point {
            // Of one in a gap a power cut may take all batches behind it: nothing would reach it.
            view.synced_batches
        } else {
            view.recovery_point
        };
        let epoch_file = crate::checkpoint::text::print_leader_epochs(view.epochs.entries());
        LogFacts {
            recovery_point: view.recovery_point.min(highest),
            high_watermark: Some(view.high_watermark),
            log_start: raised.then_some(view.log_start),
            log_end: view.batches_end,
            last_epoch: view.epochs.latest().map(|entry| entry.epoch),
            epoch_file_crc: Some(crc32_ieee(epoch_file.as_bytes())),
        }
    }

    /// Ends the log cleanly: everything synced, indexes cut to size, a snapshot at the end,
    /// checkpoints written. Later calls fail with `Closed`; readers that run go on.
    ///
    /// The clean-shutdown marker of the data directory is not this log's: see
    /// [`LogDir`](crate::log_dir::LogDir).
    ///
    /// # Errors
    /// Those of the system: then the log is not cleanly closed, and the next open recovers it.
    /// `Damaged` for a degraded log, which is left as it stands.
    pub fn close(&self) -> Result<()> {
        let mut writer = self.changing("close")?;
        writer.active.seal(&self.dir)?;
        writer.producers.take(&self.dir)?;
        let log_end = self.log_end_offset();
        self.publish(|view| view.recovery_point = log_end);
        self.write_checkpoints(Change::Checkpoint)?;
        writer.closed = true;
        self.watch.end();
        Ok(())
    }
}
