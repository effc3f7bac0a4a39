//! Reads of a log in order, 256 KiB at a time, with checks.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    reason = "a benchmark stops at the first surprise"
)]

#[path = "../src/bin/highwater/bench/material.rs"]
#[allow(dead_code, reason = "each benchmark uses a part of it")]
mod material;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use highwater::log::{Durability, Fetched, Isolation, LogConfig};
use material::{BATCH_BYTES, RECORDS, Ready, create_log};

fn read(c: &mut Criterion) {
    let place = tempfile::tempdir_in(".").unwrap();
    let (_dir, log) = create_log(&place.path().join("data"), &LogConfig::default()).unwrap();
    let mut ready = Ready::of(BATCH_BYTES, RECORDS).unwrap();
    for _ in 0..4096 {
        ready.append(&log, Durability::Written).unwrap();
    }
    let mut fetched = Fetched::default();
    let mut group = c.benchmark_group("read");
    group.throughput(Throughput::Bytes(log.bytes()));
    group.bench_function("all batches", |b| {
        b.iter(|| {
            let mut next = Some(log.log_start_offset());
            while let Some(from) = next {
                log.read_into(from, 256 << 10, true, Isolation::LogEnd, &mut fetched)
                    .unwrap();
                next = fetched.next_offset();
            }
        });
    });
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
