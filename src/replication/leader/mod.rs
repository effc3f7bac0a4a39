//! The leader side of one partition on one broker. Kafka: `Partition`.
//!
//! [`Partition`] takes metadata, follower fetches, appends, the controller's answers and ticks, and
//! says what the log, the controller and those who wait must do. What only asks is a method on
//! `&self`.
//!
//! It never holds records, and never changes the log itself: the [`Env`] of each transition shows
//! the log as it is then, and [`Output`] what is to be done with it.
//!
//! 1. There is a leader state exactly while this broker leads.
//! 2. An input for which there is an error changes nothing.
//! 3. Nothing changes for a fetch of another leader epoch (fencing).

use std::collections::BTreeMap;

use super::alter_partition::{AlterPartitionAnswer, Proposal, ProposalId};
use super::brokers::Brokers;
use super::isr::{Admission, IsrState, LeaderBounds, ReplicaState};
use super::message::{BrokerId, Compatibility, ErrorCode, PartitionEpoch, RequestId};
use crate::epoch::EpochCache;
use crate::types::{LeaderEpoch, Offset, Timestamp};

mod fetch;
mod membership;
mod metadata;
mod offsets;
mod produce;
mod waiters;
mod watermark;

pub use fetch::{FetchAnswer, FetchOutcome, FetchRequest};
pub use metadata::{Applied, Registration};
pub use offsets::{EndOffset, ListOffsets, OffsetSpec};
pub use produce::{Acks, AppendedRange, Produced};
pub use waiters::{DeleteWaiter, FetchEnd, FetchWaiter, ProduceWaiter, Progress};
pub use watermark::Holds;

/// The settings of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Config {
    /// Kafka: `min.insync.replicas`. Range: from 1. Default: 1.
    pub min_in_sync_replicas: u32,
    /// How long ago a follower may have been caught up. Kafka: `replica.lag.time.max.ms`. Unit:
    /// milliseconds. Default: 30,000.
    pub replica_lag_time_max_ms: i64,
    /// Whose rules hold where ours differ from Kafka's.
    pub compatibility: Compatibility,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            min_in_sync_replicas: 1,
            replica_lag_time_max_ms: 30_000,
            compatibility: Compatibility::default(),
        }
    }
}

/// The log at the moment of a transition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogState<'e> {
    /// The first offset that may be read.
    pub log_start_offset: Offset,
    /// The end of the log (exclusive).
    pub log_end_offset: Offset,
    /// Below it everything is committed.
    pub high_watermark: Offset,
    /// Below it every transaction has ended, too.
    pub last_stable_offset: Offset,
    /// The leader epochs and where each began.
    pub epochs: &'e EpochCache,
}

/// What a transition may look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Env<'e> {
    /// The log.
    pub log: LogState<'e>,
    /// The brokers, as this broker's metadata has them.
    pub brokers: &'e Brokers,
    /// The settings.
    pub config: Config,
}

/// What a partition is told or asked.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Input {
    /// A registration of the partition from the metadata. There is a log by then.
    Metadata(Registration),
    /// A follower fetches. Answered by [`Output::Fetched`].
    Fetch(FetchRequest),
    /// A producer appends. Answered by [`Output::Append`] or an error in [`Output::Produced`].
    Append {
        /// Names the request.
        request: RequestId,
        /// When it is answered.
        acks: Acks,
    },
    /// The log has done what [`Output::Append`] said, or refused. Answered by
    /// [`Output::Produced`].
    Appended {
        /// Names the request.
        request: RequestId,
        /// The offsets; the error goes to the producer.
        result: Result<AppendedRange, ErrorCode>,
    },
    /// Records are to be deleted, up to `offset` (exclusive); -1 is the high watermark. Answered by
    /// [`Output::RaiseLogStart`] or an error in [`Output::Deleted`].
    DeleteRecords {
        /// Names the request.
        request: RequestId,
        /// Where the log is to start.
        offset: i64,
    },
    /// The log has done what [`Output::RaiseLogStart`] said, or refused. Answered by
    /// [`Output::Deleted`].
    LogStartRaised {
        /// Names the request.
        request: RequestId,
        /// The error goes to the client.
        result: Result<(), ErrorCode>,
    },
    /// The controller's answer to a proposal, or what became of it on the way.
    Answered {
        /// What was proposed.
        proposal: Box<Proposal>,
        /// The answer.
        result: Result<AlterPartitionAnswer, ErrorCode>,
    },
    /// Time has passed: members that lag are proposed to leave, a proposal whose pause is over is
    /// sent again. Kafka looks each half of `replica.lag.time.max.ms`.
    Tick,
    /// The log can neither be read nor written any more.
    StorageFailed,
}

/// What is to be done, in this order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Output {
    /// Log: note that the epoch begins at the log end, durably (KIP-101, KAFKA-7415).
    AssignEpoch(LeaderEpoch),
    /// Log: append the records of the request, as the leader of the epoch; then say
    /// [`Input::Appended`].
    Append {
        /// Names the request.
        request: RequestId,
        /// Stamped into the batches.
        epoch: LeaderEpoch,
    },
    /// Log: raise the high watermark.
    RaiseHighWatermark(Offset),
    /// Log: raise the log start, unless it is there already; then say [`Input::LogStartRaised`].
    RaiseLogStart {
        /// Names the request.
        request: RequestId,
        /// Where the log is to start; at most the high watermark.
        to: Offset,
    },
    /// Controller: ask for this ISR.
    Propose(Proposal),
    /// Controller: the proposal need not be sent, nobody waits for its answer.
    Withdraw(ProposalId),
    /// What became of the registration.
    Applied(Applied),
    /// The answer to a follower. The records are read behind it; it was true before the fetch
    /// counted.
    Fetched {
        /// Names the request.
        request: RequestId,
        /// What to send.
        result: Result<FetchAnswer, ErrorCode>,
    },
    /// What became of an append.
    Produced {
        /// Names the request.
        request: RequestId,
        /// What to send, and when.
        result: Result<Produced, ErrorCode>,
    },
    /// What became of a deletion.
    Deleted {
        /// Names the request.
        request: RequestId,
        /// Waits for the followers; see [`DeleteWaiter`].
        result: Result<DeleteWaiter, ErrorCode>,
    },
    /// Say [`Input::Tick`] at this time, at the latest.
    TickAt(Timestamp),
    /// Look at those who wait again.
    Wake(Wake),
    /// For counters.
    Marked(Marked),
}

/// Which waiters may be able to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Wake {
    /// Fetches: the log has grown.
    LogEnd,
    /// All: the high watermark has risen.
    HighWatermark,
    /// Deletions: a follower's log start has moved.
    LowWatermark,
    /// All: the role or the leader epoch has changed.
    Role,
}

/// What an answer of the controller came to. Kafka: `AlterPartitionListener`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Marked {
    /// The ISR has grown.
    IsrExpand,
    /// The ISR has shrunk.
    IsrShrink,
    /// The proposal was refused, or its answer belongs to another epoch.
    Failed,
}

/// One partition on one broker.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[expect(
    clippy::struct_field_names,
    reason = "the epoch of a partition is called partition epoch everywhere"
)]
pub struct Partition {
    local: BrokerId,
    role: Role,
    leader_epoch: Option<LeaderEpoch>,
    partition_epoch: Option<PartitionEpoch>,
    next_proposal: ProposalId,
    /// Appends that the log is at.
    appends: BTreeMap<RequestId, produce::Appending>,
    /// Deletions that the log is at.
    deletions: BTreeMap<RequestId, produce::Deleting>,
    dropped_answers: u64,
}

/// What this broker is to the partition.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Role {
    /// No metadata has told.
    None,
    Leader(LeaderState),
    /// `None` while nobody leads.
    Follower(Option<BrokerId>),
    /// The log has failed.
    Offline,
}

/// What only a leader has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct LeaderState {
    /// The log end when the epoch began. `None` if metadata made this broker leader without a new
    /// epoch, as no controller does: then nobody is ever admitted.
    epoch_start: Option<Offset>,
    /// The first epoch of the unbroken reign: what a waiter or a follower was told since holds.
    reign_start: LeaderEpoch,
    isr: IsrState,
    /// The followers, by rising id.
    replicas: Vec<ReplicaState>,
}

impl LeaderState {
    fn replica(&self, id: BrokerId) -> Option<&ReplicaState> {
        let at = self.position(id)?;
        self.replicas.get(at)
    }

    fn replica_mut(&mut self, id: BrokerId) -> Option<&mut ReplicaState> {
        let at = self.position(id)?;
        self.replicas.get_mut(at)
    }

    fn position(&self, id: BrokerId) -> Option<usize> {
        self.replicas
            .binary_search_by_key(&id, |replica| replica.id)
            .ok()
    }

    fn bounds(&self, env: &Env<'_>) -> LeaderBounds {
        LeaderBounds {
            high_watermark: env.log.high_watermark,
            epoch_start: self.epoch_start,
        }
    }
}

impl Partition {
    /// Makes the machine of a partition of which no metadata has told; `local` is the broker that
    /// it runs on.
    #[must_use]
    pub const fn new(local: BrokerId) -> Self {
        Self {
            local,
            role: Role::None,
            leader_epoch: None,
            partition_epoch: None,
            next_proposal: ProposalId(0),
            appends: BTreeMap::new(),
            deletions: BTreeMap::new(),
            dropped_answers: 0,
        }
    }

    /// Carries out one transition and appends what is to be done to `out`.
    ///
    /// Cost: a fetch looks at each replica once and allocates nothing, unless it proposes.
    pub fn handle(&mut self, now: Timestamp, env: &Env<'_>, input: Input, out: &mut Vec<Output>) {
        match input {
            Input::Metadata(registration) => self.apply(now, env, registration, out),
            Input::Fetch(request) => self.fetch(now, env, &request, out),
            Input::Append { request, acks } => self.append(env, request, acks, out),
            Input::Appended { request, result } => self.appended(now, env, request, result, out),
            Input::DeleteRecords { request, offset } => {
                self.delete_records(env, request, offset, out);
            }
            Input::LogStartRaised { request, result } => {
                self.log_start_raised(request, result, out);
            }
            Input::Answered { proposal, result } => {
                self.answered(now, env, &proposal, result, out);
            }
            Input::Tick => self.tick(now, env, out),
            Input::StorageFailed => self.storage_failed(out),
        }
    }

    /// The broker that this runs on.
    #[must_use]
    pub const fn local(&self) -> BrokerId {
        self.local
    }

    /// Whether this broker leads.
    #[must_use]
    pub const fn is_leader(&self) -> bool {
        matches!(self.role, Role::Leader(_))
    }

    /// Whether this broker follows, be it nobody.
    #[must_use]
    pub const fn is_follower(&self) -> bool {
        matches!(self.role, Role::Follower(_))
    }

    /// Who leads, as far as metadata has told.
    #[must_use]
    pub const fn leader(&self) -> Option<BrokerId> {
        match &self.role {
            Role::Leader(_) => Some(self.local),
            Role::Follower(leader) => *leader,
            Role::None | Role::Offline => None,
        }
    }

    /// The leader epoch of the last registration.
    #[must_use]
    pub const fn leader_epoch(&self) -> Option<LeaderEpoch> {
        self.leader_epoch
    }

    /// The partition epoch of the last registration or accepted answer.
    #[must_use]
    pub const fn partition_epoch(&self) -> Option<PartitionEpoch> {
        self.partition_epoch
    }

    /// Where the log ended when this broker began to lead this epoch.
    #[must_use]
    pub fn epoch_start(&self) -> Option<Offset> {
        self.lead().ok()?.epoch_start
    }

    /// The ISR as this leader knows it.
    #[must_use]
    pub fn isr(&self) -> Option<&IsrState> {
        Some(&self.lead().ok()?.isr)
    }

    /// The followers as this leader knows them, by rising id; empty if it does not lead.
    #[must_use]
    pub fn replicas(&self) -> &[ReplicaState] {
        self.lead().map_or(&[], |lead| &lead.replicas)
    }

    /// What the admission of a replica would come to, if it fetched nothing more.
    ///
    /// # Errors
    /// `NotLeaderOrFollower` if this broker does not lead.
    pub fn admission(&self, env: &Env<'_>, id: BrokerId) -> Result<Admission, ErrorCode> {
        let lead = self.lead()?;
        let replica = lead.replica(id);
        let bounds = lead.bounds(env);
        Ok(super::isr::admission(
            &lead.isr,
            id,
            replica,
            env.brokers,
            bounds,
        ))
    }

    /// How many answers came for which nobody waited.
    #[must_use]
    pub const fn dropped_answers(&self) -> u64 {
        self.dropped_answers
    }

    fn lead(&self) -> Result<&LeaderState, ErrorCode> {
        match &self.role {
            Role::Leader(lead) => Ok(lead),
            Role::None | Role::Follower(_) => Err(ErrorCode::NotLeaderOrFollower),
            Role::Offline => Err(ErrorCode::KafkaStorageError),
        }
    }

    fn lead_mut(&mut self) -> Result<&mut LeaderState, ErrorCode> {
        match &mut self.role {
            Role::Leader(lead) => Ok(lead),
            Role::None | Role::Follower(_) => Err(ErrorCode::NotLeaderOrFollower),
            Role::Offline => Err(ErrorCode::KafkaStorageError),
        }
    }

    /// Compares the leader epoch that a request names, if it names one, with the own. Kafka:
    /// `Partition.checkCurrentLeaderEpoch`.
    fn check_epoch(&self, given: Option<i32>) -> Result<(), ErrorCode> {
        let own = self.leader_epoch.map_or(-1, LeaderEpoch::get);
        match given {
            Some(given) if given < own => Err(ErrorCode::FencedLeaderEpoch),
            Some(given) if given > own => Err(ErrorCode::UnknownLeaderEpoch),
            Some(_) | None => Ok(()),
        }
    }

    /// Epoch first, then role. A follower may be asked too if `only_leader` is false.
    fn check_asked(&self, given: Option<i32>, only_leader: bool) -> Result<(), ErrorCode> {
        self.check_epoch(given)?;
        match self.role {
            Role::Leader(_) => Ok(()),
            Role::Follower(_) if !only_leader => Ok(()),
            Role::None | Role::Follower(_) => Err(ErrorCode::NotLeaderOrFollower),
            Role::Offline => Err(ErrorCode::KafkaStorageError),
        }
    }

    fn drop_answer(&mut self) {
        self.dropped_answers = self.dropped_answers.saturating_add(1);
    }

    fn storage_failed(&mut self, out: &mut Vec<Output>) {
        self.withdraw(out);
        self.role = Role::Offline;
        self.appends.clear();
        self.deletions.clear();
        out.push(Output::Wake(Wake::Role));
    }
}

#[cfg(test)]
mod tests;
