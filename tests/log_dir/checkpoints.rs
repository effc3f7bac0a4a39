//! The checkpoint files: rows of others, empty and malformed ones, our own record of them.

use std::fs;
use std::path::Path;

use highwater::log_dir::LogDir;
use tempfile::TempDir;

use super::{append, closed_with, create, log, offset, open, options, report_of};

const RECOVERY: &str = "recovery-point-offset-checkpoint";
const WATERMARKS: &str = "replication-offset-checkpoint";
const STARTS: &str = "log-start-offset-checkpoint";

fn read(dir: &Path, name: &str) -> String {
    fs::read_to_string(dir.join(name)).unwrap()
}

#[test]
fn rows_of_logs_that_are_not_open_are_copied() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0", "b-0"]);
    let elsewhere = "0\n3\na 0 10\nb 0 10\nelsewhere 7 99\n";
    for name in [RECOVERY, WATERMARKS] {
        fs::write(temp.path().join(name), elsewhere).unwrap();
    }

    let (dir, _) = LogDir::open(temp.path(), options().only(log("a-0"))).unwrap();
    append(&dir.log(&log("a-0")).unwrap(), 5).unwrap();
    dir.close().unwrap();

    for name in [RECOVERY, WATERMARKS] {
        assert_eq!(
            read(temp.path(), name),
            "0\n3\na 0 15\nb 0 10\nelsewhere 7 99\n"
        );
    }
}

#[test]
fn a_raised_log_start_outlives_a_kill() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    let (dir, _) = open(temp.path());
    dir.log(&log("a-0"))
        .unwrap()
        .delete_records(offset(4))
        .unwrap();
    drop(dir);

    let (dir, _) = open(temp.path());

    assert_eq!(dir.log(&log("a-0")).unwrap().log_start_offset(), offset(4));
    assert_eq!(read(temp.path(), STARTS), "0\n1\na 0 4\n");
    dir.close().unwrap();
}

#[test]
fn a_truncation_lowers_rows_and_makes_none() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0", "b-0"]);
    let (dir, _) = open(temp.path());
    let made = create(&dir, "c-0").unwrap();
    append(&made, 10).unwrap();
    let allowed = highwater::log::TruncateOptions {
        below_high_watermark: true,
    };

    for name in ["a-0", "c-0"] {
        dir.log(&log(name))
            .unwrap()
            .truncate_to(offset(0), allowed, super::NOW)
            .unwrap();
    }

    assert_eq!(read(temp.path(), RECOVERY), "0\n3\na 0 0\nb 0 10\nc 0 0\n");
    assert_eq!(read(temp.path(), WATERMARKS), "0\n2\na 0 0\nb 0 10\n");
    dir.close().unwrap();
}

/// Kafka leaves its checkpoints empty until their first write: that says nothing, and all is
/// scanned.
#[test]
fn an_empty_checkpoint_counts_as_missing() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    for name in [RECOVERY, WATERMARKS, STARTS] {
        fs::write(temp.path().join(name), "").unwrap();
    }
    fs::remove_file(temp.path().join(".kafka_cleanshutdown")).unwrap();

    let (dir, report) = open(temp.path());

    assert_eq!(report.notes.len(), 3);
    assert!(report_of(&report, "a-0").scanned_bytes > 0);
    let log = dir.log(&log("a-0")).unwrap();
    assert_eq!(
        (log.log_end_offset(), log.high_watermark()),
        (offset(10), offset(0))
    );
    dir.close().unwrap();
}

/// Kafka takes the whole directory offline; our own record knows the rows.
#[test]
fn a_malformed_checkpoint_is_made_good_from_our_record() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0", "b-0"]);
    let (dir, _) = open(temp.path());
    dir.log(&log("b-0"))
        .unwrap()
        .delete_records(offset(3))
        .unwrap();
    dir.close().unwrap();
    for name in [RECOVERY, WATERMARKS, STARTS] {
        fs::write(temp.path().join(name), "0\n2\na 0").unwrap();
    }
    fs::remove_file(temp.path().join(".kafka_cleanshutdown")).unwrap();

    let (dir, report) = LogDir::open(temp.path(), options().only(log("b-0"))).unwrap();

    assert_eq!(report.notes.len(), 3);
    let b = dir.log(&log("b-0")).unwrap();
    assert_eq!(
        (b.log_start_offset(), b.high_watermark()),
        (offset(3), offset(10))
    );
    dir.close().unwrap();
    assert_eq!(read(temp.path(), RECOVERY), "0\n2\na 0 10\nb 0 10\n");
    assert_eq!(read(temp.path(), WATERMARKS), "0\n2\na 0 10\nb 0 10\n");
    assert_eq!(read(temp.path(), STARTS), "0\n1\nb 0 3\n");
}

#[test]
fn malformed_everywhere_still_opens() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    for name in [
        RECOVERY,
        WATERMARKS,
        STARTS,
        "highwater.state",
        "meta.properties",
    ] {
        fs::write(temp.path().join(name), b"version=x\n\xff").unwrap();
    }

    let (dir, report) = open(temp.path());

    assert_eq!(report.notes.len(), 5);
    assert_eq!(dir.log(&log("a-0")).unwrap().log_end_offset(), offset(10));
    dir.close().unwrap();
    assert_eq!(read(temp.path(), RECOVERY), "0\n1\na 0 10\n");
    assert_eq!(
        fs::read(temp.path().join("meta.properties")).unwrap(),
        b"version=x\n\xff"
    );
}

/// The last batch is cut off behind our back: only our record tells that it was there.
#[test]
fn our_record_is_a_witness_while_the_recovery_point_row_is_ours() {
    for (row, is_ours) in [("a 0 20", true), ("a 0 19", false)] {
        let temp = TempDir::new().unwrap();
        let (dir, _) = open(temp.path());
        let made = create(&dir, "a-0").unwrap();
        append(&made, 10).unwrap();
        append(&made, 10).unwrap();
        dir.close().unwrap();
        let path = temp.path().join("a-0/00000000000000000000.log");
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
        fs::write(temp.path().join(RECOVERY), format!("0\n1\n{row}\n")).unwrap();
        fs::remove_file(temp.path().join(".kafka_cleanshutdown")).unwrap();

        let (dir, report) = open(temp.path());

        let damage = &report_of(&report, "a-0").damage;
        assert_eq!(!damage.is_empty(), is_ours, "{row}: {damage:?}");
        dir.close().unwrap();
    }
}

/// The marker is ours and nobody ran since, so a log start row that differs is wrong.
#[test]
fn a_log_start_row_that_nobody_can_have_written_is_restored() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    fs::write(temp.path().join(STARTS), "0\n1\na 0 9\n").unwrap();

    let (dir, report) = open(temp.path());

    assert_eq!(report.notes.len(), 1);
    assert_eq!(dir.log(&log("a-0")).unwrap().log_start_offset(), offset(0));
    dir.close().unwrap();
}

#[test]
fn a_plan_changes_nothing() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    let path = temp.path().join("a-0/00000000000000000000.log");
    let mut bytes = fs::read(&path).unwrap();
    bytes.extend_from_slice(&[7; 33]);
    fs::write(&path, &bytes).unwrap();
    fs::remove_file(temp.path().join(".kafka_cleanshutdown")).unwrap();

    let plans = LogDir::plan(temp.path(), &options()).unwrap();

    let plan = plans[0].1.as_ref().unwrap();
    assert_eq!(plan.cut.as_ref().unwrap().bytes, 33);
    assert_eq!(fs::read(&path).unwrap(), bytes);
    assert!(!temp.path().join(".lock").exists());
}
