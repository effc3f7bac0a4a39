//! The real file system: links, odd files, locks of other processes.

use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use highwater::storage::{Access, Dir, EntryKind, OsDir};

#[test]
fn a_file_cannot_be_opened_as_a_directory() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("f");
    std::fs::write(&path, b"x").unwrap();

    assert_eq!(
        OsDir::open(&path).unwrap_err().kind(),
        ErrorKind::NotADirectory
    );
    assert_eq!(
        OsDir::open(place.path().join("no")).unwrap_err().kind(),
        ErrorKind::NotFound
    );
}

#[test]
fn create_makes_one_level_and_refuses_a_taken_name() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("d");

    assert_eq!(OsDir::create(&path).unwrap().path(), path);
    assert_eq!(
        OsDir::create(&path).unwrap_err().kind(),
        ErrorKind::AlreadyExists
    );
    let deep = OsDir::create(place.path().join("x/y"));
    assert_eq!(deep.unwrap_err().kind(), ErrorKind::NotFound);
}

/// Operators move a log directory to another disk and leave a link; Kafka follows it.
#[test]
fn a_link_is_what_it_leads_to() {
    let place = tempfile::tempdir().unwrap();
    let dir = OsDir::open(place.path()).unwrap();
    dir.create_subdir("real").unwrap().create_new("f").unwrap();
    symlink(place.path().join("real"), place.path().join("to-dir")).unwrap();
    symlink("real/f", place.path().join("to-file")).unwrap();
    symlink("nowhere", place.path().join("to-nothing")).unwrap();
    symlink("circle", place.path().join("circle")).unwrap();

    let kinds: Vec<_> = dir
        .list()
        .unwrap()
        .into_iter()
        .map(|e| (e.name, e.kind))
        .collect();

    let line = |name: &str, kind| (name.to_owned(), kind);
    let wanted = [
        line("circle", EntryKind::Other),
        line("real", EntryKind::Dir),
        line("to-dir", EntryKind::Dir),
        line("to-file", EntryKind::File),
        line("to-nothing", EntryKind::Other),
    ];
    assert_eq!(kinds, wanted);
    dir.subdir("to-dir")
        .unwrap()
        .open("f", Access::Read)
        .unwrap();
    OsDir::open(place.path().join("to-dir"))
        .unwrap()
        .sync()
        .unwrap();
}

#[test]
fn removing_a_linked_directory_spares_its_target() {
    let place = tempfile::tempdir().unwrap();
    let dir = OsDir::open(place.path()).unwrap();
    dir.create_subdir("real").unwrap().create_new("f").unwrap();
    symlink("real", place.path().join("link")).unwrap();

    dir.remove_subdir("link").unwrap();

    dir.subdir("real").unwrap().open("f", Access::Read).unwrap();
    assert_eq!(dir.subdir("link").unwrap_err().kind(), ErrorKind::NotFound);
}

/// A FIFO would block whoever opens it.
#[test]
fn what_is_no_regular_file_is_refused() {
    let place = tempfile::tempdir().unwrap();
    if !run(Command::new("mkfifo").arg(place.path().join("pipe"))) {
        return;
    }
    let dir = OsDir::open(place.path()).unwrap();

    assert!(dir.open("pipe", Access::Read).is_err());
    assert!(dir.open("pipe", Access::Write).is_err());
    assert_eq!(dir.list().unwrap()[0].kind, EntryKind::Other);
}

#[test]
fn two_handles_on_one_directory_exclude_each_other() {
    let place = tempfile::tempdir().unwrap();
    let one = OsDir::open(place.path()).unwrap();
    let two = OsDir::open(place.path()).unwrap();

    let lock = one.try_lock(".lock").unwrap().unwrap();

    assert!(two.try_lock(".lock").unwrap().is_none());
    drop(lock);
    assert!(two.try_lock(".lock").unwrap().is_some());
}

const FLOCK: &str = "fcntl.flock(f, fcntl.LOCK_EX | fcntl.LOCK_NB)";
/// `lockf` is `fcntl(F_SETLK)`, what `FileChannel.tryLock` of a JVM calls.
const LOCKF: &str = "fcntl.lockf(f, fcntl.LOCK_EX | fcntl.LOCK_NB)";

#[test]
fn another_process_is_excluded_by_both_kinds_of_lock() {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join(".lock");
    std::fs::write(&path, b"").unwrap();
    if !run(&mut python(&path, LOCKF, "")) {
        return;
    }
    let dir = OsDir::open(place.path()).unwrap();

    let lock = dir.try_lock(".lock").unwrap().unwrap();
    assert!(!run(&mut python(&path, FLOCK, "")));
    assert!(!run(&mut python(&path, LOCKF, "")));
    drop(lock);
    assert!(run(&mut python(&path, FLOCK, "")));
    assert!(run(&mut python(&path, LOCKF, "")));
}

#[test]
fn a_lock_of_another_process_excludes_and_dies_with_it() {
    for kind in [FLOCK, LOCKF] {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join(".lock");
        std::fs::write(&path, b"").unwrap();
        if !run(&mut python(&path, kind, "")) {
            return;
        }
        let mut child = python(&path, kind, "print('held', flush=True); sys.stdin.read()")
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let mut held = [0; 4];
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut held).unwrap();
        let dir = OsDir::open(place.path()).unwrap();

        assert!(dir.try_lock(".lock").unwrap().is_none(), "{kind}");
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(dir.try_lock(".lock").unwrap().is_some(), "{kind}");
    }
}

fn python(path: &Path, lock: &str, then: &str) -> Command {
    let mut command = Command::new("python3");
    let program = format!("import fcntl, sys\nf = open(sys.argv[1], 'r+b')\n{lock}\n{then}");
    command
        .arg("-c")
        .arg(program)
        .arg(path)
        .stderr(std::process::Stdio::null());
    command
}

/// Whether the program is there and succeeds.
fn run(command: &mut Command) -> bool {
    command.status().is_ok_and(|status| status.success())
}
