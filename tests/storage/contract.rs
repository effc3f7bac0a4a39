//! What every `Dir` and `File` does; each rule runs on all of them.

use std::io::ErrorKind;

use highwater::storage::sim::SimDisk;
use highwater::storage::{Access, Dir, EntryKind, Fenced, File, OsDir};

use crate::content;

macro_rules! on_every_dir {
    ($($rule:ident),* $(,)?) => {
        mod os {
            $(#[test] fn $rule() {
                let place = tempfile::tempdir().unwrap();
                super::$rule(&super::OsDir::open(place.path()).unwrap());
            })*
        }
        mod sim {
            $(#[test] fn $rule() {
                super::$rule(&super::SimDisk::new().root());
            })*
        }
        mod sim_with_short_transfers {
            $(#[test] fn $rule() {
                let disk = super::SimDisk::new();
                disk.short_transfers(Some(7));
                super::$rule(&disk.root());
            })*
        }
        mod fenced_os {
            $(#[test] fn $rule() {
                let place = tempfile::tempdir().unwrap();
                super::$rule(&super::Fenced::new(super::OsDir::open(place.path()).unwrap()));
            })*
        }
    };
}

on_every_dir!(
    reads_see_writes,
    a_read_past_the_end_is_short_or_an_error,
    a_write_past_the_end_leaves_zeros_between,
    set_len_cuts_and_grows_with_zeros,
    preallocate_grows_and_never_cuts,
    reserve_leaves_length_and_content,
    a_file_opened_for_reading_is_not_written,
    a_taken_name_is_refused,
    a_missing_name_is_not_found,
    a_directory_is_no_file_and_a_file_no_directory,
    list_is_sorted_and_tells_kinds,
    rename_replaces_and_keeps_open_handles,
    rename_keeps_kinds_apart,
    a_removed_file_stays_readable,
    remove_subdir_takes_all_that_is_inside,
    names_of_more_than_one_part_are_refused,
    a_map_shows_the_whole_file,
    a_lock_excludes_a_second_one,
    syncs_and_hints_succeed,
);

fn kind<T>(outcome: std::io::Result<T>) -> ErrorKind {
    outcome.err().map(|failure| failure.kind()).unwrap()
}

fn reads_see_writes(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    let bytes: Vec<u8> = (0..2000_u32)
        .map(|n| u8::try_from(n % 251).unwrap())
        .collect();

    file.write_all_at(&bytes, 0).unwrap();
    file.write_all_at(b"xyz", 510).unwrap();

    let mut wanted = bytes;
    wanted[510..513].copy_from_slice(b"xyz");
    assert_eq!(content(&file), wanted);
    assert_eq!(content(&dir.open("a", Access::Read).unwrap()), wanted);
}

fn a_read_past_the_end_is_short_or_an_error(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    file.write_all_at(b"12345", 0).unwrap();
    let mut buffer = [9; 4];

    assert_eq!(file.read_at_most(&mut buffer, 3).unwrap(), 2);
    assert_eq!(buffer, *b"45\x09\x09");
    assert_eq!(file.read_at_most(&mut buffer, 5).unwrap(), 0);
    assert_eq!(file.read_at_most(&mut buffer, 1 << 40).unwrap(), 0);
    assert_eq!(
        kind(file.read_exact_at(&mut buffer, 2)),
        ErrorKind::UnexpectedEof
    );
    assert_eq!(file.read_at_most(&mut [], 0).unwrap(), 0);
}

fn a_write_past_the_end_leaves_zeros_between(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();

    file.write_all_at(b"ab", 700).unwrap();

    let bytes = content(&file);
    assert_eq!(bytes.len(), 702);
    assert!(bytes[..700].iter().all(|byte| *byte == 0));
    assert_eq!(bytes[700..], *b"ab");
    assert!(file.write_all_at(b"ab", u64::MAX).is_err());
}

fn set_len_cuts_and_grows_with_zeros(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    file.write_all_at(&[7; 1500], 0).unwrap();

    file.set_len(600).unwrap();
    file.set_len(1500).unwrap();

    let bytes = content(&file);
    assert!(bytes[..600].iter().all(|byte| *byte == 7));
    assert!(bytes[600..].iter().all(|byte| *byte == 0));
    assert!(file.set_len(u64::MAX).is_err());
}

fn preallocate_grows_and_never_cuts(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();

    file.preallocate(0).unwrap();
    assert_eq!(file.bytes().unwrap(), 0);
    file.preallocate(10_000).unwrap();
    assert_eq!(file.bytes().unwrap(), 10_000);
    file.preallocate(100).unwrap();
    assert_eq!(file.bytes().unwrap(), 10_000);
    assert!(content(&file).iter().all(|byte| *byte == 0));
}

fn reserve_leaves_length_and_content(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    file.write_all_at(b"abc", 0).unwrap();

    file.reserve(3, 100_000).unwrap();
    assert_eq!(content(&file), b"abc");
    file.write_all_at(b"def", 3).unwrap();
    file.set_len(6).unwrap();
    assert_eq!(content(&file), b"abcdef");
}

fn a_file_opened_for_reading_is_not_written(dir: &impl Dir) {
    dir.create_new("a").unwrap();
    let file = dir.open("a", Access::Read).unwrap();

    assert!(file.write_all_at(b"x", 0).is_err());
    assert_eq!(file.bytes().unwrap(), 0);
}

fn a_taken_name_is_refused(dir: &impl Dir) {
    dir.create_new("a").unwrap();
    dir.create_subdir("d").unwrap();

    for name in ["a", "d"] {
        assert_eq!(kind(dir.create_new(name)), ErrorKind::AlreadyExists);
        assert_eq!(kind(dir.create_subdir(name)), ErrorKind::AlreadyExists);
    }
}

fn a_missing_name_is_not_found(dir: &impl Dir) {
    assert_eq!(kind(dir.open("a", Access::Read)), ErrorKind::NotFound);
    assert_eq!(kind(dir.open("a", Access::Write)), ErrorKind::NotFound);
    assert_eq!(kind(dir.subdir("a")), ErrorKind::NotFound);
    assert_eq!(kind(dir.remove("a")), ErrorKind::NotFound);
    assert_eq!(kind(dir.remove_subdir("a")), ErrorKind::NotFound);
    assert_eq!(kind(dir.rename("a", "b")), ErrorKind::NotFound);
}

fn a_directory_is_no_file_and_a_file_no_directory(dir: &impl Dir) {
    dir.create_new("a").unwrap();
    dir.create_subdir("d").unwrap();

    assert_eq!(kind(dir.subdir("a")), ErrorKind::NotADirectory);
    assert_eq!(kind(dir.remove_subdir("a")), ErrorKind::NotADirectory);
    assert_eq!(kind(dir.open("d", Access::Read)), ErrorKind::IsADirectory);
    assert_eq!(kind(dir.open("d", Access::Write)), ErrorKind::IsADirectory);
    assert!(dir.remove("d").is_err());
    dir.subdir("d").unwrap();
}

fn list_is_sorted_and_tells_kinds(dir: &impl Dir) {
    for name in ["b", "a.log", "c", "A"] {
        dir.create_new(name).unwrap();
    }
    dir.open("b", Access::Write)
        .unwrap()
        .write_all_at(b"12345", 0)
        .unwrap();
    dir.create_subdir("bb")
        .unwrap()
        .create_new("inner")
        .unwrap();

    let lines: Vec<_> = dir
        .list()
        .unwrap()
        .into_iter()
        .map(|e| (e.name, e.kind, e.bytes))
        .collect();

    let file = |name: &str, bytes| (name.to_owned(), EntryKind::File, bytes);
    let wanted = [
        file("A", 0),
        file("a.log", 0),
        file("b", 5),
        ("bb".to_owned(), EntryKind::Dir, 0),
        file("c", 0),
    ];
    assert_eq!(lines, wanted);
}

fn rename_replaces_and_keeps_open_handles(dir: &impl Dir) {
    let one = dir.create_new("one").unwrap();
    one.write_all_at(b"1", 0).unwrap();
    let two = dir.create_new("two").unwrap();
    two.write_all_at(b"22", 0).unwrap();

    dir.rename("one", "two").unwrap();
    dir.rename("two", "two").unwrap();

    assert_eq!(content(&dir.open("two", Access::Read).unwrap()), b"1");
    assert_eq!(content(&two), b"22");
    assert_eq!(content(&one), b"1");
    assert_eq!(kind(dir.open("one", Access::Read)), ErrorKind::NotFound);
}

fn rename_keeps_kinds_apart(dir: &impl Dir) {
    dir.create_new("a").unwrap();
    dir.create_subdir("full").unwrap().create_new("x").unwrap();
    dir.create_subdir("d").unwrap();

    assert_eq!(kind(dir.open("d", Access::Read)), ErrorKind::IsADirectory);
    dir.rename("full", "d").unwrap();
    dir.subdir("d").unwrap().open("x", Access::Read).unwrap();
    assert_eq!(kind(dir.subdir("full")), ErrorKind::NotFound);
}

fn a_removed_file_stays_readable(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    file.write_all_at(b"abc", 0).unwrap();
    let map = file.map().unwrap();

    dir.remove("a").unwrap();

    assert_eq!(content(&file), b"abc");
    assert_eq!(*map, *b"abc");
    assert!(dir.list().unwrap().is_empty());
}

fn remove_subdir_takes_all_that_is_inside(dir: &impl Dir) {
    let inner = dir.create_subdir("d").unwrap();
    inner.create_new("a").unwrap();
    inner.create_subdir("e").unwrap().create_new("b").unwrap();

    dir.remove_subdir("d").unwrap();

    assert!(dir.list().unwrap().is_empty());
    assert_eq!(kind(inner.create_new("late")), ErrorKind::NotFound);
}

fn names_of_more_than_one_part_are_refused(dir: &impl Dir) {
    for name in ["", ".", "..", "a/b", "/a", "a\0"] {
        assert_eq!(kind(dir.create_new(name)), ErrorKind::InvalidInput);
        assert_eq!(kind(dir.open(name, Access::Read)), ErrorKind::InvalidInput);
        assert_eq!(kind(dir.subdir(name)), ErrorKind::InvalidInput);
        assert_eq!(kind(dir.try_lock(name)), ErrorKind::InvalidInput);
    }
    dir.create_new("fresh").unwrap();
}

fn a_map_shows_the_whole_file(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    assert!(file.map().unwrap().is_empty());
    file.write_all_at(&[3; 5000], 0).unwrap();

    let map = dir.open("a", Access::Read).unwrap().map().unwrap();

    assert_eq!(*map, [3; 5000]);
}

fn a_lock_excludes_a_second_one(dir: &impl Dir) {
    let lock = dir.try_lock(".lock").unwrap();
    assert!(lock.is_some());

    assert!(dir.try_lock(".lock").unwrap().is_none());
    assert!(dir.try_lock(".lock").unwrap().is_none());
    assert!(dir.try_lock(".other").unwrap().is_some());
    drop(lock);
    assert!(dir.try_lock(".lock").unwrap().is_some());
}

fn syncs_and_hints_succeed(dir: &impl Dir) {
    let file = dir.create_new("a").unwrap();
    file.write_all_at(b"abc", 0).unwrap();

    file.evict().unwrap();
    file.sync_data().unwrap();
    file.sync_all().unwrap();
    dir.sync().unwrap();
    file.evict().unwrap();

    assert_eq!(content(&file), b"abc");
    assert!(dir.free_bytes().unwrap() > 0);
}
