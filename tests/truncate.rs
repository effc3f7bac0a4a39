//! Truncation to every offset, for every codec and every version of the format, with the power cut
//! at every call to the disk: the log ends at the base of a batch, no byte of a cut batch is left,
//! and what was cut never comes back.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::type_complexity,
    clippy::too_many_lines,
    clippy::similar_names,
    clippy::needless_pass_by_value,
    clippy::iter_over_hash_type,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "tests stop at the first surprise"
)]

mod common;

use common::legacy::{Inner, message_set};
use common::*;
use highwater::error::ErrorKind;
use highwater::log::{Durability, Isolation, LogConfig, TruncateOptions};
use highwater::record::Codec;
use highwater::storage::sim::{CrashPlan, SimDisk};

const ALLOWED: TruncateOptions = TruncateOptions {
    below_high_watermark: true,
};

/// A version of the format, with its codec.
#[derive(Clone, Copy, Debug)]
struct Format {
    magic: u8,
    codec: Codec,
    inner: Inner,
}

const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

fn formats() -> Vec<Format> {
    let v2 = CODECS.map(|codec| Format {
        magic: 2,
        codec,
        inner: Inner::Absolute,
    });
    let mut all = v2.to_vec();
    for codec in CODECS.into_iter().filter(|codec| *codec != Codec::Zstd) {
        all.push(Format {
            magic: 0,
            codec,
            inner: Inner::Absolute,
        });
        all.push(Format {
            magic: 1,
            codec,
            inner: Inner::Relative,
        });
    }
    // librdkafka before 1.0 numbered the inner messages of version 1 as those of version 0.
    all
}

/// The base of a cut for each offset, and the bytes that stand below each base.
struct Written {
    /// (first offset, bytes) of each thing that is never cut in two.
    units: Vec<(i64, Vec<u8>)>,
    end: i64,
}

impl Written {
    /// Where a truncation to `target` ends.
    fn aligned(&self, target: i64) -> i64 {
        let bases = self.units.iter().map(|(base, _)| *base).chain([self.end]);
        bases.filter(|base| *base <= target).max().unwrap_or(0)
    }

    fn below(&self, end: i64) -> Vec<u8> {
        self.units
            .iter()
            .filter(|(base, _)| *base < end)
            .flat_map(|(_, b)| b.clone())
            .collect()
    }
}

fn write(disk: &SimDisk, config: &LogConfig, format: Format, units: i64, records: i64) -> Written {
    let store = Store::create(disk, config).unwrap();
    let mut written = Written {
        units: Vec::new(),
        end: 0,
    };
    for unit in 0..units {
        let base = unit * records;
        let leader_epoch = i32::try_from(unit / 2).unwrap();
        let bytes = if format.magic == 2 {
            batch(format.codec, base, leader_epoch, records)
        } else {
            message_set(format.magic, format.codec, format.inner, base, records)
        };
        let appended = store
            .log
            .append_as_follower(&bytes, epoch(100), NOW, Durability::Written)
            .unwrap();
        assert_eq!(appended.log_end_offset, offset(base + records));
        if format.magic < 2 && format.codec == Codec::None {
            let size = bytes.len() / usize::try_from(records).unwrap();
            let singles = bytes.chunks(size).map(<[u8]>::to_vec);
            written.units.extend((base..).zip(singles));
        } else {
            written.units.push((base, bytes));
        }
        written.end = base + records;
    }
    store.log.flush().unwrap();
    store.log.update_high_watermark(offset(written.end));
    store.dir.checkpoint().unwrap();
    drop(store);
    written
}

/// Two or three batches to a segment.
fn tiny(format: Format, records: i64) -> LogConfig {
    let unit = if format.magic == 2 {
        batch(format.codec, 0, 0, records).len()
    } else {
        message_set(format.magic, format.codec, format.inner, 0, records).len()
    };
    LogConfig::default()
        .segment_bytes(u32::try_from(unit * 5 / 2 + 20).unwrap())
        .index_interval_bytes(1)
}

fn check_epochs(store: &Store, written: &Written, end: i64, format: Format, context: &str) {
    let expected: Vec<(i32, i64)> = if format.magic < 2 {
        Vec::new()
    } else {
        let mut epochs: Vec<(i32, i64)> = Vec::new();
        for (base, bytes) in written.units.iter().filter(|(base, _)| *base < end) {
            let (_, _, leader_epoch, _) = parse(bytes)[0];
            if epochs.last().is_none_or(|(last, _)| *last < leader_epoch) {
                epochs.push((leader_epoch, *base));
            }
        }
        epochs
    };
    let found: Vec<(i32, i64)> = store
        .log
        .epochs()
        .iter()
        .map(|e| (e.epoch.get(), e.start_offset.get()))
        .collect();
    assert_eq!(found, expected, "{context}: epochs");
}

fn check_end(store: &Store, disk: &SimDisk, written: &Written, end: i64, context: &str) {
    assert_eq!(
        store.log.log_end_offset(),
        offset(end),
        "{context}: log end"
    );
    assert!(
        store.log.recovery_point() <= offset(end),
        "{context}: recovery point"
    );
    assert!(
        store.log.high_watermark() <= offset(end),
        "{context}: high watermark"
    );
    assert!(log_bytes(disk) == written.below(end), "{context}: bytes");
    // Every offset that is left is found through the indexes.
    for (base, bytes) in written.units.iter().filter(|(base, _)| *base < end) {
        let fetched = store.log.read(offset(*base), 1, Isolation::LogEnd).unwrap();
        assert!(fetched.bytes() == bytes, "{context}: read at {base}");
    }
}

fn append_at(store: &Store, end: i64, context: &str) {
    let mut bytes = batch(Codec::None, 0, 0, 2);
    let appended = store
        .log
        .append_as_leader(&mut bytes, epoch(200), NOW, Durability::Synced)
        .unwrap();
    assert_eq!(
        appended.first_offset,
        Some(offset(end)),
        "{context}: next append"
    );
    let fetched = store.log.read(offset(end), 1, Isolation::LogEnd).unwrap();
    assert!(fetched.bytes() == bytes, "{context}: appended bytes");
}

#[test]
fn every_offset_of_every_format_is_cut_at_a_batch_base() {
    for format in formats() {
        let records = 3;
        let config = tiny(format, records);
        let disk = SimDisk::new();
        let written = write(&disk, &config, format, 7, records);
        let disk = settled(&disk);

        for target in 0..=written.end {
            let context = format!("{format:?} to {target}");
            let disk = settled(&disk);
            let store = Store::open(&disk, &config).unwrap();
            assert!(store.log.segments().len() >= 3, "{context}");

            let cut = store.log.truncate_to(offset(target), ALLOWED, NOW).unwrap();

            let end = written.aligned(target);
            assert_eq!(cut.requested, offset(target));
            assert_eq!(cut.log_end_offset, offset(end), "{context}");
            assert_eq!(cut.truncated, target < written.end, "{context}");
            assert_eq!(cut.below_high_watermark, target < written.end, "{context}");
            let gone = written.below(written.end).len() - written.below(end).len();
            assert_eq!(cut.cut_bytes, u64::try_from(gone).unwrap(), "{context}");
            check_end(&store, &disk, &written, end, &context);
            check_epochs(&store, &written, end, format, &context);
            drop(store);
            let disk = disk.crash(&CrashPlan::LoseAll);
            let store = Store::open(&disk, &config).unwrap();
            check_end(&store, &disk, &written, end, &format!("{context}, opened"));
            check_epochs(&store, &written, end, format, &context);
            append_at(&store, end, &context);
            drop(store);
            let disk = disk.crash(&CrashPlan::LoseAll);
            let store = Store::open(&disk, &config).unwrap();
            assert_eq!(store.log.log_end_offset(), offset(end + 2), "{context}");
            store.dir.close().unwrap();
        }
    }
}

#[test]
fn below_the_high_watermark_is_refused_without_leave() {
    let format = Format {
        magic: 2,
        codec: Codec::Gzip,
        inner: Inner::Absolute,
    };
    let config = tiny(format, 3);
    let disk = SimDisk::new();
    let written = write(&disk, &config, format, 4, 3);
    let store = Store::open(&disk, &config).unwrap();
    store.log.update_high_watermark(offset(7));

    // 7 lies in the batch [6, 9): the cut would be at 6.
    let refused = store
        .log
        .truncate_to(offset(7), TruncateOptions::default(), NOW)
        .unwrap_err();

    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    check_end(&store, &disk, &written, written.end, "refused");
    let cut = store
        .log
        .truncate_to(offset(9), TruncateOptions::default(), NOW)
        .unwrap();
    assert_eq!(
        (cut.log_end_offset, cut.below_high_watermark),
        (offset(9), false)
    );
}

/// A truncation below a raised log start takes the start down with it, and the log is empty there.
#[test]
fn a_cut_never_ends_below_the_log_start_unless_it_was_asked_to() {
    let format = Format {
        magic: 2,
        codec: Codec::None,
        inner: Inner::Absolute,
    };
    let config = tiny(format, 3);
    let disk = SimDisk::new();
    let written = write(&disk, &config, format, 7, 3);
    let disk = settled(&disk);
    for start in 0..written.end {
        for target in 0..written.end {
            let context = format!("start {start} to {target}");
            let disk = settled(&disk);
            let store = Store::open(&disk, &config).unwrap();
            store.log.delete_records(offset(start)).unwrap();
            store.log.retain(NOW).unwrap();

            let cut = store.log.truncate_to(offset(target), ALLOWED, NOW).unwrap();

            let first = store.log.segments()[0].0.get();
            let end = cut.log_end_offset.get();
            let aligned = written.aligned(target).max(start.min(target));
            assert_eq!(end, aligned, "{context}");
            assert_eq!(store.log.log_end_offset(), offset(end), "{context}");
            let new_start = store.log.log_start_offset();
            assert_eq!(new_start, offset(start.min(end)), "{context}");
            assert!(first <= end, "{context}");
            drop(store);
            let disk = disk.crash(&CrashPlan::LoseAll);
            let store = Store::open(&disk, &config).unwrap();
            // Behind a batch that could not be cut in two the log ends lower.
            assert!(store.log.log_end_offset() <= offset(end), "{context}");
            assert!(store.log.log_start_offset() <= new_start, "{context}");
            assert!(
                store.report.as_ref().unwrap().damage.is_empty(),
                "{context}"
            );
        }
    }
}

/// Cuts the power at every call of every truncation, and tries every way in which the disk may come
/// back.
fn cut_power(format: Format, randoms: u64) -> u64 {
    let (units, records) = (5, 2);
    let config = tiny(format, records);
    let disk = SimDisk::new();
    let written = write(&disk, &config, format, units, records);
    let base_disk = settled(&disk);
    let mut opened = 0;
    for target in 0..written.end {
        let end = written.aligned(target);
        for call in 1.. {
            let disk = settled(&base_disk);
            let store = Store::open(&disk, &config).unwrap();
            disk.power_cut_at(disk.calls() + call);
            let outcome = store.log.truncate_to(offset(target), ALLOWED, NOW);
            drop(store);
            let pending = disk.pending_ops().len();
            let random = (0..randoms).map(|seed| CrashPlan::Random { seed });
            let randoms_if_any = random.filter(|_| pending > 0);
            let plans = CrashPlan::enumerate(pending).chain(randoms_if_any);
            for plan in plans {
                let context = format!("{format:?} to {target}, power cut at call {call}, {plan:?}");
                let after = disk.crash(&plan);
                check_prefix(
                    &after,
                    &config,
                    &written,
                    end,
                    outcome.is_ok(),
                    format,
                    &context,
                );
                opened += 1;
            }
            if outcome.is_ok() {
                break;
            }
        }
    }
    opened
}

fn check_prefix(
    disk: &SimDisk,
    config: &LogConfig,
    written: &Written,
    end: i64,
    done: bool,
    format: Format,
    context: &str,
) {
    let store = Store::open(disk, config).unwrap_or_else(|e| panic!("{context}: {e}"));
    let report = store.report.as_ref().unwrap();
    assert!(report.damage.is_empty(), "{context}: {:?}", report.damage);
    let found = store.log.log_end_offset().get();
    assert!(found >= end, "{context}: ends at {found}, below {end}");
    assert!(
        found <= written.end,
        "{context}: ends at {found}, above {}",
        written.end
    );
    if done {
        assert_eq!(found, end, "{context}: what was cut came back");
    }
    assert_eq!(
        written.aligned(found),
        found,
        "{context}: ends inside a batch"
    );
    check_end(&store, disk, written, found, context);
    check_epochs(&store, written, found, format, context);
    append_at(&store, found, context);
    drop(store);
    let disk = disk.crash(&CrashPlan::LoseAll);
    let store = Store::open(&disk, config).unwrap();
    assert_eq!(
        store.log.log_end_offset(),
        offset(found + 2),
        "{context}: after the append"
    );
}

#[test]
fn a_power_cut_in_a_truncation_leaves_a_prefix() {
    let codec = Codec::None;
    assert!(
        cut_power(
            Format {
                magic: 2,
                codec,
                inner: Inner::Absolute
            },
            16
        ) > 1_000
    );
}

#[test]
fn a_power_cut_in_a_truncation_of_compressed_batches_leaves_a_prefix() {
    let codec = Codec::Zstd;
    assert!(
        cut_power(
            Format {
                magic: 2,
                codec,
                inner: Inner::Absolute
            },
            4
        ) > 1_000
    );
}

#[test]
fn a_power_cut_in_a_truncation_of_old_formats_leaves_a_prefix() {
    let v0 = Format {
        magic: 0,
        codec: Codec::Gzip,
        inner: Inner::Absolute,
    };
    let v1 = Format {
        magic: 1,
        codec: Codec::Snappy,
        inner: Inner::Relative,
    };
    assert!(cut_power(v0, 4) > 1_000);
    assert!(cut_power(v1, 4) > 1_000);
}

#[test]
#[ignore = "every format under every plan takes minutes"]
fn a_power_cut_in_a_truncation_of_any_format_leaves_a_prefix() {
    for format in formats() {
        assert!(cut_power(format, 16) > 1_000);
    }
}
