//! The parts of a result.

use std::fmt::Display;

use crate::replication::alter_partition::{Change, Proposal};
use crate::replication::isr::{IsrState, ReplicaState};
use crate::replication::leader::{FetchAnswer, FetchOutcome};
use crate::replication::message::{BrokerId, BrokerSet, LeaderRecoveryState};
use crate::scenario::log::{join, or_dash};
use crate::types::{EpochEntry, Offset, Timestamp};

fn list<T: Display>(items: impl Iterator<Item = T>) -> String {
    join(&items.map(|item| item.to_string()).collect::<Vec<_>>())
}

fn ids(set: &BrokerSet) -> String {
    list(set.iter())
}

/// `expand:1,2 carries=0/3 broker_epochs=1,12`.
pub(super) fn proposal(proposal: &Proposal) -> String {
    let kind = match proposal.change {
        Change::Expand(_) => "expand",
        Change::Shrink(_) => "shrink",
    };
    let recovery = match proposal.recovery {
        LeaderRecoveryState::Recovered => "",
        LeaderRecoveryState::Recovering => " recovery=RECOVERING",
    };
    let ids: Vec<String> = proposal.isr.iter().map(|(id, _)| id.to_string()).collect();
    let epochs: Vec<String> = proposal
        .isr
        .iter()
        .map(|(_, epoch)| epoch.to_string())
        .collect();
    format!(
        "{kind}:{} carries={}/{} broker_epochs={}{recovery}",
        ids.join(","),
        proposal.leader_epoch,
        proposal.partition_epoch,
        epochs.join(","),
    )
}

/// MEMBERS; those of a broker that does not lead are none.
pub(super) fn members(state: Option<&IsrState>) -> String {
    let none = IsrState::default();
    let state = state.unwrap_or(&none);
    let in_flight = match state.pending().map(|pending| &pending.proposal.change) {
        None => "committed",
        Some(Change::Expand(_)) => "pending-expand",
        Some(Change::Shrink(_)) => "pending-shrink",
    };
    format!(
        "isr={} maximal_isr={} in_flight={in_flight}",
        ids(state.committed()),
        ids(&state.maximal())
    )
}

/// The first and the last offset of the records, where the logs diverge, and the high watermark.
pub(super) fn fetched(answer: &FetchAnswer, records: Option<(i64, i64)>) -> String {
    let diverging = match answer.outcome {
        FetchOutcome::Records(_) => None,
        FetchOutcome::Diverging { epoch, end_offset } => Some(format!("{epoch}:{end_offset}")),
    };
    format!(
        "records={} diverging={} hw={}",
        or_dash(records.map(|(first, last)| format!("{first}-{last}"))),
        or_dash(diverging),
        answer.high_watermark
    )
}

pub(super) fn epochs(entries: &[EpochEntry]) -> String {
    let print = |entry: &EpochEntry| format!("{}:{}", entry.epoch, entry.start_offset);
    list(entries.iter().map(print))
}

pub(super) fn leader(leader: Option<BrokerId>) -> String {
    leader.map_or(-1, |id| id.0).to_string()
}

pub(super) fn replicas(all: &[ReplicaState], print: fn(&ReplicaState) -> String) -> String {
    list(all.iter().map(print))
}

fn offset(offset: Option<Offset>) -> i64 {
    offset.map_or(-1, Offset::get)
}

fn time(time: Option<Timestamp>) -> i64 {
    time.map_or(0, Timestamp::millis)
}

pub(super) fn in_short(replica: &ReplicaState) -> String {
    format!(
        "{}:{}:{}:{}",
        replica.id,
        offset(replica.log_end_offset),
        time(replica.last_caught_up),
        or_dash(replica.broker_epoch)
    )
}

pub(super) fn in_full(replica: &ReplicaState) -> String {
    format!(
        "{}:{}:{}:{}",
        in_short(replica),
        offset(replica.log_start_offset),
        offset(replica.last_fetch_leader_log_end),
        time(replica.last_fetch)
    )
}
