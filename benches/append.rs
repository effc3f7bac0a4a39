//! Appends of ready batches of 16 KiB through the leader's path, not synced.
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
use material::{BATCH_BYTES, RECORDS, Ready, create_log};

fn append(c: &mut Criterion) {
    let place = tempfile::tempdir_in(".").unwrap();
    let (_dir, log) = create_log(&place.path().join("data"), &LogConfig::default()).unwrap();
    let mut ready = Ready::of(BATCH_BYTES, RECORDS).unwrap();
    let mut group = c.benchmark_group("append");
    group.throughput(Throughput::Bytes(ready.batch_bytes()));
    group.bench_function("16 KiB", |b| {
        b.iter(|| ready.append(&log, Durability::Written).unwrap());
    });
    group.finish();
}

criterion_group!(benches, append);
criterion_main!(benches);
