//! What readers see: one immutable picture of the log.

use std::ops::Deref;
use std::sync::Arc;

use crate::epoch::EpochCache;
use crate::log::plan::Damage;
use crate::log::segment::{Body, Segment};
use crate::producer::Transactions;
use crate::storage::Dir;
use crate::types::{Offset, Timestamp};

/// One state of the log. Cheap to clone: a new one is made for each append.
#[derive(Debug)]
pub(crate) struct View<D: Dir> {
    /// By base offset; never empty, the last one is active.
    pub(crate) segments: Arc<Segments<D>>,
    pub(crate) log_start: Offset,
    pub(crate) log_end: Offset,
    /// Bytes of the active segment that hold batches.
    pub(crate) active_bytes: u64,
    /// The largest timestamp of the active segment, and the last offset of the first batch that has
    /// it.
    pub(crate) active_largest: (Timestamp, Offset),
    /// The end of the last batch; of an empty last segment its base. Differs from the log end only
    /// where a truncation or a roll ended in a gap.
    pub(crate) batches_end: Offset,
    pub(crate) high_watermark: Offset,
    pub(crate) recovery_point: Offset,
    /// The end of the last batch below the recovery point; that one may lie in a gap behind it,
    /// which a truncation made.
    pub(crate) synced_batches: Offset,
    pub(crate) epochs: Arc<EpochCache>,
    /// Raised by every change that takes bytes or segments away. A reader whose view is of an older
    /// generation throws away what it read and starts again.
    pub(crate) generation: u64,
    pub(crate) damage: Arc<[Damage]>,
    /// Whether the ended transactions below the high watermark were let go since it was set: the
    /// first reader below it sees to that.
    pub(crate) watermark_settled: bool,
    /// The first offset of the oldest transaction that is open, or ended and not replicated yet.
    pub(crate) first_unstable: Option<Offset>,
}

/// The segments of a log; dereferences to a slice of them.
#[derive(Debug)]
pub(crate) struct Segments<D: Dir> {
    list: Box<[Arc<Segment<D>>]>,
    /// Their base offsets, close together: a search over the segments waits for memory at every
    /// step.
    bases: Box<[Offset]>,
}

impl<D: Dir> FromIterator<Arc<Segment<D>>> for Segments<D> {
    fn from_iter<I: IntoIterator<Item = Arc<Segment<D>>>>(segments: I) -> Self {
        let list: Box<[_]> = segments.into_iter().collect();
        let bases = list.iter().map(|segment| segment.base).collect();
        Self { list, bases }
    }
}

impl<D: Dir> Deref for Segments<D> {
    type Target = [Arc<Segment<D>>];

    fn deref(&self) -> &Self::Target {
        &self.list
    }
}

impl<D: Dir> Clone for View<D> {
    fn clone(&self) -> Self {
        Self {
            segments: Arc::clone(&self.segments),
            epochs: Arc::clone(&self.epochs),
            damage: Arc::clone(&self.damage),
            ..*self
        }
    }
}

impl<D: Dir> View<D> {
    /// Bytes of a segment that hold batches.
    pub(crate) fn bytes_of(&self, segment: &Segment<D>) -> u64 {
        match &segment.body {
            Body::Sealed { bytes, .. } => *bytes,
            Body::Active(_) => self.active_bytes,
        }
    }

    /// The index of the segment that holds `offset`, or would: the last one that starts at or below
    /// it.
    pub(crate) fn floor(&self, offset: Offset) -> Option<usize> {
        self.segments
            .bases
            .partition_point(|base| *base <= offset)
            .checked_sub(1)
    }

    /// The end of the offsets that a segment may hold; exclusive.
    pub(crate) fn end_of(&self, at: usize) -> Offset {
        self.segments
            .get(at.saturating_add(1))
            .map_or(self.log_end, |next| next.base)
    }

    /// The offset below which every transaction has ended and is replicated; exclusive. Never below
    /// the log start.
    pub(crate) fn last_stable_offset(&self) -> Offset {
        let (start, high_watermark) = (self.log_start, self.high_watermark);
        Transactions::last_stable_offset(self.first_unstable, start, high_watermark)
    }

    pub(crate) fn first_base(&self) -> Offset {
        self.segments
            .first()
            .map_or(self.log_start, |segment| segment.base)
    }

    /// Invariant 1 of the log, kept in release builds too: the price is a few comparisons an
    /// append.
    pub(crate) fn check(&self) {
        assert!(
            self.log_start <= self.high_watermark,
            "the high watermark is below the log start"
        );
        assert!(
            self.high_watermark <= self.log_end,
            "the high watermark is above the log end"
        );
        assert!(
            self.recovery_point <= self.log_end,
            "the recovery point is above the log end"
        );
    }
}
