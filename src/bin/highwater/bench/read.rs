//! Reads beside `pread` and CRC-32C, and lookups as the log grows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use highwater::inspect::{Depth, Finding, Options, Target, examine};
use highwater::log::{Durability, Fetched, Isolation, Log, LogConfig};
use highwater::names::{FileType, segment_name};
use highwater::record::crc32c;
use highwater::types::Offset;

use super::material::{
    BATCH_BYTES, Noise, RECORDS, Ready, create_log, engine, open_dir, partition,
};
use super::measure::{Figure, Lap, Scratch, at, mebibytes, median, race, time};
use super::plan::Settings;

/// What a read asks for, and what the raw one does: it stays in a cache of the second level, where
/// the raw one is at its best.
const FETCH_BYTES: usize = 256 << 10;
const PAGE_BYTES: usize = 4096;
/// The reads between two looks at the clock.
const SLICE: u64 = 64;
const LOOKUPS: u64 = 1_000;
const LOOKUP_SLICES: u64 = 20;

/// A log of `bytes` bytes, synced and never closed, so that an open recovers all of it.
pub(crate) struct Filled {
    _scratch: Scratch,
    data: PathBuf,
    config: LogConfig,
}

impl Filled {
    pub(crate) fn create(
        scratch: &Scratch,
        name: &str,
        bytes: u64,
        config: LogConfig,
    ) -> io::Result<Self> {
        let scratch = scratch.inner(name)?;
        let data = scratch.path().join("data");
        let (dir, log) = create_log(&data, &config)?;
        let mut ready = Ready::of(BATCH_BYTES, RECORDS)?;
        for _ in 0..bytes.div_euclid(ready.batch_bytes()).max(1) {
            ready.append(&log, Durability::Written)?;
        }
        log.flush().map_err(engine)?;
        drop(dir);
        Ok(Self {
            _scratch: scratch,
            data,
            config,
        })
    }

    /// The data directory.
    pub(crate) fn data(&self) -> &Path {
        &self.data
    }

    fn open(&self) -> io::Result<(highwater::log_dir::LogDir, std::sync::Arc<Log>)> {
        let dir = open_dir(&self.data, &self.config)?;
        let log = dir
            .log(&partition())
            .ok_or_else(|| io::Error::other("the log is gone"))?;
        Ok((dir, log))
    }
}

/// The `.log` files of a log, read one behind the other.
pub(crate) struct RawReader {
    files: Vec<(File, u64)>,
    at: usize,
    position: u64,
    /// With a page to spare: where copies of the kernel are fastest is up to the place in a page.
    buffer: Vec<u8>,
}

impl RawReader {
    #[expect(
        clippy::disallowed_methods,
        reason = "the raw system call is what is measured"
    )]
    pub(crate) fn open(log_path: &Path, segments: &[(Offset, u64)]) -> io::Result<Self> {
        let mut files = Vec::new();
        for (base, bytes) in segments {
            let path = log_path.join(segment_name(*base, FileType::Log));
            files.push((File::open(&path).map_err(|e| at(&path, &e))?, *bytes));
        }
        Ok(Self {
            files,
            at: 0,
            position: 0,
            buffer: vec![0; FETCH_BYTES.saturating_add(PAGE_BYTES)],
        })
    }

    /// Reads on, and computes the checksum of what was read; the number of bytes, 0 at the end.
    pub(crate) fn step(&mut self) -> io::Result<u64> {
        while let Some((file, end)) = self.files.get(self.at) {
            let left = end.saturating_sub(self.position);
            let want = usize::try_from(left).unwrap_or(usize::MAX).min(FETCH_BYTES);
            if want == 0 {
                self.at = self.at.saturating_add(1);
                self.position = 0;
                continue;
            }
            let from = self.buffer.as_ptr().align_offset(PAGE_BYTES);
            let aligned = self.buffer.get_mut(from..).unwrap_or_default();
            let piece = aligned.get_mut(..want).unwrap_or_default();
            file.read_exact_at(piece, self.position)?;
            std::hint::black_box(crc32c(piece));
            let read = u64::try_from(want).unwrap_or(0);
            self.position = self.position.saturating_add(read);
            return Ok(read);
        }
        Ok(0)
    }

    /// Reads all from the front.
    pub(crate) fn run(&mut self) -> io::Result<u64> {
        (self.at, self.position) = (0, 0);
        let mut bytes: u64 = 0;
        loop {
            match self.step()? {
                0 => return Ok(bytes),
                read => bytes = bytes.saturating_add(read),
            }
        }
    }
}

/// `read_batches`: all batches in order, each checked.
pub(crate) fn sequential(filled: &Filled) -> io::Result<Figure> {
    let (dir, log) = filled.open()?;
    let mut raw = RawReader::open(log.path(), &log.segments())?;
    let bytes = log.bytes();
    let slice = u64::try_from(FETCH_BYTES)
        .unwrap_or(u64::MAX)
        .saturating_mul(SLICE);
    let mut fetched = Fetched::default();
    raw.run()?;
    let lap = median(|_| {
        raw = RawReader::open(log.path(), &log.segments())?;
        let mut next = log.log_start_offset();
        let (mut ours, mut theirs) = (0_u64, 0_u64);
        let mut due: u64 = 0;
        let mut raw_due: u64 = 0;
        let slices = bytes.div_ceil(slice);
        race(
            slices,
            || {
                due = due.saturating_add(slice).min(bytes);
                while ours < due {
                    log.read_into(next, FETCH_BYTES, true, Isolation::LogEnd, &mut fetched)
                        .map_err(engine)?;
                    let read = u64::try_from(fetched.bytes().len()).unwrap_or(0);
                    let Some(behind) = fetched.next_offset() else {
                        return Err(io::Error::other("the log ended early"));
                    };
                    next = behind;
                    ours = ours.saturating_add(read);
                }
                Ok(())
            },
            || {
                raw_due = raw_due.saturating_add(slice).min(bytes);
                while theirs < raw_due {
                    theirs = theirs.saturating_add(raw.step()?);
                }
                Ok(())
            },
        )
    })?;
    drop(dir);
    let what = "read of all batches in order, checks on, beside pread and CRC-32C";
    Ok(lap.throughput("read_batches", mebibytes(bytes), "MiB/s", what))
}

/// `lookup_growth`: a read of one batch at a random offset, in a log of 1 MiB and in one of
/// `bytes`, both in segments of 1 MiB.
pub(crate) fn lookup_growth(
    scratch: &Scratch,
    over: Settings<'_>,
    bytes: u64,
) -> io::Result<Figure> {
    let config = over.over(LogConfig::default().segment_bytes(1 << 20))?;
    let short = Filled::create(scratch, "short", 1 << 20, config.clone())?;
    let long = Filled::create(scratch, "long", bytes, config)?;
    let (short_dir, short) = short.open()?;
    let (long_dir, long) = long.open()?;
    let (mut near, mut far) = (Lookups::new(&short), Lookups::new(&long));
    near.run()?;
    far.run_over_all()?;
    let lap = median(|_| race(LOOKUP_SLICES, || far.run(), || near.run()))?;
    drop((short_dir, long_dir));
    let lookups = super::measure::measure(LOOKUPS.saturating_mul(LOOKUP_SLICES));
    let (highwater, reference) = (
        lap.ours.as_secs_f64() * 1e9 / lookups,
        lap.reference.as_secs_f64() * 1e9 / lookups,
    );
    Ok(Figure {
        name: "lookup_growth",
        highwater,
        reference,
        unit: "ns",
        ratio: highwater / reference,
        what: "read of a batch at a random offset, beside the same in a log of 1 MiB".into(),
    })
}

struct Lookups<'a> {
    log: &'a Log,
    noise: Noise,
    fetched: Fetched,
}

impl<'a> Lookups<'a> {
    fn new(log: &'a Log) -> Self {
        Self {
            log,
            noise: Noise::new(1),
            fetched: Fetched::default(),
        }
    }

    fn run(&mut self) -> io::Result<()> {
        let end = u64::try_from(self.log.log_end_offset().get()).unwrap_or(0);
        for _ in 0..LOOKUPS {
            let offset = i64::try_from(self.noise.below(end)).unwrap_or(0);
            self.look(Offset::new(offset).unwrap_or_default())?;
        }
        Ok(())
    }

    /// Once in each segment, so that what is measured is no first use.
    fn run_over_all(&mut self) -> io::Result<()> {
        let segments = self.log.segments();
        segments.iter().try_for_each(|(base, _)| self.look(*base))
    }

    fn look(&mut self, offset: Offset) -> io::Result<()> {
        self.log
            .read_into(offset, 1, true, Isolation::LogEnd, &mut self.fetched)
            .map_err(engine)?;
        if self.fetched.is_empty() {
            return Err(io::Error::other(format!("nothing at offset {offset}")));
        }
        Ok(())
    }
}

/// `verify`: all that there is to check in a log, records included.
pub(crate) fn verify(filled: &Filled) -> io::Result<Figure> {
    let target = Target::open(filled.data()).map_err(engine)?;
    let name = partition().to_string();
    let log = target.log(&name).map_err(engine)?;
    let log = log.ok_or_else(|| io::Error::other("the log is gone"))?;
    let segments: Vec<(Offset, u64)> = {
        let (_dir, log) = filled.open()?;
        log.segments()
    };
    let mut raw = RawReader::open(&filled.data().join(&name), &segments)?;
    let bytes = raw.run()?;
    let lap = median(|_| {
        let ours = time(|| {
            let info = examine(&log, Depth::Everything, &Options::default()).map_err(engine)?;
            if info.findings.iter().any(Finding::is_damage) {
                return Err(io::Error::other("the log of the benchmark is damaged"));
            }
            Ok(())
        })?;
        let reference = time(|| raw.run().map(drop))?;
        Ok(Lap { ours, reference })
    })?;
    let what = "all checks of verify, records included, beside pread and CRC-32C";
    Ok(lap.throughput("verify", mebibytes(bytes), "MiB/s", what))
}
