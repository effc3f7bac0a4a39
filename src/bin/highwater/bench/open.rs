//! Opening: recovery beside `pread` and CRC-32C, in a process of its own; ten thousand segments
//! beside a walk over the directory.

use std::io;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use highwater::log::LogConfig;

use super::material::{BATCH_BYTES, Ready, create_log, engine, open_dir, partition};
use super::measure::{Figure, Lap, Scratch, at, measure, mebibytes, median, race, time};
use super::plan::Settings;
use super::read::{Filled, RawReader};
use highwater::log::Durability;

const SEGMENTS: u64 = 10_000;
/// How often the child process recovers; its times are of all together.
const RECOVERIES: u64 = 4;
/// What recovery may hold in memory. Unit: MiB.
const RESIDENT_LIMIT_MIB: u64 = 64;

/// What the child process found, as the line that it prints.
#[derive(Clone, Copy, Debug, Default)]
struct Recovery {
    lap: Lap,
    bytes: u64,
    /// The most that was resident; 0 where the system does not tell. Unit: KiB.
    resident_kib: u64,
}

impl Recovery {
    fn print(self) -> String {
        format!(
            "{} {} {} {}",
            self.lap.ours.as_nanos(),
            self.lap.reference.as_nanos(),
            self.bytes,
            self.resident_kib
        )
    }

    fn parse(line: &str) -> Option<Self> {
        let mut numbers = line.split_whitespace().map(|word| word.parse::<u64>().ok());
        let mut next = || numbers.next().flatten();
        Some(Self {
            lap: Lap {
                ours: Duration::from_nanos(next()?),
                reference: Duration::from_nanos(next()?),
            },
            bytes: next()?,
            resident_kib: next()?,
        })
    }
}

/// What the child process does: opens the data directory, which recovers its log, in turns with
/// readings of the same bytes. Returns the line for its parent.
pub(crate) fn recover_here(data: &Path, over: Settings<'_>) -> io::Result<String> {
    let log_path = data.join("bench-0");
    let segments = segments_of(&log_path)?;
    let mut raw = RawReader::open(&log_path, &segments)?;
    // Once unmeasured, so that the first turn is as warm as the others.
    let bytes = raw.run()?;
    let config = over.over(LogConfig::default())?;
    let lap = race(
        RECOVERIES,
        || {
            // Dropped and not closed: the next open recovers as much.
            let log = open_dir(data, &config)?.log(&partition());
            if log.is_none_or(|log| log.bytes() != bytes) {
                return Err(io::Error::other("recovery did not find all bytes"));
            }
            Ok(())
        },
        || raw.run().map(drop),
    )?;
    let resident_kib = peak_resident_kib();
    let found = Recovery {
        lap,
        bytes,
        resident_kib,
    };
    Ok(found.print())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the raw system call is what is measured"
)]
fn segments_of(log_path: &Path) -> io::Result<Vec<(highwater::types::Offset, u64)>> {
    use highwater::names::FileType;
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(log_path).map_err(|e| at(log_path, &e))? {
        let entry = entry?;
        let name = entry.file_name();
        let base = name.to_str().and_then(|name| {
            name.strip_suffix(FileType::Log.extension())
                .and_then(|digits| digits.trim_end_matches('.').parse::<i64>().ok())
        });
        if let Some(base) = base.and_then(highwater::types::Offset::new) {
            segments.push((base, entry.metadata()?.len()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

/// The high-water mark of the resident set. Linux tells it in `/proc`.
#[expect(clippy::disallowed_methods, reason = "outside of any log")]
fn peak_resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    line.and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|kib| kib.trim().parse().ok())
        .unwrap_or(0)
}

/// `recovery_warm` and `recovery_resident_mib`.
pub(crate) fn recovery(filled: &Filled, over: Settings<'_>) -> io::Result<[Figure; 2]> {
    let mut last = Recovery::default();
    let mut resident_kib = 0;
    let lap = median(|_| {
        last = recover_in_child(filled.data(), over)?;
        resident_kib = resident_kib.max(last.resident_kib);
        Ok(last.lap)
    })?;
    let what = "open of a warm log that was never closed, beside pread and CRC-32C";
    let warm = lap.throughput(
        "recovery_warm",
        mebibytes(last.bytes.saturating_mul(RECOVERIES)),
        "MiB/s",
        what,
    );
    let resident = measure(resident_kib) / 1024.0;
    let limit = measure(RESIDENT_LIMIT_MIB);
    let resident = Figure {
        name: "recovery_resident_mib",
        highwater: resident,
        reference: limit,
        unit: "MiB",
        ratio: resident / limit,
        what: "the most that was resident in that process, beside what is allowed".into(),
    };
    Ok([warm, resident])
}

fn recover_in_child(data: &Path, over: Settings<'_>) -> io::Result<Recovery> {
    let settings = over.0.iter().map(|s| format!("{}={}", s.key, s.value));
    let output = Command::new(std::env::current_exe()?)
        .args(settings.flat_map(|setting| ["--config".into(), setting]))
        .arg("bench")
        .arg("--recover-here")
        .arg(data)
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()?;
    if !output.status.success() {
        return Err(io::Error::other("the recovering process failed"));
    }
    Recovery::parse(&String::from_utf8_lossy(&output.stdout))
        .ok_or_else(|| io::Error::other("the recovering process said nothing"))
}

/// `open_clean_10000_segments`: one log of 10,000 segments, cleanly closed.
pub(crate) fn clean(scratch: &Scratch, over: Settings<'_>) -> io::Result<Figure> {
    let scratch = scratch.inner("clean")?;
    let data = scratch.path().join("data");
    let config = over.over(LogConfig::default())?;
    let (dir, log) = create_log(&data, &config)?;
    let mut ready = Ready::of(BATCH_BYTES.div_euclid(16), 1)?;
    for segment in 0..SEGMENTS {
        if segment > 0 {
            log.roll(super::material::now()).map_err(engine)?;
        }
        ready.append(&log, Durability::Written)?;
    }
    let log_path = log.path().to_path_buf();
    drop(log);
    dir.close().map_err(engine)?;
    let lap = median(|_| {
        let mut opened = None;
        let ours = time(|| {
            opened = Some(open_dir(&data, &config)?);
            Ok(())
        })?;
        let dir = opened.ok_or_else(|| io::Error::other("not opened"))?;
        let found = dir.log(&partition()).map(|log| log.segments().len());
        if found.and_then(|found| u64::try_from(found).ok()) != Some(SEGMENTS) {
            return Err(io::Error::other("not all segments were found"));
        }
        dir.close().map_err(engine)?;
        let reference = time(|| walk(&log_path))?;
        Ok(Lap { ours, reference })
    })?;
    let what = "open of a cleanly closed log of 10,000 segments, beside a walk over its directory";
    let segments = measure(SEGMENTS);
    Ok(lap.throughput("open_clean_10000_segments", segments, "segments/s", what))
}

/// Lists a directory with the length of each file.
#[expect(
    clippy::disallowed_methods,
    reason = "the raw system call is what is measured"
)]
fn walk(path: &Path) -> io::Result<()> {
    let mut bytes: u64 = 0;
    for entry in std::fs::read_dir(path)? {
        bytes = bytes.saturating_add(entry?.metadata()?.len());
    }
    std::hint::black_box(bytes);
    Ok(())
}
