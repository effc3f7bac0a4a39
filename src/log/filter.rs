//! Leaves aborted records out, batch by batch. Kafka: `CompletedFetch.isBatchAborted`.

use std::collections::BTreeSet;

use crate::index::AbortedTransaction;
use crate::record::{Batch, BatchHeader, ControlType, Scratch};

/// Tells which batches of a range a reader of committed records gets, from the aborted transactions
/// of that range.
///
/// Batches must come in the order of their offsets. No value is looked at, but those of markers.
#[derive(Debug, Default)]
pub struct AbortedFilter {
    /// By rising first offset, those to come last.
    waiting: Vec<AbortedTransaction>,
    /// Producers whose aborted transaction is being passed.
    aborted: BTreeSet<i64>,
    scratch: Scratch,
}

impl AbortedFilter {
    /// A filter that knows no aborted transaction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds the aborted transactions of the batches that come next, in any order. One that is known
    /// already does no harm.
    pub fn expect(&mut self, transactions: &[AbortedTransaction]) {
        self.waiting.extend_from_slice(transactions);
        self.waiting
            .sort_by_key(|waiting| std::cmp::Reverse((waiting.first_offset, waiting.last_offset)));
        self.waiting.dedup();
    }

    /// Whether the records of the batch are delivered: not those of markers, nor of an aborted
    /// transaction.
    pub fn delivers(&mut self, batch: &Batch<'_>) -> bool {
        let kind = batch.control_type(&mut self.scratch);
        let is_abort = matches!(kind, Ok(Some(ControlType::Abort)));
        self.delivers_header(batch.header(), is_abort)
    }

    /// As [`delivers`](Self::delivers), from what is known of a batch.
    pub(crate) fn delivers_header(&mut self, header: &BatchHeader, is_abort: bool) -> bool {
        while let Some(next) = self.waiting.last()
            && next.first_offset.get() <= header.last_offset
        {
            // One that ended before this batch was passed with an earlier read.
            if next.last_offset.get() >= header.base_offset {
                self.aborted.insert(next.producer_id);
            }
            self.waiting.pop();
        }
        if is_abort {
            self.aborted.remove(&header.producer_id);
        }
        let is_aborted = header.is_transactional() && self.aborted.contains(&header.producer_id);
        !header.is_control() && !is_aborted
    }
}
