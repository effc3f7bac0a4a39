//! Readers, writers and watchers of one log at the same time. Nothing here waits on a clock: each
//! thread does a bounded amount of work.
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

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::*;
use highwater::error::ErrorKind;
use highwater::log::{Durability, Fetched, Isolation, LogConfig, TruncateOptions, Watched};
use highwater::record::Codec;
use highwater::storage::sim::{CrashPlan, SimDisk};

fn config() -> LogConfig {
    LogConfig::default()
        .segment_bytes(600)
        .index_interval_bytes(1)
        .retention(None)
        .retention_bytes(Some(3_000))
}

/// Every byte that a reader gets is that of a whole batch which stood at that offset at some time.
#[test]
fn readers_see_whole_batches_while_the_log_grows_and_shrinks() {
    let disk = SimDisk::new();
    let store = Store::create(&disk, &config()).unwrap();
    let log = &store.log;
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for reader in 0..3 {
            let done = &done;
            scope.spawn(move || {
                let mut rng = Rng(reader);
                let mut fetched = Fetched::default();
                let mut next = log.log_start_offset();
                let mut rounds = 0;
                while !done.load(Ordering::Relaxed) || rounds < 100 {
                    rounds += 1;
                    let read = log.read_into(next, 500, true, Isolation::LogEnd, &mut fetched);
                    match read {
                        Ok(()) => {}
                        Err(error) if error.kind() == ErrorKind::OffsetOutOfRange => {
                            next = log.log_start_offset();
                            continue;
                        }
                        Err(error) => panic!("{error}"),
                    }
                    for (base, last, leader_epoch, bytes) in parse(fetched.bytes()) {
                        let wanted = batch(Codec::None, base, leader_epoch, last - base + 1);
                        assert!(bytes == wanted, "a batch at {base} that nobody wrote");
                        assert!(last >= next.get());
                    }
                    let start = log.log_start_offset();
                    next = fetched.next_offset().unwrap_or(start);
                    if rng.below(10) == 0 {
                        next = start;
                    }
                }
            });
        }
        let mut rng = Rng(99);
        let mut leader_epoch = 0;
        for _ in 0..3_000 {
            let end = log.log_end_offset().get();
            match rng.below(20) {
                0 => {
                    log.roll(NOW).unwrap();
                }
                1 => {
                    let options = TruncateOptions {
                        below_high_watermark: true,
                    };
                    let to = offset((end - 3).max(log.log_start_offset().get()));
                    log.truncate_to(to, options, NOW).unwrap();
                    leader_epoch += 1;
                }
                2 => {
                    log.update_high_watermark(offset(end));
                    log.retain(NOW).unwrap();
                }
                _ => {
                    let bytes = batch(Codec::None, end, leader_epoch, 1 + rng.below(3));
                    let written = Durability::Written;
                    log.append_as_follower(&bytes, epoch(leader_epoch), NOW, written)
                        .unwrap();
                }
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn synced_appends_of_sixteen_threads_survive_a_power_cut() {
    let disk = SimDisk::new();
    let store = Store::create(&disk, &config()).unwrap();
    let log = &store.log;
    let watcher = log.watch(Watched::Flushed);
    std::thread::scope(|scope| {
        for _ in 0..16 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let mut bytes = batch(Codec::None, 0, 0, 2);
                    let synced = Durability::Synced;
                    let appended = log
                        .append_as_leader(&mut bytes, epoch(0), NOW, synced)
                        .unwrap();
                    assert!(log.recovery_point() >= appended.log_end_offset);
                }
            });
        }
    });
    assert_eq!(watcher.current(), offset(1_600));
    drop(store);
    let disk = disk.crash(&CrashPlan::LoseAll);
    let store = Store::open(&disk, &config()).unwrap();
    assert_eq!(store.log.log_end_offset(), offset(1_600));
    let mut next = 0;
    for (base, last, _, _) in parse(&log_bytes(&disk)) {
        assert_eq!(base, next);
        next = last + 1;
    }
}

#[test]
fn a_watcher_wakes_for_what_it_waits_for() {
    let disk = SimDisk::new();
    let store = Store::create(&disk, &config()).unwrap();
    let log = &store.log;
    let ever = Duration::from_secs(60);
    std::thread::scope(|scope| {
        let mut waiting = Vec::new();
        for watched in [Watched::LogEnd, Watched::Flushed, Watched::HighWatermark] {
            let watcher = log.watch(watched);
            waiting.push(scope.spawn(move || {
                let mut seen = offset(0);
                while let Some(value) = watcher.wait_above(seen, ever) {
                    assert!(value > seen);
                    seen = value;
                }
                seen
            }));
        }
        for _ in 0..200 {
            let mut bytes = batch(Codec::None, 0, 0, 1);
            let synced = Durability::Synced;
            let appended = log
                .append_as_leader(&mut bytes, epoch(0), NOW, synced)
                .unwrap();
            log.maybe_increment_high_watermark(appended.log_end_offset)
                .unwrap();
        }
        log.close().unwrap();
        for waiter in waiting {
            assert_eq!(waiter.join().unwrap(), offset(200));
        }
    });
    assert_eq!(
        log.watch(Watched::LogEnd).wait_above(offset(200), ever),
        None
    );
}
