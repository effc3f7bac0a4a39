//! What the simulated disk loses, keeps and refuses.

use std::collections::BTreeSet;
use std::io::ErrorKind;

use highwater::storage::sim::{CrashPlan, Fate, Fault, FaultKind, FaultOn, SimDisk};
use highwater::storage::{Access, Barrier, Dir, File, read_file, replace_file};

use crate::{content, durable_file};

fn after(disk: &SimDisk, plan: CrashPlan, name: &str) -> Option<Vec<u8>> {
    read_file(&disk.crash(&plan).root(), name, 1 << 20).unwrap()
}

/// The place of the first pending operation that prints like this.
fn op(disk: &SimDisk, text: &str) -> usize {
    let ops = disk.pending_ops();
    let found = ops.iter().find(|op| op.to_string().contains(text));
    found
        .unwrap_or_else(|| panic!("no {text} in {ops:?}"))
        .index
}

#[test]
fn unsynced_data_is_lost_and_synced_data_stays() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", b"synced");

    file.write_all_at(b" and not", 6).unwrap();

    assert_eq!(after(&disk, CrashPlan::LoseAll, "a").unwrap(), b"synced");
    assert_eq!(
        after(&disk, CrashPlan::KeepAll, "a").unwrap(),
        b"synced and not"
    );
    assert_eq!(
        content(&file),
        b"synced and not",
        "the disk itself is not changed by a plan"
    );
}

#[test]
fn length_and_bytes_are_lost_apart() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", b"1234");
    file.write_all_at(b"5678", 4).unwrap();

    let only_length = CrashPlan::KeepOnly(op(&disk, "grow a to 8"));
    let only_bytes = CrashPlan::KeepOnly(op(&disk, "write a 4..8"));

    assert_eq!(after(&disk, only_length, "a").unwrap(), b"1234\0\0\0\0");
    assert_eq!(after(&disk, only_bytes, "a").unwrap(), b"1234");
    // What lay behind the lost end does not come back when the file grows.
    let crashed = disk
        .crash(&only_bytes)
        .root()
        .open("a", Access::Write)
        .unwrap();
    crashed.set_len(8).unwrap();
    assert_eq!(content(&crashed), b"1234\0\0\0\0");
}

#[test]
fn a_name_is_lost_without_a_sync_of_its_directory() {
    let disk = SimDisk::new();
    let file = disk.root().create_new("a").unwrap();
    file.write_all_at(b"x", 0).unwrap();
    file.sync_all().unwrap();
    let inner = disk.root().create_subdir("d").unwrap();
    durable_file(&inner, "b", b"y");

    assert!(
        disk.crash(&CrashPlan::LoseAll)
            .root()
            .list()
            .unwrap()
            .is_empty()
    );
    disk.root().sync().unwrap();
    let root = disk.crash(&CrashPlan::LoseAll).root();
    assert_eq!(read_file(&root, "a", 9).unwrap().unwrap(), b"x");
    assert_eq!(
        read_file(&root.subdir("d").unwrap(), "b", 9)
            .unwrap()
            .unwrap(),
        b"y"
    );
}

#[test]
fn a_name_is_durable_before_the_content_if_nobody_orders_them() {
    let disk = SimDisk::new();
    durable_file(&disk.root(), "a", b"old");
    let file = disk.root().create_new("a.tmp").unwrap();
    file.write_all_at(b"new", 0).unwrap();
    disk.root().rename("a.tmp", "a").unwrap();

    let only_rename = CrashPlan::KeepOnly(op(&disk, "rename a.tmp to a"));

    assert_eq!(after(&disk, only_rename, "a").unwrap(), b"");
    assert_eq!(after(&disk, CrashPlan::LoseAll, "a").unwrap(), b"old");
}

#[test]
fn removal_and_rename_of_a_directory_can_be_undone() {
    let disk = SimDisk::new();
    durable_file(&disk.root(), "a", b"x");
    durable_file(&disk.root().create_subdir("d").unwrap(), "b", b"y");
    disk.root().sync().unwrap();
    disk.root().remove("a").unwrap();
    disk.root().rename("d", "d-delete").unwrap();
    disk.root().remove_subdir("d-delete").unwrap();

    let root = disk.crash(&CrashPlan::LoseAll).root();
    assert_eq!(read_file(&root, "a", 9).unwrap().unwrap(), b"x");
    assert_eq!(
        read_file(&root.subdir("d").unwrap(), "b", 9)
            .unwrap()
            .unwrap(),
        b"y"
    );
    let plan = CrashPlan::KeepOnly(op(&disk, "rename d to d-delete"));
    assert_eq!(disk.crash(&plan).root().list().unwrap()[1].name, "d-delete");
    assert!(
        disk.crash(&CrashPlan::KeepAll)
            .root()
            .list()
            .unwrap()
            .is_empty()
    );
}

/// Row 10 of the fault model: an older, longer end comes back behind newer bytes.
#[test]
fn a_truncation_can_be_undone() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", &[b'o'; 1200]);
    file.set_len(100).unwrap();
    file.write_all_at(&[b'n'; 50], 100).unwrap();

    let found = after(&disk, CrashPlan::LoseOnly(op(&disk, "cut a to 100")), "a").unwrap();

    assert_eq!(found.len(), 1200);
    assert_eq!(found[100..150], [b'n'; 50]);
    assert_eq!(found[512..], [b'o'; 688]);
    file.sync_data().unwrap();
    assert_eq!(after(&disk, CrashPlan::LoseAll, "a").unwrap().len(), 150);
}

#[test]
fn random_plans_tear_sectors_in_every_way_and_spare_durable_neighbours() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", &[b'o'; 1024]);
    file.write_all_at(&[b'n'; 300], 100).unwrap();
    let mut seen = BTreeSet::new();

    for seed in 0..400 {
        let plan = CrashPlan::Random { seed };
        let found = after(&disk, plan, "a").unwrap();
        assert_eq!(
            found,
            after(&disk, plan, "a").unwrap(),
            "seed {seed} is deterministic"
        );
        assert!(found[..100].iter().all(|byte| *byte == b'o'));
        assert!(found[400..].iter().all(|byte| *byte == b'o'));
        let part = &found[100..400];
        seen.insert(match (part[0], part[299]) {
            (b'o', b'o') => "old",
            (b'n', b'n') => "new",
            (b'n', b'o') => "left",
            (b'o', b'n') => "right",
            (0, 0) => "zero",
            _ => "garbage",
        });
    }

    assert_eq!(
        seen,
        BTreeSet::from(["garbage", "left", "new", "old", "right", "zero"])
    );
}

/// Row 11: the second sync lies, reads show the bytes, the device never had them.
#[test]
fn a_sync_that_fails_once_marks_lost_pages_clean() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", b"old bytes");
    file.write_all_at(b"new", 0).unwrap();
    disk.fail(Fault::new(FaultOn::Sync, 1, FaultKind::LostPages));

    assert!(file.sync_data().is_err());
    file.sync_data().unwrap();

    assert_eq!(content(&file), b"new bytes");
    assert_eq!(after(&disk, CrashPlan::KeepAll, "a").unwrap(), b"old bytes");
    file.evict().unwrap();
    assert_eq!(content(&file), b"old bytes");
}

#[test]
fn evict_keeps_what_is_not_yet_written() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", &[1; 600]);
    file.write_all_at(b"dirty", 500).unwrap();
    file.set_len(550).unwrap();
    let before = content(&file);

    file.evict().unwrap();

    assert_eq!(content(&file), before);
}

#[test]
fn faults_hit_the_nth_call_once_or_for_good_and_only_their_names() {
    let disk = SimDisk::new();
    let (log, index) = (
        disk.root().create_new("0.log").unwrap(),
        disk.root().create_new("0.index"),
    );
    let index = index.unwrap();
    disk.fail(Fault::new(FaultOn::Write, 2, FaultKind::NoSpace).on_names_with(".log"));
    disk.fail(Fault::new(FaultOn::Sync, 1, FaultKind::Io).sticky());

    log.write_all_at(b"1", 0).unwrap();
    index.write_all_at(b"1", 0).unwrap();
    assert_eq!(
        log.write_all_at(b"2345", 1).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(content(&log), b"123", "half of a failed write is there");
    log.write_all_at(b"2345", 1).unwrap();
    assert!(log.sync_data().is_err());
    assert!(index.sync_data().is_err());
    disk.clear_faults();
    log.sync_data().unwrap();
}

#[test]
fn a_full_disk_refuses_growth_and_has_room_again_after_a_removal() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(4 * 512));
    let root = disk.root();
    let one = root.create_new("one").unwrap();
    one.preallocate(1024).unwrap();
    let two = root.create_new("two").unwrap();
    assert_eq!(root.free_bytes().unwrap(), 1024);

    assert_eq!(
        two.write_all_at(&[1; 2000], 0).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    assert_eq!(two.bytes().unwrap(), 1024);
    assert_eq!(root.free_bytes().unwrap(), 0);
    one.write_all_at(&[1; 1024], 0).unwrap();
    assert_eq!(
        one.preallocate(4096).unwrap_err().kind(),
        ErrorKind::StorageFull
    );
    root.remove("one").unwrap();
    two.write_all_at(&[1; 2000], 0).unwrap();
}

#[test]
fn a_power_cut_stops_every_call_from_its_number_on() {
    let run = |disk: &SimDisk| -> std::io::Result<()> {
        let file = disk.root().create_new("a")?;
        file.write_all_at(b"x", 0)?;
        file.sync_data()?;
        disk.root().sync()
    };
    let whole = SimDisk::new();
    run(&whole).unwrap();
    assert_eq!(whole.calls(), 4);

    for cut in 1..=whole.calls() {
        let disk = SimDisk::new();
        disk.power_cut_at(cut);
        assert!(run(&disk).is_err());
        assert!(disk.root().list().is_err());
        assert_eq!(after(&disk, CrashPlan::LoseAll, "a"), None);
        run(&disk.crash(&CrashPlan::LoseAll)).unwrap();
    }
}

#[test]
fn a_crash_frees_locks_and_disarms_faults() {
    let disk = SimDisk::new();
    let lock = disk.root().try_lock(".lock").unwrap();
    disk.fail(Fault::new(FaultOn::Create, 1, FaultKind::Io).sticky());

    let crashed = disk.crash(&CrashPlan::KeepAll);

    assert!(crashed.root().try_lock(".lock").unwrap().is_some());
    assert!(lock.is_some());
    assert!(
        disk.root().try_lock(".lock").is_err(),
        "the fault is still armed on the old disk"
    );
}

#[test]
fn a_sparse_giant_costs_no_memory_and_is_not_mapped() {
    let disk = SimDisk::new();
    let file = disk.root().create_new("a").unwrap();

    file.set_len(1 << 50).unwrap();
    file.write_all_at(b"end", (1 << 50) - 3).unwrap();

    assert_eq!(file.map().unwrap_err().kind(), ErrorKind::FileTooLarge);
    let mut buffer = [0; 3];
    file.read_exact_at(&mut buffer, (1 << 50) - 3).unwrap();
    assert_eq!(buffer, *b"end");
}

#[test]
fn transfers_outlast_an_interrupted_and_a_short_call_at_any_place() {
    for kind in [FaultKind::Interrupted, FaultKind::Short] {
        let disk = SimDisk::new();
        let file = durable_file(&disk.root(), "a", b"before");
        disk.fail(Fault::new(FaultOn::Write, 2, kind));
        disk.fail(Fault::new(FaultOn::Read, 1, kind));

        file.write_all_at(b"one", 0).unwrap();
        file.write_all_at(b"three", 3).unwrap();
        let mut bytes = [0; 8];
        file.read_exact_at(&mut bytes, 0).unwrap();

        assert_eq!(bytes, *b"onethree", "{kind:?}");
    }
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", b"");
    disk.fail(Fault::new(FaultOn::Sync, 1, FaultKind::Interrupted));
    assert_eq!(
        file.sync_data().unwrap_err().kind(),
        ErrorKind::Interrupted,
        "a sync is not begun again"
    );
}

#[test]
fn blocks_that_were_set_aside_can_be_lost() {
    let disk = SimDisk::new();
    disk.set_capacity(Some(8 * 512));
    let file = durable_file(&disk.root(), "a", b"x");
    file.reserve(0, 2048).unwrap();
    let free = |disk: &SimDisk| disk.root().free_bytes().unwrap();
    assert_eq!(free(&disk), 4 * 512);

    let lost = disk.crash(&CrashPlan::LoseOnly(op(&disk, "allocate a to 2048")));
    assert_eq!(free(&lost), 7 * 512);
    assert_eq!(free(&disk.crash(&CrashPlan::KeepAll)), 4 * 512);
    file.sync_data().unwrap();
    assert_eq!(free(&disk.crash(&CrashPlan::LoseAll)), 4 * 512);
    assert_eq!(file.bytes().unwrap(), 1, "the length stays");
}

#[test]
fn a_barrier_that_is_ignored_syncs_nothing_and_no_other_does() {
    let disk = SimDisk::new();
    disk.ignore(Some(Barrier::RenameBeforeReturn));
    replace_file(&disk.root(), "a", b"new").unwrap();
    assert_eq!(after(&disk, CrashPlan::LoseAll, "a"), None);

    disk.ignore(None);
    replace_file(&disk.root(), "a", b"newer").unwrap();
    assert_eq!(after(&disk, CrashPlan::LoseAll, "a").unwrap(), b"newer");
}

/// What is recorded once gives the same disks as running it again up to each call.
#[test]
fn a_recording_has_the_disk_of_every_call() {
    let run = |disk: &SimDisk| -> std::io::Result<()> {
        let root = disk.root();
        replace_file(&root, "a", &[7; 700])?;
        let file = root.open("a", Access::Write)?;
        file.set_len(100)?;
        file.preallocate(900)?;
        file.sync_data()?;
        root.rename("a", "b")?;
        root.remove("b")?;
        root.sync()
    };
    let disk = SimDisk::new();
    disk.record();
    run(&disk).unwrap();
    let mut recording = disk.recorded().unwrap();
    assert!(disk.recorded().is_none());

    let mut moments = recording.moments();
    assert!(moments > 8);
    while recording.advance() {
        let cut = SimDisk::new();
        cut.power_cut_at(recording.call() + 1);
        drop(run(&cut));
        assert_eq!(recording.disk().pending_ops(), cut.pending_ops());
        for plan in CrashPlan::enumerate(cut.pending()) {
            let (replayed, run) = (recording.disk().crash(&plan), cut.crash(&plan));
            assert_eq!(replayed.image_hash(), run.image_hash(), "{plan:?}");
        }
        moments -= 1;
        assert_eq!(recording.moments(), moments);
    }
    assert_eq!(moments, 1);
}

#[test]
fn fates_say_what_a_plan_does() {
    let disk = SimDisk::new();
    let file = durable_file(&disk.root(), "a", b"oooo");
    file.write_all_at(b"nnnnnn", 0).unwrap();

    for seed in 0..50 {
        let plan = CrashPlan::Random { seed };
        let by_fates = disk.crash_with(&disk.fates(&plan));
        assert_eq!(disk.crash(&plan).image_hash(), by_fates.image_hash());
    }
    let left = disk.crash_with(&[Fate::Left(2), Fate::Kept]);
    assert_eq!(
        read_file(&left.root(), "a", 9).unwrap().unwrap(),
        b"nnoo\0\0"
    );
    let right = disk.crash_with(&[Fate::Right(2)]);
    assert_eq!(read_file(&right.root(), "a", 9).unwrap().unwrap(), b"oonn");
}

#[test]
fn equal_disks_have_equal_hashes_and_others_have_others() {
    let build = |name: &str, bytes: &[u8]| {
        let disk = SimDisk::new();
        durable_file(&disk.root(), name, bytes);
        disk.image_hash()
    };
    let one = build("a", b"x");

    assert_eq!(one, build("a", b"x"));
    let mut all = BTreeSet::from([one, build("b", b"x"), build("a", b"y"), build("a", b"x\0")]);
    assert_eq!(all.len(), 4);
    // A hole is the zeros that are read there.
    let disk = SimDisk::new();
    durable_file(&disk.root(), "a", b"").set_len(600).unwrap();
    all.insert(disk.image_hash());
    assert_eq!(disk.image_hash(), build("a", &[0; 600]));
    let unsynced = SimDisk::new();
    unsynced
        .root()
        .create_new("a")
        .unwrap()
        .write_all_at(b"x", 0)
        .unwrap();
    assert_eq!(unsynced.image_hash(), one);
    assert_ne!(unsynced.whole_hash(), one, "it is pending");
}

/// A killed process loses nothing, and its locks are free.
#[test]
fn a_kill_keeps_what_is_pending() {
    let disk = SimDisk::new();
    let _lock = disk.root().try_lock(".lock").unwrap().unwrap();
    let file = durable_file(&disk.root(), "a", b"x");
    file.write_all_at(b"y", 0).unwrap();

    let killed = disk.after_kill();

    assert!(killed.root().try_lock(".lock").unwrap().is_some());
    assert_eq!(read_file(&killed.root(), "a", 9).unwrap().unwrap(), b"y");
    assert_eq!(after(&killed, CrashPlan::LoseAll, "a").unwrap(), b"x");
}
