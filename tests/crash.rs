//! Short sequences of operations, the power cut at every call to the disk, every way in which the
//! disk may come back: what was synced is there, nothing else was made up, batches are whole, and
//! the log goes on.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic_in_result_fn,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    clippy::type_complexity,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::print_stdout,
    reason = "tests stop at the first surprise"
)]

mod common;

use common::*;
use highwater::error::Error;
use highwater::log::{Durability, Isolation, LogConfig, TruncateOptions};
use highwater::record::Codec;
use highwater::storage::sim::{CrashPlan, SimDisk};

const ALLOWED: TruncateOptions = TruncateOptions {
    below_high_watermark: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Append,
    AppendCompressed,
    AppendSynced,
    /// Two batches with a hole before each, the second of the next epoch.
    Follow,
    Roll,
    Flush,
    Checkpoint,
    DeleteRecords,
    Retain,
    Truncate,
    TruncateFully,
    AssignEpoch,
    /// Close, then open.
    Close,
    /// Drop, then open.
    Kill,
}

const OPS: [Op; 14] = [
    Op::Append,
    Op::AppendCompressed,
    Op::AppendSynced,
    Op::Follow,
    Op::Roll,
    Op::Flush,
    Op::Checkpoint,
    Op::DeleteRecords,
    Op::Retain,
    Op::Truncate,
    Op::TruncateFully,
    Op::AssignEpoch,
    Op::Close,
    Op::Kill,
];

/// What the log should hold.
#[derive(Clone, Debug, Default)]
struct Model {
    /// (base, last, epoch, bytes)
    batches: Vec<(i64, i64, i32, Vec<u8>)>,
    start: i64,
    end: i64,
    /// Below it everything was promised to survive.
    synced: i64,
    epoch: i32,
}

impl Model {
    fn add(&mut self, base: i64, bytes: Vec<u8>) {
        let found = parse(&bytes);
        let (_, last, leader_epoch, _) = found[0];
        self.batches.push((base, last, leader_epoch, bytes));
        self.end = last + 1;
    }

    /// The offset that a truncation is asked for: the last one of a batch in the middle.
    fn cut(&self) -> i64 {
        let alive: Vec<_> = self.batches.iter().filter(|b| b.1 >= self.start).collect();
        alive.get(alive.len() / 2).map_or(self.end, |batch| batch.1)
    }

    fn delete_to(&self) -> i64 {
        (self.start + self.end + 1) / 2
    }

    /// As it is once `op` is done.
    fn after(&self, op: Op) -> Self {
        let mut next = self.clone();
        match op {
            Op::Append => next.add(self.end, batch(Codec::None, self.end, self.epoch, 2)),
            Op::AppendCompressed => {
                next.add(self.end, batch(Codec::Lz4, self.end, self.epoch, 3));
            }
            Op::AppendSynced => {
                next.add(self.end, batch(Codec::None, self.end, self.epoch, 1));
                next.synced = next.end;
            }
            Op::Follow => {
                next.add(
                    self.end + 2,
                    batch(Codec::None, self.end + 2, self.epoch, 2),
                );
                next.epoch += 1;
                let base = next.end + 1;
                next.add(base, batch(Codec::Gzip, base, next.epoch, 2));
            }
            Op::Roll | Op::Flush | Op::Close => next.synced = self.end,
            Op::DeleteRecords => next.start = self.delete_to(),
            Op::Truncate => {
                let cut = self.cut();
                next.batches.retain(|batch| batch.1 < cut);
                let base = self.batches.iter().find(|b| b.0 <= cut && cut <= b.1);
                let base = base.map_or(cut, |batch| batch.0);
                next.end = base.max(cut.min(self.start));
                next.start = self.start.min(next.end);
                next.synced = self.synced.min(next.end);
            }
            Op::TruncateFully => {
                next.batches.clear();
                next.end = self.end + 5;
                next.start = next.end;
                next.synced = next.end;
            }
            Op::AssignEpoch => next.epoch += 1,
            Op::Checkpoint | Op::Retain | Op::Kill => {}
        }
        next
    }
}

fn config() -> LogConfig {
    LogConfig::default()
        .segment_bytes(420)
        .index_interval_bytes(1)
        .retention(None)
        .retention_bytes(Some(600))
}

struct Session {
    disk: SimDisk,
    config: LogConfig,
    store: Option<Store>,
    model: Model,
}

impl Session {
    fn new() -> Self {
        let (disk, config) = (SimDisk::new(), config());
        let store = Some(Store::create(&disk, &config).unwrap());
        Self {
            disk,
            config,
            store,
            model: Model::default(),
        }
    }

    fn apply(&mut self, op: Op) -> Result<(), Error> {
        let model = self.model.after(op);
        self.carry_out(op, &model)?;
        let log = &self.store.as_ref().unwrap().log;
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        self.model = model;
        if op == Op::Retain {
            assert!(start >= self.model.start);
            self.model.start = start;
        }
        // A gap at the end, which a roll or a truncation made, does not outlive a reopening.
        if matches!(op, Op::Close | Op::Kill) {
            assert!(end <= self.model.end, "{op:?}");
            self.model.end = end;
            self.model.start = self.model.start.min(end);
        }
        assert_eq!((start, end), (self.model.start, self.model.end), "{op:?}");
        Ok(())
    }

    fn carry_out(&mut self, op: Op, next: &Model) -> Result<(), Error> {
        let Some(store) = self.store.as_ref() else {
            panic!("the log is open")
        };
        let log = &store.log;
        let (old, leader) = (&self.model, epoch(self.model.epoch));
        match op {
            Op::Append | Op::AppendCompressed | Op::AppendSynced => {
                // As a client sends it: what the leader stamps makes it the model's bytes.
                let mut bytes = next.batches.last().unwrap().3.clone();
                bytes[..8].fill(0);
                bytes[12..16].fill(0xff);
                let durability = match op {
                    Op::AppendSynced => Durability::Synced,
                    _ => Durability::Written,
                };
                log.append_as_leader(&mut bytes, leader, NOW, durability)
                    .map(drop)?;
            }
            Op::Follow => {
                let new = &next.batches[old.batches.len()..];
                let bytes: Vec<u8> = new.iter().flat_map(|batch| batch.3.clone()).collect();
                log.append_as_follower(&bytes, epoch(next.epoch), NOW, Durability::Written)
                    .map(drop)?;
            }
            Op::Roll => log.roll(NOW).map(drop)?,
            Op::Flush => log.flush().map(drop)?,
            Op::Checkpoint => store.dir.checkpoint()?,
            Op::DeleteRecords => {
                log.update_high_watermark(offset(old.end));
                log.delete_records(offset(next.start)).map(drop)?;
            }
            Op::Retain => {
                log.update_high_watermark(offset(old.end));
                log.retain(NOW).map(drop)?;
            }
            Op::Truncate => {
                log.update_high_watermark(offset(old.end));
                let cut = log.truncate_to(offset(old.cut()), ALLOWED, NOW)?;
                assert_eq!(cut.log_end_offset, offset(next.end));
            }
            Op::TruncateFully => log
                .truncate_fully(offset(next.end), ALLOWED, NOW)
                .map(drop)?,
            Op::AssignEpoch => log.assign_epoch(epoch(next.epoch))?,
            Op::Close => {
                let store = self.store.take().unwrap();
                store.dir.close()?;
                drop(store.log);
                self.store = Some(Store::open(&self.disk, &self.config)?);
            }
            Op::Kill => {
                drop(self.store.take());
                self.store = Some(Store::open(&self.disk, &self.config)?);
            }
        }
        Ok(())
    }
}

/// How the log may stand after a power cut in `op`.
struct Allowed<'m> {
    op: Op,
    before: &'m Model,
    after: Model,
    done: bool,
}

impl Allowed<'_> {
    /// (what may be there, how many batches of it must be)
    fn batches(&self) -> (&[(i64, i64, i32, Vec<u8>)], usize) {
        let cuts = matches!(self.op, Op::Truncate | Op::TruncateFully);
        let full = if cuts && !self.done {
            self.before
        } else {
            &self.after
        };
        let synced = if self.done {
            self.after.synced
        } else {
            self.before.synced
        };
        let kept = if cuts { self.after.end } else { i64::MAX };
        let kept = if self.op == Op::TruncateFully {
            0
        } else {
            kept
        };
        let must = full
            .batches
            .iter()
            .take_while(|b| b.1 < synced && b.1 < kept)
            .count();
        (&full.batches, must)
    }

    fn check(&self, disk: &SimDisk, context: &str) {
        let config = config();
        let store = Store::open(disk, &config).unwrap_or_else(|e| panic!("{context}: {e}"));
        let report = store.report.as_ref().unwrap();
        assert!(report.damage.is_empty(), "{context}: {:?}", report.damage);
        let log = &store.log;
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        let found = parse(&log_bytes(disk));
        self.check_content(&found, start, end, context);
        self.check_epochs(&store, &found, context);
        let watermark = log.high_watermark().get();
        assert!(
            (start..=end).contains(&watermark),
            "{context}: high watermark {watermark}"
        );
        assert!(log.recovery_point().get() <= end, "{context}");
        read_everything(&store, &found, start, context);
        let picture = picture(&store, disk);
        drop(store);
        let store = Store::open(disk, &config).unwrap_or_else(|e| panic!("{context}: {e}"));
        let report = store.report.as_ref().unwrap();
        assert!(
            report.cut.is_none(),
            "{context}: second open cut {:?}",
            report.cut
        );
        assert_eq!(
            self::picture(&store, disk),
            picture,
            "{context}: second open"
        );
        let mut bytes = batch(Codec::Snappy, 0, 0, 2);
        let log = &store.log;
        let appended = log.append_as_leader(&mut bytes, epoch(1_000), NOW, Durability::Synced);
        let appended = appended.unwrap_or_else(|e| panic!("{context}: append: {e}"));
        assert_eq!(appended.first_offset, Some(offset(end)), "{context}");
        drop(store);
        let disk = disk.crash(&CrashPlan::LoseAll);
        let store = Store::open(&disk, &config).unwrap_or_else(|e| panic!("{context}: {e}"));
        assert_eq!(
            store.log.log_end_offset(),
            offset(end + 2),
            "{context}: third open"
        );
        let fetched = store.log.read(offset(end), 1, Isolation::LogEnd).unwrap();
        assert!(fetched.bytes() == bytes, "{context}: appended bytes");
    }

    fn check_content(
        &self,
        found: &[(i64, i64, i32, Vec<u8>)],
        start: i64,
        end: i64,
        context: &str,
    ) {
        let (full, must) = self.batches();
        // Of the segments below the start a crash may bring back any.
        let alive: Vec<_> = found.iter().filter(|batch| batch.1 >= start).collect();
        let first = alive.first().map_or(0, |first| {
            full.iter()
                .position(|batch| batch.0 == first.0)
                .unwrap_or(0)
        });
        let last = first + alive.len();
        assert!(
            last <= full.len(),
            "{context}: {} batches too many",
            last - full.len()
        );
        for (at, (found, wanted)) in alive.into_iter().zip(&full[first..last]).enumerate() {
            assert!(
                found == wanted,
                "{context}: batch {at} is {found:?}, not {wanted:?}"
            );
        }
        let hidden = full[..first]
            .iter()
            .filter(|batch| batch.1 >= start)
            .count();
        assert_eq!(
            hidden, 0,
            "{context}: batches above the start {start} are missing"
        );
        if let Some(promised) = full[..must].last().filter(|batch| batch.1 >= start) {
            assert!(last >= must, "{context}: {promised:?} was synced, is gone");
        }
        assert!(
            end >= found.last().map_or(start, |batch| batch.1 + 1),
            "{context}: end {end}"
        );
        assert!(
            end <= self.before.end.max(self.after.end) + 2,
            "{context}: end {end}"
        );
        if self.op == Op::Truncate && self.done {
            assert!(end <= self.after.end, "{context}: end {end}");
        }
        if self.op == Op::TruncateFully && self.done {
            assert_eq!(
                (start, end),
                (self.after.start, self.after.end),
                "{context}"
            );
        }
        let highest = match self.op {
            Op::Retain => self.before.end,
            Op::DeleteRecords => self.after.start,
            Op::TruncateFully => self.after.end,
            _ => self.before.start,
        };
        assert!(start <= highest, "{context}: start {start}");
        let lowest = match (self.op, self.done) {
            (Op::Truncate | Op::TruncateFully, _) => 0,
            (_, true) => self.after.start,
            (_, false) => self.before.start,
        };
        assert!(start >= lowest, "{context}: start {start}, not {lowest}");
    }

    /// The epoch of each batch is what the cache says of its offset, and the cache says nothing of
    /// epochs that the log never had.
    fn check_epochs(&self, store: &Store, found: &[(i64, i64, i32, Vec<u8>)], context: &str) {
        let start = store.log.log_start_offset().get();
        let entries = store.log.epochs();
        for batch in found.iter().filter(|batch| batch.1 >= start) {
            let at = offset(batch.0.max(start));
            let entry = entries.iter().rfind(|entry| entry.start_offset <= at);
            let known = entry.map(|entry| entry.epoch.get());
            assert_eq!(
                known,
                Some(batch.2),
                "{context}: epoch at {at} in {entries:?}"
            );
        }
        let latest = self.before.epoch.max(self.after.epoch);
        for entry in &entries {
            assert!(entry.epoch.get() <= latest, "{context}: {entries:?}");
            assert!(
                entry.start_offset <= store.log.log_end_offset(),
                "{context}: {entries:?}"
            );
        }
    }
}

fn read_everything(store: &Store, found: &[(i64, i64, i32, Vec<u8>)], start: i64, context: &str) {
    let mut next = store.log.log_start_offset();
    let mut read = Vec::new();
    while next < store.log.log_end_offset() {
        let fetched = store.log.read(next, 300, Isolation::LogEnd);
        let fetched = fetched.unwrap_or_else(|e| panic!("{context}: {e}"));
        let Some(behind) = fetched.next_offset() else {
            break;
        };
        read.extend_from_slice(fetched.bytes());
        next = behind;
    }
    let wanted: Vec<u8> = found
        .iter()
        .filter(|b| b.1 >= start)
        .flat_map(|b| b.3.clone())
        .collect();
    assert!(
        read == wanted,
        "{context}: what is read is not what is there"
    );
}

/// What a second open must not change.
fn picture(store: &Store, disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let log = &store.log;
    let end = log.log_end_offset();
    // Of the epoch of a log without a visible record a rescan makes an entry, as in Kafka.
    let start = log.log_start_offset().get();
    let visible = parse(&log_bytes(disk)).iter().any(|batch| batch.1 >= start);
    let epochs: Vec<_> = log
        .epochs()
        .into_iter()
        .filter(|e| visible && e.start_offset < end)
        .collect();
    let values = format!("{log:?} {epochs:?} {:?}", log.segments());
    let dir = inside(disk);
    let mut picture = vec![(values, Vec::new())];
    for name in files(&dir) {
        // Index entries that are left over of an active segment may go at any time.
        let is_index = name.ends_with(".index") || name.ends_with(".timeindex");
        // Kafka takes some there at a trusted open of a log without any, and drops them at a
        // rescan.
        let snapshot = name
            .strip_suffix(".snapshot")
            .and_then(|at| at.parse::<i64>().ok());
        let is_at_start = snapshot.is_some_and(|at| at <= log.log_start_offset().get());
        if is_index || is_at_start || (name == "leader-epoch-checkpoint" && epochs.is_empty()) {
            continue;
        }
        let bytes = read_all(&dir, &name);
        picture.push((name, bytes));
    }
    picture
}

fn plans(pending: usize, randoms: u64) -> impl Iterator<Item = CrashPlan> {
    // Of many pending writes some are left out, always others.
    let step = 1 + pending / 8;
    let random = (0..randoms).filter(move |_| pending > 0);
    CrashPlan::enumerate(pending)
        .filter(move |plan| match plan {
            CrashPlan::LoseOnly(at) => (at + pending).is_multiple_of(step),
            CrashPlan::KeepOnly(at) => (at * 7 + pending).is_multiple_of(step),
            _ => true,
        })
        .chain(random.map(|seed| CrashPlan::Random { seed }))
}

/// Cuts the power at every call of the last of `ops`; returns how many disks were opened.
fn cut_power(ops: &[Op], randoms: u64) -> u64 {
    let (last, first) = ops.split_last().unwrap();
    let mut opened = 0;
    for call in 1.. {
        let mut session = Session::new();
        for op in first {
            session
                .apply(*op)
                .unwrap_or_else(|e| panic!("{first:?}: {e}"));
        }
        let before = session.model.clone();
        session.disk.power_cut_at(session.disk.calls() + call);
        let done = session.apply(*last).is_ok();
        let after = if done {
            session.model.clone()
        } else {
            before.after(*last)
        };
        let allowed = Allowed {
            op: *last,
            before: &before,
            after,
            done,
        };
        session.store = None;
        for plan in plans(session.disk.pending_ops().len(), randoms) {
            let disk = session.disk.crash(&plan);
            let context = format!("{ops:?}, power cut at call {call}, done {done}, {plan:?}");
            allowed.check(&disk, &context);
            opened += 1;
        }
        if done {
            break;
        }
    }
    opened
}

fn pairs(first: &[Op]) {
    let mut opened = 0;
    for one in first {
        for two in OPS {
            opened += cut_power(&[Op::Append, Op::Follow, *one, two], 3);
        }
    }
    assert!(opened > 1_000, "{opened}");
}

#[test]
fn a_power_cut_after_appends() {
    pairs(&OPS[..4]);
}

#[test]
fn a_power_cut_after_rolls_and_flushes() {
    pairs(&OPS[4..8]);
}

#[test]
fn a_power_cut_after_retention_and_truncation() {
    pairs(&OPS[8..11]);
}

#[test]
fn a_power_cut_after_epochs_and_reopening() {
    pairs(&OPS[11..]);
}

fn random_runs(runs: u64, steps: i64) {
    let mut rng = Rng::seeded(7);
    for run in 0..runs {
        let count = 3 + rng.below(steps);
        let ops: Vec<Op> = (0..count)
            .map(|_| OPS[usize::try_from(rng.below(14)).unwrap()])
            .collect();
        println!("run {run}: {ops:?}");
        cut_power(&ops, 3);
    }
}

#[test]
fn a_power_cut_in_random_sequences() {
    random_runs(30, 10);
}

#[test]
#[ignore = "a longer run of the test above"]
fn a_power_cut_in_many_random_sequences() {
    random_runs(2_000, 25);
}
