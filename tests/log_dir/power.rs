//! Power cuts at every call of a checkpoint and of a close: old rows or new ones, never lost ones.

use highwater::log_dir::{DirOptions, LogDir};
use highwater::storage::sim::{CrashPlan, SimDir, SimDisk};

use super::{NOW, append, create, log, offset};

fn options() -> DirOptions {
    DirOptions::new(NOW).threads(1)
}

/// Two logs with ten records each, everything checkpointed, then ten more each that are synced.
fn prepared() -> (SimDisk, LogDir<SimDir>) {
    let disk = SimDisk::new();
    let (dir, _) = LogDir::open_in(disk.root(), options()).unwrap();
    for name in ["a-0", "b-0"] {
        append(&create(&dir, name).unwrap(), 10).unwrap();
    }
    dir.checkpoint().unwrap();
    for (_, log) in dir.logs() {
        append(&log, 10).unwrap();
    }
    (disk, dir)
}

/// What must hold whatever the power cut left.
fn check(disk: &SimDisk, told: &str) {
    let (dir, report) = LogDir::open_in(disk.root(), options()).unwrap();
    for (name, outcome) in &report.logs {
        let outcome = outcome
            .as_ref()
            .unwrap_or_else(|error| panic!("{told}: {name}: {error}"));
        assert_eq!(outcome.damage, [], "{told}: {name}");
        let log = dir.log(name).unwrap();
        assert_eq!(log.log_end_offset(), offset(20), "{told}: {name}");
        let watermark = log.high_watermark();
        assert!(
            [offset(10), offset(20)].contains(&watermark),
            "{told}: {name}: {watermark}"
        );
    }
    assert_eq!(report.logs.len(), 2, "{told}");
    append(&dir.log(&log("a-0")).unwrap(), 1).unwrap();
    dir.close().unwrap();
}

fn at_every_call(run: impl Fn(LogDir<SimDir>)) {
    let (disk, dir) = prepared();
    let before = disk.calls();
    run(dir);
    let calls = disk.calls() - before;
    assert!(calls > 8);
    for call in 1..=calls + 1 {
        let (disk, dir) = prepared();
        disk.power_cut_at(disk.calls() + call);
        run(dir);
        let pending = disk.pending_ops().len();
        let plans = [CrashPlan::LoseAll, CrashPlan::KeepAll]
            .into_iter()
            .chain((0..pending).map(CrashPlan::LoseOnly))
            .chain((0..4).map(|seed| CrashPlan::Random { seed }));
        for plan in plans {
            check(
                &disk.crash(&plan),
                &format!("cut at call {call} of {calls}, {plan:?}"),
            );
        }
    }
}

#[test]
fn a_checkpoint_leaves_old_rows_or_new_ones() {
    at_every_call(|dir| {
        // It fails where the power goes.
        drop(dir.checkpoint());
    });
}

#[test]
fn a_close_leaves_old_rows_or_new_ones() {
    at_every_call(|dir| drop(dir.close()));
}

/// A marker that comes back would vouch for logs that were being written.
#[test]
fn the_marker_never_outlives_an_open() {
    let disk = SimDisk::new();
    let (dir, _) = LogDir::open_in(disk.root(), options()).unwrap();
    append(&create(&dir, "a-0").unwrap(), 10).unwrap();
    dir.close().unwrap();

    let (dir, report) = LogDir::open_in(disk.root(), options()).unwrap();
    assert!(report.clean);
    append(&dir.log(&log("a-0")).unwrap(), 1).unwrap();

    for plan in CrashPlan::enumerate(disk.pending_ops().len()) {
        let (_, report) = LogDir::open_in(disk.crash(&plan).root(), options()).unwrap();
        assert!(!report.clean, "{plan:?}");
    }
    drop(dir);
}
