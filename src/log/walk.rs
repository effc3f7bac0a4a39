//! What a scan remembers from one batch to the next, and which batch it takes as the next one.
//!
//! Base offset and leader epoch lie outside the checksum, and holes are legal. So a batch continues
//! the log if it begins at or above the end of the one before, inside the reach of its segment, and
//! its epoch is not lower. Of two batches that overlap, the earlier has a wrong base offset if it
//! would fit between the batch before it and the later one; otherwise the later is stale, or torn
//! in the bytes before its checksum. An epoch
//! that goes back ends the log above the recovery point; below it the one batch whose neighbours
//! agree without it is the damage.

use crate::epoch::EpochCache;
use crate::index::{OffsetIndex, TimeIndex};
use crate::log::decision::Stop;
use crate::log::segment::IndexTally;
use crate::record::BatchHeader;
use crate::types::{LeaderEpoch, Offset, Position};

/// The state between two batches.
#[derive(Clone, Debug, Default)]
pub(crate) struct Walk {
    /// The end of the last batch.
    end: Option<Offset>,
    /// The epoch of the last batch that had one.
    epoch: Option<i32>,
    /// What stood before the last batch, and where that one is.
    before_last: Option<Before>,
    /// The epochs of the file, and those of later batches.
    pub(crate) epochs: EpochCache,
    /// At least one batch was accepted.
    pub(crate) scanned: bool,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    segment: Offset,
    position: Position,
    end: Option<Offset>,
    epoch: Option<i32>,
    bytes: u32,
    /// How many offsets the last batch takes.
    offsets: i64,
}

/// Why a batch does not continue the log.
#[derive(Clone, Debug)]
pub(crate) struct Refused {
    pub(crate) stop: Stop,
    /// The fault lies with the batch before it; for an epoch that goes back only below the recovery
    /// point.
    pub(crate) at_previous: bool,
    pub(crate) detail: String,
}

impl Walk {
    pub(crate) fn new(epochs: EpochCache) -> Self {
        Self {
            epochs,
            ..Self::default()
        }
    }

    /// The offset that is expected next, in a segment with this base.
    pub(crate) fn end(&self, segment_base: Offset) -> Offset {
        self.end.unwrap_or(segment_base).max(segment_base)
    }

    /// Takes a batch as the next one, or says why it is not.
    pub(crate) fn accept(
        &mut self,
        segment_base: Offset,
        position: Position,
        header: &BatchHeader,
    ) -> Result<(), Refused> {
        // The base of an old wrapper message is not in its header; its last offset is.
        let base = header.base_offset;
        let end = self.end.unwrap_or(segment_base);
        let reach = header.last_offset.saturating_sub(segment_base.get());
        if base < segment_base.get() || i32::try_from(reach).is_err() {
            return Err(Refused {
                stop: Stop::OffsetBack,
                at_previous: false,
                detail: format!("offset {base} is outside the segment of {segment_base}"),
            });
        }
        if base < end.get() {
            let before = self
                .before_last
                .filter(|before| before.segment == segment_base);
            let at_previous = before.is_some_and(|before| {
                let lowest = before.end.unwrap_or(segment_base).get();
                lowest.saturating_add(before.offsets) <= base
            });
            let detail = if at_previous {
                format!("the next batch begins at {base}, inside this one")
            } else {
                format!("offset {base} is below the log end {end}")
            };
            return Err(Refused {
                stop: Stop::OffsetBack,
                at_previous,
                detail,
            });
        }
        if let Some(epoch) = self.epoch.filter(|_| header.leader_epoch >= 0)
            && header.leader_epoch < epoch
        {
            // Both neighbours of the earlier batch agree: it is the odd one out.
            let before = self
                .before_last
                .filter(|before| before.segment == segment_base);
            return Err(Refused {
                stop: Stop::EpochBack,
                at_previous: before.is_some_and(|before| {
                    before
                        .epoch
                        .is_none_or(|before| before <= header.leader_epoch)
                }),
                detail: format!("leader epoch {} follows {epoch}", header.leader_epoch),
            });
        }
        self.before_last = Some(Before {
            segment: segment_base,
            position,
            end: self.end,
            epoch: self.epoch,
            bytes: header.bytes,
            offsets: header.last_offset.saturating_sub(base).saturating_add(1),
        });
        self.end = Offset::new(header.last_offset).map(Offset::next);
        self.epoch = if header.leader_epoch >= 0 {
            Some(header.leader_epoch)
        } else {
            self.epoch
        };
        self.scanned = true;
        learn(&mut self.epochs, header, segment_base);
        Ok(())
    }

    /// Forgets the last batch; returns the end before it and its length.
    pub(crate) fn take_back(&mut self) -> (Option<Offset>, u32) {
        let Some(before) = self.before_last else {
            return (self.end, 0);
        };
        self.end = before.end;
        self.epoch = before.epoch;
        self.epochs
            .truncate_from_end(before.end.unwrap_or(before.segment));
        (before.end, before.bytes)
    }

    /// Where the last accepted batch begins.
    pub(crate) fn previous_position(&self) -> Position {
        self.before_last
            .map_or(Position::ZERO, |before| before.position)
    }

    /// Goes on behind a batch of a lower epoch: those that follow it are no damage.
    pub(crate) fn fall_back_to(&mut self, epoch: i32) {
        self.epoch = Some(epoch);
    }

    /// Goes on behind damage.
    pub(crate) fn skip_to(&mut self, offset: Offset) {
        self.end = Some(self.end.map_or(offset, |end| end.max(offset)));
        self.before_last = None;
    }
}

/// What a scan makes of one segment: its indexes.
#[derive(Debug)]
pub(crate) struct SegmentWalk {
    pub(crate) base: Offset,
    /// Where the scan of this segment began.
    pub(crate) from: Position,
    pub(crate) index: OffsetIndex,
    pub(crate) time: TimeIndex,
    pub(crate) tally: IndexTally,
    /// The entries of the stored index, for going on behind damage.
    pub(crate) stored: OffsetIndex,
    /// A batch of a producer was seen.
    pub(crate) producers: bool,
}

impl SegmentWalk {
    pub(crate) fn note(&mut self, header: &BatchHeader, position: Position, interval: u32) {
        self.producers |= header.has_producer_id();
        self.tally
            .note(header, position, interval, &mut self.index, &mut self.time);
    }

    /// Takes the last batch out of the indexes again.
    pub(crate) fn forget(&mut self, (end, bytes): (Option<Offset>, u32)) {
        let end = end.unwrap_or(self.base);
        self.index.truncate_to(end);
        self.time.truncate_to(end);
        if self.tally.largest.1 >= end {
            self.tally.largest = self.time.last_entry();
        }
        self.tally.bytes_since_entry = self
            .tally
            .bytes_since_entry
            .saturating_sub(u64::from(bytes));
    }

    /// Where the stored index says that batches begin, behind a position.
    pub(crate) fn stored_positions_behind(&self, position: Position) -> Vec<Position> {
        let view = self.stored.view();
        view.iter()
            .map(|(_, at)| at)
            .filter(|at| *at > position)
            .collect()
    }
}

/// Notes the epoch of a batch if it is above the latest.
pub(crate) fn learn(epochs: &mut EpochCache, header: &BatchHeader, segment_base: Offset) {
    let Some(epoch) = LeaderEpoch::new(header.leader_epoch) else {
        return;
    };
    if epochs.latest().is_none_or(|latest| epoch > latest.epoch) {
        epochs.assign(
            epoch,
            Offset::new(header.base_offset).unwrap_or(segment_base),
        );
    }
}
