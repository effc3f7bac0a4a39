//! What a registration from the metadata makes of the partition. Kafka: `Partition.makeLeader`,
//! `makeFollower`.

use super::{Env, LeaderState, Output, Partition, Role, Wake};
use crate::replication::isr::{IsrState, ReplicaState};
use crate::replication::message::{
    BrokerId, BrokerSet, Compatibility, LeaderRecoveryState, PartitionEpoch,
};
use crate::types::{LeaderEpoch, Timestamp};

/// The registration of a partition, as far as its brokers act on it. Adding and removing replicas
/// are replicas like others to them, and a leader counts as recovered once it leads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Registration {
    /// Who leads; `None` for nobody.
    pub leader: Option<BrokerId>,
    /// The epoch of that.
    pub leader_epoch: LeaderEpoch,
    /// The epoch of this registration.
    pub partition_epoch: PartitionEpoch,
    /// All replicas.
    pub replicas: BrokerSet,
    /// Those in sync.
    pub isr: BrokerSet,
}

/// What became of a registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Applied {
    /// Its partition epoch is lower than the known one, or the log has failed: nothing changed.
    Ignored,
    /// This broker leads and did not before.
    BeginsToLead {
        /// Whether the leader epoch has risen.
        new_epoch: bool,
    },
    /// This broker leads as before.
    LeadsOn {
        /// Whether the leader epoch has risen.
        new_epoch: bool,
    },
    /// This broker follows. Its fetcher starts anew if the epoch has risen, whoever leads.
    Follows {
        /// Whether the leader epoch has risen.
        new_epoch: bool,
    },
}

impl Partition {
    pub(super) fn apply(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        registration: Registration,
        out: &mut Vec<Output>,
    ) {
        let is_old = self.partition_epoch > Some(registration.partition_epoch);
        if is_old || matches!(self.role, Role::Offline) {
            out.push(Output::Applied(Applied::Ignored));
            return;
        }
        if env.config.compatibility == Compatibility::Highwater {
            // Whatever was proposed is overtaken, and must not be in the way of what comes next.
            self.withdraw(out);
        }
        let new_epoch = self.leader_epoch < Some(registration.leader_epoch);
        let leads = registration.leader == Some(self.local);
        let begins = leads && !self.is_leader();
        self.partition_epoch = Some(registration.partition_epoch);
        if leads {
            self.lead_on(now, env, registration, out);
        } else {
            self.leader_epoch = Some(registration.leader_epoch);
            self.role = Role::Follower(registration.leader);
        }
        out.push(Output::Applied(if begins {
            Applied::BeginsToLead { new_epoch }
        } else if leads {
            Applied::LeadsOn { new_epoch }
        } else {
            Applied::Follows { new_epoch }
        }));
        if new_epoch || begins {
            out.push(Output::Wake(Wake::Role));
        }
        if leads {
            self.raise_high_watermark(now, env, out);
        }
    }

    /// Begins to lead or goes on to.
    fn lead_on(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        registration: Registration,
        out: &mut Vec<Output>,
    ) {
        let epoch = registration.leader_epoch;
        let mut lead = match std::mem::replace(&mut self.role, Role::None) {
            Role::Leader(lead) => Some(lead),
            Role::None | Role::Follower(_) | Role::Offline => None,
        };
        let begins = lead.is_none();
        let mut known = lead.as_mut().map(|lead| std::mem::take(&mut lead.replicas));
        let is_local = |id: &BrokerId| *id == self.local;
        let mut take_known = |id: BrokerId| {
            let known = known.as_mut()?;
            let at = known.iter().position(|replica| replica.id == id)?;
            Some(known.swap_remove(at))
        };
        let replicas = registration.replicas.iter().filter(|id| !is_local(id));
        let replicas: Vec<ReplicaState> = replicas
            .map(|id| take_known(id).unwrap_or_else(|| ReplicaState::joined(id)))
            .collect();
        let mut next = LeaderState {
            epoch_start: lead.as_ref().and_then(|lead| lead.epoch_start),
            reign_start: lead.as_ref().map_or(epoch, |lead| lead.reign_start),
            isr: IsrState::new(registration.isr, LeaderRecoveryState::Recovered),
            replicas,
        };
        if self.leader_epoch < Some(epoch) {
            let continues = !begins && self.follows_on(env, epoch);
            next.begin_epoch(now, env, continues);
            if !continues {
                next.reign_start = epoch;
            }
            self.leader_epoch = Some(epoch);
            out.push(Output::AssignEpoch(epoch));
        }
        self.role = Role::Leader(next);
    }

    /// Whether what this leader knows of its followers still holds in `epoch`. If the epoch rose by
    /// more than one, somebody else may have led in between and cut their logs; then the offsets
    /// prove nothing, and a high watermark made of them can pass records that a member has lost.
    /// Kafka keeps them.
    fn follows_on(&self, env: &Env<'_>, epoch: LeaderEpoch) -> bool {
        let next = |own: LeaderEpoch| own.get().checked_add(1) == Some(epoch.get());
        match env.config.compatibility {
            Compatibility::Kafka => true,
            Compatibility::Highwater => self.leader_epoch.is_some_and(next),
        }
    }
}

impl LeaderState {
    fn begin_epoch(&mut self, now: Timestamp, env: &Env<'_>, continues: bool) {
        let log_end = env.log.log_end_offset;
        self.epoch_start = Some(log_end);
        for replica in &mut self.replicas {
            let member = self.isr.committed().contains(replica.id);
            if continues {
                replica.carry_over(member, now, log_end);
            } else {
                replica.forget(member, now);
            }
        }
    }
}
