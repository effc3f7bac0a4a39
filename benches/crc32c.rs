//! CRC-32C by the length of what it covers.
#![allow(missing_docs, reason = "the macros of criterion make public functions")]

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use highwater::record::crc32c;

fn checksum(c: &mut Criterion) {
    let bytes = vec![0xa5_u8; 1 << 20];
    let mut group = c.benchmark_group("crc32c");
    for length in [61_u32, 1 << 10, 16 << 10, 1 << 20] {
        let covered = usize::try_from(length)
            .ok()
            .and_then(|end| bytes.get(..end));
        let covered = covered.unwrap_or_default();
        group.throughput(Throughput::Bytes(u64::from(length)));
        group.bench_function(BenchmarkId::from_parameter(length), |b| {
            b.iter(|| crc32c(covered));
        });
    }
    group.finish();
}

criterion_group!(benches, checksum);
criterion_main!(benches);
