//! Opens what a power cut left and says what is wrong with it.
//!
//! What must hold whatever was promised (lookups equal a scan, a second open changes nothing, the
//! log goes on) follows from the disk and the log alone, so that it is looked at once for all crash
//! states which recovery makes equal.

use std::hash::{DefaultHasher, Hash, Hasher};

use highwater::log::{Cut, Decision, Durability, Isolation, Log, OpenReport, TimeQuery};
use highwater::log_dir::{DirOptions, DirReport, LogDir};
use highwater::record::Codec;
use highwater::storage::sim::{CrashPlan, Recording, SimDir, SimDisk};
use highwater::types::Timestamp;

use crate::common::{NOW, epoch, files, inside, offset, partition, read_all};
use crate::model::{Batch, Promise};
use crate::seen::Seen;

/// More than any log of these tests holds. Unit: bytes.
const ALL: usize = 1 << 20;

type Outcome<T> = Result<T, String>;

/// What a recovery that broke no promise did.
pub struct Recovery {
    pub recording: Recording,
    /// The content of the files in which it saved what it cut.
    pub saved: Vec<Vec<u8>>,
}

/// An opened directory with its one log.
struct Opened {
    dir: LogDir<SimDir>,
    log: std::sync::Arc<Log<SimDir>>,
    report: DirReport,
}

impl Opened {
    fn open(disk: &SimDisk, options: &DirOptions) -> Outcome<Option<Self>> {
        let (dir, mut report) = LogDir::open_in(disk.root(), options.clone())
            .map_err(|error| format!("the directory does not open: {error}"))?;
        if let Some((_, Err(error))) = report.logs.iter().find(|(_, outcome)| outcome.is_err()) {
            return Err(format!("the log does not open: {error}"));
        }
        report.logs.truncate(1);
        let log = dir.log(&partition());
        Ok(log.map(|log| Self { dir, log, report }))
    }

    fn open_again(disk: &SimDisk, options: &DirOptions, when: &str) -> Outcome<Self> {
        let opened = Self::open(disk, options).map_err(|why| format!("{when}: {why}"))?;
        opened.ok_or_else(|| format!("{when}: the log is gone"))
    }

    fn report(&self) -> Option<&OpenReport> {
        let (_, outcome) = self.report.logs.first()?;
        outcome.as_ref().ok()
    }

    /// What reopening must not change.
    fn values(&self) -> Values {
        let log = &self.log;
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        let segments = log.segments();
        let entries = log.epochs();
        let epochs = entries
            .iter()
            .map(|e| (e.epoch.get(), e.start_offset.get()));
        Values {
            start,
            end,
            watermark: log.high_watermark().get(),
            segments: segments
                .iter()
                .map(|(base, bytes)| (base.get(), *bytes))
                .collect(),
            epochs: epochs.filter(|(_, begins)| *begins < end).collect(),
        }
    }

    fn read(&self) -> Outcome<Vec<u8>> {
        let mut next = self.log.log_start_offset();
        let mut bytes = Vec::new();
        while next < self.log.log_end_offset() {
            let fetched = self
                .log
                .read(next, ALL, Isolation::LogEnd)
                .map_err(|error| format!("read at {next}: {error}"))?;
            let Some(behind) = fetched.next_offset() else {
                break;
            };
            bytes.extend_from_slice(fetched.bytes());
            next = behind;
        }
        Ok(bytes)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Values {
    start: i64,
    end: i64,
    watermark: i64,
    segments: Vec<(i64, u64)>,
    epochs: Vec<(i32, i64)>,
}

fn check(holds: bool, why: impl FnOnce() -> String) -> Outcome<()> {
    if holds { Ok(()) } else { Err(why()) }
}

/// Opens a disk that nothing is pending on; an error says what does not hold.
pub fn judge(
    disk: &SimDisk,
    options: &DirOptions,
    promise: &Promise,
    known: &Seen,
) -> Outcome<Recovery> {
    disk.record();
    let opened = Opened::open(disk, options)?;
    let recording = disk.recorded().ok_or("nothing was recorded")?;
    let Some(opened) = opened else {
        check(promise.fresh, || "the log is gone".into())?;
        let saved = Vec::new();
        return Ok(Recovery { recording, saved });
    };
    let values = opened.values();
    let Some(report) = opened.report() else {
        return Err("no report of the log".into());
    };
    check(report.damage.is_empty(), || {
        format!("damage: {:?}", report.damage)
    })?;
    check(promise.marker || !opened.report.clean, || {
        "a clean-shutdown marker vouches for a log that was being written".into()
    })?;
    let found = if promise.fresh && (values.start, values.end) == (0, 0) {
        Vec::new()
    } else {
        let found = check_content(promise, &opened.read()?, &values)?;
        check_values(promise, &found, &values, &opened)?;
        found
    };
    let saved = check_saved(promise, disk, report)?;
    let mut hasher = DefaultHasher::new();
    (disk.whole_hash(), &values).hash(&mut hasher);
    if known.insert(hasher.finish()) {
        Deep {
            disk,
            options,
            values: &values,
            found: &found,
        }
        .check(opened)?;
    }
    Ok(Recovery { recording, saved })
}

/// The batches that are there: a prefix, byte for byte.
fn check_content(promise: &Promise, bytes: &[u8], values: &Values) -> Outcome<Vec<Batch>> {
    let full = &promise.full;
    let first = full
        .iter()
        .take_while(|batch| batch.last < values.start)
        .count();
    let mut found = Vec::new();
    let mut rest = bytes;
    for batch in full.iter().skip(first) {
        if rest.is_empty() {
            break;
        }
        rest = rest.strip_prefix(&*batch.bytes).ok_or_else(|| {
            let (base, last) = (batch.base, batch.last);
            format!("not the batch {base} to {last} that was appended last at this place")
        })?;
        found.push(batch.clone());
    }
    check(rest.is_empty(), || {
        format!("{} bytes behind all that was appended", rest.len())
    })?;
    let count = first + found.len();
    if let Some(lost) = full.get(count.max(first)).filter(|_| count < promise.must) {
        return Err(format!("offset {} was synced and is gone", lost.base));
    }
    Ok(found)
}

fn check_values(
    promise: &Promise,
    found: &[Batch],
    values: &Values,
    opened: &Opened,
) -> Outcome<()> {
    let Values {
        start,
        end,
        watermark,
        ..
    } = *values;
    let last = found.last().map_or(start, |batch| batch.last + 1);
    check((last..=promise.end.max(last)).contains(&end), || {
        format!("log end {end}, not {last} to {}", promise.end)
    })?;
    let (lowest, highest) = promise.start;
    check((lowest..=highest).contains(&start), || {
        format!("log start {start}, not {lowest} to {highest}")
    })?;
    if let Some(bounds) = promise.exactly {
        check((start, end) == bounds, || {
            format!("log from {start} to {end}, not {bounds:?}")
        })?;
    }
    check((start..=end).contains(&watermark), || {
        format!("high watermark {watermark} outside {start} to {end}")
    })?;
    check(watermark >= promise.watermark.min(end), || {
        format!(
            "high watermark {watermark}, {} was written",
            promise.watermark
        )
    })?;
    check(opened.log.recovery_point().get() <= end, || {
        format!(
            "recovery point {} above the end",
            opened.log.recovery_point()
        )
    })?;
    check_epochs(promise, found, values, opened)
}

/// The epoch of each batch is what the cache says of its offset; those that were made durable are
/// known; none is made up.
fn check_epochs(
    promise: &Promise,
    found: &[Batch],
    values: &Values,
    opened: &Opened,
) -> Outcome<()> {
    let all = opened.log.epochs();
    let entries: Vec<_> = all
        .iter()
        .map(|e| (e.epoch.get(), e.start_offset.get()))
        .collect();
    for batch in found {
        let at = batch.base.max(values.start);
        let known = entries.iter().rfind(|(_, begins)| *begins <= at);
        check(known.map(|(epoch, _)| *epoch) == Some(batch.epoch), || {
            format!("epoch {} at {at} is not in {entries:?}", batch.epoch)
        })?;
    }
    for (epoch, begins) in &promise.epochs {
        // One that no batch has is forgotten by an open, as by Kafka's `LogLoader`.
        let reached = (values.start + 1..values.end).contains(begins);
        check(!reached || entries.contains(&(*epoch, *begins)), || {
            format!("epoch {epoch} from {begins} was assigned, is not in {entries:?}")
        })?;
    }
    let rises = entries.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1);
    let fits = |entry: &(i32, i64)| entry.0 <= promise.latest_epoch && entry.1 <= values.end;
    check(rises && entries.iter().all(fits), || {
        format!("epochs {entries:?}, log end {}", values.end)
    })
}

/// The bytes that this recovery or an earlier one cut stand beside the log.
fn check_saved(promise: &Promise, disk: &SimDisk, report: &OpenReport) -> Outcome<Vec<Vec<u8>>> {
    let saves = |cut: &&Cut| cut.row.decision() == Decision::SaveAndCut;
    let cut = report.cut.as_ref().filter(saves);
    if cut.is_none() && promise.saved.is_empty() {
        return Ok(Vec::new());
    }
    let dir = inside(disk);
    let names = files(&dir);
    let saved = names
        .iter()
        .filter(|name| name.starts_with("highwater.saved-"));
    let all: Vec<Vec<u8>> = saved.map(|name| read_all(&dir, name)).collect();
    for wanted in &promise.saved {
        check(all.contains(wanted), || {
            format!("{} bytes were cut and are not saved", wanted.len())
        })?;
    }
    let mine = cut.into_iter().flat_map(|cut| &cut.saved_to);
    let mine: Vec<_> = mine.map(|name| read_all(&dir, name)).collect();
    let bytes: usize = mine.iter().map(Vec::len).sum();
    let wanted = cut.map_or(0, |cut| cut.bytes);
    check(u64::try_from(bytes) == Ok(wanted), || {
        format!("{wanted} bytes are cut, {bytes} saved")
    })?;
    Ok(promise.saved.iter().cloned().chain(mine).collect())
}

/// What must hold of an opened log whatever came before.
struct Deep<'a> {
    disk: &'a SimDisk,
    options: &'a DirOptions,
    values: &'a Values,
    found: &'a [Batch],
}

impl Deep<'_> {
    fn check(&self, opened: Opened) -> Outcome<()> {
        self.check_lookups(&opened)?;
        self.check_times(&opened)?;
        let killed = self.disk.after_kill();
        let lost = self.disk.crash(&CrashPlan::LoseAll);
        self.check_reopened(&lost, "power cut behind the open")?;
        let again = self.check_reopened(&killed, "kill behind the open")?;
        self.check_goes_on(&killed, again)?;
        self.check_idempotent(opened)
    }

    fn check_lookups(&self, opened: &Opened) -> Outcome<()> {
        for batch in self.found {
            let at = batch.last;
            let fetched = opened
                .log
                .read(offset(at), 1, Isolation::LogEnd)
                .map_err(|error| format!("look up {at}: {error}"))?;
            check(fetched.bytes() == &*batch.bytes, || {
                format!("the batch that is looked up at {at} is not the one there")
            })?;
        }
        Ok(())
    }

    /// Every search by time finds what a scan of all records finds.
    fn check_times(&self, opened: &Opened) -> Outcome<()> {
        let stamped = |batch: &Batch| {
            let offsets = batch.base..=batch.last;
            offsets.zip(batch.times.to_vec()).collect::<Vec<_>>()
        };
        let records: Vec<(i64, i64)> = self.found.iter().flat_map(stamped).collect();
        for (_, time) in &records {
            let alive = records.iter().filter(|(at, _)| *at >= self.values.start);
            let wanted = alive.copied().find(|(_, other)| other >= time);
            let query = TimeQuery::AtOrAfter(Timestamp::from_millis(*time));
            let found = opened
                .log
                .find_time(query)
                .map_err(|error| format!("find time {time}: {error}"))?;
            let found = found.map(|found| (found.offset.get(), found.timestamp.millis()));
            check(found == wanted, || {
                format!("time {time} is found at {found:?}, a scan finds {wanted:?}")
            })?;
        }
        Ok(())
    }

    fn check_reopened(&self, disk: &SimDisk, when: &str) -> Outcome<Opened> {
        let again = Opened::open_again(disk, self.options, when)?;
        let values = again.values();
        check(values == *self.values, || {
            format!("{when}: {values:?}, not {:?}", self.values)
        })?;
        // Room that was set aside and never used is no record.
        let cut = again.report().and_then(|report| report.cut.as_ref());
        let is_empty = cut.is_none_or(|cut| cut.row.decision() == Decision::Cut);
        check(is_empty, || format!("{when}: cut {cut:?}"))?;
        let bytes = again.read().map_err(|why| format!("{when}: {why}"))?;
        let wanted: Vec<u8> = self.found.iter().flat_map(|b| b.bytes.to_vec()).collect();
        check(bytes == wanted, || format!("{when}: other bytes"))?;
        Ok(again)
    }

    /// Appends, syncs, cuts the power and opens: the record is there.
    fn check_goes_on(&self, disk: &SimDisk, opened: Opened) -> Outcome<()> {
        let end = self.values.end;
        let batch = Batch::new(Codec::Snappy, end, 900, 2, 999);
        let mut bytes = batch.unstamped();
        let durability = Durability::Synced;
        opened
            .log
            .append_as_leader(&mut bytes, epoch(900), NOW, durability)
            .map_err(|error| format!("append behind the open: {error}"))?;
        drop(opened);
        let when = "power cut behind an append";
        let again = Opened::open_again(&disk.crash(&CrashPlan::LoseAll), self.options, when)?;
        let found = again.log.log_end_offset().get();
        check(found == end + 2, || {
            format!("{when}: log end {found}, not {}", end + 2)
        })?;
        let fetched = again
            .log
            .read(offset(end), 1, Isolation::LogEnd)
            .map_err(|error| format!("{when}: {error}"))?;
        check(fetched.bytes() == &*batch.bytes, || {
            format!("{when}: other bytes")
        })?;
        // A row of records that the first power cut took is not believed of this one.
        let found = (again.log.log_start_offset(), again.log.high_watermark());
        let wanted = (self.values.start, self.values.watermark);
        check((found.0.get(), found.1.get()) == wanted, || {
            format!("{when}: log start and high watermark {found:?}, not {wanted:?}")
        })
    }

    /// Closes, then opens and closes once more: nothing changes, and all is well.
    fn check_idempotent(&self, opened: Opened) -> Outcome<()> {
        let close = |opened: Opened| {
            let closed = opened.dir.close();
            closed.map_err(|error| format!("close: {error}"))
        };
        close(opened)?;
        let before = self.disk.after_kill();
        let again = Opened::open_again(self.disk, self.options, "second open")?;
        let values = again.values();
        check(values == *self.values, || {
            format!("second open: {values:?}, not {:?}", self.values)
        })?;
        let Some(report) = again.report() else {
            return Err("no report of the second open".into());
        };
        let quiet = report.notes.is_empty() && again.report.notes.is_empty();
        let sound = report.decision == Decision::Trust && report.indexes_rebuilt.is_empty();
        check(quiet && sound && again.report.clean, || {
            format!("second open: {report:?}, {:?}", again.report.notes)
        })?;
        close(again)?;
        let (old, new) = (before.root(), self.disk.root());
        let all = [&old, &inside(&before)].map(files);
        let leftover = all.iter().flatten().find(|name| name.ends_with(".tmp"));
        check(leftover.is_none(), || format!("{leftover:?} is left"))?;
        if before.image_hash() == self.disk.image_hash() {
            return Ok(());
        }
        let (old_log, new_log) = (inside(&before), inside(self.disk));
        // Producer snapshots that Kafka takes at a trusted open and drops at a scan.
        let names = |dir: &SimDir| {
            let mut names = files(dir);
            names.retain(|name| !name.ends_with(".snapshot"));
            names
        };
        let (names, after) = (names(&old_log), names(&new_log));
        check(names == after, || {
            format!("second open and close: files {after:?}, not {names:?}")
        })?;
        let changed = names
            .iter()
            .filter(|n| read_all(&old_log, n) != read_all(&new_log, n));
        let changed: Vec<_> = changed.collect();
        check(changed.is_empty(), || {
            format!("second open and close: {changed:?} changed")
        })?;
        let changed = files(&old) != files(&new)
            || files(&old)
                .iter()
                .any(|name| read_all(&old, name) != read_all(&new, name));
        check(!changed, || {
            "second open and close: a checkpoint changed".into()
        })
    }
}
