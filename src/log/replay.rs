//! Reads what producers did out of the batches of a segment again.

use std::io;

use crate::error::{Error, Result};
use crate::index::AbortedTransaction;
use crate::log::scan::{Depth, Fault, Scanner, Step};
use crate::names::{FileType, segment_name};
use crate::producer::{Content, Origin, ProducerBatch, Producers, Transactions};
use crate::record::{Batch, BatchHeader, EndTransactionMarker, Scratch};
use crate::storage::{Access, Dir, File};
use crate::types::{Offset, Position, Timestamp};

/// A marker takes some eighty bytes; a control batch beyond this size is none.
const MAX_MARKER_BYTES: u32 = 1 << 20;

/// A segment whose batches are read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ReplayedSegment {
    pub(crate) base: Offset,
    /// Bytes of batches in its file.
    pub(crate) bytes: u64,
    /// A scan saw all of its batches, and none is of a producer: where the last one ends.
    pub(crate) without_producers: Option<Offset>,
}

/// Producers and transactions, as of some offset.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) producers: Producers,
    pub(crate) transactions: Transactions,
}

impl State {
    /// What these producers have open.
    pub(crate) fn of(producers: Producers) -> Self {
        Self {
            transactions: Transactions::of(&producers),
            producers,
        }
    }

    /// Lets the state follow batches.
    pub(crate) fn replay(&mut self) -> Replay<'_> {
        Replay {
            producers: &mut self.producers,
            transactions: &mut self.transactions,
        }
    }
}

/// A state that follows the batches.
#[derive(Debug)]
pub(crate) struct Replay<'s> {
    pub(crate) producers: &'s mut Producers,
    pub(crate) transactions: &'s mut Transactions,
}

impl Replay<'_> {
    /// Follows one batch; the transaction that it aborts.
    pub(crate) fn batch(
        &mut self,
        header: &BatchHeader,
        marker: Option<EndTransactionMarker>,
    ) -> Option<AbortedTransaction> {
        let update = self
            .producers
            .check(Origin::Replay, of_producer(header, marker))
            .unwrap_or_default();
        self.producers.apply(&update);
        for (first, producer) in update.started() {
            self.transactions.start(*first, *producer);
        }
        let mut aborted = None;
        for completed in update.completed() {
            let last_stable_offset = self.transactions.end(completed);
            aborted = completed.aborted.then_some(AbortedTransaction {
                producer_id: completed.producer_id,
                first_offset: completed.first_offset,
                last_offset: completed.last_offset,
                last_stable_offset,
            });
        }
        aborted
    }

    /// Follows the batches of a segment that hold or lie behind `from` and end below `to`. `see`
    /// is told of each batch, its marker and the transaction that it aborts. Reads headers and
    /// markers only; ends where no further batch can be found.
    pub(crate) fn segment<D: Dir>(
        &mut self,
        dir: &D,
        segment: &ReplayedSegment,
        from: Offset,
        to: Offset,
        mut see: impl FnMut(&BatchHeader, Option<EndTransactionMarker>, Option<AbortedTransaction>),
    ) -> Result<()> {
        if segment.without_producers.is_some() || segment.bytes == 0 {
            return Ok(());
        }
        let name = segment_name(segment.base, FileType::Log);
        let fail = |e| Error::io("read producers", &dir.path().join(&name), e);
        let log = dir.open(&name, Access::Read).map_err(fail)?;
        let mut scan = Scanner::new(&log, Position::ZERO, segment.bytes, Depth::Headers);
        loop {
            let (position, header) = match scan.step().map_err(fail)? {
                Step::Batch(position, header) => (position, header),
                Step::Bad(position, Some(header), Fault::Decode(_)) => {
                    scan.seek(position.plus(u64::from(header.bytes)));
                    continue;
                }
                Step::Bad(..) | Step::End(_) => return Ok(()),
            };
            if header.last_offset < from.get() {
                continue;
            }
            if header.last_offset >= to.get() {
                return Ok(());
            }
            if !header.has_producer_id() {
                see(&header, None, None);
                continue;
            }
            let marker = read_marker(&log, position, &header).map_err(fail)?;
            let aborted = self.batch(&header, marker);
            see(&header, marker, aborted);
        }
    }
}

/// The batch as the rules of its producer see it, with its marker if it is a control batch that
/// holds one; `None` if no producer wrote it.
pub(crate) fn of_producer(
    header: &BatchHeader,
    marker: Option<EndTransactionMarker>,
) -> Option<ProducerBatch> {
    let content = match marker {
        Some(marker) => Content::EndTransaction {
            commit: marker.commit,
            coordinator_epoch: marker.coordinator_epoch,
        },
        None if header.is_control() => Content::NoMarker,
        None => Content::Records {
            transactional: header.is_transactional(),
        },
    };
    header.has_producer_id().then(|| ProducerBatch {
        producer_id: header.producer_id,
        producer_epoch: header.producer_epoch,
        first_sequence: header.base_sequence,
        last_sequence: header.last_sequence(),
        first_offset: Offset::new(header.base_offset).unwrap_or_default(),
        last_offset: Offset::new(header.last_offset).unwrap_or_default(),
        max_timestamp: Timestamp::from_millis(header.max_timestamp),
        content,
    })
}

/// The marker of a control batch; `None` for any other batch, and for one that holds none.
pub(crate) fn read_marker<F: File>(
    log: &F,
    position: Position,
    header: &BatchHeader,
) -> io::Result<Option<EndTransactionMarker>> {
    if !header.is_control() || header.bytes > MAX_MARKER_BYTES {
        return Ok(None);
    }
    let mut bytes = vec![0; usize::try_from(header.bytes).unwrap_or(usize::MAX)];
    log.read_exact_at(&mut bytes, position.get())?;
    let mut scratch = Scratch::default();
    let batch = Batch::parse(&bytes);
    Ok(batch
        .and_then(|batch| batch.end_transaction_marker(&mut scratch))
        .unwrap_or_default())
}
