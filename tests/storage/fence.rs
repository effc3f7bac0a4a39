//! One failed change stops all later ones.

use std::io::ErrorKind;

use highwater::error::FencedError;
use highwater::storage::sim::{Fault, FaultKind, FaultOn, SimDir, SimDisk};
use highwater::storage::{Access, Dir, Fenced, File, is_fenced};

use crate::content;

type Change = fn(&Fenced<SimDir>) -> std::io::Result<()>;

/// Each needs the file `f`, the empty files `spare` and `other` and the directory `d`.
const CHANGES: [(FaultOn, Change); 11] = [
    (FaultOn::Write, |dir| {
        dir.open("f", Access::Write)?.write_all_at(b"xy", 0)
    }),
    (FaultOn::SetLen, |dir| {
        dir.open("f", Access::Write)?.set_len(1)
    }),
    (FaultOn::Allocate, |dir| {
        dir.open("f", Access::Write)?.preallocate(9)
    }),
    (FaultOn::Sync, |dir| {
        dir.open("f", Access::Write)?.sync_data()
    }),
    (FaultOn::Sync, |dir| {
        dir.open("f", Access::Write)?.sync_all()
    }),
    (FaultOn::DirSync, |dir| dir.sync()),
    (FaultOn::Create, |dir| dir.create_new("g").map(drop)),
    (FaultOn::Create, |dir| dir.create_subdir("e").map(drop)),
    (FaultOn::Rename, |dir| dir.rename("other", "moved")),
    (FaultOn::Remove, |dir| dir.remove("spare")),
    (FaultOn::Remove, |dir| dir.remove_subdir("d")),
];

fn prepared() -> (SimDisk, Fenced<SimDir>) {
    let disk = SimDisk::new();
    let dir = Fenced::new(disk.root());
    dir.create_new("f")
        .unwrap()
        .write_all_at(b"content", 0)
        .unwrap();
    dir.create_new("spare").unwrap();
    dir.create_new("other").unwrap();
    dir.create_subdir("d").unwrap();
    (disk, dir)
}

#[test]
fn after_any_failed_change_every_change_fails_and_reads_go_on() {
    for (on, fails) in CHANGES {
        let (disk, dir) = prepared();
        let clone = dir.clone();
        let inner = dir.subdir("d").unwrap();
        disk.fail(Fault::new(on, 1, FaultKind::Io));

        let first = fails(&dir).unwrap_err();

        assert!(!is_fenced(&first), "{on:?}");
        assert!(dir.is_fenced(), "{on:?}");
        for (_, change) in CHANGES {
            let later = change(&clone).unwrap_err();
            assert!(is_fenced(&later), "{on:?}: {later}");
        }
        assert!(is_fenced(&inner.create_new("x").unwrap_err()));
        assert_eq!(
            content(&dir.open("f", Access::Read).unwrap())[2..],
            b"content"[2..]
        );
        assert_eq!(dir.list().unwrap().len(), 4);
        assert!(dir.why().unwrap().contains(&first.to_string()));
        // Opening again starts afresh.
        for (_, change) in CHANGES {
            change(&Fenced::new(disk.root())).unwrap();
        }
    }
}

/// Contract C13: a full disk is an error, not damage; the log takes the append back.
#[test]
fn no_room_sets_the_flag_only_where_nothing_can_be_taken_back() {
    for (on, fails) in CHANGES {
        let (disk, dir) = prepared();
        disk.fail(Fault::new(on, 1, FaultKind::NoSpace));

        assert_eq!(fails(&dir).unwrap_err().kind(), ErrorKind::StorageFull);

        let spared = [
            FaultOn::Write,
            FaultOn::Allocate,
            FaultOn::Create,
            FaultOn::Rename,
        ]
        .contains(&on);
        assert_eq!(dir.is_fenced(), !spared, "{on:?}");
    }
}

#[test]
fn a_missing_or_taken_name_is_an_answer() {
    let (disk, dir) = prepared();

    assert_eq!(dir.remove("no").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(
        dir.rename("no", "x").unwrap_err().kind(),
        ErrorKind::NotFound
    );
    assert_eq!(
        dir.create_new("f").unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    assert_eq!(
        dir.create_subdir("d").unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    disk.fail(Fault::new(FaultOn::Create, 1, FaultKind::TooManyOpen));
    assert!(dir.create_new("g").is_err());

    assert!(!dir.is_fenced());
    assert_eq!(dir.why(), None);
}

#[test]
fn the_owner_can_fence_and_the_first_reason_stays() {
    let (_, dir) = prepared();
    let file = dir.open("f", Access::Write).unwrap();

    dir.fence("the append could not be taken back");
    dir.fence("something else");

    let failure = file.sync_data().unwrap_err();
    assert!(FencedError::is_in(&failure));
    let wanted = "nothing is written after an earlier failure: the append could not be taken back";
    assert_eq!(failure.to_string(), wanted);
}

/// The kernel would call the pages clean and a second sync would lie.
#[test]
fn nobody_syncs_twice_after_a_failed_sync() {
    let (disk, dir) = prepared();
    let file = dir.open("f", Access::Write).unwrap();
    disk.fail(Fault::new(FaultOn::Sync, 1, FaultKind::LostPages));
    assert!(file.sync_data().is_err());
    let calls = disk.calls();

    assert!(is_fenced(&file.sync_data().unwrap_err()));

    assert_eq!(
        disk.calls(),
        calls,
        "the second sync did not reach the disk"
    );
}
