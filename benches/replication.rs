//! What a leader does for a follower's fetch: three replicas, each fetch at the log end, so that
//! every second one moves the high watermark. The unit is one fetch.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a benchmark stops at the first surprise"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use highwater::epoch::EpochCache;
use highwater::replication::brokers::{BrokerView, Brokers};
use highwater::replication::leader::{
    Config, Env, FetchRequest, Input, LogState, Output, Partition, Registration,
};
use highwater::replication::message::{
    BrokerEpoch, BrokerId, BrokerSet, PartitionEpoch, RequestId,
};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

fn env<'e>(
    brokers: &'e Brokers,
    epochs: &'e EpochCache,
    log_end: i64,
    high_watermark: Offset,
) -> Env<'e> {
    Env {
        log: LogState {
            log_start_offset: Offset::ZERO,
            log_end_offset: Offset::new(log_end).unwrap(),
            high_watermark,
            last_stable_offset: high_watermark,
            epochs,
        },
        brokers,
        config: Config::default(),
    }
}

fn follower_fetch(c: &mut Criterion) {
    let mut brokers = Brokers::new();
    let mut epochs = EpochCache::new();
    epochs.assign(LeaderEpoch::ZERO, Offset::ZERO);
    for id in 1..=3 {
        let view = BrokerView {
            epoch: BrokerEpoch(1),
            fenced: false,
            shutting_down: false,
        };
        brokers.register(BrokerId(id), view);
    }
    let all: BrokerSet = (1..=3).map(BrokerId).collect();
    let registration = Registration {
        leader: Some(BrokerId(1)),
        leader_epoch: LeaderEpoch::ZERO,
        partition_epoch: PartitionEpoch(0),
        replicas: all.clone(),
        isr: all,
    };
    let (mut partition, mut out) = (Partition::new(BrokerId(1)), Vec::new());
    let mut high_watermark = Offset::ZERO;
    let start = env(&brokers, &epochs, 0, high_watermark);
    partition.handle(NOW, &start, Input::Metadata(registration), &mut out);
    let mut fetches = 0_i64;
    let mut group = c.benchmark_group("replication");
    group.throughput(Throughput::Elements(1));
    group.bench_function("follower_fetch", |b| {
        b.iter(|| {
            fetches += 1;
            let log_end = fetches / 2;
            let replica = if fetches % 2 == 0 { 2 } else { 3 };
            let request = FetchRequest {
                request: RequestId(0),
                replica: BrokerId(replica),
                broker_epoch: BrokerEpoch(1),
                offset: log_end,
                leader_epoch: Some(0),
                last_epoch: Some(0),
                log_start_offset: 0,
                batch_base: None,
            };
            out.clear();
            let seen = env(&brokers, &epochs, log_end, high_watermark);
            partition.handle(NOW, &seen, Input::Fetch(request), &mut out);
            for output in &out {
                if let Output::RaiseHighWatermark(to) = output {
                    high_watermark = *to;
                }
            }
        });
    });
    group.finish();
}

criterion_group!(benches, follower_fetch);
criterion_main!(benches);
