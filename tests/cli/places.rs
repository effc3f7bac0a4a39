//! Directories that cannot be used: unreadable, full, read-only, locked, or no directory at all.
//! Nothing is made, nothing is lost. What needs root or a mount is skipped, with a message, where
//! that is not to be had.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use super::{contents, highwater};

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
}

fn append(log: &Path, args: &[&str], lines: &[u8]) -> Output {
    let mut child = binary()
        .arg("append")
        .arg(log)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = lines.to_vec();
    // It may end before it has read all.
    let feeder = std::thread::spawn(move || drop(input.write_all(&lines)));
    let output = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    output
}

#[track_caller]
fn refused(output: &Output, code: i32, parts: &[&str]) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    for part in parts.iter().chain(&["; "]) {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
}

fn numbers(range: std::ops::Range<u32>) -> Vec<u8> {
    range
        .flat_map(|number| format!("{number}\n").into_bytes())
        .collect()
}

fn lines_of(output: &Output) -> usize {
    output.stdout.split(|byte| *byte == b'\n').count() - 1
}

/// A data directory with a log of ten records.
fn data() -> (TempDir, PathBuf) {
    let temp = TempDir::new().unwrap();
    let log = temp.path().join("data/t-0");
    let lines = numbers(0..10);
    assert!(append(&log, &[], &lines).status.success());
    (temp, log)
}

/// A small file system of its own; `None` where it cannot be mounted.
struct Mount(TempDir);

impl Mount {
    fn new(options: &str) -> Option<Self> {
        let temp = TempDir::new().unwrap();
        let mount = Self(temp);
        if mount.mount(&["-t", "tmpfs", "-o", options, "tmpfs"]) {
            return Some(mount);
        }
        println!("skipped: nothing can be mounted here");
        None
    }

    fn mount(&self, args: &[&str]) -> bool {
        let mut mount = Command::new("mount");
        mount.args(args).arg(self.0.path()).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success())
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        drop(
            Command::new("umount")
                .arg(self.0.path())
                .stderr(Stdio::null())
                .status(),
        );
    }
}

/// All verbs on one log.
fn verbs(path: &str) -> [Vec<&str>; 7] {
    [
        vec!["info", path],
        vec!["verify", path],
        vec!["read", path],
        vec!["epochs", path],
        vec!["recover", path],
        vec!["truncate", "--to", "3", path],
        vec!["append", path],
    ]
}

#[test]
fn a_file_is_no_directory() {
    let temp = TempDir::new().unwrap();
    let file = temp.path().join("t-0");
    fs::write(&file, "text").unwrap();
    let path = file.to_str().unwrap();

    for args in verbs(path) {
        refused(&highwater(&args), 3, &[path]);
    }
    let inside = file.join("t-0");
    refused(&append(&inside, &[], b"x\n"), 3, &[path]);

    assert_eq!(contents(temp.path()).len(), 1, "nothing was made");
    assert_eq!(fs::read(&file).unwrap(), b"text");
}

#[test]
fn what_is_not_there_is_not_made_by_readers() {
    let temp = TempDir::new().unwrap();
    let log = temp.path().join("no/such/t-0");
    let path = log.to_str().unwrap();

    for args in verbs(path).into_iter().chain([vec!["dump", path]]) {
        refused(&highwater(&args), 3, &["no/such"]);
    }

    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);
}

#[test]
fn an_unreadable_directory_is_named_and_keeps_its_marker() {
    use std::os::unix::fs::PermissionsExt;
    let (temp, log) = data();
    let whole = fs::Permissions::from_mode(0o755);
    fs::set_permissions(temp.path(), whole.clone()).unwrap();
    let owned = Command::new("chown")
        .args(["-R", "65534"])
        .arg(temp.path())
        .stderr(Stdio::null())
        .status();
    let nobody = |args: &[&str]| {
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--clear-groups"]);
        command
            .arg(env!("CARGO_BIN_EXE_highwater"))
            .args(args)
            .output()
    };
    let can_run = nobody(&["--version"]).is_ok_and(|output| output.status.success());
    if !owned.is_ok_and(|status| status.success()) || !can_run {
        println!("skipped: no other user can run the binary");
        return;
    }
    let before = contents(temp.path());
    let path = log.to_str().unwrap();
    let segment = log.join("00000000000000000000.log");
    for shut in [&log, &segment] {
        let mode = fs::metadata(shut).unwrap().permissions();
        fs::set_permissions(shut, fs::Permissions::from_mode(0o000)).unwrap();
        for args in verbs(path) {
            refused(&nobody(&args).unwrap(), 3, &[shut.to_str().unwrap()]);
        }
        fs::set_permissions(shut, mode).unwrap();
        assert_eq!(before, contents(temp.path()));
    }
}

#[test]
fn a_full_disk_loses_nothing_and_appends_resume() {
    let Some(mount) = Mount::new("size=1m") else {
        return;
    };
    let log = mount.path().join("data/t-0");
    let lines: Vec<u8> = (0..3000)
        .flat_map(|line| format!("{line:0999}\n").into_bytes())
        .collect();
    for sync in ["end", "batch"] {
        let args = ["--json", "--batch-records", "10", "--sync", sync];
        let full = append(&log, &args, &lines);

        refused(&full, 3, &[log.to_str().unwrap(), ".log, position", "room"]);
        let told = String::from_utf8(full.stdout).unwrap();
        let last: serde_json::Value = serde_json::from_str(told.lines().last().unwrap()).unwrap();
        let end = last["log_end_offset"].as_i64().unwrap();
        let read = highwater(&["read", log.to_str().unwrap(), "--isolation", "log-end"]);
        assert_eq!(read.status.code(), Some(0));
        assert_eq!(i64::try_from(lines_of(&read)).unwrap(), end);
        assert_eq!(
            highwater(&["verify", log.to_str().unwrap()]).status.code(),
            Some(0)
        );

        assert!(mount.mount(&["-o", "remount,size=2m"]));
        let resumed = append(&log, &["--json"], b"after\n");
        assert_eq!(resumed.status.code(), Some(0));
        let line: serde_json::Value = serde_json::from_slice(&resumed.stdout).unwrap();
        assert_eq!(line["base_offset"], end);
    }
}

#[test]
fn a_read_only_disk_can_be_read() {
    let Some(mount) = Mount::new("size=4m") else {
        return;
    };
    let log = mount.path().join("data/t-0");
    assert!(append(&log, &[], b"a\nb\n").status.success());
    let before = contents(mount.path());
    assert!(mount.mount(&["-o", "remount,ro"]));
    let path = log.to_str().unwrap();

    for args in [
        &["info", path][..],
        &["verify", path],
        &["dump", path],
        &["read", path],
        &["epochs", path],
        &["recover", "--dry-run", path],
        &["truncate", "--dry-run", "--to", "1", path],
    ] {
        assert_eq!(highwater(args).status.code(), Some(0), "{args:?}");
    }
    for args in [&["recover", path][..], &["truncate", "--to", "1", path]] {
        refused(&highwater(args), 3, &["data/.lock", "Read-only"]);
    }
    refused(&append(&log, &[], b"x\n"), 3, &["data/.lock", "Read-only"]);
    let other = mount.path().join("other/t-0");
    refused(&append(&other, &[], b"x\n"), 3, &["other", "Read-only"]);

    assert_eq!(before, contents(mount.path()));
}

#[test]
fn a_locked_directory_is_left_alone() {
    let (temp, log) = data();
    let mut holder = binary()
        .arg("append")
        .arg(&log)
        .args(["--json", "--batch-records", "1", "--sync", "batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = holder.stdin.take().unwrap();
    input.write_all(b"held\n").unwrap();
    let mut told = String::new();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    output.read_line(&mut told).unwrap();
    let before = contents(temp.path());
    let path = log.to_str().unwrap();

    for args in [
        &["recover", path][..],
        &["truncate", "--to", "1", path],
        &["append", path],
    ] {
        refused(&highwater(args), 3, &["data/.lock", "another program"]);
    }
    let other = log.with_file_name("t-1");
    refused(&append(&other, &[], b"x\n"), 3, &["data/.lock"]);
    assert_eq!(highwater(&["info", path]).status.code(), Some(0));

    assert_eq!(before, contents(temp.path()));
    drop(input);
    assert!(holder.wait().unwrap().success());
}

/// A JVM takes an fcntl lock, which a flock does not see.
#[test]
fn the_lock_of_a_jvm_excludes() {
    let (temp, log) = data();
    let lock = temp.path().join("data/.lock");
    let program = "import fcntl,sys; f=open(sys.argv[1],'w'); fcntl.lockf(f,fcntl.LOCK_EX); \
                   print('held',flush=True); sys.stdin.read()";
    let spawned = Command::new("python3")
        .args(["-c", program])
        .arg(&lock)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let Ok(mut holder) = spawned else {
        println!("skipped: no python3 to hold the lock");
        return;
    };
    let mut told = String::new();
    let mut output = BufReader::new(holder.stdout.take().unwrap());
    output.read_line(&mut told).unwrap();
    if told == "held\n" {
        refused(&append(&log, &[], b"x\n"), 3, &["data/.lock"]);
    }
    drop(holder.stdin.take());
    holder.wait().unwrap();
    if told == "held\n" {
        assert!(append(&log, &[], b"x\n").status.success());
    }
}

#[test]
fn any_bytes_are_records() {
    let (_temp, log) = data();

    let appended = append(&log, &["--json"], b"\xff\xfe\0\n\x80\r\n\nlast");

    assert!(appended.status.success());
    let args = ["read", log.to_str().unwrap(), "--from", "10"];
    let read = highwater(&args);
    assert_eq!(read.stdout, b"\xff\xfe\0\n\x80\r\n\nlast\n");
    let read = highwater(&[&args[..], &["--json", "--max", "1"]].concat());
    let line: serde_json::Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(line["value_base64"], "//4A");
    assert!(line.get("value").is_none());
}

#[test]
fn no_lines_make_a_log_and_no_record() {
    let (_temp, log) = data();
    let fresh = log.with_file_name("fresh-0");

    for log in [&log, &fresh] {
        let appended = append(log, &["--json"], b"");
        assert!(appended.status.success());
        assert!(appended.stdout.is_empty());
    }

    let info = highwater(&["info", fresh.to_str().unwrap(), "--json"]);
    let line: serde_json::Value = serde_json::from_slice(&info.stdout).unwrap();
    assert_eq!(
        (&line["log_end_offset"], &line["segments"]),
        (&0.into(), &1.into())
    );
}

#[test]
fn a_line_of_ten_megabytes_is_refused_or_taken_whole() {
    let (_temp, log) = data();
    let mut lines = vec![b'x'; 10_000_000];
    lines.extend(b"\nnext\n");

    let large = append(&log, &[], &lines);
    refused(&large, 2, &["t-0", "max.message.bytes"]);
    let appended = append(&log, &["--config", "max.message.bytes=20000000"], &lines);
    assert!(appended.status.success());

    let read = highwater(&["read", log.to_str().unwrap(), "--from", "10"]);
    assert_eq!(read.stdout, lines);
}

#[test]
fn a_reader_that_leaves_stops_readers_and_no_writer() {
    let (_temp, log) = data();
    let lines = numbers(10..50_000);
    let mut writer = binary()
        .arg("append")
        .arg(&log)
        .args(["--json", "--sync", "batch"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    drop(writer.stdout.take());
    let mut input = writer.stdin.take().unwrap();
    input.write_all(&lines).unwrap();
    drop(input);
    assert!(writer.wait().unwrap().success());

    let read = highwater(&["read", log.to_str().unwrap()]);
    assert_eq!(lines_of(&read), 50_000);
    let mut reader = binary()
        .arg("read")
        .arg(&log)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(reader.stdout.take());
    let left = reader.wait_with_output().unwrap();
    assert!(left.status.success());
    assert!(left.stderr.is_empty());
}

#[test]
fn an_output_without_room_is_an_error() {
    let (_temp, log) = data();
    let Ok(full) = File::options().write(true).open("/dev/full") else {
        return;
    };

    let mut read = binary();
    let output = read.arg("read").arg(&log).stdout(full).output().unwrap();

    assert_eq!(output.status.code(), Some(3));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("standard output"), "{stderr}");
}

#[test]
fn a_follower_sees_what_is_appended_later() {
    let (_temp, log) = data();
    let mut follower = binary()
        .arg("read")
        .arg(&log)
        .args(["--follow", "--max", "12"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    for line in 0..10 {
        assert_eq!(lines.next().unwrap().unwrap(), line.to_string());
    }

    assert!(append(&log, &[], b"later\n").status.success());
    assert_eq!(lines.next().unwrap().unwrap(), "later");
    let rolled = ["--config", "segment.bytes=100"];
    assert!(
        append(&log, &rolled, b"in another segment\n")
            .status
            .success()
    );
    assert_eq!(lines.next().unwrap().unwrap(), "in another segment");

    assert!(follower.wait().unwrap().success());
}
