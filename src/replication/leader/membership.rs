//! Proposals to change the ISR, and what becomes of them. Kafka: `Partition.maybeExpandIsr`,
//! `maybeShrinkIsr`, `submitAlterPartition`.

use super::{Env, LeaderState, Marked, Output, Partition};
use crate::replication::alter_partition::{
    AlterPartitionAnswer, Change, Proposal, ProposalId, Reaction, reaction, retry_pause_ms,
};
use crate::replication::isr::{Admission, IsrState, Pending, PendingStatus};
use crate::replication::message::{
    BrokerEpoch, BrokerId, BrokerSet, Compatibility, ErrorCode, PartitionEpoch,
};
use crate::types::{LeaderEpoch, Timestamp};

impl Partition {
    /// Proposes the replica that has just fetched, if it passes all tests.
    pub(super) fn maybe_expand(&mut self, env: &Env<'_>, id: BrokerId, out: &mut Vec<Output>) {
        if self.admission(env, id) == Ok(Admission::Proposed) {
            self.propose(env, Change::Expand(id), out);
        }
    }

    pub(super) fn tick(&mut self, now: Timestamp, env: &Env<'_>, out: &mut Vec<Output>) {
        let Ok(lead) = self.lead() else {
            return;
        };
        match lead.isr.pending().map(|pending| pending.status) {
            None => {
                let lagging = lead.lagging(self.local, now, env);
                if !lagging.is_empty() {
                    self.propose(env, Change::Shrink(lagging), out);
                }
            }
            Some(PendingStatus::Paused { attempt, until }) if now >= until => {
                self.send_again(attempt, out);
            }
            Some(PendingStatus::Paused { until, .. }) => out.push(Output::TickAt(until)),
            Some(PendingStatus::InFlight { .. } | PendingStatus::Frozen) => {}
        }
    }

    fn propose(&mut self, env: &Env<'_>, change: Change, out: &mut Vec<Output>) {
        let local = (self.local, env.brokers.get(self.local).map(|own| own.epoch));
        let (leader_epoch, partition_epoch) = (self.leader_epoch, self.partition_epoch);
        let id = self.next_proposal();
        let Ok(lead) = self.lead_mut() else {
            return;
        };
        let proposal = Proposal {
            id,
            isr: lead.proposed_isr(&change, local),
            change,
            leader_epoch: leader_epoch.unwrap_or_default(),
            partition_epoch: partition_epoch.unwrap_or_default(),
            recovery: lead.isr.recovery(),
        };
        lead.isr.propose(proposal.clone());
        out.push(Output::Propose(proposal));
    }

    fn next_proposal(&mut self) -> ProposalId {
        let id = self.next_proposal;
        self.next_proposal = ProposalId(id.0.wrapping_add(1));
        id
    }

    /// The same once more, with an id of its own: an answer to the sending before is none to this.
    fn send_again(&mut self, attempt: u32, out: &mut Vec<Output>) {
        let id = self.next_proposal();
        if let Some(pending) = self.pending_mut() {
            pending.proposal.id = id;
            pending.status = PendingStatus::InFlight { attempt };
            out.push(Output::Propose(pending.proposal.clone()));
        }
    }

    fn pending_mut(&mut self) -> Option<&mut Pending> {
        self.lead_mut().ok()?.isr.pending_mut()
    }

    /// Takes back what is still queued for the controller.
    pub(super) fn withdraw(&self, out: &mut Vec<Output>) {
        let pending = self.isr().and_then(IsrState::pending);
        if let Some(Pending { proposal, status }) = pending
            && matches!(status, PendingStatus::InFlight { .. })
        {
            out.push(Output::Withdraw(proposal.id));
        }
    }

    pub(super) fn answered(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        proposal: &Proposal,
        result: Result<AlterPartitionAnswer, ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        if !self.awaits(env, proposal) {
            self.drop_answer();
            return;
        }
        match result {
            Ok(answer) => self.accepted(now, env, proposal, answer, out),
            Err(error) => self.refused(now, env, error, out),
        }
    }

    /// Kafka compares what was asked for: the answer to an overtaken proposal passes for that to an
    /// equal one.
    fn awaits(&self, env: &Env<'_>, proposal: &Proposal) -> bool {
        let Some(pending) = self.isr().and_then(IsrState::pending) else {
            return false;
        };
        match env.config.compatibility {
            Compatibility::Kafka => pending.proposal.asks_the_same(proposal),
            Compatibility::Highwater => {
                let in_flight = matches!(pending.status, PendingStatus::InFlight { .. });
                in_flight && pending.proposal.id == proposal.id
            }
        }
    }

    /// The controller's answer counts, whatever was proposed: it may have changed more. One of
    /// another leader epoch, or of an older partition epoch, freezes the proposal.
    fn accepted(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        proposal: &Proposal,
        answer: AlterPartitionAnswer,
        out: &mut Vec<Output>,
    ) {
        let own = self.leader_epoch.map(LeaderEpoch::get);
        let is_old = |own: PartitionEpoch| answer.partition_epoch < own;
        if own != Some(answer.leader_epoch) || self.partition_epoch.is_some_and(is_old) {
            out.push(Output::Marked(Marked::Failed));
            self.freeze();
            return;
        }
        if let Ok(lead) = self.lead_mut() {
            lead.isr = IsrState::new(answer.isr, answer.recovery);
        }
        self.partition_epoch = Some(answer.partition_epoch);
        out.push(Output::Marked(match proposal.change {
            Change::Expand(_) => Marked::IsrExpand,
            Change::Shrink(_) => Marked::IsrShrink,
        }));
        self.raise_high_watermark(now, env, out);
    }

    fn refused(&mut self, now: Timestamp, env: &Env<'_>, error: ErrorCode, out: &mut Vec<Output>) {
        out.push(Output::Marked(Marked::Failed));
        match (reaction(error), env.config.compatibility) {
            (Reaction::Reset, compatibility) => {
                if let Ok(lead) = self.lead_mut() {
                    lead.isr.reset();
                }
                // A replica that is not admitted does not hold the high watermark any more. Kafka
                // waits for the next fetch that moves, which a quiet topic never sees.
                if compatibility == Compatibility::Highwater {
                    self.raise_high_watermark(now, env, out);
                }
            }
            (Reaction::AwaitMetadata, _) => self.freeze(),
            (Reaction::Retry, Compatibility::Kafka) => self.send_again(0, out),
            (Reaction::Retry, Compatibility::Highwater) => self.pause(now, out),
        }
    }

    fn freeze(&mut self) {
        if let Some(pending) = self.pending_mut() {
            pending.status = PendingStatus::Frozen;
        }
    }

    fn pause(&mut self, now: Timestamp, out: &mut Vec<Output>) {
        let local = u64::from(self.local.0.unsigned_abs());
        let Some(pending) = self.pending_mut() else {
            return;
        };
        let PendingStatus::InFlight { attempt } = pending.status else {
            return;
        };
        let seed = pending.proposal.id.0 ^ (local << 32);
        let until = now.millis().saturating_add(retry_pause_ms(attempt, seed));
        let until = Timestamp::from_millis(until);
        pending.status = PendingStatus::Paused {
            attempt: attempt.saturating_add(1),
            until,
        };
        out.push(Output::TickAt(until));
    }
}

impl LeaderState {
    /// The members, but the leader, that are not caught up; one that is no replica never is.
    fn lagging(&self, local: BrokerId, now: Timestamp, env: &Env<'_>) -> BrokerSet {
        let max_lag_ms = env.config.replica_lag_time_max_ms;
        let log_end = env.log.log_end_offset;
        let is_lagging = |id: &BrokerId| {
            let replica = self.replica(*id);
            !replica.is_some_and(|replica| replica.is_caught_up(log_end, now, max_lag_ms))
        };
        let others = self.isr.committed().iter().filter(|id| *id != local);
        others.filter(is_lagging).collect()
    }

    /// The committed ISR with the change, each member with the broker epoch of its last fetch.
    /// Whether that is its present one the controller knows (KIP-903).
    fn proposed_isr(
        &self,
        change: &Change,
        (local, local_epoch): (BrokerId, Option<BrokerEpoch>),
    ) -> Vec<(BrokerId, BrokerEpoch)> {
        let mut isr = self.isr.committed().clone();
        if let Change::Expand(id) = change {
            isr.insert(*id);
        }
        let stays = |id: &BrokerId| match change {
            Change::Expand(_) => true,
            Change::Shrink(out) => !out.contains(*id),
        };
        let epoch_of = |id: BrokerId| {
            let epoch = if id == local {
                local_epoch
            } else {
                self.replica(id).and_then(|replica| replica.broker_epoch)
            };
            epoch.unwrap_or(BrokerEpoch::UNVERIFIED)
        };
        isr.iter()
            .filter(stays)
            .map(|id| (id, epoch_of(id)))
            .collect()
    }
}
