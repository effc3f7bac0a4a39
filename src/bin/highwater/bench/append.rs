//! Appends beside `pwrite`, synced ones beside `pwrite` and `fdatasync`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::thread;

use highwater::log::{Durability, Log, LogConfig};
use highwater::storage::{Dir, File as _, OsDir};

use super::material::{BATCH_BYTES, RECORDS, Ready, create_log};
use super::measure::{Figure, Lap, Scratch, at, measure, mebibytes, median, race, time};
use super::plan::Settings;

/// The appends of a synced figure.
const SYNCED: u64 = 20_000;
const SYNCED_BYTES: usize = 4096;
const SYNCED_RECORDS: usize = 25;
/// A batch of one record whose value has 256 bytes.
const SINGLE_BYTES: usize = 337;
const SINGLE_MOST: u64 = 200_000;
/// The unsynced appends between two looks at the clock.
const SLICE: u64 = 64;
const ROUNDS: u64 = 5;
const WRITERS: u64 = 64;
/// One thread makes this part of the appends of all: it takes as much longer.
const PART: u32 = 8;

/// A file that is written without anything between.
struct Raw {
    file: File,
    end: u64,
}

impl Raw {
    #[expect(
        clippy::disallowed_methods,
        reason = "the raw system call is what is measured"
    )]
    fn create(dir: &Path, allocated: Option<u64>) -> io::Result<Self> {
        let made = OsDir::open(dir)?.create_new("raw")?;
        if let Some(bytes) = allocated {
            made.preallocate(bytes)?;
        }
        let path = dir.join("raw");
        let file = std::fs::OpenOptions::new().write(true).open(&path);
        let file = file.map_err(|e| at(&path, &e))?;
        Ok(Self { file, end: 0 })
    }

    fn append(&mut self, bytes: &[u8], synced: bool) -> io::Result<()> {
        self.file.write_all_at(bytes, self.end)?;
        self.end = self
            .end
            .saturating_add(u64::try_from(bytes.len()).unwrap_or(0));
        if synced {
            self.file.sync_data()
        } else {
            Ok(())
        }
    }
}

/// Appends of `count` batches a round in slices of `slice`, in a fresh log and a fresh file.
struct Appends<'a> {
    over: Settings<'a>,
    batch_bytes: usize,
    records: usize,
    count: u64,
    slice: u64,
    durability: Durability,
    preallocated: bool,
}

impl Appends<'_> {
    fn round(&self, scratch: &Scratch) -> io::Result<Lap> {
        let place = scratch.inner("append")?;
        let mut ours = Ready::of(self.batch_bytes, self.records)?;
        let mut theirs = Ready::of(self.batch_bytes, self.records)?;
        let bytes = self.count.saturating_mul(theirs.batch_bytes());
        let (dir, log) = create_log(&place.path().join("data"), &self.config(bytes)?)?;
        let mut raw = Raw::create(place.path(), self.preallocated.then_some(bytes))?;
        let synced = self.durability == Durability::Synced;
        let lap = race(
            self.count.div_euclid(self.slice.max(1)),
            || (0..self.slice).try_for_each(|_| ours.append(&log, self.durability)),
            || (0..self.slice).try_for_each(|_| raw.append(theirs.next(), synced)),
        );
        drop(dir);
        lap
    }

    /// Room for all in one segment, since a roll syncs it.
    fn config(&self, bytes: u64) -> io::Result<LogConfig> {
        let config = LogConfig::default()
            .segment_bytes(u32::try_from(bytes).unwrap_or(u32::MAX))
            .preallocate(self.preallocated);
        self.over.over(config)
    }

    fn median(&self, scratch: &Scratch) -> io::Result<Lap> {
        median(|_| self.round(scratch))
    }
}

/// `append_unsynced`: 16 KiB batches of 100 records.
pub(crate) fn unsynced(scratch: &Scratch, over: Settings<'_>, bytes: u64) -> io::Result<Figure> {
    let batch_bytes = u64::try_from(BATCH_BYTES).unwrap_or(u64::MAX);
    let count = bytes.div_euclid(batch_bytes).div_euclid(ROUNDS).max(SLICE);
    let appends = Appends {
        over,
        batch_bytes: BATCH_BYTES,
        records: RECORDS,
        count,
        slice: SLICE,
        durability: Durability::Written,
        preallocated: false,
    };
    let written = mebibytes(count.saturating_mul(batch_bytes));
    let what = "append of ready 16 KiB batches, no sync, beside pwrite";
    Ok(appends
        .median(scratch)?
        .throughput("append_unsynced", written, "MiB/s", what))
}

/// `append_single_256b`: batches of one record with a value of 256 bytes.
pub(crate) fn single(scratch: &Scratch, over: Settings<'_>, bytes: u64) -> io::Result<Figure> {
    // Four times the bytes for each append: it is the number of appends that costs.
    let count = bytes
        .div_euclid(1024)
        .div_euclid(ROUNDS)
        .clamp(SLICE, SINGLE_MOST);
    let appends = Appends {
        over,
        batch_bytes: SINGLE_BYTES,
        records: 1,
        count,
        slice: SLICE,
        durability: Durability::Written,
        preallocated: false,
    };
    let what = "append of one record of 256 bytes, no sync, beside pwrite of its batch";
    let lap = appends.median(scratch)?;
    Ok(lap.throughput("append_single_256b", measure(count), "appends/s", what))
}

/// `append_synced` and `append_synced_preallocated`: 4 KiB batches, each synced.
pub(crate) fn synced(
    scratch: &Scratch,
    over: Settings<'_>,
    preallocated: bool,
) -> io::Result<Figure> {
    let count = SYNCED.div_euclid(ROUNDS);
    let appends = Appends {
        over,
        batch_bytes: SYNCED_BYTES,
        records: SYNCED_RECORDS,
        count,
        slice: 10,
        durability: Durability::Synced,
        preallocated,
    };
    let (name, what) = if preallocated {
        (
            "append_synced_preallocated",
            "synced append of 4 KiB to allocated files, beside pwrite and fdatasync",
        )
    } else {
        (
            "append_synced",
            "synced append of 4 KiB, beside pwrite and fdatasync",
        )
    };
    Ok(appends
        .median(scratch)?
        .throughput(name, measure(count), "appends/s", what))
}

/// `append_synced_64_writers`: as many appends by 64 threads at once, which share syncs, beside one
/// thread that syncs each.
pub(crate) fn synced_by_many(scratch: &Scratch, over: Settings<'_>) -> io::Result<Figure> {
    let each = SYNCED.div_euclid(ROUNDS).div_euclid(WRITERS);
    let count = each.saturating_mul(WRITERS);
    let lap = median(|_| {
        let place = scratch.inner("append")?;
        let (dir, log) = create_log(
            &place.path().join("data"),
            &over.over(LogConfig::default())?,
        )?;
        let mut raw = Raw::create(place.path(), None)?;
        let mut theirs = Ready::of(SYNCED_BYTES, SYNCED_RECORDS)?;
        let ready = (0..WRITERS)
            .map(|_| Ready::of(SYNCED_BYTES, SYNCED_RECORDS))
            .collect::<io::Result<Vec<Ready>>>()?;
        let ours = time(|| write_at_once(&log, ready, each))?;
        let some = count.div_euclid(u64::from(PART));
        let reference = time(|| (0..some).try_for_each(|_| raw.append(theirs.next(), true)))?;
        let reference = reference.saturating_mul(PART);
        drop(dir);
        Ok(Lap { ours, reference })
    })?;
    let what = "synced append of 4 KiB by 64 threads, beside pwrite and fdatasync by one";
    Ok(lap.throughput(
        "append_synced_64_writers",
        measure(count),
        "appends/s",
        what,
    ))
}

fn write_at_once(log: &Log, ready: Vec<Ready>, each: u64) -> io::Result<()> {
    thread::scope(|scope| {
        let writers: Vec<_> = ready
            .into_iter()
            .map(|mut ready| {
                scope.spawn(move || {
                    (0..each).try_for_each(|_| ready.append(log, Durability::Synced))
                })
            })
            .collect();
        writers.into_iter().try_for_each(|writer| {
            writer
                .join()
                .unwrap_or_else(|_| Err(io::Error::other("a writer panicked")))
        })
    })
}
