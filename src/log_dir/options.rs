//! How a data directory is opened, and what was found.

use std::collections::BTreeMap;

use crate::checkpoint::MetaProperties;
use crate::error::Error;
use crate::log::{LogConfig, Note, OpenReport, RecoveryScope};
use crate::names::TopicPartition;
use crate::types::Timestamp;

/// More threads than this wait for one disk.
const MAX_DEFAULT_THREADS: usize = 8;

/// How a data directory is opened.
#[derive(Clone, Debug)]
pub struct DirOptions {
    pub(super) now: Timestamp,
    pub(super) config: LogConfig,
    pub(super) log_configs: BTreeMap<TopicPartition, LogConfig>,
    pub(super) scope: RecoveryScope,
    pub(super) threads: usize,
    pub(super) only: Option<TopicPartition>,
    pub(super) create: bool,
    pub(super) repair: bool,
}

impl DirOptions {
    /// Opens all logs, with Kafka's default settings.
    ///
    /// `now` is the time at which segments count as opened.
    #[must_use]
    pub fn new(now: Timestamp) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self {
            now,
            config: LogConfig::default(),
            log_configs: BTreeMap::new(),
            scope: RecoveryScope::default(),
            threads: cores.min(MAX_DEFAULT_THREADS),
            only: None,
            create: false,
            repair: false,
        }
    }

    /// Sets the settings of the logs that have none of their own.
    #[must_use]
    pub fn config(mut self, config: LogConfig) -> Self {
        self.config = config;
        self
    }

    /// Sets the settings of one log.
    #[must_use]
    pub fn log_config(mut self, log: &TopicPartition, config: LogConfig) -> Self {
        self.log_configs.insert(log.clone(), config);
        self
    }

    /// Sets how much of each log is looked at.
    #[must_use]
    pub fn scope(mut self, scope: RecoveryScope) -> Self {
        self.scope = scope;
        self
    }

    /// Sets how many logs are opened and closed at once. Range: 1 and up; 1 stays on the caller's
    /// thread. Default: the number of cores, at most 8.
    #[must_use]
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = threads.max(1);
        self
    }

    /// Opens this log alone; nothing of the others is read or changed, but their checkpoint rows
    /// are copied when the files are written.
    #[must_use]
    pub fn only(mut self, log: TopicPartition) -> Self {
        self.only = Some(log);
        self
    }

    /// Sets whether a data directory that is missing is made. Its parent must be there. Default:
    /// no.
    #[must_use]
    pub fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Sets whether a log with damage below its recovery point is cut there, instead of being
    /// opened degraded. Everything from the first damage on is saved beside the log before.
    /// Default: no.
    ///
    /// Records that were acknowledged go from the log; a replica that has them is the better
    /// remedy.
    #[must_use]
    pub fn repair(mut self, repair: bool) -> Self {
        self.repair = repair;
        self
    }

    pub(super) fn config_of(&self, log: &TopicPartition) -> LogConfig {
        self.log_configs.get(log).unwrap_or(&self.config).clone()
    }

    pub(super) fn opens(&self, log: &TopicPartition) -> bool {
        self.only.as_ref().is_none_or(|only| only == log)
    }
}

/// What opening a data directory found and did.
#[derive(Debug)]
pub struct DirReport {
    /// Whether the directory was left by a clean stop: its marker stood there, or it held no log.
    pub clean: bool,
    /// `meta.properties`, if it is there and sound.
    pub meta: Option<MetaProperties>,
    /// Each log that was to be opened, by name. One that failed is not in the
    /// [`LogDir`](super::LogDir), and stops no other.
    pub logs: Vec<(TopicPartition, Result<OpenReport, Error>)>,
    /// What else was seen or done in the data directory itself.
    pub notes: Vec<Note>,
}
