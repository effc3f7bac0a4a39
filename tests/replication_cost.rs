//! What a leader costs: no allocation for a follower's fetch in the steady state, and so little
//! memory a partition that a hundred thousand fit in 200 MiB.
#![allow(
    unsafe_code,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    clippy::cast_possible_wrap,
    clippy::panic_in_result_fn,
    reason = "an allocator that counts is unsafe to write; tests stop at the first surprise"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use highwater::epoch::EpochCache;
use highwater::replication::brokers::{BrokerView, Brokers};
use highwater::replication::leader::{
    Config, Env, FetchRequest, Input, LogState, Output, Partition, Registration,
};
use highwater::replication::message::{
    BrokerEpoch, BrokerId, BrokerSet, PartitionEpoch, RequestId,
};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

/// The system's allocator, which counts what each thread asks of it.
struct Counting;

#[derive(Clone, Copy, Default)]
struct Count {
    calls: u64,
    live_bytes: i64,
}

thread_local! {
    static COUNT: Cell<Count> = const { Cell::new(Count { calls: 0, live_bytes: 0 }) };
}

fn count(calls: u64, bytes: i64) {
    COUNT.with(|count| {
        let so_far = count.get();
        count.set(Count {
            calls: so_far.calls + calls,
            live_bytes: so_far.live_bytes + bytes,
        });
    });
}

// SAFETY: every call goes to the system's allocator with its arguments unchanged; counting touches
// a thread-local cell of plain numbers, which needs no allocation and has no destructor.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(1, layout.size() as i64);
        // SAFETY: the caller keeps the contract of `GlobalAlloc::alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(0, -(layout.size() as i64));
        // SAFETY: `pointer` came from `alloc` above, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn brokers() -> Brokers {
    let mut brokers = Brokers::new();
    for id in 1..=3 {
        let view = BrokerView {
            epoch: BrokerEpoch(1),
            fenced: false,
            shutting_down: false,
        };
        brokers.register(BrokerId(id), view);
    }
    brokers
}

struct LogNumbers {
    epochs: EpochCache,
    log_end: i64,
    high_watermark: i64,
}

impl LogNumbers {
    fn new() -> Self {
        let mut epochs = EpochCache::new();
        epochs.assign(LeaderEpoch::ZERO, Offset::ZERO);
        Self {
            epochs,
            log_end: 0,
            high_watermark: 0,
        }
    }

    fn env<'e>(&'e self, brokers: &'e Brokers) -> Env<'e> {
        Env {
            log: LogState {
                log_start_offset: Offset::ZERO,
                log_end_offset: offset(self.log_end),
                high_watermark: offset(self.high_watermark),
                last_stable_offset: offset(self.high_watermark),
                epochs: &self.epochs,
            },
            brokers,
            config: Config::default(),
        }
    }
}

/// Broker 1 leads three replicas, all in sync.
fn leading(env: &Env<'_>, out: &mut Vec<Output>) -> Partition {
    let all: BrokerSet = (1..=3).map(BrokerId).collect();
    let mut partition = Partition::new(BrokerId(1));
    let registration = Registration {
        leader: Some(BrokerId(1)),
        leader_epoch: LeaderEpoch::ZERO,
        partition_epoch: PartitionEpoch(0),
        replicas: all.clone(),
        isr: all,
    };
    partition.handle(NOW, env, Input::Metadata(registration), out);
    partition
}

fn fetch(request: u64, replica: i32, at: i64) -> Input {
    Input::Fetch(FetchRequest {
        request: RequestId(request),
        replica: BrokerId(replica),
        broker_epoch: BrokerEpoch(1),
        offset: at,
        leader_epoch: Some(0),
        last_epoch: Some(0),
        log_start_offset: 0,
        batch_base: None,
    })
}

#[test]
fn a_followers_fetch_allocates_nothing() {
    let brokers = brokers();
    let mut log = LogNumbers::new();
    let mut out = Vec::with_capacity(16);
    let mut partition = leading(&log.env(&brokers), &mut out);
    let before = COUNT.get();
    let mut raised = 0;

    for round in 0..1_000 {
        log.log_end += 1;
        for replica in [2, 3] {
            out.clear();
            let input = fetch(round, replica, log.log_end);
            partition.handle(NOW, &log.env(&brokers), input, &mut out);
            for output in &out {
                if let Output::RaiseHighWatermark(to) = output {
                    log.high_watermark = to.get();
                    raised += 1;
                }
            }
        }
    }

    assert_eq!(raised, 1_000);
    assert_eq!(COUNT.get().calls - before.calls, 0);
}

#[test]
fn a_hundred_thousand_partitions_fit_in_200_mib() {
    const SAMPLE: i64 = 1_000;
    let brokers = brokers();
    let log = LogNumbers::new();
    let mut out = Vec::with_capacity(16);
    let mut partitions = Vec::new();
    let before = COUNT.get();

    for _ in 0..SAMPLE {
        out.clear();
        partitions.push(leading(&log.env(&brokers), &mut out));
    }

    let each = (COUNT.get().live_bytes - before.live_bytes) / SAMPLE;
    assert!(each > 0);
    assert!(each * 100_000 <= 200 << 20, "{each} bytes a partition");
}
