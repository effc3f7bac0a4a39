//! Making, opening and removing logs, many at once, and what must not be touched.

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use highwater::error::ErrorKind;
use highwater::log::{Isolation, LogConfig, Retained};
use highwater::log_dir::{LogDir, Maintenance};
use tempfile::TempDir;

use super::{NOW, append, closed_with, create, log, offset, open, options};

#[test]
fn the_lock_excludes_and_its_file_goes_at_close() {
    let temp = TempDir::new().unwrap();
    let (dir, _) = open(temp.path());

    let second = LogDir::open(temp.path(), options()).unwrap_err();

    assert_eq!(second.kind(), ErrorKind::Locked);
    assert!(second.to_string().contains(".lock"), "{second}");
    dir.close().unwrap();
    assert!(!temp.path().join(".lock").exists());
    open(temp.path()).0.close().unwrap();
}

#[test]
fn a_dropped_directory_leaves_the_lock_file_and_no_marker() {
    let temp = TempDir::new().unwrap();
    drop(open(temp.path()));

    assert!(temp.path().join(".lock").exists());
    assert!(!temp.path().join(".kafka_cleanshutdown").exists());
    open(temp.path()).0.close().unwrap();
}

#[test]
fn what_cannot_be_opened_is_not_changed() {
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("file");
    fs::write(&file, "x").unwrap();
    let missing = temp.path().join("missing");

    assert_eq!(
        LogDir::open(&file, options()).unwrap_err().kind(),
        ErrorKind::Io
    );
    assert_eq!(
        LogDir::open(&missing, options()).unwrap_err().kind(),
        ErrorKind::NotFound
    );
    let deep = LogDir::open(missing.join("deep"), options().create(true)).unwrap_err();

    assert_eq!(deep.kind(), ErrorKind::NotFound);
    assert!(!missing.exists());
    assert_eq!(fs::read(&file).unwrap(), b"x");
}

#[test]
fn a_directory_is_made_when_asked_for() {
    let temp = TempDir::new().unwrap();
    let path = temp.path().join("data");

    let (dir, report) = LogDir::open(&path, options().create(true)).unwrap();

    assert!(report.clean);
    dir.close().unwrap();
    assert!(path.is_dir());
}

#[test]
fn a_log_gets_its_topic_id_and_nothing_is_left_of_its_making() {
    let temp = TempDir::new().unwrap();
    let (dir, _) = open(temp.path());
    let id = "AAAAAAAAAAAAAAAAAAAAAQ";

    dir.create_log(&log("a-0"), LogConfig::default(), Some(id), NOW)
        .unwrap();
    let again = dir
        .create_log(&log("a-0"), LogConfig::default(), None, NOW)
        .unwrap_err();
    let no_id = dir
        .create_log(&log("b-0"), LogConfig::default(), Some("x"), NOW)
        .unwrap_err();

    assert_eq!(again.kind(), ErrorKind::InvalidArgument);
    assert_eq!(no_id.kind(), ErrorKind::InvalidArgument);
    let metadata = fs::read_to_string(temp.path().join("a-0/partition.metadata")).unwrap();
    assert_eq!(metadata, format!("version: 0\ntopic_id: {id}"));
    dir.close().unwrap();
    let names: Vec<String> = fs::read_dir(temp.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.contains("delete") || name.contains("b-0"))
        .collect();
    assert_eq!(names, Vec::<String>::new());
}

/// A log that is made again must not start with the recovery point of its predecessor.
#[test]
fn a_deleted_log_leaves_no_rows() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0", "b-0"]);
    let (dir, _) = open(temp.path());
    let held = dir.log(&log("a-0")).unwrap();

    dir.delete_log(&log("a-0"), NOW).unwrap();

    assert!(!temp.path().join("a-0").exists());
    assert_eq!(append(&held, 1).unwrap_err().kind(), ErrorKind::Closed);
    let rows = fs::read_to_string(temp.path().join("recovery-point-offset-checkpoint")).unwrap();
    assert_eq!(rows, "0\n1\nb 0 10\n");
    let made = create(&dir, "a-0").unwrap();
    assert_eq!(made.log_end_offset(), offset(0));
    dir.close().unwrap();
}

/// The directory went, its rows stayed: somebody removed it by hand.
#[test]
fn a_new_log_does_not_inherit_rows() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    fs::remove_dir_all(temp.path().join("a-0")).unwrap();
    let (dir, _) = open(temp.path());

    create(&dir, "a-0").unwrap();
    drop(dir);

    let (dir, report) = open(temp.path());
    assert_eq!(super::report_of(&report, "a-0").notes, []);
    dir.close().unwrap();
}

#[test]
fn deleted_directories_go_and_others_stay() {
    let temp = TempDir::new().unwrap();
    closed_with(temp.path(), &["a-0"]);
    let id = "0123456789abcdef0123456789abcdef";
    let gone = temp.path().join(format!("b-0.{id}-delete"));
    let kept = [
        format!("c-0.{id}-stray"),
        format!("d-0.{id}-future"),
        "lost+found".to_owned(),
    ];
    for dir in [&gone]
        .into_iter()
        .cloned()
        .chain(kept.iter().map(|name| temp.path().join(name)))
    {
        fs::create_dir(&dir).unwrap();
        fs::write(dir.join("00000000000000000000.log"), "bytes").unwrap();
    }

    let (dir, report) = open(temp.path());

    assert!(!gone.exists());
    for name in kept {
        let file = temp.path().join(&name).join("00000000000000000000.log");
        assert_eq!(fs::read(file).unwrap(), b"bytes");
        assert!(
            report
                .notes
                .iter()
                .any(|note| note.file.as_deref() == Some(&name)),
            "{name}"
        );
    }
    dir.close().unwrap();
}

#[test]
fn a_broken_log_stops_no_other() {
    let temp = TempDir::new().unwrap();
    let names: Vec<String> = (0..20).map(|n| format!("many-{n}")).collect();
    closed_with(
        temp.path(),
        &names.iter().map(String::as_str).collect::<Vec<_>>(),
    );
    // A directory where a file must be: no program can open this log.
    let segment = temp.path().join("many-7/00000000000000000000.log");
    fs::remove_file(&segment).unwrap();
    let epochs = temp.path().join("many-7/leader-epoch-checkpoint");
    fs::remove_file(&epochs).unwrap();
    fs::create_dir(&epochs).unwrap();

    let (dir, report) = LogDir::open(temp.path(), options().threads(4)).unwrap();

    let failed: Vec<String> = report
        .logs
        .iter()
        .filter(|(_, outcome)| outcome.is_err())
        .map(|(log, _)| log.to_string())
        .collect();
    assert_eq!(failed, ["many-7"]);
    assert_eq!(dir.logs().len(), 19);
    append(&dir.log(&log("many-3")).unwrap(), 1).unwrap();
    dir.close().unwrap();
    assert!(!temp.path().join(".kafka_cleanshutdown").exists());
}

#[test]
fn maintenance_checkpoints_and_retains_until_it_is_dropped() {
    let temp = TempDir::new().unwrap();
    let (dir, _) = open(temp.path());
    let dir = Arc::new(dir);
    let log = create(&dir, "a-0").unwrap();
    append(&log, 10).unwrap();

    let interval = Duration::from_millis(1);
    let maintenance = Maintenance::start(Arc::clone(&dir), interval, || NOW).unwrap();
    assert!(maintenance.wait_for_runs(2, Duration::from_secs(60)));
    assert!(maintenance.take_error().is_none());
    drop(maintenance);

    let rows = fs::read_to_string(temp.path().join("replication-offset-checkpoint")).unwrap();
    assert_eq!(rows, "0\n1\na 0 10\n");
    let kept = Retained {
        deleted_segments: 0,
        log_start_offset: offset(0),
    };
    assert_eq!(log.retain(NOW).unwrap(), kept);
    assert!(
        !log.read(offset(0), 1 << 20, Isolation::HighWatermark)
            .unwrap()
            .is_empty()
    );
    Arc::into_inner(dir).unwrap().close().unwrap();
}

/// Blocks are set aside behind the end of a log that grows. They would count as used for as long as
/// the segment stands.
#[cfg(target_os = "linux")]
#[test]
fn a_closed_log_gives_back_what_was_set_aside() {
    use std::os::unix::fs::MetadataExt;

    let temp = TempDir::new().unwrap();
    let (dir, _) = open(temp.path());
    let made = create(&dir, "big-0").unwrap();
    while made.bytes() < (4 << 20) {
        append(&made, 2000).unwrap();
    }
    let file = temp.path().join("big-0/00000000000000000000.log");

    dir.close().unwrap();

    let found = fs::metadata(file).unwrap();
    let slack = 64 << 10;
    assert!(found.blocks() * 512 <= found.len() + slack, "{found:?}");
}
