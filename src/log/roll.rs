//! When a segment is full, and what happens then. Kafka: `LogSegment.shouldRoll`,
//! `UnifiedLog.roll`.

use std::sync::Arc;

use crate::error::Result;
use crate::log::Log;
use crate::log::segment::Segment;
use crate::log::writer::{Active, Writer};
use crate::storage::{Dir, Fenced};
use crate::types::{Offset, Timestamp};

/// What is about to be appended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) bytes: u64,
    /// `None` for old formats, whose first offset is only known after decompression.
    pub(crate) first_offset: Option<Offset>,
    pub(crate) last_offset: Offset,
    pub(crate) max_timestamp: i64,
}

impl<D: Dir> Log<D> {
    /// Closes the active segment and opens an empty one at the log end; returns the base offset of
    /// the active segment then. An empty active segment stays. The closed segment is durable on
    /// return, and the flushed offset stands at the new base.
    ///
    /// # Errors
    /// Those of the system; the log is `Offline` after a failed sync.
    pub fn roll(&self, now: Timestamp) -> Result<Offset> {
        let mut writer = self.changing("roll")?;
        let base = self.log_end_offset().max(writer.active.base);
        self.roll_to(&mut writer, base, now)?;
        Ok(writer.active.base)
    }

    /// The base offset of the next segment, if the active one cannot take what comes.
    ///
    /// | reason | rule |
    /// |---|---|
    /// | size | the segment would grow past `segment.bytes`; filling it exactly is allowed |
    /// | age | the incoming largest timestamp is more than `segment.ms` above that of the first batch; without timestamps, the clock above the time of opening |
    /// | index | the offset index is full, or the time index but for its last entry |
    /// | offset | the last offset is more than 2^31 - 1 above the base |
    pub(crate) fn roll_due(
        &self,
        writer: &Writer<Fenced<D>>,
        incoming: &Incoming,
        now: Timestamp,
    ) -> Option<Offset> {
        let active = &writer.active;
        let waited = match active.first_timestamp {
            Some(first) if first >= 0 => incoming.max_timestamp.saturating_sub(first),
            _ => now.millis_since(active.created),
        };
        let size =
            active.bytes.saturating_add(incoming.bytes) > u64::from(self.config.segment_bytes);
        let age = active.bytes > 0 && waited > self.config.segment_ms;
        let reach = incoming.last_offset.distance_from(active.base);
        let offset = i32::try_from(reach).is_err();
        if !(size || age || active.indexes_full || offset) {
            return None;
        }
        // The first offset of an old wrapper is unknown: the lowest that it can be.
        let lowest = incoming
            .last_offset
            .get()
            .saturating_sub(i64::from(i32::MAX))
            .max(0);
        let first = incoming
            .first_offset
            .or(Offset::new(lowest))
            .unwrap_or(Offset::ZERO);
        Some(first.max(self.log_end_offset()))
    }

    pub(crate) fn roll_to(
        &self,
        writer: &mut Writer<Fenced<D>>,
        base: Offset,
        now: Timestamp,
    ) -> Result<()> {
        check_forward(writer.active.base, base);
        if writer.active.bytes == 0 && base == writer.active.base {
            // Kafka makes the files anew; all that can be seen of it is a younger segment.
            writer.active.created = now;
            self.publish(|view| {
                view.recovery_point = view.recovery_point.max(base);
                view.synced_batches = view.synced_batches.max(base);
            });
            return self.snapshot_at_roll(writer, base);
        }
        writer.active.seal(&self.dir)?;
        self.snapshot_at_roll(writer, base)?;
        let sealed = writer.active.to_sealed();
        writer.active = Active::create(&self.dir, base, &self.config, now)?;
        let active = Segment::active(base, Arc::clone(&writer.active.live));
        self.publish(|view| {
            let kept = view.segments.len().saturating_sub(1);
            let segments = view
                .segments
                .iter()
                .take(kept)
                .cloned()
                .chain([Arc::new(sealed), Arc::new(active)]);
            view.segments = Arc::new(segments.collect());
            view.active_bytes = 0;
            view.active_largest = (Timestamp::NONE, base);
            view.batches_end = base;
            view.log_end = base;
            view.recovery_point = view.recovery_point.max(base);
            view.synced_batches = view.synced_batches.max(base);
        });
        Ok(())
    }

    fn snapshot_at_roll(&self, writer: &mut Writer<Fenced<D>>, base: Offset) -> Result<()> {
        writer.producers.advance(base);
        writer.producers.take(&self.dir)
    }
}

fn check_forward(active: Offset, next: Offset) {
    assert!(next >= active, "a log rolls forwards");
}
