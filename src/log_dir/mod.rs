//! Many logs in one data directory: the lock, the checkpoint files, the clean-shutdown marker.
//!
//! 1. Nothing in the directory is read for writing, or changed, without the lock of `.lock`.
//! 2. The marker is gone, durably, before the first log is opened, and comes back last.
//! 3. A log that cannot be opened, or is damaged, stops no other; no marker is written then.
//! 4. `meta.properties`, foreign directories, `-stray` and `-future` ones are never touched.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checkpoint::{CleanShutdown, LogFacts, MetaProperties, PartitionMetadata};
use crate::error::{Error, ErrorKind, Result};
use crate::log::{
    Change, Log, LogConfig, Note, OpenOptions, OpenReport, OpenState, Plan, RecoveryScope,
};
use crate::names::{self, DirName, META_PROPERTIES, PARTITION_METADATA, TopicPartition};
use crate::storage::{Barrier, Dir, EntryKind, OsDir, read_file, remove_if_there, replace_file};
use crate::types::{Offset, Timestamp};

mod checkpoints;
mod maintenance;
mod options;
mod parallel;
mod shutdown;

pub use maintenance::Maintenance;
pub use options::{DirOptions, DirReport};

use checkpoints::{Rows, Table, deferring, note};

/// A data directory: its logs, locked against every other program.
///
/// All methods but [`LogDir::close`] take `&self` and may be called from many threads. Dropping it
/// writes nothing and releases the lock, as a killed process would.
#[derive(Debug)]
pub struct LogDir<D: Dir = OsDir> {
    dir: D,
    rows: Arc<Rows<D>>,
    logs: Mutex<BTreeMap<TopicPartition, Arc<Log<D>>>>,
    only: Option<TopicPartition>,
    threads: usize,
    /// What the directory was found with; `None` without a marker.
    marker: Option<CleanShutdown>,
    /// Whether a marker may say nothing of what was not opened: there is no such log, or there was
    /// a marker.
    others_clean: bool,
    /// Whether every log that was to be opened is.
    all_opened: bool,
    lock: D::Lock,
}

/// What stands in a data directory.
#[derive(Debug, Default)]
struct Found {
    /// Logs to open.
    logs: Vec<TopicPartition>,
    /// Logs that a clean-shutdown marker speaks for, and that are not opened.
    others: usize,
    /// Directories of deleted logs.
    deleted: Vec<String>,
    notes: Vec<Note>,
    has_lock_file: bool,
}

impl LogDir<OsDir> {
    /// Opens a data directory and its logs; recovers what needs it.
    ///
    /// # Errors
    /// `NotFound` for a directory that is missing, `Locked` if another program uses it, else those
    /// of the system: then nothing was changed. What goes wrong with one log is in the report.
    pub fn open(path: impl AsRef<Path>, options: DirOptions) -> Result<(Self, DirReport)> {
        let dir = open_dir(path.as_ref(), options.create)?;
        Self::open_in(dir, options)
    }

    /// What [`LogDir::open`] would find and do with each log. Takes no lock and changes nothing, so
    /// a broker may be at work: then the answer may be of no use.
    ///
    /// # Errors
    /// As for [`LogDir::open`].
    pub fn plan(
        path: impl AsRef<Path>,
        options: &DirOptions,
    ) -> Result<Vec<(TopicPartition, Result<Plan>)>> {
        Self::plan_in(&open_dir(path.as_ref(), false)?, options)
    }
}

fn open_dir(path: &Path, create: bool) -> Result<OsDir> {
    let opened = match OsDir::open(path) {
        Err(failure) if create && failure.kind() == io::ErrorKind::NotFound => OsDir::create(path),
        other => other,
    };
    opened.map_err(|e| {
        let is_wrong = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory].contains(&e.kind());
        let error = Error::io("open data directory", path, e);
        if is_wrong {
            error.next_step("name the directory that holds the logs")
        } else {
            error
        }
    })
}

impl<D: Dir> LogDir<D> {
    /// As [`LogDir::open`], in a directory of any storage.
    ///
    /// # Errors
    /// As there.
    pub fn open_in(dir: D, options: DirOptions) -> Result<(Self, DirReport)> {
        let mut found = find(&dir, &options)?;
        let lock = shutdown::lock(&dir)?;
        let (table, marker, meta) = match read_small_files(&dir, &mut found.notes) {
            Ok(read) => read,
            Err(error) => {
                if !found.has_lock_file {
                    shutdown::remove_lock_file(&dir)?;
                }
                return Err(error);
            }
        };
        shutdown::begin_use(&dir)?;
        let rows = Arc::new(Rows::new(dir.clone(), table));
        let opening = Opening {
            dir: &dir,
            rows: &rows,
            marker: marker.as_ref(),
            options: &options,
        };
        let opened = opening.open(found.logs);
        remove_deleted(&dir, &found.deleted, &mut found.notes);
        let clean = marker.is_some() || (opened.is_empty() && found.others == 0);
        let mut logs = BTreeMap::new();
        let mut reports = Vec::new();
        for (log, mut notes, outcome) in opened {
            found.notes.append(&mut notes);
            let report = outcome.map(|(opened, report)| {
                logs.insert(log.clone(), Arc::new(opened));
                report
            });
            reports.push((log, report));
        }
        let is_metadata = |log: &TopicPartition| log.to_string() == names::METADATA_LOG;
        let all_opened = reports
            .iter()
            .all(|(log, report)| report.is_ok() || is_metadata(log));
        let this = Self {
            dir,
            rows,
            logs: Mutex::new(logs),
            only: options.only,
            threads: options.threads,
            others_clean: clean || found.others == 0,
            marker,
            all_opened,
            lock,
        };
        Ok((
            this,
            DirReport {
                clean,
                meta,
                logs: reports,
                notes: found.notes,
            },
        ))
    }

    /// As [`LogDir::plan`], in a directory of any storage.
    ///
    /// # Errors
    /// As there.
    pub fn plan_in(dir: &D, options: &DirOptions) -> Result<Vec<(TopicPartition, Result<Plan>)>> {
        let mut found = find(dir, options)?;
        let (table, marker, _) = read_small_files(dir, &mut found.notes)?;
        let rows = Arc::new(Rows::new(dir.clone(), table));
        let opening = Opening {
            dir,
            rows: &rows,
            marker: marker.as_ref(),
            options,
        };
        let plan = |log: TopicPartition| {
            let plan = opening.plan(&log);
            (log, plan)
        };
        Ok(parallel::each(options.threads, found.logs, plan))
    }

    /// The path of the data directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    fn table(&self) -> MutexGuard<'_, BTreeMap<TopicPartition, Arc<Log<D>>>> {
        self.logs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A log by its name, if it is open.
    pub fn log(&self, log: &TopicPartition) -> Option<Arc<Log<D>>> {
        self.table().get(log).cloned()
    }

    /// All open logs, by name.
    pub fn logs(&self) -> Vec<(TopicPartition, Arc<Log<D>>)> {
        self.table()
            .iter()
            .map(|(name, log)| (name.clone(), Arc::clone(log)))
            .collect()
    }

    /// Makes an empty log and opens it; its name is durable on return.
    ///
    /// With a topic id, `partition.metadata` is written: a broker sets a log aside that has none,
    /// or another one than its metadata says.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that Kafka would refuse, a log that is there, a topic id that
    /// is none, or another log than the one that the directory was opened for; else those of the
    /// system.
    pub fn create_log(
        &self,
        log: &TopicPartition,
        config: LogConfig,
        topic_id: Option<&str>,
        now: Timestamp,
    ) -> Result<Arc<Log<D>>> {
        let path = self.dir.path().join(log.to_string());
        let refuse = |why: &str| {
            Error::new(ErrorKind::InvalidArgument, format!("make log: {why}")).at_path(&path)
        };
        if !log.is_legal() {
            return Err(refuse("no legal topic name").next_step("use a-z A-Z 0-9 . _ - only"));
        }
        if self.only.as_ref().is_some_and(|only| only != log) {
            return Err(refuse("the directory was opened for another log alone"));
        }
        let metadata = match topic_id {
            None => None,
            Some(id) => Some(PartitionMetadata::new(id).ok_or_else(|| {
                refuse("the topic id is none").next_step("take the 22 characters that Kafka shows")
            })?),
        };
        let mut logs = self.table();
        let entries = self
            .dir
            .list()
            .map_err(|e| Error::io("list", self.dir.path(), e))?;
        let is_taken = |name: &str| entries.iter().any(|entry| entry.name == name);
        let name = log.to_string();
        if is_taken(&name) {
            return Err(refuse("it is there").next_step("open it"));
        }
        self.rows.forget(log)?;
        let prepared = unused_name(log, now, is_taken);
        let fail = |e| Error::io("make log", &path, e);
        let inside = self.dir.create_subdir(&prepared).map_err(fail)?;
        if let Some(metadata) = metadata {
            replace_file(&inside, PARTITION_METADATA, metadata.print().as_bytes()).map_err(fail)?;
        }
        self.dir.rename(&prepared, &name).map_err(fail)?;
        log_name_before_first_append(&self.dir)?;
        let options = OpenOptions {
            config,
            state: OpenState {
                clean: true,
                ..OpenState::default()
            },
            scope: RecoveryScope::FromRecoveryPoint,
            checkpoints: self.rows.of(log),
            now,
        };
        let (opened, _) = Log::open(self.dir.subdir(&name).map_err(fail)?, options)?;
        let opened = Arc::new(opened);
        logs.insert(log.clone(), Arc::clone(&opened));
        Ok(opened)
    }

    /// Removes a log with all its records: gone, durably, on return.
    ///
    /// The log is closed first, so whoever still holds it gets `Closed`.
    ///
    /// # Errors
    /// `NotFound` for a log that is not open; else those of the system.
    pub fn delete_log(&self, log: &TopicPartition, now: Timestamp) -> Result<()> {
        let name = log.to_string();
        let path = self.dir.path().join(&name);
        let mut logs = self.table();
        let Some(open) = logs.get(log) else {
            return Err(
                Error::new(ErrorKind::NotFound, "delete log: it is not open").at_path(&path),
            );
        };
        // A failure means that something of it is not durable, which no longer matters.
        drop(deferring(|| open.close()));
        let fail = |e| Error::io("delete log", &path, e);
        let entries = self.dir.list().map_err(fail)?;
        let waiting = unused_name(log, now, |name| {
            entries.iter().any(|entry| entry.name == name)
        });
        self.dir.rename(&name, &waiting).map_err(fail)?;
        logs.remove(log);
        self.dir
            .sync_for(Barrier::DeletionBeforeForgetting)
            .map_err(fail)?;
        self.rows.forget(log)?;
        self.dir.remove_subdir(&waiting).map_err(fail)
    }

    /// Writes recovery points, high watermarks and log starts of all logs. Durable on return.
    ///
    /// Damaged and closed logs are left out: what they say does not change.
    ///
    /// # Errors
    /// The first failure; the other logs are written all the same.
    pub fn checkpoint(&self) -> Result<()> {
        let outcomes = parallel::each(self.threads, self.logs(), |(_, log)| {
            deferring(|| log.checkpoint())
        });
        let logs = outcomes.into_iter().find_map(|outcome| match outcome {
            Err(error) if !matches!(error.kind(), ErrorKind::Closed | ErrorKind::Damaged) => {
                Some(error)
            }
            _ => None,
        });
        self.rows.save()?;
        logs.map_or(Ok(()), Err)
    }

    /// Ends the use of the directory: closes every log, writes the checkpoint files and, if every
    /// log was closed and none is damaged, the clean-shutdown marker; releases the lock.
    ///
    /// A directory opened for one log alone gets its marker only if it had one, or has no other
    /// log.
    ///
    /// # Errors
    /// The first failure. Then there is no marker, and the next open recovers.
    pub fn close(self) -> Result<()> {
        let mut failure = None;
        let mut sound = self.all_opened && self.others_clean;
        let outcomes = parallel::each(self.threads, self.logs(), |(name, log)| {
            (name, deferring(|| log.close()))
        });
        for (name, outcome) in outcomes {
            let Err(error) = outcome else { continue };
            if error.kind() == ErrorKind::Closed {
                continue;
            }
            sound &= name.to_string() == names::METADATA_LOG;
            if error.kind() != ErrorKind::Damaged {
                failure = failure.or(Some(error));
            }
        }
        if let Err(error) = self.rows.save() {
            sound = false;
            failure = failure.or(Some(error));
        }
        if sound && failure.is_none() {
            let broker_epoch = self.marker.and_then(|marker| marker.broker_epoch);
            let marker = CleanShutdown {
                broker_epoch,
                generation: self.rows.generation(),
            };
            shutdown::write_marker(self.rows.dir(), &marker)?;
        }
        shutdown::remove_lock_file(&self.dir)?;
        drop(self.lock);
        failure.map_or(Ok(()), Err)
    }
}

/// Without it a power cut can take the log away with everything that was appended and synced.
fn log_name_before_first_append<D: Dir>(dir: &D) -> Result<()> {
    dir.sync_for(Barrier::LogNameBeforeFirstAppend)
        .map_err(|e| Error::io("sync data directory", dir.path(), e))
}

/// A `-delete` name that is free: what a crash leaves under it is removed by the next open, here
/// and in Kafka.
fn unused_name(log: &TopicPartition, now: Timestamp, is_taken: impl Fn(&str) -> bool) -> String {
    let seed = u128::from(now.millis().unsigned_abs()) << 64;
    let mut names = (0..u128::from(u64::MAX)).map(|n| log.delete_dir_name(seed | n));
    names.find(|name| !is_taken(name)).unwrap_or_default()
}

type Small = (Table, Option<CleanShutdown>, Option<MetaProperties>);

fn read_small_files<D: Dir>(dir: &D, notes: &mut Vec<Note>) -> Result<Small> {
    let table = Table::read(dir, notes)?;
    let marker = shutdown::read_marker(dir)?;
    let bytes = read_file(dir, META_PROPERTIES, checkpoints::MAX_BYTES)
        .map_err(|e| Error::io("read", &dir.path().join(META_PROPERTIES), e))?;
    let meta = bytes.and_then(|bytes| match MetaProperties::parse(&bytes) {
        Ok(meta) => Some(meta),
        Err(error) => {
            notes.push(note(META_PROPERTIES, &error.to_string()));
            None
        }
    });
    Ok((table, marker, meta))
}

/// Lists a data directory.
fn find<D: Dir>(dir: &D, options: &DirOptions) -> Result<Found> {
    let entries = dir
        .list()
        .map_err(|e| Error::io("list data directory", dir.path(), e))?;
    let mut found = Found::default();
    for entry in entries {
        found.has_lock_file |= entry.name == names::LOCK;
        if entry.kind != EntryKind::Dir || entry.name == names::REMOTE_LOG_INDEX_CACHE {
            continue;
        }
        let name = entry.name;
        match DirName::parse(&name) {
            DirName::Live(log) if options.opens(&log) => found.logs.push(log),
            DirName::Live(_) => {
                found.others = found
                    .others
                    .saturating_add(usize::from(name != names::METADATA_LOG));
            }
            DirName::Delete(log) => {
                if options.opens(&log) {
                    found.notes.push(note(&name, "a deleted log, removed"));
                    found.deleted.push(name);
                }
            }
            DirName::Stray(_) | DirName::Future(_) => {
                found.others = found.others.saturating_add(1);
                found
                    .notes
                    .push(note(&name, "not a log of this directory, left alone"));
            }
            DirName::Foreign => {
                found.notes.push(note(
                    &name,
                    "unknown directory, left alone; a broker will not start",
                ));
            }
        }
    }
    Ok(found)
}

fn remove_deleted<D: Dir>(dir: &D, names: &[String], notes: &mut Vec<Note>) {
    for name in names {
        if let Err(error) = dir.remove_subdir(name) {
            notes.push(note(
                name,
                &format!("a deleted log that cannot be removed: {error}"),
            ));
        }
    }
}

/// Opens the logs of a directory.
struct Opening<'a, D: Dir> {
    dir: &'a D,
    rows: &'a Arc<Rows<D>>,
    marker: Option<&'a CleanShutdown>,
    options: &'a DirOptions,
}

type Opened<D> = (TopicPartition, Vec<Note>, Result<(Log<D>, OpenReport)>);

impl<D: Dir> Opening<'_, D> {
    fn open(&self, logs: Vec<TopicPartition>) -> Vec<Opened<D>> {
        parallel::each(self.options.threads, logs, |log| {
            let mut notes = Vec::new();
            let outcome = self.open_one(&log, &mut notes);
            (log, notes, outcome)
        })
    }

    fn state_of(&self, log: &TopicPartition, notes: &mut Vec<Note>) -> OpenState {
        if log.to_string() == names::METADATA_LOG {
            return OpenState {
                recovery_point: Some(Offset::ZERO),
                ..OpenState::default()
            };
        }
        self.rows.open_state(log, self.marker, notes)
    }

    fn subdir(&self, log: &TopicPartition) -> Result<D> {
        let name = log.to_string();
        let fail = |e| Error::io("open log", &self.dir.path().join(&name), e);
        self.dir.subdir(&name).map_err(fail)
    }

    fn open_one(
        &self,
        log: &TopicPartition,
        notes: &mut Vec<Note>,
    ) -> Result<(Log<D>, OpenReport)> {
        let mut state = self.state_of(log, notes);
        let dir = self.subdir(log)?;
        let config = self.options.config_of(log);
        let repairs = if self.options.repair {
            self.prepare_repair(log, &dir, &config, &mut state)?
        } else {
            Vec::new()
        };
        let options = OpenOptions {
            config,
            state,
            scope: self.options.scope,
            checkpoints: self.rows.of(log),
            now: self.options.now,
        };
        let (opened, mut report) = Log::open(dir, options)?;
        report.notes.extend(repairs);
        Ok((opened, report))
    }

    /// Lowers what is known of a damaged log to the first damage: then that is no longer below the
    /// recovery point, and the open saves and cuts everything from there on.
    fn prepare_repair(
        &self,
        log: &TopicPartition,
        dir: &D,
        config: &LogConfig,
        state: &mut OpenState,
    ) -> Result<Vec<Note>> {
        let plan = Log::plan(dir, config, *state, self.options.scope)?;
        let Some(first) = plan.damage.iter().map(|damage| damage.first_offset).min() else {
            return Ok(Vec::new());
        };
        let facts = LogFacts {
            recovery_point: first,
            high_watermark: Some(first),
            log_start: Some(first),
            log_end: first,
            last_epoch: None,
            epoch_file_crc: None,
        };
        self.rows.of(log).write(Change::Truncate, &facts)?;
        // What the line of each sealed segment says no longer binds either.
        remove_if_there(dir, names::SEGMENTS)
            .map_err(|e| Error::io("repair", &dir.path().join(names::SEGMENTS), e))?;
        *state = OpenState {
            high_watermark: state.high_watermark.map(|row| row.min(first)),
            log_start: state.log_start.map(|row| row.min(first)),
            ..OpenState::default()
        };
        let told = plan.damage.iter().map(|damage| Note {
            file: Some(damage.file.clone()),
            detail: format!(
                "repaired: {} at position {}",
                damage.detail, damage.position
            ),
        });
        Ok(told.collect())
    }

    fn plan(&self, log: &TopicPartition) -> Result<Plan> {
        let state = self.state_of(log, &mut Vec::new());
        Log::plan(
            &self.subdir(log)?,
            &self.options.config_of(log),
            state,
            self.options.scope,
        )
    }
}
