//! `replace_file` under a power cut at every call with every plan: old or new, never a mix.

use std::io::ErrorKind;

use highwater::storage::sim::{CrashPlan, SimDisk};
use highwater::storage::{Dir, File, OsDir, read_file, remove_if_there, replace_file};

use crate::durable_file;

const RANDOM_PLANS: u64 = 200;

fn every_plan(pending: usize) -> impl Iterator<Item = CrashPlan> {
    CrashPlan::enumerate(pending).chain((0..RANDOM_PLANS).map(|seed| CrashPlan::Random { seed }))
}

fn with_old_content(old: &[u8], leftover: bool) -> SimDisk {
    let disk = SimDisk::new();
    durable_file(&disk.root(), "table", old);
    if leftover {
        durable_file(&disk.root(), "table.tmp", b"left over");
    }
    disk
}

#[test]
fn a_power_cut_shows_the_old_or_the_new_content() {
    let (old, new) = (vec![1; 1300], vec![2; 1700]);
    for leftover in [false, true] {
        let whole = with_old_content(&old, leftover);
        let first = whole.calls() + 1;
        replace_file(&whole.root(), "table", &new).unwrap();
        let (mut saw_old, mut saw_new) = (false, false);
        for cut in first..=whole.calls() {
            let disk = with_old_content(&old, leftover);
            disk.power_cut_at(cut);
            replace_file(&disk.root(), "table", &new).unwrap_err();
            for plan in every_plan(disk.pending_ops().len()) {
                let after = disk.crash(&plan).root();
                let found = read_file(&after, "table", 4096).unwrap().unwrap();
                assert!(found == old || found == new, "cut {cut}, {plan:?}");
                saw_old |= found == old;
                saw_new |= found == new;

                replace_file(&after, "table", b"again").unwrap();
                assert_eq!(read_file(&after, "table", 4096).unwrap().unwrap(), b"again");
            }
        }
        assert!(saw_old);
        assert!(saw_new);
    }
}

#[test]
fn once_it_returns_the_new_content_is_durable() {
    let disk = with_old_content(b"old", false);

    replace_file(&disk.root(), "table", b"new").unwrap();

    assert!(disk.pending_ops().is_empty());
    let after = disk.crash(&CrashPlan::LoseAll).root();
    assert_eq!(read_file(&after, "table", 9).unwrap().unwrap(), b"new");
    assert_eq!(after.list().unwrap().len(), 1);
}

/// Without one of its two syncs the protocol loses or tears content, and the plans show it.
#[test]
fn the_simulation_notices_a_missing_step() {
    let new = vec![2; 1700];
    for missing in ["sync", "dir sync"] {
        let disk = with_old_content(b"old", false);
        let dir = disk.root();
        let file = dir.create_new("table.tmp").unwrap();
        file.write_all_at(&new, 0).unwrap();
        if missing != "sync" {
            file.sync_data().unwrap();
        }
        dir.rename("table.tmp", "table").unwrap();
        if missing != "dir sync" {
            dir.sync().unwrap();
        }

        let is_lost = |plan| {
            let found = read_file(&disk.crash(&plan).root(), "table", 4096)
                .unwrap()
                .unwrap();
            found != new
        };
        assert!(
            every_plan(disk.pending_ops().len()).any(is_lost),
            "without {missing}"
        );
    }
}

#[test]
fn read_file_bounds_the_length_and_knows_a_missing_file() {
    let place = tempfile::tempdir().unwrap();
    let dir = OsDir::open(place.path()).unwrap();

    assert_eq!(read_file(&dir, "table", 9).unwrap(), None);
    replace_file(&dir, "table", b"0123456789").unwrap();
    assert_eq!(
        read_file(&dir, "table", 9).unwrap_err().kind(),
        ErrorKind::InvalidData
    );
    assert_eq!(
        read_file(&dir, "table", 10).unwrap().unwrap(),
        b"0123456789"
    );
    replace_file(&dir, "table", b"").unwrap();
    assert_eq!(read_file(&dir, "table", 0).unwrap().unwrap(), b"");
    assert!(remove_if_there(&dir, "table").unwrap());
    assert!(!remove_if_there(&dir, "table").unwrap());
}
