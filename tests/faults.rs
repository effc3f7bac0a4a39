//! A disk that fails, and bytes that are wrong: what is refused, what is kept, what is cut and
//! saved, and what goes on being served.
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
    reason = "tests stop at the first surprise, and count descriptors with std"
)]

mod common;

use common::*;
use highwater::error::{Error, ErrorKind};
use highwater::log::{Decision, Durability, Isolation, LogConfig, OpenReport, Row};
use highwater::record::Codec;
use highwater::storage::OsDir;
use highwater::storage::sim::{CrashPlan, Fault, FaultKind, FaultOn, SimDisk};

const FIRST: &str = "00000000000000000000.log";

fn append(store: &Store, durability: Durability) -> Result<i64, Error> {
    let mut bytes = batch(Codec::None, 0, 0, 2);
    let appended = store
        .log
        .append_as_leader(&mut bytes, epoch(1), NOW, durability)?;
    Ok(appended.first_offset.unwrap().get())
}

fn small() -> LogConfig {
    LogConfig::default()
        .segment_bytes(500)
        .index_interval_bytes(1)
}

/// Whole batches from `from` on, as far as they can be read.
fn readable(store: &Store, from: i64) -> Vec<u8> {
    let mut next = offset(from);
    let mut bytes = Vec::new();
    while let Ok(fetched) = store.log.read(next, 1_000, Isolation::LogEnd) {
        let Some(behind) = fetched.next_offset() else {
            break;
        };
        bytes.extend_from_slice(fetched.bytes());
        next = behind;
    }
    bytes
}

#[test]
fn an_append_without_room_leaves_nothing_and_the_next_one_goes_on() {
    for on in [FaultOn::Write, FaultOn::Create, FaultOn::Rename] {
        for nth in 1..8 {
            let disk = SimDisk::new();
            let store = Store::create(&disk, &small()).unwrap();
            append(&store, Durability::Synced).unwrap();
            disk.fail(Fault::new(on, nth, FaultKind::NoSpace));
            let mut failed = false;
            let mut end = 2;
            for _ in 0..9 {
                match append(&store, Durability::Synced) {
                    Ok(first) => {
                        assert_eq!(first, end, "{on:?} {nth}");
                        end += 2;
                    }
                    Err(error) => {
                        let context = format!("{on:?} {nth}: {error}");
                        assert_eq!(error.kind(), ErrorKind::NoSpace, "{context}");
                        failed = true;
                        assert_eq!(store.log.log_end_offset(), offset(end), "{context}");
                    }
                }
            }
            disk.clear_faults();
            let context = format!("{on:?} {nth}, failed {failed}");
            assert_eq!(
                append(&store, Durability::Synced).unwrap(),
                end,
                "{context}"
            );
            let bytes = readable(&store, 0);
            assert!(bytes == log_bytes(&disk), "{context}");
            drop(store);
            let disk = disk.crash(&CrashPlan::LoseAll);
            let store = Store::open(&disk, &small()).unwrap();
            assert_eq!(store.log.log_end_offset(), offset(end + 2), "{context}");
            assert!(readable(&store, 0) == bytes, "{context}");
        }
    }
}

#[test]
fn a_failed_write_leaves_no_bytes_that_are_seen_later() {
    for on in [
        FaultOn::Write,
        FaultOn::Sync,
        FaultOn::DirSync,
        FaultOn::Create,
        FaultOn::Rename,
    ] {
        for nth in 1..8 {
            let disk = SimDisk::new();
            let store = Store::create(&disk, &small()).unwrap();
            append(&store, Durability::Synced).unwrap();
            disk.fail(Fault::new(on, nth, FaultKind::Io));
            let mut promised = 2;
            let failure = loop {
                if promised > 40 {
                    break None;
                }
                match append(&store, Durability::Synced) {
                    Ok(_) => promised += 2,
                    Err(error) => break Some(error),
                }
            };
            let context = format!("{on:?} {nth}: {failure:?}");
            if failure.is_none() {
                assert_ne!(on, FaultOn::Write, "{context}");
                continue;
            }
            let refused = append(&store, Durability::Written).unwrap_err();
            assert_eq!(refused.kind(), ErrorKind::Offline, "{context}");
            let bytes = readable(&store, 0);
            let seen = parse(&bytes).last().map_or(0, |batch| batch.1 + 1);
            assert!(
                seen == promised,
                "{context}: readers see {seen}, {promised} was promised"
            );
            drop(store);
            disk.clear_faults();
            let store = Store::open(&disk, &small()).unwrap();
            assert!(store.log.log_end_offset() >= offset(promised), "{context}");
            assert!(readable(&store, 0).starts_with(&bytes), "{context}");
            append(&store, Durability::Synced).unwrap_or_else(|e| panic!("{context}: {e}"));
        }
    }
}

/// Eight batches of two records in three segments, closed or not, recovery point at `checkpointed`.
fn written(checkpointed: bool) -> SimDisk {
    let disk = SimDisk::new();
    let store = Store::create(&disk, &small()).unwrap();
    for _ in 0..8 {
        append(&store, Durability::Synced).unwrap();
    }
    if checkpointed {
        store.log.flush().unwrap();
        store.dir.checkpoint().unwrap();
    }
    drop(store);
    settled(&disk)
}

fn damage(disk: &SimDisk, name: &str, change: impl FnOnce(&mut Vec<u8>)) {
    let dir = inside(disk);
    let mut bytes = read_all(&dir, name);
    change(&mut bytes);
    put(&dir, name, &bytes);
}

fn report(store: &Store) -> &OpenReport {
    store.report.as_ref().unwrap()
}

#[test]
fn a_bad_byte_below_the_recovery_point_is_kept_and_the_rest_is_served() {
    let pristine = written(true);
    let names = names_ending(&inside(&pristine), ".log");
    for name in &names {
        let length = read_all(&inside(&pristine), name).len();
        for at in (0..length).step_by(7) {
            let disk = settled(&pristine);
            damage(&disk, name, |bytes| bytes[at] ^= 0x40);
            let before = log_bytes(&disk);
            // Only a full scan finds what lies below the recovery point; a read finds it alone.
            let context = format!("{name} byte {at}");
            let scope = highwater::log::RecoveryScope::Everything;
            let options = options(&small()).scope(scope);
            let (dir, found) = highwater::log_dir::LogDir::open_in(disk.root(), options).unwrap();
            let report = found.logs[0].1.as_ref().unwrap();
            assert!(log_bytes(&disk) == before, "{context}: bytes changed");
            assert!(report.cut.is_none(), "{context}: {:?}", report.cut);
            if report.damage.is_empty() {
                // The leader epoch of a batch and a base offset that leaves a hole are in no
                // checksum.
                continue;
            }
            assert_eq!(report.decision, Decision::Degrade, "{context}");
            let log = dir.log(&partition()).unwrap();
            let place = &report.damage[0];
            let error = log
                .read(place.first_offset, 1, Isolation::LogEnd)
                .unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Damaged, "{context}: {error}");
            let mut bytes = batch(Codec::None, 0, 0, 1);
            let refused = log.append_as_leader(&mut bytes, epoch(9), NOW, Durability::Written);
            assert_eq!(refused.unwrap_err().kind(), ErrorKind::Damaged, "{context}");
            let place = report.damage.last().unwrap();
            // Where the length itself is damaged the way on is an index entry.
            let behind = place.end_offset.get()..log.log_end_offset().get();
            let is_served = |at: i64| log.read(offset(at), 1, Isolation::LogEnd).is_ok();
            assert!(
                behind.is_empty() || behind.clone().any(is_served),
                "{context}: {place:?}"
            );
        }
    }
}

#[test]
fn a_wrong_leader_epoch_below_the_recovery_point_is_one_batch_of_damage() {
    let pristine = written(true);
    let whole = parse(&log_bytes(&pristine));
    for name in names_ending(&inside(&pristine), ".log") {
        let lengths = parse(&read_all(&inside(&pristine), &name));
        let mut at = 0;
        for (_, _, _, bytes) in &lengths {
            let disk = settled(&pristine);
            // The highest byte but the sign: in no checksum.
            damage(&disk, &name, |log| log[at + 13] ^= 0x40);
            at += bytes.len();
            let scope = highwater::log::RecoveryScope::Everything;
            let options = options(&small()).scope(scope);

            let (dir, found) = highwater::log_dir::LogDir::open_in(disk.root(), options).unwrap();

            let report = found.logs[0].1.as_ref().unwrap();
            let log = dir.log(&partition()).unwrap();
            let unreadable = whole
                .iter()
                .filter(|batch| log.read(offset(batch.0), 1, Isolation::LogEnd).is_err());
            let is_last = name == *names_ending(&inside(&pristine), ".log").last().unwrap()
                && at == read_all(&inside(&pristine), &name).len();
            // The last batch has no neighbour behind it.
            let odd = usize::from(!is_last);
            assert_eq!((report.damage.len(), unreadable.count()), (odd, odd));
            assert!(report.cut.is_none());
        }
    }
}

#[test]
fn a_bad_byte_above_the_recovery_point_is_cut_saved_and_reported() {
    let pristine = written(false);
    let names = names_ending(&inside(&pristine), ".log");
    for name in &names {
        let length = read_all(&inside(&pristine), name).len();
        for at in (0..length).step_by(7) {
            let disk = settled(&pristine);
            damage(&disk, name, |bytes| bytes[at] ^= 0x40);
            let before = log_bytes(&disk);
            let context = format!("{name} byte {at}");

            let store = Store::open(&disk, &small()).unwrap();

            let report = report(&store);
            assert!(report.damage.is_empty(), "{context}: {:?}", report.damage);
            let Some(cut) = &report.cut else { continue };
            let kept = log_bytes(&disk);
            let saved: Vec<u8> = cut
                .saved_to
                .iter()
                .flat_map(|name| read_all(&inside(&disk), name))
                .collect();
            assert!(
                [kept, saved].concat() == before,
                "{context}: bytes are lost"
            );
            let end = store.log.log_end_offset();
            assert_eq!(cut.offset, end, "{context}");
            let mut bytes = batch(Codec::None, 0, 0, 1);
            let appended =
                store
                    .log
                    .append_as_leader(&mut bytes, epoch(i32::MAX), NOW, Durability::Synced);
            let first = appended
                .unwrap_or_else(|e| panic!("{context}: {e}"))
                .first_offset;
            assert_eq!(first, Some(end), "{context}");
        }
    }
}

#[test]
fn a_zero_tail_is_cut_and_not_saved() {
    for bytes in [1, 17, 61, 5_000] {
        let disk = written(false);
        let name = names_ending(&inside(&disk), ".log").pop().unwrap();
        let before = log_bytes(&disk);
        damage(&disk, &name, |log| log.resize(log.len() + bytes, 0));

        let store = Store::open(&disk, &small()).unwrap();

        let cut = report(&store).cut.as_ref().expect("a cut");
        assert_eq!((cut.row, cut.saved_to.len()), (Row::C, 0), "{bytes}");
        assert!(log_bytes(&disk) == before, "{bytes}");
    }
}

#[test]
fn stale_batches_and_older_epochs_end_the_log() {
    for (tail, row) in [
        (batch(Codec::None, 4, 1, 2), Row::H),
        (batch(Codec::None, 16, 0, 2), Row::G),
        (batch(Codec::None, 20, 0, 2), Row::G),
    ] {
        let disk = written(false);
        let name = names_ending(&inside(&disk), ".log").pop().unwrap();
        let before = log_bytes(&disk);
        damage(&disk, &name, |log| log.extend(&tail));

        let store = Store::open(&disk, &small()).unwrap();

        let cut = report(&store).cut.as_ref().expect("a cut");
        assert_eq!(cut.row, row);
        assert!(log_bytes(&disk) == before, "{row:?}");
        assert!(
            read_all(&inside(&disk), &cut.saved_to[0]) == tail,
            "{row:?}"
        );
        assert_eq!(store.log.log_end_offset(), offset(16));
    }
}

#[test]
fn random_bytes_as_a_segment_are_saved_whole() {
    let mut rng = Rng::seeded(3);
    for length in [1, 16, 17, 18, 61, 62, 400, 70_000] {
        let bytes = rng.bytes(length);
        let disk = SimDisk::new();
        let store = Store::create(&disk, &small()).unwrap();
        drop(store);
        put(&inside(&disk), FIRST, &bytes);

        let store = Store::open(&disk, &small()).unwrap();

        let cut = report(&store).cut.as_ref().expect("a cut");
        let saved: Vec<u8> = cut
            .saved_to
            .iter()
            .flat_map(|name| read_all(&inside(&disk), name))
            .collect();
        assert!(saved == bytes, "{length}");
        assert_eq!(append(&store, Durability::Synced).unwrap(), 0);
    }
}

#[test]
fn a_length_of_two_gibibytes_is_a_torn_tail() {
    let disk = written(false);
    let name = names_ending(&inside(&disk), ".log").pop().unwrap();
    let mut tail = batch(Codec::None, 16, 1, 2);
    tail[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    damage(&disk, &name, |log| log.extend(&tail));

    let store = Store::open(&disk, &small()).unwrap();

    let cut = report(&store).cut.as_ref().expect("a cut");
    assert_eq!(cut.row, Row::D);
    assert_eq!(append(&store, Durability::Synced).unwrap(), 16);
}

#[test]
fn missing_and_wrong_indexes_are_made_anew() {
    let pristine = written(true);
    let dir = inside(&pristine);
    let indexes = [
        names_ending(&dir, ".index"),
        names_ending(&dir, ".timeindex"),
    ]
    .concat();
    let wanted = log_bytes(&pristine);
    for name in &indexes {
        for change in 0..5 {
            let disk = settled(&pristine);
            let dir = inside(&disk);
            let old = read_all(&dir, name);
            let context = format!("{name} change {change}");
            match change {
                0 => highwater::storage::Dir::remove(&dir, name).unwrap(),
                1 => put(&dir, name, &[]),
                2 => put(&dir, name, &[0xff; 60]),
                3 => put(&dir, name, &[&old[..], &[0; 4_096]].concat()),
                _ => put(&dir, name, &[&old[..], &[7; 5]].concat()),
            }
            let store = Store::open(&disk, &small()).unwrap();
            assert!(report(&store).damage.is_empty(), "{context}");
            assert!(log_bytes(&disk) == wanted, "{context}");
            assert!(readable(&store, 0) == wanted, "{context}");
            for at in 0..16 {
                let fetched = store.log.read(offset(at), 1, Isolation::LogEnd);
                let fetched = fetched.unwrap_or_else(|e| panic!("{context} at {at}: {e}"));
                assert_eq!(parse(fetched.bytes())[0].0, at / 2 * 2, "{context}");
            }
            append(&store, Durability::Synced).unwrap();
            store.dir.close().unwrap();
        }
    }
}

#[test]
fn a_missing_or_malformed_epoch_file_is_rebuilt_from_all_batches() {
    for content in [
        None,
        Some(&b""[..]),
        Some(b"0\n"),
        Some(b"1\n1\n0 0\n"),
        Some(b"\xff\xfe"),
    ] {
        let disk = written(true);
        let dir = inside(&disk);
        match content {
            None => highwater::storage::Dir::remove(&dir, "leader-epoch-checkpoint").unwrap(),
            Some(bytes) => put(&dir, "leader-epoch-checkpoint", bytes),
        }
        let store = Store::open(&disk, &small()).unwrap();
        let epochs: Vec<_> = store.log.epochs();
        assert_eq!(epochs.len(), 1, "{content:?}");
        assert_eq!(
            (epochs[0].epoch, epochs[0].start_offset),
            (epoch(1), offset(0))
        );
        assert_eq!(append(&store, Durability::Synced).unwrap(), 16);
    }
}

#[test]
fn leftovers_go_and_unknown_files_stay() {
    let disk = written(true);
    let dir = inside(&disk);
    let gone = [
        "00000000000000000099.log.cleaned",
        "00000000000000000099.index.cleaned",
        "00000000000000000003.log.deleted",
        "00000000000000000003.timeindex.deleted",
        "00000000000000000777.index",
        "00000000000000000777.timeindex",
        "leader-epoch-checkpoint.tmp",
    ];
    let stay = ["notes.txt", "something.tmp", "partition.metadata"];
    for name in gone.iter().chain(&stay) {
        put(
            &dir,
            name,
            b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ\n",
        );
    }
    let wanted = log_bytes(&disk);

    let store = Store::open(&disk, &small()).unwrap();

    let left = files(&dir);
    for name in gone {
        assert!(!left.iter().any(|left| left == name), "{name}");
    }
    for name in stay {
        assert!(left.iter().any(|left| left == name), "{name}");
    }
    assert!(log_bytes(&disk) == wanted);
    assert_eq!(append(&store, Durability::Synced).unwrap(), 16);
}

#[test]
fn ten_thousand_segments_hold_few_descriptors() {
    let temporary = tempfile::tempdir().unwrap();
    let inside = temporary.path().join("t-0");
    std::fs::create_dir(&inside).unwrap();
    for base in 0..10_000 {
        let file = |extension| inside.join(format!("{base:020}.{extension}"));
        std::fs::write(file("log"), batch(Codec::None, base, 0, 1)).unwrap();
        std::fs::write(file("index"), []).unwrap();
        let entry = [&(1_000 + base).to_be_bytes()[..], &[0; 4]].concat();
        std::fs::write(file("timeindex"), entry).unwrap();
    }
    // Closed cleanly: recovery would sync each of them.
    let checkpoint = temporary.path().join("recovery-point-offset-checkpoint");
    std::fs::write(checkpoint, "0\n1\nt 0 10000\n").unwrap();
    let marker = temporary.path().join(".kafka_cleanshutdown");
    std::fs::write(marker, r#"{"version":0,"brokerEpoch":-1}"#).unwrap();
    let count = || std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
    let before = count();
    let dir = OsDir::open(temporary.path()).unwrap();

    let (dir, report) = highwater::log_dir::LogDir::open_in(dir, options(&small())).unwrap();

    assert!(report.logs[0].1.is_ok());
    let log = dir.log(&partition()).unwrap();
    assert_eq!(log.segments().len(), 10_000);
    // Other tests of this binary run on the simulated disk.
    assert!(count() < before + 16, "{before}, then {}", count());
    for at in 0..10_000 {
        log.read(offset(at), 1, Isolation::LogEnd).unwrap();
    }
    // A quarter of what the process may have, and never more than this.
    assert!(count() < before + 2048 + 64, "{before}, then {}", count());
}
