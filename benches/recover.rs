//! Recovery of a log that was never closed.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first surprise"
)]

#[path = "../src/bin/highwater/bench/material.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod material;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use highwater::log::{Durability, LogConfig};
use material::{BATCH_BYTES, RECORDS, Ready, create_log, open_dir};

fn recover(c: &mut Criterion) {
    let place = tempfile::tempdir_in(".").unwrap();
    let data = place.path().join("data");
    let config = LogConfig::default();
    let (dir, log) = create_log(&data, &config).unwrap();
    let mut ready = Ready::of(BATCH_BYTES, RECORDS).unwrap();
    for _ in 0..4096 {
        ready.append(&log, Durability::Written).unwrap();
    }
    log.flush().unwrap();
    let bytes = log.bytes();
    drop((log, dir));
    let mut group = c.benchmark_group("recover");
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("64 MiB", |b| b.iter(|| open_dir(&data, &config).unwrap()));
    group.finish();
}

criterion_group!(benches, recover);
criterion_main!(benches);
