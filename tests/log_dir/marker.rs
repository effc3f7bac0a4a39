//! `.kafka_cleanshutdown`: when it is believed, when it is written.

use std::fs;
use std::path::Path;

use highwater::log_dir::LogDir;
use tempfile::TempDir;

use super::{append, closed_with, create, log, open, options, report_of};

fn marker(path: &Path) -> Option<String> {
    fs::read_to_string(path.join(".kafka_cleanshutdown")).ok()
}

#[test]
fn an_empty_directory_is_clean() {
    let temp = TempDir::new().unwrap();

    let (dir, report) = open(temp.path());

    assert!(report.clean);
    assert!(report.logs.is_empty());
    dir.close().unwrap();
    assert_eq!(
        marker(temp.path()).unwrap(),
        r#"{"version":0,"brokerEpoch":-1}"#
    );
}

#[test]
fn a_clean_stop_is_trusted_and_a_kill_is_not() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);

    let (dir, report) = open(temp.path());
    assert!(report.clean);
    assert!(report_of(&report, "a-0").trusted);
    assert_eq!(marker(temp.path()), None);
    drop(dir);

    let (dir, report) = open(temp.path());
    assert!(!report.clean);
    assert!(!report_of(&report, "a-0").trusted);
    dir.close().unwrap();
    assert!(open(temp.path()).1.clean);
}

#[test]
fn the_broker_epoch_is_kept() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    fs::write(
        temp.path().join(".kafka_cleanshutdown"),
        r#"{"version":0,"brokerEpoch":42}"#,
    )
    .unwrap();

    open(temp.path()).0.close().unwrap();

    assert!(
        marker(temp.path())
            .unwrap()
            .contains(r#""brokerEpoch":42,"highwater":"#)
    );
}

/// One log of two is opened alone.
///
/// marker before | the log | marker behind
/// --- | --- | ---
/// yes | sound | yes
/// no | sound | no: the other one was never looked at
/// yes | damaged | no
#[test]
fn a_log_alone_speaks_for_the_others_only_if_they_were_clean() {
    for (before, sound, behind) in [
        (true, true, true),
        (false, true, false),
        (true, false, false),
    ] {
        let temp = TempDir::new().unwrap();
        closed_with(temp.path(), &["a-0", "b-0"]);
        if !before {
            fs::remove_file(temp.path().join(".kafka_cleanshutdown")).unwrap();
        }
        if !sound {
            damage(&temp.path().join("a-0"));
        }

        let scope = highwater::log::RecoveryScope::Everything;
        let alone = options().only(log("a-0")).scope(scope);
        let (dir, report) = LogDir::open(temp.path(), alone).unwrap();
        assert_eq!(report.logs.len(), 1);
        assert_eq!(report_of(&report, "a-0").damage.is_empty(), sound);
        dir.close().unwrap();

        assert_eq!(marker(temp.path()).is_some(), behind, "{before} {sound}");
    }
}

#[test]
fn the_only_log_of_a_directory_gets_the_marker_back() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    drop(open(temp.path()));

    let (dir, _) = LogDir::open(temp.path(), options().only(log("a-0"))).unwrap();
    dir.close().unwrap();

    assert!(marker(temp.path()).is_some());
}

#[test]
fn a_degraded_log_keeps_its_bytes_and_prevents_the_marker() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0", "b-0"]);
    damage(&temp.path().join("a-0"));
    let before = fs::read(temp.path().join("a-0/00000000000000000000.log")).unwrap();

    let everything = options().scope(highwater::log::RecoveryScope::Everything);
    let (dir, report) = LogDir::open(temp.path(), everything).unwrap();
    assert_eq!(report_of(&report, "a-0").damage.len(), 1);
    assert!(append(&dir.log(&log("a-0")).unwrap(), 1).is_err());
    append(&dir.log(&log("b-0")).unwrap(), 1).unwrap();
    dir.close().unwrap();

    assert_eq!(marker(temp.path()), None);
    assert_eq!(
        fs::read(temp.path().join("a-0/00000000000000000000.log")).unwrap(),
        before
    );
}

#[test]
fn a_repair_saves_the_bytes_and_cuts_at_the_damage() {
    let temp = TempDir::new().unwrap();
    let (dir, _) = open(temp.path());
    let made = create(&dir, "a-0").unwrap();
    for _ in 0..3 {
        append(&made, 10).unwrap();
    }
    dir.close().unwrap();
    let path = temp.path().join("a-0/00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    let third = bytes.len() / 3;
    bytes[third + 80] ^= 1;
    fs::write(&path, &bytes).unwrap();

    let everything = options().scope(highwater::log::RecoveryScope::Everything);
    let (dir, report) = LogDir::open(temp.path(), everything.repair(true)).unwrap();
    let report = report_of(&report, "a-0");
    let cut = report.cut.as_ref().unwrap();
    assert_eq!((report.log_end_offset.get(), cut.saved_to.len()), (10, 1));
    let saved = fs::read(temp.path().join("a-0").join(&cut.saved_to[0])).unwrap();
    assert_eq!(saved, bytes[third..]);
    append(&dir.log(&log("a-0")).unwrap(), 1).unwrap();
    dir.close().unwrap();

    let (dir, report) = open(temp.path());
    assert!(report.clean);
    assert_eq!(report_of(&report, "a-0").log_end_offset.get(), 11);
    dir.close().unwrap();
}

/// Flips a bit of the first batch's records.
fn damage(log: &Path) {
    let path = log.join("00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes[80] ^= 1;
    fs::write(&path, bytes).unwrap();
}
