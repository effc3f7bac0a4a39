//! The producers of a log at its end, and which of its transactions were aborted.
//!
//! Both come from side files as far as those are sound, and from the batches behind them: a
//! producer snapshot or a transaction index that is missing or wrong hides nothing.

use super::MAX_INDEX_BYTES;
use super::catalog::{LogDirectory, SegmentFiles};
use crate::error::Result;
use crate::index::AbortedTransaction;
use crate::log::AbortedFilter;
use crate::log::aborted::{resolve_segment, state_at};
use crate::log::replay::{ReplayedSegment, State};
use crate::names::{FileName, FileType, Suffix};
use crate::producer::Transactions;
use crate::storage::{Dir, File};
use crate::types::{Offset, Timestamp};

/// How long a silent producer is remembered: Kafka's default of `producer.id.expiration.ms`.
pub(super) const EXPIRATION_MS: i64 = 86_400_000;

/// A transaction that no marker has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenTransaction {
    /// Who writes it.
    pub producer_id: i64,
    /// The epoch of that producer.
    pub producer_epoch: i16,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The timestamp of that record; `None` if its batch is not there any more.
    pub first_timestamp: Option<Timestamp>,
    /// The offset of its last record (inclusive), as far as it is known.
    pub last_offset: Option<Offset>,
    /// The largest timestamp of its last batch.
    pub last_timestamp: Timestamp,
}

impl State {
    /// As of the end of a log, as far as side files and batches tell.
    pub(super) fn at_end<D: Dir>(
        log: &LogDirectory<D>,
        start: Offset,
        end: Offset,
    ) -> Result<Self> {
        let segments = replayed(log)?;
        // Those at or below the log start are removed when the log is opened.
        let snapshots = snapshots(log).into_iter();
        let snapshots: Vec<Offset> = snapshots.filter(|offset| *offset > start).collect();
        state_at(&log.dir, &segments, (start, end), &snapshots)
    }

    /// The last stable offset. A log whose high watermark nobody knows has none above its start.
    pub(super) fn last_stable_offset(
        &mut self,
        high_watermark: Option<Offset>,
        start: Offset,
        end: Offset,
    ) -> Offset {
        let high_watermark = high_watermark.unwrap_or(start).min(end).max(start);
        self.transactions.replicated_below(high_watermark);
        let unstable = self.transactions.first_unstable_offset();
        Transactions::last_stable_offset(unstable, start, high_watermark)
    }

    /// The open transactions, oldest first. `first_timestamp` is asked for producer and first
    /// offset.
    pub(super) fn open_transactions(
        &self,
        first_timestamp: impl Fn(i64, Offset) -> Option<Timestamp>,
    ) -> Vec<OpenTransaction> {
        let open = self.transactions.ongoing().filter_map(|(first, id)| {
            let state = self.producers.get(id)?;
            let last = state.batches().last().map(|batch| batch.last_offset);
            Some(OpenTransaction {
                producer_id: id,
                producer_epoch: state.producer_epoch(),
                first_offset: first,
                first_timestamp: first_timestamp(id, first),
                last_offset: last.filter(|last| *last >= first),
                last_timestamp: state.last_timestamp(),
            })
        });
        open.collect()
    }
}

/// The segments as far as they reach now.
fn replayed<D: Dir>(log: &LogDirectory<D>) -> Result<Vec<ReplayedSegment>> {
    let segment = |segment: &SegmentFiles| {
        let name = segment.log_name();
        let file = log.open(&name)?;
        let bytes = file.map_or(Ok(0), |file| file.bytes());
        Ok(ReplayedSegment {
            base: segment.base,
            bytes: bytes.map_err(|e| log.failed("cannot read the segment", &name, e))?,
            without_producers: None,
        })
    };
    log.segments.iter().map(segment).collect()
}

/// The offsets of the snapshots that may be read, ascending.
pub(super) fn snapshots<D: Dir>(log: &LogDirectory<D>) -> Vec<Offset> {
    let snapshot = |(_, kind, bytes): &(String, FileName, u64)| {
        let FileName::Segment {
            base,
            kind: FileType::Snapshot,
            suffix: Suffix::None,
            canonical: true,
        } = kind
        else {
            return None;
        };
        (*bytes <= MAX_INDEX_BYTES).then_some(*base)
    };
    let mut offsets: Vec<Offset> = log.files.iter().filter_map(snapshot).collect();
    offsets.sort_unstable();
    offsets
}

/// Tells a reader of committed records what to leave out, segment by segment.
///
/// The index of each segment is held against its batches. How far it looks ahead of the reader
/// depends on how long transactions are.
pub(super) struct Aborted<'a, D: Dir> {
    log: &'a LogDirectory<D>,
    segments: Vec<ReplayedSegment>,
    /// The number of the segment to look at next, and the state at its base offset.
    next: usize,
    state: State,
    filter: AbortedFilter,
    found: Vec<AbortedTransaction>,
}

impl<'a, D: Dir> Aborted<'a, D> {
    /// From a segment on, by its number.
    pub(super) fn new(log: &'a LogDirectory<D>, first: usize) -> Result<Self> {
        let segments = replayed(log)?;
        let base = segments.get(first).map_or(Offset::ZERO, |first| first.base);
        let state = state_at(&log.dir, &segments, (Offset::ZERO, base), &snapshots(log))?;
        Ok(Self {
            log,
            segments,
            next: first,
            state,
            filter: AbortedFilter::new(),
            found: Vec::new(),
        })
    }

    /// Looks at the segments that can hold the end of a transaction with records below `end`
    /// (exclusive).
    pub(super) fn look_ahead(&mut self, end: Offset) -> Result<()> {
        while let Some(segment) = self.segments.get(self.next) {
            let open = self.state.transactions.ongoing().next();
            if segment.base >= end && open.is_none_or(|(first, _)| first >= end) {
                break;
            }
            let mut replay = self.state.replay();
            let everything = (Offset::ZERO, Offset::MAX);
            let resolved = resolve_segment(&self.log.dir, segment, everything, &mut replay)?;
            self.found.extend_from_slice(resolved.aborted.entries());
            self.next = self.next.saturating_add(1);
        }
        self.filter.expect(&std::mem::take(&mut self.found));
        Ok(())
    }

    /// What decides batch by batch.
    pub(super) fn filter(&mut self) -> &mut AbortedFilter {
        &mut self.filter
    }
}
