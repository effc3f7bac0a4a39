//! How it is measured: the two sides in turns, five rounds, the round in the middle counts.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The rounds of a figure.
const ROUNDS: usize = 5;

/// One line of the answer.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    pub(crate) name: &'static str,
    pub(crate) highwater: f64,
    pub(crate) reference: f64,
    pub(crate) unit: &'static str,
    pub(crate) ratio: f64,
    pub(crate) what: String,
}

/// The times of one round.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lap {
    pub(crate) ours: Duration,
    pub(crate) reference: Duration,
}

impl Lap {
    /// How fast we are beside the reference; 1 is as fast.
    fn ratio(self) -> f64 {
        self.reference.as_secs_f64() / self.ours.as_secs_f64()
    }

    /// A figure in units of work a second; `work` is what one round did.
    pub(crate) fn throughput(
        self,
        name: &'static str,
        work: f64,
        unit: &'static str,
        what: impl Into<String>,
    ) -> Figure {
        Figure {
            name,
            highwater: work / self.ours.as_secs_f64(),
            reference: work / self.reference.as_secs_f64(),
            unit,
            ratio: self.ratio(),
            what: what.into(),
        }
    }
}

/// The round whose ratio lies in the middle.
pub(crate) fn median(mut round: impl FnMut(usize) -> io::Result<Lap>) -> io::Result<Lap> {
    let mut laps = (0..ROUNDS)
        .map(&mut round)
        .collect::<io::Result<Vec<Lap>>>()?;
    laps.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    Ok(laps.get(ROUNDS.div_euclid(2)).copied().unwrap_or_default())
}

/// Runs the two sides in turns, slice by slice, so that what else the machine does meets both. Who
/// is first changes with each slice.
pub(crate) fn race(
    slices: u64,
    mut ours: impl FnMut() -> io::Result<()>,
    mut reference: impl FnMut() -> io::Result<()>,
) -> io::Result<Lap> {
    let mut lap = Lap::default();
    for slice in 0..slices {
        if slice & 1 == 0 {
            lap.ours = lap.ours.saturating_add(time(&mut ours)?);
            lap.reference = lap.reference.saturating_add(time(&mut reference)?);
        } else {
            lap.reference = lap.reference.saturating_add(time(&mut reference)?);
            lap.ours = lap.ours.saturating_add(time(&mut ours)?);
        }
    }
    Ok(lap)
}

/// How long it takes.
pub(crate) fn time(work: impl FnOnce() -> io::Result<()>) -> io::Result<Duration> {
    #[expect(clippy::disallowed_methods, reason = "a benchmark reads the clock")]
    let start = Instant::now();
    work()?;
    Ok(start.elapsed())
}

/// A number of things as a measure.
#[expect(
    clippy::cast_precision_loss,
    reason = "53 bits are more than anybody measures"
)]
pub(crate) fn measure(count: u64) -> f64 {
    count as f64
}

/// Bytes in mebibytes.
pub(crate) fn mebibytes(bytes: u64) -> f64 {
    measure(bytes) / measure(1 << 20)
}

/// A directory that goes with all that is in it.
pub(crate) struct Scratch(PathBuf);

impl Scratch {
    #[expect(clippy::disallowed_methods, reason = "outside of any log")]
    pub(crate) fn create(path: PathBuf) -> io::Result<Self> {
        std::fs::create_dir(&path).map_err(|e| at(&path, &e))?;
        Ok(Self(path))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A scratch directory in here.
    pub(crate) fn inner(&self, name: &str) -> io::Result<Self> {
        Self::create(self.0.join(name))
    }
}

impl Drop for Scratch {
    #[expect(clippy::disallowed_methods, reason = "outside of any log")]
    fn drop(&mut self) {
        // Nobody could act on a failure; the name says what the directory is.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// The error with the path that it is about.
pub(crate) fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}
