//! What is known of each producer, and which of its batches is taken next.

use std::collections::BTreeMap;
use std::fmt;

use super::snapshot::ProducerSnapshotEntry;
use super::transactions::CompletedTransaction;
use crate::types::{Offset, Timestamp};

/// How many batches of a producer are remembered: a retry of any of them is a duplicate. Kafka:
/// `ProducerStateEntry.NUM_BATCHES_TO_RETAIN`.
pub const WINDOW: usize = 5;

/// No sequence number, or no epoch.
const NONE: i32 = -1;

/// Who brings a batch, which decides what is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// A client, of a leader: sequence numbers and epochs.
    Client,
    /// The transaction coordinator, of a leader: epochs.
    Coordinator,
    /// A leader, of its follower: what it took is taken, but a batch outside of the producer's open
    /// transaction.
    Leader,
    /// The log itself, read again: everything counts as it stands.
    Replay,
}

/// A batch of a producer, as its rules see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerBatch {
    /// The producer, 0 or more.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The sequence number of the first record; -1 if it has none.
    pub first_sequence: i32,
    /// That of the last record, inclusive; lower than the first where numbers begin again at 0.
    pub last_sequence: i32,
    /// The offset of the first record.
    pub first_offset: Offset,
    /// The offset of the last record, inclusive.
    pub last_offset: Offset,
    /// The largest timestamp.
    pub max_timestamp: Timestamp,
    /// What it holds.
    pub content: Content,
}

/// What a batch of a producer holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Records.
    Records {
        /// Whether they are part of a transaction.
        transactional: bool,
    },
    /// The marker that ends a transaction. Kafka: `EndTransactionMarker`.
    EndTransaction {
        /// Whether the records of the transaction count.
        commit: bool,
        /// The epoch of the coordinator that wrote it.
        coordinator_epoch: i32,
    },
    /// A control batch whose marker compaction took out; it says nothing.
    NoMarker,
}

/// A batch that a producer wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducedBatch {
    /// The sequence number of its last record; -1 if it has none.
    pub last_sequence: i32,
    /// The offset of its last record, inclusive.
    pub last_offset: Offset,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: Timestamp,
}

impl ProducedBatch {
    /// The sequence number of its first record.
    #[must_use]
    pub fn first_sequence(&self) -> i32 {
        let first = self.last_sequence.checked_sub(self.offset_delta);
        first
            .filter(|first| *first >= 0 || self.last_sequence < 0)
            .unwrap_or_else(|| {
                let behind_wrap = self.offset_delta.saturating_sub(self.last_sequence);
                i32::MAX.saturating_sub(behind_wrap).saturating_add(1)
            })
    }

    /// The offset of its first record.
    #[must_use]
    pub fn first_offset(&self) -> Offset {
        let first = self
            .last_offset
            .get()
            .saturating_sub(i64::from(self.offset_delta));
        Offset::new(first).unwrap_or_default()
    }

    fn of(batch: &ProducerBatch) -> Self {
        let delta = batch.last_offset.distance_from(batch.first_offset);
        Self {
            last_sequence: batch.last_sequence,
            last_offset: batch.last_offset,
            offset_delta: i32::try_from(delta).unwrap_or(i32::MAX),
            timestamp: batch.max_timestamp,
        }
    }
}

/// Adds a batch behind the last ones; the oldest makes room. Takes no more memory than they need:
/// there may be very many producers.
fn push(window: &mut Vec<ProducedBatch>, batch: ProducedBatch) {
    if window.len() >= WINDOW {
        window.rotate_left(1);
        window.pop();
    } else {
        window.reserve_exact(1);
    }
    window.push(batch);
}

/// What is known of one producer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    producer_epoch: i16,
    coordinator_epoch: i32,
    last_timestamp: Timestamp,
    /// The first offset of its open transaction.
    open_since: Option<Offset>,
    /// At most [`WINDOW`], oldest first.
    window: Vec<ProducedBatch>,
}

impl ProducerState {
    fn unknown() -> Self {
        Self {
            producer_epoch: -1,
            coordinator_epoch: NONE,
            last_timestamp: Timestamp::NONE,
            open_since: None,
            window: Vec::new(),
        }
    }

    /// The same with an empty window: what an append begins with.
    fn without_batches(&self) -> Self {
        Self {
            window: Vec::new(),
            ..*self
        }
    }

    /// Its epoch: batches of a lower one are fenced.
    #[must_use]
    pub fn producer_epoch(&self) -> i16 {
        self.producer_epoch
    }

    /// The epoch of the coordinator that wrote its last marker; -1 without one.
    #[must_use]
    pub fn coordinator_epoch(&self) -> i32 {
        self.coordinator_epoch
    }

    /// The largest timestamp of its last batch, or the time of its last marker.
    #[must_use]
    pub fn last_timestamp(&self) -> Timestamp {
        self.last_timestamp
    }

    /// The first offset of its open transaction.
    #[must_use]
    pub fn open_since(&self) -> Option<Offset> {
        self.open_since
    }

    /// Its last batches of this epoch, at most [`WINDOW`], oldest first.
    #[must_use]
    pub fn batches(&self) -> &[ProducedBatch] {
        &self.window
    }

    /// The sequence number of its last record in this epoch; -1 if there is none.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        self.batches()
            .last()
            .map_or(NONE, |last| last.last_sequence)
    }

    fn set_epoch(&mut self, epoch: i16) {
        if self.producer_epoch != epoch {
            self.producer_epoch = epoch;
            self.window.clear();
        }
    }

    fn add(&mut self, epoch: i16, batch: ProducedBatch) {
        self.set_epoch(epoch);
        push(&mut self.window, batch);
        self.last_timestamp = batch.timestamp;
    }

    fn end_transaction(&mut self, epoch: i16, coordinator_epoch: i32, time: Timestamp) {
        self.set_epoch(epoch);
        self.coordinator_epoch = coordinator_epoch;
        self.last_timestamp = time;
        self.open_since = None;
    }

    /// Takes over what an append added, whose window holds the batches of that append only.
    fn merge(&mut self, update: &Self) {
        self.set_epoch(update.producer_epoch);
        for batch in update.batches() {
            push(&mut self.window, *batch);
        }
        self.coordinator_epoch = update.coordinator_epoch;
        self.last_timestamp = update.last_timestamp;
        self.open_since = update.open_since;
    }

    fn is_expired(&self, now: Timestamp, expiration_ms: i64) -> bool {
        self.open_since.is_none() && now.millis_since(self.last_timestamp) >= expiration_ms
    }

    fn to_entry(&self, producer_id: i64) -> ProducerSnapshotEntry {
        let last = self.batches().last();
        ProducerSnapshotEntry {
            producer_id,
            producer_epoch: self.producer_epoch,
            last_sequence: self.last_sequence(),
            last_offset: last.map(|last| last.last_offset),
            offset_delta: last.map_or(0, |last| last.offset_delta),
            timestamp: self.last_timestamp,
            coordinator_epoch: self.coordinator_epoch,
            current_txn_first_offset: self.open_since,
        }
    }

    fn of_entry(entry: &ProducerSnapshotEntry) -> Self {
        let last = entry.last_offset.map(|last_offset| ProducedBatch {
            last_sequence: entry.last_sequence,
            last_offset,
            offset_delta: entry.offset_delta,
            timestamp: entry.timestamp,
        });
        Self {
            producer_epoch: entry.producer_epoch,
            coordinator_epoch: entry.coordinator_epoch,
            last_timestamp: entry.timestamp,
            open_since: entry.current_txn_first_offset,
            window: last.into_iter().collect(),
        }
    }
}

/// Why a batch of a producer is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProducerError {
    /// Its first sequence number does not follow the last one. Kafka:
    /// `OutOfOrderSequenceException`.
    OutOfOrderSequence {
        /// The producer.
        producer_id: i64,
        /// The last sequence number that was taken; -1 if there is none in its epoch.
        last: i32,
        /// The first one of the batch.
        first: i32,
    },
    /// A producer of a later epoch has written. Kafka: `InvalidProducerEpochException`.
    InvalidProducerEpoch {
        /// The producer.
        producer_id: i64,
        /// The epoch that is known.
        known: i16,
        /// That of the batch.
        epoch: i16,
    },
    /// A batch outside of the transaction that the producer has open. Kafka:
    /// `InvalidTxnStateException`.
    InvalidTransactionState {
        /// The producer.
        producer_id: i64,
        /// Where its transaction began.
        open_since: Offset,
    },
    /// A later coordinator has written a marker. Kafka: `TransactionCoordinatorFencedException`.
    CoordinatorFenced {
        /// The producer.
        producer_id: i64,
        /// The coordinator epoch that is known.
        known: i32,
        /// That of the marker.
        epoch: i32,
    },
}

impl fmt::Display for ProducerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfOrderSequence {
                producer_id,
                last,
                first,
            } => write!(
                f,
                "sequence {first} of producer {producer_id} follows {last}"
            ),
            Self::InvalidProducerEpoch {
                producer_id,
                known,
                epoch,
            } => write!(
                f,
                "epoch {epoch} of producer {producer_id} is below {known}"
            ),
            Self::InvalidTransactionState {
                producer_id,
                open_since,
            } => write!(
                f,
                "producer {producer_id} has a transaction open since offset {open_since}"
            ),
            Self::CoordinatorFenced {
                producer_id,
                known,
                epoch,
            } => write!(
                f,
                "coordinator epoch {epoch} for producer {producer_id} is below {known}"
            ),
        }
    }
}

impl std::error::Error for ProducerError {}

/// What an append will do to the producers, once its bytes are written.
#[derive(Clone, Debug, Default)]
pub struct ProducerUpdate {
    /// By producer in the order of first batches; the windows hold the new batches only.
    states: Vec<(i64, ProducerState)>,
    started: Vec<(Offset, i64)>,
    completed: Vec<CompletedTransaction>,
}

impl ProducerUpdate {
    /// Whether no producer is concerned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// The transactions that begin: first offset and producer.
    #[must_use]
    pub fn started(&self) -> &[(Offset, i64)] {
        &self.started
    }

    /// The transactions that end, empty ones left out.
    #[must_use]
    pub fn completed(&self) -> &[CompletedTransaction] {
        &self.completed
    }
}

/// The producers of a log by id. Cost: some 170 bytes each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Producers {
    states: BTreeMap<i64, ProducerState>,
}

impl Producers {
    /// Knows no producer.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over what a snapshot holds, without those that have expired. Kafka:
    /// `loadFromSnapshot`.
    ///
    /// `expiration_ms` is how long a producer is remembered after its last timestamp; at exactly
    /// that age it has expired.
    #[must_use]
    pub fn of_snapshot(
        entries: &[ProducerSnapshotEntry],
        now: Timestamp,
        expiration_ms: i64,
    ) -> Self {
        let states = entries
            .iter()
            .map(|entry| (entry.producer_id, ProducerState::of_entry(entry)))
            .filter(|(_, state)| !state.is_expired(now, expiration_ms))
            .collect();
        Self { states }
    }

    /// What a snapshot keeps, by id: only the last batch of each producer.
    pub fn to_snapshot(&self) -> impl Iterator<Item = ProducerSnapshotEntry> {
        self.states.iter().map(|(id, state)| state.to_entry(*id))
    }

    /// The producers by id.
    pub fn iter(&self) -> impl Iterator<Item = (i64, &ProducerState)> {
        self.states.iter().map(|(id, state)| (*id, state))
    }

    /// What is known of a producer.
    #[must_use]
    pub fn get(&self, producer_id: i64) -> Option<&ProducerState> {
        self.states.get(&producer_id)
    }

    /// The number of producers.
    #[must_use]
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Whether no producer is known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Forgets the producers whose last timestamp is `expiration_ms` or more before `now` and that
    /// have no transaction open. Kafka: `removeExpiredProducers`.
    pub fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.states
            .retain(|_, state| !state.is_expired(now, expiration_ms));
    }

    /// The batch that a client sent before and sends again: same producer, epoch, first and last
    /// sequence number as one of the last [`WINDOW`]. Kafka: `findDuplicateBatch`.
    #[must_use]
    pub fn duplicate(&self, batch: &ProducerBatch) -> Option<ProducedBatch> {
        let state = self.get(batch.producer_id)?;
        let same = |known: &&ProducedBatch| {
            known.last_sequence == batch.last_sequence
                && known.first_sequence() == batch.first_sequence
        };
        state
            .batches()
            .iter()
            .find(same)
            .filter(|_| state.producer_epoch == batch.producer_epoch)
            .copied()
    }

    /// What the batches of one append will do, in their order. Changes nothing.
    ///
    /// # Errors
    /// The first batch that `origin` may not bring.
    pub fn check(
        &self,
        origin: Origin,
        batches: impl IntoIterator<Item = ProducerBatch>,
    ) -> Result<ProducerUpdate, ProducerError> {
        let mut update = ProducerUpdate::default();
        for batch in batches {
            self.check_batch(origin, &batch, &mut update)?;
        }
        Ok(update)
    }

    /// Carries out what [`check`](Self::check) found.
    pub fn apply(&mut self, update: &ProducerUpdate) {
        for (id, state) in &update.states {
            self.states
                .entry(*id)
                .and_modify(|known| known.merge(state))
                .or_insert_with(|| state.clone());
        }
    }

    fn check_batch(
        &self,
        origin: Origin,
        batch: &ProducerBatch,
        update: &mut ProducerUpdate,
    ) -> Result<(), ProducerError> {
        let id = batch.producer_id;
        let known = self.get(id);
        let at = update.states.iter().position(|(known, _)| *known == id);
        let mut next = match at.and_then(|at| update.states.get(at)) {
            Some((_, state)) => state.clone(),
            None => known.map_or_else(ProducerState::unknown, ProducerState::without_batches),
        };
        match batch.content {
            Content::NoMarker => return Ok(()),
            Content::EndTransaction {
                commit,
                coordinator_epoch,
            } => {
                check_epoch(origin, batch, known)?;
                check_coordinator(origin, id, coordinator_epoch, &next)?;
                if let Some(first_offset) = next.open_since {
                    update.completed.push(CompletedTransaction {
                        producer_id: id,
                        first_offset,
                        last_offset: batch.first_offset,
                        aborted: !commit,
                    });
                }
                let time = batch.max_timestamp;
                next.end_transaction(batch.producer_epoch, coordinator_epoch, time);
            }
            Content::Records { transactional } => {
                check_epoch(origin, batch, known)?;
                if origin == Origin::Client {
                    check_sequence(batch, known, &next)?;
                }
                next.add(batch.producer_epoch, ProducedBatch::of(batch));
                match next.open_since {
                    Some(open_since) if !transactional && origin != Origin::Replay => {
                        return Err(ProducerError::InvalidTransactionState {
                            producer_id: id,
                            open_since,
                        });
                    }
                    None if transactional => {
                        next.open_since = Some(batch.first_offset);
                        update.started.push((batch.first_offset, id));
                    }
                    Some(_) | None => {}
                }
            }
        }
        match at.and_then(|at| update.states.get_mut(at)) {
            Some((_, state)) => *state = next,
            None => update.states.push((id, next)),
        }
        Ok(())
    }
}

impl Origin {
    /// Whether epochs are checked.
    fn is_fenced(self) -> bool {
        match self {
            Self::Client | Self::Coordinator => true,
            Self::Leader | Self::Replay => false,
        }
    }
}

/// Kafka: `ProducerAppendInfo.checkProducerEpoch`.
fn check_epoch(
    origin: Origin,
    batch: &ProducerBatch,
    known: Option<&ProducerState>,
) -> Result<(), ProducerError> {
    let known = known.map_or(-1, |known| known.producer_epoch);
    if !origin.is_fenced() || batch.producer_epoch >= known {
        return Ok(());
    }
    Err(ProducerError::InvalidProducerEpoch {
        producer_id: batch.producer_id,
        known,
        epoch: batch.producer_epoch,
    })
}

/// Kafka: `ProducerAppendInfo.checkCoordinatorEpoch`.
fn check_coordinator(
    origin: Origin,
    producer_id: i64,
    epoch: i32,
    next: &ProducerState,
) -> Result<(), ProducerError> {
    if !origin.is_fenced() || epoch >= next.coordinator_epoch {
        return Ok(());
    }
    Err(ProducerError::CoordinatorFenced {
        producer_id,
        known: next.coordinator_epoch,
        epoch,
    })
}

/// Kafka: `ProducerAppendInfo.checkSequence`.
///
/// ```text
///   producer     epoch    first sequence taken
///   unknown      _        any: its batches may have been deleted
///   known        later    0
/// known        same     the one behind the last, 0 behind 2^31 - 1; 0 if a marker is all there is
/// ```
fn check_sequence(
    batch: &ProducerBatch,
    known: Option<&ProducerState>,
    next: &ProducerState,
) -> Result<(), ProducerError> {
    let last = if next.producer_epoch != batch.producer_epoch {
        NONE
    } else if !next.batches().is_empty() {
        next.last_sequence()
    } else {
        known
            .filter(|known| known.producer_epoch == batch.producer_epoch)
            .map_or(NONE, ProducerState::last_sequence)
    };
    let first = batch.first_sequence;
    let follows = last.checked_add(1).unwrap_or(0) == first;
    if known.is_none() || follows {
        return Ok(());
    }
    Err(ProducerError::OutOfOrderSequence {
        producer_id: batch.producer_id,
        last,
        first,
    })
}

#[cfg(test)]
mod tests;
