//! Lookups in an offset index of 10 MiB.
#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::arithmetic_side_effects,
    reason = "a benchmark stops at the first surprise"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use highwater::index::OffsetIndex;
use highwater::types::{Offset, Position};

fn lookup(c: &mut Criterion) {
    const ENTRIES: u32 = 500_000;
    let mut index = OffsetIndex::new(Offset::ZERO, 10 << 20);
    for entry in 1..=ENTRIES {
        let offset = Offset::new(i64::from(entry) * 100).unwrap();
        index
            .push(offset, Position::new(u64::from(entry) * 4096))
            .unwrap();
    }
    let mut group = c.benchmark_group("index");
    group.throughput(Throughput::Elements(1));
    let mut at = 0_u32;
    group.bench_function("lookup", |b| {
        b.iter(|| {
            at = at.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            index.lookup(Offset::new(i64::from(at % (ENTRIES * 100))).unwrap())
        });
    });
    group.finish();
}

criterion_group!(benches, lookup);
criterion_main!(benches);
