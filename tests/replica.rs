//! A leader and its log: what it serves, what is committed, and what becomes of it when the disk
//! fails.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    reason = "tests stop at the first surprise"
)]

mod common;

use std::sync::Arc;

use common::*;
use highwater::error::ErrorKind;
use highwater::log::{Durability, Fetched, Isolation, Log, LogConfig};
use highwater::record::Codec;
use highwater::replica::{Context, Replica};
use highwater::replication::brokers::{BrokerView, Brokers};
use highwater::replication::leader::{
    Acks, Config, FetchAnswer, FetchOutcome, FetchRequest, Input, Output, Progress, Registration,
};
use highwater::replication::message::{
    BrokerEpoch, BrokerId, ErrorCode, PartitionEpoch, RequestId,
};
use highwater::storage::sim::{Fault, FaultKind, FaultOn, SimDir, SimDisk};
use highwater::types::{LeaderEpoch, Offset};

const LEADER: BrokerId = BrokerId(1);
const FOLLOWER: BrokerId = BrokerId(2);

/// Broker 1 with its log, which leads the partition.
struct Leader {
    disk: SimDisk,
    brokers: Brokers,
    replica: Replica<SimDir>,
    _store: Store,
}

impl Leader {
    /// The log is there; no metadata has told.
    fn new() -> Self {
        let disk = SimDisk::new();
        let store = Store::create(&disk, &LogConfig::default()).unwrap();
        let mut brokers = Brokers::new();
        for id in [LEADER, FOLLOWER] {
            let view = BrokerView {
                epoch: BrokerEpoch(7),
                fenced: false,
                shutting_down: false,
            };
            brokers.register(id, view);
        }
        Self {
            disk,
            brokers,
            replica: Replica::new(LEADER, Arc::clone(&store.log)),
            _store: store,
        }
    }

    fn leading() -> Self {
        let mut leader = Self::new();
        leader.handle(registration()).unwrap();
        leader
    }

    fn handle(&mut self, input: Input) -> Result<Vec<Output>, highwater::error::Error> {
        let mut out = Vec::new();
        let context = context(&self.brokers);
        self.replica.handle(&context, input, &mut out)?;
        Ok(out)
    }

    fn append(&mut self, records: i64) -> Result<(Offset, Progress), ErrorCode> {
        let context = context(&self.brokers);
        let mut batch = batch(Codec::None, 0, 0, records);
        let mut out = Vec::new();
        let produced = self
            .replica
            .append(&context, &mut batch, Acks::All, &mut out)
            .unwrap()?;
        let waiter = produced.waiter.unwrap();
        let progress = self
            .replica
            .ask(&context, |machine, env| waiter.check(machine, env));
        Ok((waiter.required, progress))
    }

    fn fetch(&mut self, from: Offset) -> (Result<FetchAnswer, ErrorCode>, Fetched) {
        let request = FetchRequest {
            request: RequestId(0),
            replica: FOLLOWER,
            broker_epoch: BrokerEpoch(7),
            offset: from.get(),
            leader_epoch: Some(3),
            last_epoch: None,
            log_start_offset: 0,
            batch_base: None,
        };
        let (mut fetched, mut out) = (Fetched::default(), Vec::new());
        let context = context(&self.brokers);
        let answer = self
            .replica
            .fetch(&context, request, 1 << 20, &mut fetched, &mut out);
        (answer.unwrap(), fetched)
    }
}

fn context(brokers: &Brokers) -> Context<'_> {
    Context {
        now: NOW,
        brokers,
        config: Config::default(),
    }
}

fn registration() -> Input {
    Input::Metadata(Registration {
        leader: Some(LEADER),
        leader_epoch: LeaderEpoch::new(3).unwrap(),
        partition_epoch: PartitionEpoch(0),
        replicas: [LEADER, FOLLOWER].into_iter().collect(),
        isr: [LEADER, FOLLOWER].into_iter().collect(),
    })
}

/// Fetches until there is nothing more, and once more: the last fetch tells what the follower has.
fn follow(leader: &mut Leader, log: &Log<SimDir>) {
    loop {
        let (answer, fetched) = leader.fetch(log.log_end_offset());
        let answer = answer.unwrap();
        log.append_as_follower(fetched.bytes(), epoch(3), NOW, Durability::Written)
            .unwrap();
        log.update_high_watermark(answer.high_watermark);
        if fetched.is_empty() && answer.high_watermark == log.log_end_offset() {
            return;
        }
    }
}

#[test]
fn what_is_acknowledged_is_on_both_logs() {
    let mut leader = Leader::leading();
    let (required, progress) = leader.append(3).unwrap();
    assert_eq!(progress, Progress::Waits);
    let disk = SimDisk::new();
    let follower = Store::create(&disk, &LogConfig::default()).unwrap();

    follow(&mut leader, &follower.log);

    let check = leader
        .replica
        .ask(&context(&leader.brokers), |machine, env| {
            machine.check_acks(env, required)
        });
    assert_eq!(check, Progress::Done(Ok(())));
    let log = leader.replica.log();
    assert_eq!(log.high_watermark(), offset(3));
    assert_eq!(follower.log.high_watermark(), offset(3));
    assert_eq!(log.epochs(), follower.log.epochs());
    let all = |log: &Log<SimDir>| {
        let fetched = log.read(Offset::ZERO, 1 << 20, Isolation::HighWatermark);
        fetched.unwrap().bytes().to_vec()
    };
    assert_eq!(all(log), all(&follower.log));
    assert!(!all(log).is_empty());
}

/// The epoch is in its checkpoint before the leader serves anything (KAFKA-7415).
#[test]
fn a_leader_that_cannot_note_its_epoch_does_not_lead() {
    let mut leader = Leader::new();
    let checkpoint = Fault::new(FaultOn::Rename, 1, FaultKind::Io);
    leader.disk.fail(checkpoint.sticky());

    let failed = leader.handle(registration()).unwrap_err();

    assert!(matches!(failed.kind(), ErrorKind::Io | ErrorKind::Offline));
    assert_eq!(leader.append(1), Err(ErrorCode::KafkaStorageError));
    let (answer, _) = leader.fetch(Offset::ZERO);
    assert_eq!(answer, Err(ErrorCode::KafkaStorageError));
}

#[test]
fn after_a_failed_write_nothing_is_served() {
    let mut leader = Leader::leading();
    leader.append(1).unwrap();
    let write = Fault::new(FaultOn::Write, 1, FaultKind::Io);
    leader.disk.fail(write.sticky());

    assert_eq!(leader.append(1), Err(ErrorCode::KafkaStorageError));

    leader.disk.clear_faults();
    assert_eq!(leader.append(1), Err(ErrorCode::KafkaStorageError));
    let (answer, _) = leader.fetch(Offset::ZERO);
    assert_eq!(answer, Err(ErrorCode::KafkaStorageError));
}

/// A full disk refuses the append and nothing else: the leader goes on, and again when there is
/// room.
#[test]
fn a_full_disk_is_no_end() {
    let mut leader = Leader::leading();
    leader.append(1).unwrap();
    let write = Fault::new(FaultOn::Write, 1, FaultKind::NoSpace);
    leader.disk.fail(write.sticky());
    assert_eq!(leader.append(1), Err(ErrorCode::KafkaStorageError));

    let (answer, fetched) = leader.fetch(Offset::ZERO);

    let outcome = FetchOutcome::Records(Offset::ZERO);
    assert_eq!(answer.unwrap().outcome, outcome);
    assert_eq!(fetched.next_offset(), Some(offset(1)));
    leader.disk.clear_faults();
    assert_eq!(leader.append(1).unwrap().0, offset(2));
}

/// What the log refuses is the producer's answer.
#[test]
fn a_refused_append_changes_nothing() {
    let mut leader = Leader::leading();
    let context = context(&leader.brokers);
    let mut torn = batch(Codec::None, 0, 0, 1);
    let last = torn.len() - 1;
    torn[last] ^= 1;

    let mut out = Vec::new();
    let replica = &mut leader.replica;
    let refused = replica.append(&context, &mut torn, Acks::All, &mut out);

    assert_eq!(refused.unwrap(), Err(ErrorCode::CorruptMessage));
    assert_eq!(out, []);
    assert_eq!(replica.log().log_end_offset(), Offset::ZERO);
}
