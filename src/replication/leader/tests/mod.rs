//! One test a rule, named after its number in the list of rules: A and B for those of the ISR and
//! the high watermark, C for what they need to be sound, D for our deviations from Kafka.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::wildcard_enum_match_arm,
    clippy::unwrap_in_result,
    reason = "the numbers of a test are small; it looks for what it wants and stops at surprises"
)]

use super::*;
use crate::replication::alter_partition::Change;
use crate::replication::brokers::BrokerView;
use crate::replication::isr::{Pending, PendingStatus};
use crate::replication::message::{BrokerEpoch, BrokerSet, LeaderRecoveryState};

mod deviations;
mod fetches;
mod high_watermark;
mod membership;
mod metadata;
mod offsets;
mod produce;

const LOCAL: BrokerId = BrokerId(1);
const START: i64 = 1_000_000;

/// A partition on a log of nothing but numbers, with the brokers 1 to 4. The broker epoch of N is
/// N + 10.
#[derive(Clone, Debug)]
struct World {
    partition: Partition,
    now: Timestamp,
    config: Config,
    brokers: Brokers,
    epochs: EpochCache,
    log_start: Offset,
    log_end: Offset,
    high_watermark: Offset,
    requests: u64,
}

fn at(offset: i64) -> Offset {
    Offset::new(offset).unwrap()
}

fn epoch(epoch: i32) -> LeaderEpoch {
    LeaderEpoch::new(epoch).unwrap()
}

fn ids(ids: &[i32]) -> BrokerSet {
    ids.iter().map(|id| BrokerId(*id)).collect()
}

fn alive(id: i32) -> BrokerView {
    BrokerView {
        epoch: BrokerEpoch(i64::from(id) + 10),
        fenced: false,
        shutting_down: false,
    }
}

impl World {
    fn new(compatibility: Compatibility) -> Self {
        let mut brokers = Brokers::new();
        for id in 1..=4 {
            brokers.register(BrokerId(id), alive(id));
        }
        Self {
            partition: Partition::new(LOCAL),
            now: Timestamp::from_millis(START),
            config: Config {
                compatibility,
                ..Config::default()
            },
            brokers,
            epochs: EpochCache::new(),
            log_start: Offset::ZERO,
            log_end: Offset::ZERO,
            high_watermark: Offset::ZERO,
            requests: 0,
        }
    }

    /// Broker 1 leads replicas 1, 2 and 3 in epoch 0, with this ISR.
    fn leading(isr: &[i32]) -> Self {
        Self::leading_with(isr, Compatibility::Highwater)
    }

    fn leading_with(isr: &[i32], compatibility: Compatibility) -> Self {
        let mut world = Self::new(compatibility);
        world.metadata(1, 0, 0, &[1, 2, 3], isr);
        world
    }

    /// Both modes, for rules that they share.
    fn both(isr: &[i32]) -> [Self; 2] {
        [Compatibility::Kafka, Compatibility::Highwater]
            .map(|compatibility| Self::leading_with(isr, compatibility))
    }

    fn env(&self) -> Env<'_> {
        Env {
            log: LogState {
                log_start_offset: self.log_start,
                log_end_offset: self.log_end,
                high_watermark: self.high_watermark,
                last_stable_offset: self.high_watermark,
                epochs: &self.epochs,
            },
            brokers: &self.brokers,
            config: self.config,
        }
    }

    /// One input; what it asks of the log is done, but for appends and deletions.
    fn handle(&mut self, input: Input) -> Vec<Output> {
        let mut out = Vec::new();
        let before = self.high_watermark;
        let mut partition = self.partition.clone();
        partition.handle(self.now, &self.env(), input, &mut out);
        self.partition = partition;
        for output in &out {
            match output {
                Output::AssignEpoch(epoch) => {
                    self.epochs.assign(*epoch, self.log_end);
                }
                Output::RaiseHighWatermark(to) => {
                    assert!(*to > before, "the high watermark of a leader only rises");
                    assert!(*to <= self.log_end);
                    self.high_watermark = *to;
                }
                _ => {}
            }
        }
        out
    }

    fn metadata(
        &mut self,
        leader: i32,
        leader_epoch: i32,
        partition_epoch: i32,
        replicas: &[i32],
        isr: &[i32],
    ) -> Vec<Output> {
        self.handle(Input::Metadata(Registration {
            leader: (leader >= 0).then_some(BrokerId(leader)),
            leader_epoch: epoch(leader_epoch),
            partition_epoch: PartitionEpoch(partition_epoch),
            replicas: ids(replicas),
            isr: ids(isr),
        }))
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn append_with(&mut self, records: i64, acks: Acks) -> Result<Produced, ErrorCode> {
        let request = self.request();
        let out = self.handle(Input::Append { request, acks });
        if let Some(Output::Produced { result, .. }) = out.first() {
            return *result;
        }
        let appended = AppendedRange {
            first_offset: self.log_end,
            last_offset: at(self.log_end.get() + records - 1),
        };
        self.log_end = appended.last_offset.next();
        let result = Ok(appended);
        let out = self.handle(Input::Appended { request, result });
        let produced = out.iter().find_map(|output| match output {
            Output::Produced { result, .. } => Some(*result),
            _ => None,
        });
        produced.unwrap()
    }

    /// Appends records that ask for no copies.
    fn append(&mut self, records: i64) {
        self.append_with(records, Acks::Leader).unwrap();
    }

    fn fetch_request(&mut self, replica: i32, offset: i64) -> FetchRequest {
        FetchRequest {
            request: self.request(),
            replica: BrokerId(replica),
            broker_epoch: alive(replica).epoch,
            offset,
            leader_epoch: self.partition.leader_epoch().map(LeaderEpoch::get),
            last_epoch: None,
            log_start_offset: 0,
            batch_base: None,
        }
    }

    fn fetch(&mut self, replica: i32, offset: i64) -> Vec<Output> {
        let request = self.fetch_request(replica, offset);
        self.handle(Input::Fetch(request))
    }

    fn pass(&mut self, millis: i64) {
        self.now = Timestamp::from_millis(self.now.millis() + millis);
    }

    fn tick(&mut self) -> Vec<Output> {
        self.handle(Input::Tick)
    }

    fn answer(
        &mut self,
        proposal: &Proposal,
        result: Result<AlterPartitionAnswer, ErrorCode>,
    ) -> Vec<Output> {
        self.handle(Input::Answered {
            proposal: Box::new(proposal.clone()),
            result,
        })
    }

    /// The controller takes the proposal as it is.
    fn accept(&mut self, proposal: &Proposal) -> Vec<Output> {
        self.answer(proposal, Ok(accepted(proposal)))
    }

    fn isr(&self) -> BrokerSet {
        self.partition.isr().unwrap().committed().clone()
    }

    fn maximal(&self) -> BrokerSet {
        self.partition.isr().unwrap().maximal()
    }

    fn pending(&self) -> Option<&Pending> {
        self.partition.isr().unwrap().pending()
    }

    fn replica(&self, id: i32) -> &ReplicaState {
        let mut replicas = self.partition.replicas().iter();
        replicas.find(|replica| replica.id == BrokerId(id)).unwrap()
    }
}

fn accepted(proposal: &Proposal) -> AlterPartitionAnswer {
    AlterPartitionAnswer {
        isr: proposal.isr.iter().map(|(id, _)| *id).collect(),
        leader_epoch: proposal.leader_epoch.get(),
        partition_epoch: PartitionEpoch(proposal.partition_epoch.0 + 1),
        recovery: LeaderRecoveryState::Recovered,
    }
}

/// The proposal among the outputs.
fn proposed(out: &[Output]) -> Option<Proposal> {
    out.iter().find_map(|output| match output {
        Output::Propose(proposal) => Some(proposal.clone()),
        _ => None,
    })
}

/// The answer to the fetch among the outputs.
fn fetched(out: &[Output]) -> Result<FetchAnswer, ErrorCode> {
    let answer = out.iter().find_map(|output| match output {
        Output::Fetched { result, .. } => Some(*result),
        _ => None,
    });
    answer.unwrap()
}

fn marked(out: &[Output]) -> Vec<Marked> {
    let marked = |output: &Output| match output {
        Output::Marked(marked) => Some(*marked),
        _ => None,
    };
    out.iter().filter_map(marked).collect()
}
