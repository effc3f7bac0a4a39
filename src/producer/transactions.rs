//! Which transactions hold the last stable offset back.

use std::collections::{BTreeMap, BTreeSet};

use super::state::{ProducerState, Producers};
use crate::types::Offset;

/// A transaction that a marker ended. Kafka: `CompletedTxn`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTransaction {
    /// The producer.
    pub producer_id: i64,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The offset of the marker.
    pub last_offset: Offset,
    /// Whether its records do not count.
    pub aborted: bool,
}

/// The open transactions of a log, and the ended ones whose marker is not below the high watermark
/// yet. Kafka: `ongoingTxns` and `unreplicatedTxns` of `ProducerStateManager`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transactions {
    /// Producers by the first offset of their open transaction.
    ongoing: BTreeMap<Offset, i64>,
    /// First offsets by the offset of the marker.
    ended: BTreeMap<Offset, Offset>,
    /// The first offsets of `ended`.
    ended_firsts: BTreeSet<Offset>,
}

impl Transactions {
    /// Knows no transaction.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The open transactions of these producers. Kafka: `loadProducerEntry`.
    #[must_use]
    pub fn of(producers: &Producers) -> Self {
        let open = |(id, state): (i64, &ProducerState)| Some((state.open_since()?, id));
        Self {
            ongoing: producers.iter().filter_map(open).collect(),
            ..Self::default()
        }
    }

    /// Notes that a transaction is open.
    pub fn start(&mut self, first_offset: Offset, producer_id: i64) {
        self.ongoing.insert(first_offset, producer_id);
    }

    /// Notes that a transaction has ended; returns the last stable offset as it stands then, were
    /// all replicated: where the first transaction of another producer began, else behind the
    /// marker. The transaction index keeps it.
    pub fn end(&mut self, completed: &CompletedTransaction) -> Offset {
        let others = self.ongoing.iter();
        let stable = others
            .filter(|(_, producer)| **producer != completed.producer_id)
            .map(|(first, _)| *first)
            .next();
        self.ongoing.remove(&completed.first_offset);
        self.ended
            .insert(completed.last_offset, completed.first_offset);
        self.ended_firsts.insert(completed.first_offset);
        stable.unwrap_or_else(|| completed.last_offset.next())
    }

    /// Forgets the ended transactions whose marker lies below `offset`: the high watermark when it
    /// is set, or a raised log start.
    pub fn replicated_below(&mut self, offset: Offset) {
        while let Some(entry) = self.ended.first_entry()
            && *entry.key() < offset
        {
            let first = entry.remove();
            self.ended_firsts.remove(&first);
        }
    }

    /// The first offset of the oldest transaction that is open or not replicated yet.
    #[must_use]
    pub fn first_unstable_offset(&self) -> Option<Offset> {
        let ongoing = self.ongoing.keys().next();
        let ended = self.ended_firsts.first();
        ongoing.into_iter().chain(ended).min().copied()
    }

    /// The offset below which every transaction has ended and is replicated, exclusive: between the
    /// log start and the high watermark, where `first_unstable` bounds it. Kafka:
    /// `UnifiedLog.fetchLastStableOffsetMetadata`, which lets it fall below the log start.
    #[must_use]
    pub fn last_stable_offset(
        first_unstable: Option<Offset>,
        log_start: Offset,
        high_watermark: Offset,
    ) -> Offset {
        let stable = first_unstable.unwrap_or(high_watermark);
        stable.min(high_watermark).max(log_start)
    }

    /// The open transactions, oldest first: first offset and producer.
    pub fn ongoing(&self) -> impl Iterator<Item = (Offset, i64)> {
        self.ongoing.iter().map(|(first, id)| (*first, *id))
    }

    /// Whether none holds the last stable offset back.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ongoing.is_empty() && self.ended.is_empty()
    }

    /// Whether an ended transaction waits for the high watermark.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        !self.ended.is_empty()
    }
}
