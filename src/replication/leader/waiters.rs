//! What parked requests wait for, as questions without memory: ask again at each
//! [`Wake`](super::Wake). Kafka: `DelayedProduce`, `DelayedFetch`, `DelayedDeleteRecords`.

use super::{Env, FetchAnswer, FetchOutcome, FetchRequest, Partition};
use crate::replication::message::{Compatibility, ErrorCode};
use crate::types::{LeaderEpoch, Offset};

/// How far a waiter has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Progress {
    /// It waits.
    Waits,
    /// It is answered.
    Done(Result<(), ErrorCode>),
}

/// A producer that waits until its records are committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ProduceWaiter {
    /// The high watermark that it needs: the offset behind its last record.
    pub required: Offset,
    /// The epoch that they were appended in.
    pub leader_epoch: LeaderEpoch,
}

impl ProduceWaiter {
    /// Whether it can be answered. After another leader's reign the high watermark may pass the
    /// offset with other records there: then the wait has failed. Kafka looks at the offset alone.
    #[must_use]
    pub fn check(&self, partition: &Partition, env: &Env<'_>) -> Progress {
        let unbroken = partition.reigns_since(self.leader_epoch);
        if !unbroken && env.config.compatibility == Compatibility::Highwater {
            return Progress::Done(Err(ErrorCode::NotLeaderOrFollower));
        }
        partition.check_acks(env, self.required)
    }
}

/// A deletion that waits until no replica has the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeleteWaiter {
    /// The low watermark that it needs.
    pub required: Offset,
}

impl DeleteWaiter {
    /// Whether it can be answered.
    #[must_use]
    pub fn check(&self, partition: &Partition, env: &Env<'_>) -> Progress {
        match partition.low_watermark(env) {
            Err(error) => Progress::Done(Err(error)),
            Ok(low) if low >= Some(self.required) => Progress::Done(Ok(())),
            Ok(_) => Progress::Waits,
        }
    }
}

/// A follower's fetch that waits for records. It has been counted; its answer is read anew.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchWaiter {
    /// The fetch.
    pub request: FetchRequest,
}

impl FetchWaiter {
    /// The offsets that have come since: from where it fetched to the log end. If that is not
    /// enough to answer, it waits on.
    ///
    /// # Errors
    /// What it is answered at once: leadership or epoch have changed, the logs diverge
    /// (`OffsetOutOfRange` where the leader's log ends below it).
    pub fn check(
        &self,
        partition: &Partition,
        env: &Env<'_>,
    ) -> Result<(Offset, Offset), FetchEnd> {
        match partition.follower_read(env, &self.request) {
            Err(error) => Err(FetchEnd::Failed(error)),
            Ok(FetchAnswer {
                outcome,
                log_end_offset,
                ..
            }) => match outcome {
                FetchOutcome::Records(from) => Ok((from, log_end_offset)),
                FetchOutcome::Diverging { .. } => Err(FetchEnd::Diverging),
            },
        }
    }
}

/// Why a parked fetch is answered before there are records enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchEnd {
    /// With an error.
    Failed(ErrorCode),
    /// With where the logs went different ways.
    Diverging,
}

impl Partition {
    /// Whether an append with acks all that needs the high watermark to be at `required` can be
    /// answered. The maximal ISR counts: a member that is proposed to leave has the records too.
    #[must_use]
    pub fn check_acks(&self, env: &Env<'_>, required: Offset) -> Progress {
        match self.lead() {
            Err(error) => Progress::Done(Err(error)),
            Ok(_) if env.log.high_watermark < required => Progress::Waits,
            Ok(lead) if lead.isr.maximal_len() < lead.effective_min_isr(env) => {
                Progress::Done(Err(ErrorCode::NotEnoughReplicasAfterAppend))
            }
            Ok(_) => Progress::Done(Ok(())),
        }
    }
}
