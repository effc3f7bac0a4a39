//! Which figures there are, and which log each of them is measured on.

use std::io;
use std::path::PathBuf;

use highwater::log::LogConfig;

use crate::args::Setting;

use super::material::engine;
use super::measure::{Figure, Scratch};
use super::read::Filled;
use super::{append, open, producers, read};

/// The names of the figures, in their order.
pub(crate) const NAMES: [&str; 13] = [
    "append_unsynced",
    "append_single_256b",
    "append_synced",
    "append_synced_preallocated",
    "append_synced_64_writers",
    "append_100000_producers",
    "snapshot_100000_producers",
    "read_batches",
    "recovery_warm",
    "recovery_resident_mib",
    "open_clean_10000_segments",
    "lookup_growth",
    "verify",
];

/// What the user sets of the logs under test; known to be sound.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings<'a>(pub(crate) &'a [Setting]);

impl Settings<'_> {
    /// These settings over those of a benchmark.
    pub(crate) fn over(self, mut config: LogConfig) -> io::Result<LogConfig> {
        for Setting { key, value } in self.0 {
            config.set(key, value).map_err(engine)?;
        }
        Ok(config)
    }
}

/// What is to be measured.
pub(crate) struct Plan<'a> {
    /// What the user sets of the logs.
    pub(crate) over: Settings<'a>,
    /// Where the scratch directory is made.
    pub(crate) dir: PathBuf,
    /// How large logs are.
    pub(crate) bytes: u64,
    /// The figures that are wanted; all if there is none.
    pub(crate) only: Vec<String>,
}

impl Plan<'_> {
    fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// Measures, and shows each figure as soon as it is there.
    pub(crate) fn run(&self, mut show: impl FnMut(&Figure) -> io::Result<()>) -> io::Result<()> {
        let name = format!("highwater-bench-{}", std::process::id());
        let scratch = Scratch::create(self.dir.join(name))?;
        if self.wants("append_unsynced") {
            show(&append::unsynced(&scratch, self.over, self.bytes)?)?;
        }
        if self.wants("append_single_256b") {
            show(&append::single(&scratch, self.over, self.bytes)?)?;
        }
        if self.wants("append_synced") {
            show(&append::synced(&scratch, self.over, false)?)?;
        }
        if self.wants("append_synced_preallocated") {
            show(&append::synced(&scratch, self.over, true)?)?;
        }
        if self.wants("append_synced_64_writers") {
            show(&append::synced_by_many(&scratch, self.over)?)?;
        }
        if self.wants("append_100000_producers") {
            show(&producers::appends(&scratch, self.over)?)?;
        }
        if self.wants("snapshot_100000_producers") {
            show(&producers::snapshot(&scratch, self.over)?)?;
        }
        self.on_filled_log(&scratch, &mut show)?;
        if self.wants("open_clean_10000_segments") {
            show(&open::clean(&scratch, self.over)?)?;
        }
        if self.wants("lookup_growth") {
            show(&read::lookup_growth(&scratch, self.over, self.bytes)?)?;
        }
        Ok(())
    }

    /// The figures that share one log.
    fn on_filled_log(
        &self,
        scratch: &Scratch,
        show: &mut impl FnMut(&Figure) -> io::Result<()>,
    ) -> io::Result<()> {
        let recovery = ["recovery_warm", "recovery_resident_mib"];
        let wants_recovery = recovery.iter().any(|name| self.wants(name));
        if !(wants_recovery || self.wants("read_batches") || self.wants("verify")) {
            return Ok(());
        }
        let filled = Filled::create(
            scratch,
            "filled",
            self.bytes,
            self.over.over(LogConfig::default())?,
        )?;
        if self.wants("read_batches") {
            show(&read::sequential(&filled)?)?;
        }
        if wants_recovery {
            for figure in open::recovery(&filled, self.over)? {
                if self.wants(figure.name) {
                    show(&figure)?;
                }
            }
        }
        if self.wants("verify") {
            show(&read::verify(&filled)?)?;
        }
        Ok(())
    }
}
