//! A real directory for each row of the decision table of recovery.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic_in_result_fn,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    clippy::type_complexity,
    reason = "tests stop at the first surprise"
)]

mod common;

use common::*;
use highwater::log::{Decision, Durability, LogConfig, OpenReport, RecoveryScope};
use highwater::log_dir::LogDir;
use highwater::record::Codec;
use highwater::storage::sim::SimDisk;
use highwater::storage::{Access, Dir, File};

const LOG: &str = "00000000000000000000.log";

/// A log of two synced batches of epoch 5, offsets 0 to 3, that ended in one way or another.
fn written(config: &LogConfig, ends: fn(Store)) -> SimDisk {
    let disk = SimDisk::new();
    let store = Store::create(&disk, config).unwrap();
    for base in [0, 2] {
        let bytes = batch(Codec::None, base, 5, 2);
        store
            .log
            .append_as_follower(&bytes, epoch(5), NOW, Durability::Synced)
            .unwrap();
    }
    ends(store);
    settled(&disk)
}

fn killed(store: Store) {
    drop(store);
}

fn closed(store: Store) {
    store.dir.close().unwrap();
}

fn rolled_and_closed(store: Store) {
    store.log.roll(NOW).unwrap();
    store.dir.close().unwrap();
}

fn append_raw(disk: &SimDisk, bytes: &[u8]) {
    let file = inside(disk).open(LOG, Access::Write).unwrap();
    file.write_all_at(bytes, file.bytes().unwrap()).unwrap();
}

fn cut_to(disk: &SimDisk, bytes: u64) {
    let file = inside(disk).open(LOG, Access::Write).unwrap();
    file.set_len(bytes).unwrap();
}

/// Changes the value of the first record.
fn damage_first(disk: &SimDisk) {
    let file = inside(disk).open(LOG, Access::Write).unwrap();
    file.write_all_at(b"other", 80).unwrap();
}

fn report(disk: &SimDisk, config: &LogConfig, scope: RecoveryScope) -> OpenReport {
    let options = options(config).scope(scope);
    let (_, mut report) = LogDir::open_in(disk.root(), options).unwrap();
    report.logs.swap_remove(0).1.unwrap()
}

/// The row that decided on the log.
fn letter(report: &OpenReport) -> char {
    match (report.damage.first(), &report.cut, report.decision) {
        (Some(damage), ..) => damage.row.letter(),
        (None, Some(cut), _) => cut.row.letter(),
        (None, None, Decision::Trust) => 'B',
        (None, None, _) => 'A',
    }
}

#[test]
fn every_row_is_reached_by_a_directory() {
    let plain = LogConfig::default();
    let roomy = LogConfig::default().segment_bytes(4_096).preallocate(true);
    let whole = u64::try_from(batch(Codec::None, 0, 5, 2).len()).unwrap();
    let cases: [(char, &LogConfig, fn(Store), &dyn Fn(&SimDisk)); 11] = [
        ('A', &plain, killed, &|_| {}),
        ('B', &plain, closed, &|_| {}),
        ('C', &roomy, killed, &|_| {}),
        ('D', &plain, killed, &|disk| cut_to(disk, 2 * whole - 5)),
        ('E', &plain, killed, &|disk| append_raw(disk, &[0xee; 100])),
        ('F', &plain, killed, &damage_first),
        ('G', &plain, killed, &|disk| {
            append_raw(disk, &batch(Codec::None, 4, 3, 1));
        }),
        ('H', &plain, killed, &|disk| {
            append_raw(disk, &batch(Codec::None, 1, 5, 1));
        }),
        ('I', &plain, closed, &damage_first),
        ('K', &plain, rolled_and_closed, &|disk| {
            inside(disk).remove(LOG).unwrap();
        }),
        ('N', &plain, closed, &|disk| cut_to(disk, whole)),
    ];

    for (row, config, ends, harm) in cases {
        let disk = written(config, ends);
        harm(&disk);
        // A scan from the recovery point does not come by what is damaged below it.
        let scope = match row {
            'I' => RecoveryScope::Everything,
            _ => RecoveryScope::FromRecoveryPoint,
        };
        let report = report(&disk, config, scope);
        assert_eq!(letter(&report), row, "{report:?}");
    }
}
