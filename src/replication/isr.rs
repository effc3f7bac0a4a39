//! Who is in sync: what a leader knows of each follower, and the tests made on it.
//!
//! A proposal that adds a member counts it at once, one that removes members counts them until it
//! is committed. So the *maximal* ISR holds every replica that the controller may have in the ISR,
//! whatever becomes of the proposal, and the high watermark never passes one of them.

use super::alter_partition::{Change, Proposal};
use super::brokers::Brokers;
use super::message::{BrokerEpoch, BrokerId, BrokerSet, LeaderRecoveryState};
use crate::types::{Offset, Timestamp};

/// What the leader knows of one follower. Kafka: `ReplicaState`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReplicaState {
    /// Which broker it is on.
    pub id: BrokerId,
    /// The offset of its last fetch: it has everything below. `None` until it has fetched.
    pub log_end_offset: Option<Offset>,
    /// Where its log starts, as its last fetch said.
    pub log_start_offset: Option<Offset>,
    /// The leader's log end at its last fetch. Zero before the first one of a replica that joined
    /// within an epoch, which no test tells from `None`.
    pub last_fetch_leader_log_end: Option<Offset>,
    /// When it last fetched.
    pub last_fetch: Option<Timestamp>,
    /// When it last had everything that the leader had; `None` for never. Kafka: 0.
    pub last_caught_up: Option<Timestamp>,
    /// The broker epoch of its last fetch.
    pub broker_epoch: Option<BrokerEpoch>,
}

/// A fetch as far as it says something of the follower.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchSeen {
    /// The time of the fetch.
    pub now: Timestamp,
    /// Up to where the follower has everything.
    pub log_end_offset: Offset,
    /// Where its log starts.
    pub log_start_offset: Option<Offset>,
    /// The epoch of its broker.
    pub broker_epoch: BrokerEpoch,
    /// Where the leader's log ended when the fetch was read.
    pub leader_log_end: Offset,
}

impl ReplicaState {
    /// A replica that came with an assignment.
    #[must_use]
    pub const fn joined(id: BrokerId) -> Self {
        Self {
            id,
            log_end_offset: None,
            log_start_offset: None,
            last_fetch_leader_log_end: Some(Offset::ZERO),
            last_fetch: None,
            last_caught_up: None,
            broker_epoch: None,
        }
    }

    /// Forgets everything, for a leader that begins. Members of the ISR count as caught up now, so
    /// that they have the time to fetch; others do not, or they would hold the high watermark.
    pub fn forget(&mut self, member: bool, now: Timestamp) {
        *self = Self {
            last_fetch_leader_log_end: None,
            last_caught_up: member.then_some(now),
            ..Self::joined(self.id)
        };
    }

    /// The same leader goes on with the next epoch: nobody else has led, so the offsets hold.
    pub fn carry_over(&mut self, member: bool, now: Timestamp, leader_log_end: Offset) {
        let time = member.then_some(now);
        self.last_fetch_leader_log_end = Some(leader_log_end);
        self.last_fetch = time;
        self.last_caught_up = time;
    }

    /// Takes in a fetch. It had everything then if it asks at the leader's log end, and it had
    /// everything at its fetch before if it asks at or past where the log ended then.
    pub fn fetched(&mut self, fetch: &FetchSeen) {
        let at = Some(fetch.log_end_offset);
        if fetch.log_end_offset >= fetch.leader_log_end {
            self.last_caught_up = self.last_caught_up.max(Some(fetch.now));
        } else if at >= self.last_fetch_leader_log_end {
            self.last_caught_up = self.last_caught_up.max(self.last_fetch);
        }
        let leader_log_end = Some(fetch.leader_log_end);
        self.last_fetch_leader_log_end = self.last_fetch_leader_log_end.max(leader_log_end);
        self.last_fetch = Some(fetch.now);
        self.log_end_offset = at;
        self.log_start_offset = fetch.log_start_offset;
        self.broker_epoch = Some(fetch.broker_epoch);
    }

    /// Whether it is at the leader's log end, or was at most `max_lag_ms` milliseconds ago.
    #[must_use]
    pub fn is_caught_up(&self, leader_log_end: Offset, now: Timestamp, max_lag_ms: i64) -> bool {
        let within = |at: Timestamp| now.millis().saturating_sub(at.millis()) <= max_lag_ms;
        self.log_end_offset == Some(leader_log_end) || self.last_caught_up.is_some_and(within)
    }
}

/// Why a replica may not be a member of the ISR, whatever it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ineligible {
    /// It is no replica of the partition.
    NoReplica,
    /// Its broker is fenced.
    Fenced,
    /// Its broker is in controlled shutdown.
    ShuttingDown,
    /// It has not fetched from this leader, so its broker epoch is unknown.
    NotFetched,
    /// Its broker is not registered.
    Unregistered,
    /// It fetched with another broker epoch than the registered one: before a restart, or after one
    /// that the metadata does not show yet.
    OtherEpoch,
}

/// Whether a replica may be a member of the ISR, whatever it holds. Kafka:
/// `Partition.isReplicaIsrEligible`, `isBrokerEpochIsrEligible`.
///
/// # Errors
/// The first test that fails.
pub fn eligible(replica: Option<&ReplicaState>, brokers: &Brokers) -> Result<(), Ineligible> {
    let replica = replica.ok_or(Ineligible::NoReplica)?;
    let broker = brokers.get(replica.id);
    if broker.is_some_and(|broker| broker.fenced) {
        return Err(Ineligible::Fenced);
    }
    if broker.is_some_and(|broker| broker.shutting_down) {
        return Err(Ineligible::ShuttingDown);
    }
    let stored = replica.broker_epoch.ok_or(Ineligible::NotFetched)?;
    let registered = broker.ok_or(Ineligible::Unregistered)?.epoch;
    if stored == BrokerEpoch::UNVERIFIED || stored == registered {
        Ok(())
    } else {
        Err(Ineligible::OtherEpoch)
    }
}

/// What the admission of a replica came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Admission {
    /// A change is in flight: nobody asks further.
    InFlight,
    /// It is a member.
    Member,
    /// It may not be one.
    Ineligible(Ineligible),
    /// It is below the leader's high watermark.
    BelowHighWatermark,
    /// It is below the start of the leader's epoch, or the leader has none: something committed may
    /// be missing.
    BelowEpochStart,
    /// It is proposed.
    Proposed,
}

/// Where a leader stands, for the in-sync test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaderBounds {
    /// Its high watermark.
    pub high_watermark: Offset,
    /// Its log end when its epoch began.
    pub epoch_start: Option<Offset>,
}

/// The tests of an admission, in their order; the first that fails ends them. Kafka:
/// `Partition.canAddReplicaToIsr`, `isFollowerInSync`.
#[must_use]
pub fn admission(
    state: &IsrState,
    id: BrokerId,
    replica: Option<&ReplicaState>,
    brokers: &Brokers,
    leader: LeaderBounds,
) -> Admission {
    if state.pending().is_some() {
        return Admission::InFlight;
    }
    if state.committed().contains(id) {
        return Admission::Member;
    }
    if let Err(why) = eligible(replica, brokers) {
        return Admission::Ineligible(why);
    }
    let end = replica.and_then(|replica| replica.log_end_offset);
    if end < Some(leader.high_watermark) {
        return Admission::BelowHighWatermark;
    }
    match leader.epoch_start {
        Some(start) if end >= Some(start) => Admission::Proposed,
        _ => Admission::BelowEpochStart,
    }
}

/// The ISR as the leader knows it. Kafka: `PartitionState`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct IsrState {
    committed: BrokerSet,
    recovery: LeaderRecoveryState,
    pending: Option<Box<Pending>>,
}

/// A proposal that has not come to an end.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Pending {
    /// What was sent.
    pub proposal: Proposal,
    /// What is awaited.
    pub status: PendingStatus,
}

/// What a pending proposal waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PendingStatus {
    /// For its answer. `attempt` counts from 0 how often it was refused for a passing cause.
    InFlight {
        /// Refusals so far.
        attempt: u32,
    },
    /// For the time at which it is sent again.
    Paused {
        /// Refusals so far.
        attempt: u32,
        /// When that is.
        until: Timestamp,
    },
    /// For metadata: whether the controller took the change is not known, or another leader may
    /// reign.
    Frozen,
}

impl IsrState {
    /// A committed ISR.
    #[must_use]
    pub const fn new(committed: BrokerSet, recovery: LeaderRecoveryState) -> Self {
        Self {
            committed,
            recovery,
            pending: None,
        }
    }

    /// The ISR that the controller last said.
    #[must_use]
    pub const fn committed(&self) -> &BrokerSet {
        &self.committed
    }

    /// The recovery state that the controller last said.
    #[must_use]
    pub const fn recovery(&self) -> LeaderRecoveryState {
        self.recovery
    }

    /// The change in flight.
    #[must_use]
    pub fn pending(&self) -> Option<&Pending> {
        self.pending.as_deref()
    }

    pub(crate) fn pending_mut(&mut self) -> Option<&mut Pending> {
        self.pending.as_deref_mut()
    }

    /// The replica whose admission is in flight.
    fn joining(&self) -> Option<BrokerId> {
        match self.pending()?.proposal.change {
            Change::Expand(id) => Some(id),
            Change::Shrink(_) => None,
        }
    }

    /// Whether the replica may be in the controller's ISR.
    #[must_use]
    pub fn is_maximal_member(&self, id: BrokerId) -> bool {
        self.committed.contains(id) || self.joining() == Some(id)
    }

    /// Every replica that may be in the controller's ISR.
    #[must_use]
    pub fn maximal(&self) -> BrokerSet {
        self.committed.iter().chain(self.joining()).collect()
    }

    /// How many replicas may be in the controller's ISR.
    #[must_use]
    pub fn maximal_len(&self) -> usize {
        let joining = usize::from(self.joining().is_some());
        self.committed.len().saturating_add(joining)
    }

    pub(crate) fn propose(&mut self, proposal: Proposal) {
        let status = PendingStatus::InFlight { attempt: 0 };
        self.pending = Some(Box::new(Pending { proposal, status }));
    }

    /// The proposal came to nothing.
    pub(crate) fn reset(&mut self) {
        self.pending = None;
    }
}
