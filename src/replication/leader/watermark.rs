//! The high watermark of a leader, and the minimum of replicas that it needs. Kafka:
//! `Partition.maybeIncrementLeaderHW`, `isUnderMinIsr`, `lowWatermarkIfLeader`.

use super::{Env, LeaderState, Output, Partition, Wake};
use crate::replication::isr::{ReplicaState, eligible};
use crate::replication::message::{BrokerId, ErrorCode};
use crate::types::{Offset, Timestamp};

/// Whether a replica holds the high watermark back, and why.
///
/// ```text
///   may be in the ISR   caught up   eligible
///          1                -           -       Member
///          0                1           1       CatchingUp
///          0                0           -       No
///          0                -           0       No
/// ```
///
/// Without the second row the high watermark of a leader that is alone in its ISR would run away
/// from a follower for ever, which is admitted only once it reaches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Holds {
    /// It may be in the controller's ISR.
    Member,
    /// It may soon be admitted.
    CatchingUp,
    /// It does not.
    No,
}

impl LeaderState {
    fn holds(&self, replica: &ReplicaState, now: Timestamp, env: &Env<'_>) -> Holds {
        if self.isr.is_maximal_member(replica.id) {
            return Holds::Member;
        }
        let max_lag_ms = env.config.replica_lag_time_max_ms;
        let waits = replica.is_caught_up(env.log.log_end_offset, now, max_lag_ms)
            && eligible(Some(replica), env.brokers).is_ok();
        if waits { Holds::CatchingUp } else { Holds::No }
    }

    /// The smaller of the setting and the number of replicas: a partition with fewer would never
    /// take an append.
    pub(super) fn effective_min_isr(&self, env: &Env<'_>) -> usize {
        let configured = usize::try_from(env.config.min_in_sync_replicas).unwrap_or(usize::MAX);
        configured.min(self.replicas.len().saturating_add(1))
    }

    pub(super) fn is_under_min_isr(&self, env: &Env<'_>) -> bool {
        self.isr.committed().len() < self.effective_min_isr(env)
    }

    /// The lowest log end of the leader and of those who hold the high watermark back; `None` if
    /// one of them has not fetched yet.
    fn high_watermark_candidate(&self, now: Timestamp, env: &Env<'_>) -> Option<Offset> {
        let mut lowest = Some(env.log.log_end_offset);
        for replica in &self.replicas {
            if replica.log_end_offset < lowest && self.holds(replica, now, env) != Holds::No {
                lowest = replica.log_end_offset;
            }
        }
        lowest
    }
}

impl Partition {
    /// Raises the high watermark as far as the replicas allow. Nothing while the ISR is under its
    /// minimum; then those who hold it back are not even looked at.
    pub(super) fn raise_high_watermark(
        &self,
        now: Timestamp,
        env: &Env<'_>,
        out: &mut Vec<Output>,
    ) -> bool {
        let Ok(lead) = self.lead() else {
            return false;
        };
        if lead.is_under_min_isr(env) {
            return false;
        }
        let candidate = lead.high_watermark_candidate(now, env);
        let Some(to) = candidate.filter(|to| *to > env.log.high_watermark) else {
            return false;
        };
        out.push(Output::RaiseHighWatermark(to));
        out.push(Output::Wake(Wake::HighWatermark));
        true
    }

    /// Whether a replica holds the high watermark back, should it be behind.
    ///
    /// # Errors
    /// `NotLeaderOrFollower` if this broker does not lead.
    pub fn holds(&self, now: Timestamp, env: &Env<'_>, id: BrokerId) -> Result<Holds, ErrorCode> {
        let lead = self.lead()?;
        let replica = lead.replica(id);
        Ok(replica.map_or(Holds::No, |replica| lead.holds(replica, now, env)))
    }

    /// Whether the committed ISR is smaller than the effective minimum. False if this broker does
    /// not lead.
    #[must_use]
    pub fn is_under_min_isr(&self, env: &Env<'_>) -> bool {
        self.lead().is_ok_and(|lead| lead.is_under_min_isr(env))
    }

    /// Whether the committed ISR is exactly as large as the effective minimum. False if this broker
    /// does not lead.
    #[must_use]
    pub fn is_at_min_isr(&self, env: &Env<'_>) -> bool {
        let is_at = |lead: &LeaderState| lead.isr.committed().len() == lead.effective_min_isr(env);
        self.lead().is_ok_and(is_at)
    }

    /// The lowest log start of the leader and of the replicas whose brokers are registered and not
    /// fenced, members or not: below it nobody has a record. `None` if one of them has not fetched
    /// from this leader.
    ///
    /// # Errors
    /// `NotLeaderOrFollower` if this broker does not lead.
    pub fn low_watermark(&self, env: &Env<'_>) -> Result<Option<Offset>, ErrorCode> {
        let alive = |replica: &&ReplicaState| env.brokers.alive_epoch(replica.id).is_some();
        let starts = self.lead()?.replicas.iter().filter(alive);
        let starts = starts.map(|replica| replica.log_start_offset);
        Ok(starts.fold(Some(env.log.log_start_offset), Option::min))
    }
}
