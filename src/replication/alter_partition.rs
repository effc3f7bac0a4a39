//! How a leader asks the controller to change an ISR, and what it does with the answer.
//!
//! The leader never changes the ISR itself: it proposes, and takes what the controller or the
//! metadata says. [`AlterPartitionQueue`] is the part of a broker: one request on its way, one item
//! a partition.

use std::collections::BTreeMap;

use super::message::{
    BrokerEpoch, BrokerId, BrokerSet, ErrorCode, LeaderRecoveryState, PartitionEpoch,
};
use crate::types::{LeaderEpoch, Timestamp};

/// Which proposal of a leader is meant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProposalId(pub u64);

/// How a proposal changes the ISR.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    /// One replica comes.
    Expand(BrokerId),
    /// These members leave.
    Shrink(BrokerSet),
}

/// An ISR that a leader asks for. KIP-497, KIP-841, KIP-903.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Proposal {
    /// Names it. Each sending has one of its own.
    pub id: ProposalId,
    /// What differs from the committed ISR.
    pub change: Change,
    /// The ISR, by rising id, with the broker epoch that each member last fetched with.
    pub isr: Vec<(BrokerId, BrokerEpoch)>,
    /// The leader's epoch.
    pub leader_epoch: LeaderEpoch,
    /// The partition epoch that it changes.
    pub partition_epoch: PartitionEpoch,
    /// The recovery state that goes with it.
    pub recovery: LeaderRecoveryState,
}

impl Proposal {
    /// Whether both ask for the same, whatever their ids. Kafka takes answers by this test.
    #[must_use]
    pub fn asks_the_same(&self, other: &Self) -> bool {
        let Self {
            id: _,
            change,
            isr,
            leader_epoch,
            partition_epoch,
            recovery,
        } = self;
        *change == other.change
            && *isr == other.isr
            && *leader_epoch == other.leader_epoch
            && *partition_epoch == other.partition_epoch
            && *recovery == other.recovery
    }
}

/// What the controller made of the partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlterPartitionAnswer {
    /// The ISR; it need not be the proposed one.
    pub isr: BrokerSet,
    /// The leader's epoch, as on the wire.
    pub leader_epoch: i32,
    /// The partition epoch with this ISR.
    pub partition_epoch: PartitionEpoch,
    /// The recovery state.
    pub recovery: LeaderRecoveryState,
}

/// What a leader does with a refused proposal. Kafka: `Partition.handleAlterPartitionError`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Reaction {
    /// It was not carried out: back to the committed ISR.
    Reset,
    /// It may have been carried out, or the leader is replaced: metadata will tell.
    AwaitMetadata,
    /// It did not get through: again.
    Retry,
}

/// The reaction to each error.
///
/// ```text
///   OPERATION_NOT_ATTEMPTED INELIGIBLE_REPLICA                          Reset
///   UNKNOWN_TOPIC_OR_PARTITION UNKNOWN_TOPIC_ID FENCED_LEADER_EPOCH
///   INVALID_UPDATE_VERSION INVALID_REQUEST NEW_LEADER_ELECTED           AwaitMetadata
///   all others                                                          Retry
/// ```
#[must_use]
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "what Kafka's table does not name is retried, later additions too"
)]
pub const fn reaction(error: ErrorCode) -> Reaction {
    match error {
        ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica => Reaction::Reset,
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::UnknownTopicId
        | ErrorCode::FencedLeaderEpoch
        | ErrorCode::InvalidUpdateVersion
        | ErrorCode::InvalidRequest
        | ErrorCode::NewLeaderElected => Reaction::AwaitMetadata,
        _ => Reaction::Retry,
    }
}

/// The pause before a refused proposal is sent again: 50 ms, doubled with each refusal up to
/// 6,400 ms, and up to a quarter more that depends on `seed`, so that many leaders do not ask at
/// once. Unit: milliseconds.
#[must_use]
pub fn retry_pause_ms(attempt: u32, seed: u64) -> i64 {
    let pause = 50_u64 << attempt.min(7);
    // SplitMix64's last step: a plain function of the seed, and well spread.
    let mut bits = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    let extra = (bits ^ (bits >> 31)).checked_rem(pause >> 2);
    i64::try_from(pause.saturating_add(extra.unwrap_or(0))).unwrap_or(i64::MAX)
}

/// How long a broker waits after an error of the whole request. Unit: milliseconds.
pub const REQUEST_RETRY_MS: i64 = 50;

/// What stands in the queue for a partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Item {
    proposal: Proposal,
    sent: bool,
}

/// The AlterPartition requests of one broker, for partitions named by `K`. Kafka:
/// `DefaultAlterPartitionManager`.
///
/// 1. At most one request is on its way, with everything that was queued when it went out.
/// 2. An item stays until its partition is answered or its leader withdraws it; meanwhile another
///    one for the same partition is refused.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AlterPartitionQueue<K> {
    items: BTreeMap<K, Item>,
    in_flight: bool,
    retry_at: Option<Timestamp>,
}

impl<K> Default for AlterPartitionQueue<K> {
    fn default() -> Self {
        Self {
            items: BTreeMap::new(),
            in_flight: false,
            retry_at: None,
        }
    }
}

/// What the controller answered to a request.
pub type PartitionAnswers<K> = BTreeMap<K, Result<AlterPartitionAnswer, ErrorCode>>;

/// A proposal that is answered, for its leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Completed<K> {
    /// The partition.
    pub partition: K,
    /// What was proposed.
    pub proposal: Proposal,
    /// The answer.
    pub result: Result<AlterPartitionAnswer, ErrorCode>,
}

impl<K: Ord + Clone> AlterPartitionQueue<K> {
    /// Queues a proposal.
    ///
    /// # Errors
    /// `OperationNotAttempted` if one of the same partition is not answered yet; tell the leader.
    pub fn submit(&mut self, partition: K, proposal: Proposal) -> Result<(), ErrorCode> {
        if self.items.contains_key(&partition) {
            return Err(ErrorCode::OperationNotAttempted);
        }
        let sent = false;
        self.items.insert(partition, Item { proposal, sent });
        Ok(())
    }

    /// Takes a proposal back that its leader has no use for. Its answer, if it is on its way,
    /// finds nobody.
    pub fn withdraw(&mut self, partition: &K, id: ProposalId) {
        if self
            .items
            .get(partition)
            .is_some_and(|item| item.proposal.id == id)
        {
            self.items.remove(partition);
        }
    }

    /// The request to send at `now`: all that is queued. `None` while one is on its way, during the
    /// pause after a failed one, and if there is nothing to ask.
    pub fn next_request(&mut self, now: Timestamp) -> Option<Vec<(K, Proposal)>> {
        let pauses = self.retry_at.is_some_and(|at| now < at);
        if self.in_flight || pauses || self.items.is_empty() {
            return None;
        }
        self.in_flight = true;
        self.retry_at = None;
        let send = |(partition, item): (&K, &mut Item)| {
            item.sent = true;
            (partition.clone(), item.proposal.clone())
        };
        Some(self.items.iter_mut().map(send).collect())
    }

    /// Takes the answer to the request on its way. A partition that it does not name, and all of
    /// them after an error of the whole request, are asked for again.
    ///
    /// The items of the completed ones have left the queue: their leaders may propose at once.
    pub fn answered(
        &mut self,
        now: Timestamp,
        answer: Result<PartitionAnswers<K>, ErrorCode>,
    ) -> Vec<Completed<K>> {
        if !std::mem::take(&mut self.in_flight) {
            return Vec::new();
        }
        let Ok(answers) = answer else {
            let at = now.millis().saturating_add(REQUEST_RETRY_MS);
            self.retry_at = Some(Timestamp::from_millis(at));
            return Vec::new();
        };
        let mut completed = Vec::new();
        for (partition, result) in answers {
            if self.items.get(&partition).is_none_or(|item| !item.sent) {
                continue;
            }
            if let Some(Item { proposal, .. }) = self.items.remove(&partition) {
                completed.push(Completed {
                    partition,
                    proposal,
                    result,
                });
            }
        }
        completed
    }

    /// How many proposals wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// When to ask [`AlterPartitionQueue::next_request`] again after a failed request.
    #[must_use]
    pub const fn retry_at(&self) -> Option<Timestamp> {
        self.retry_at
    }
}

#[cfg(test)]
mod tests;
