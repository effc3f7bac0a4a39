//! The checkpoint files of a data directory, kept in memory and written whole.
//!
//! 1. One mutex is held around every change of the rows and the writes that follow from it.
//! 2. The text files are written before `highwater.state`: a text value that parses is never older.
//! 3. Rows of logs that nobody touches stay what they were.
//! 4. A change that fails leaves the rows in memory as they were.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::checkpoint::{CleanShutdown, LogFacts, OffsetCheckpoint, StateFile};
use crate::error::{Error, Result};
use crate::log::{Change, Checkpoints, Note, OpenState};
use crate::names::{self, TopicPartition};
use crate::storage::{Dir, Fenced, read_file, replace_file};
use crate::types::Offset;

/// More than the rows of a million logs with the longest names. Unit: bytes.
pub(super) const MAX_BYTES: u64 = 1 << 28;

type Offsets = BTreeMap<TopicPartition, Offset>;

/// What stands in a file on the disk.
#[derive(Debug)]
enum Written<T> {
    /// No file, or one that says nothing.
    Nothing,
    /// Bytes that are wrong, or a write that failed halfway.
    Unknown,
    Known(T),
}

/// One of Kafka's text files.
#[derive(Debug)]
struct TextFile {
    name: &'static str,
    rows: Offsets,
    written: Written<Offsets>,
}

impl TextFile {
    fn read<D: Dir>(dir: &D, name: &'static str, notes: &mut Vec<Note>) -> Result<Self> {
        let mut file = Self {
            name,
            rows: Offsets::new(),
            written: Written::Nothing,
        };
        let bytes = read_file(dir, name, MAX_BYTES)
            .map_err(|e| Error::io("read checkpoint", &dir.path().join(name), e))?;
        let Some(bytes) = bytes else { return Ok(file) };
        match OffsetCheckpoint::parse(&bytes) {
            Ok(Some(found)) => {
                file.rows.clone_from(&found.offsets);
                file.written = Written::Known(found.offsets);
            }
            Ok(None) => notes.push(note(name, "empty, counts as missing")),
            Err(error) => {
                notes.push(note(name, &format!("{error}; not believed")));
                file.written = Written::Unknown;
            }
        }
        Ok(file)
    }

    fn is_malformed(&self) -> bool {
        matches!(self.written, Written::Unknown)
    }

    /// A file that does not parse says what our own record of it says.
    fn restore(&mut self, state: &StateFile, row: impl Fn(&LogFacts) -> Option<Offset>) {
        if self.is_malformed() {
            let known = state
                .logs
                .iter()
                .filter_map(|(log, facts)| Some((log.clone(), row(facts)?)));
            self.rows = known.collect();
        }
    }

    fn set(&mut self, log: &TopicPartition, row: Option<Offset>) {
        match row {
            Some(offset) => self.rows.insert(log.clone(), offset),
            None => self.rows.remove(log),
        };
    }

    fn lower(&mut self, log: &TopicPartition, to: Offset) {
        if let Some(row) = self.rows.get_mut(log) {
            *row = to.min(*row);
        }
    }

    fn save<D: Dir>(&mut self, dir: &D) -> Result<()> {
        let is_same = match &self.written {
            Written::Nothing => self.rows.is_empty(),
            Written::Unknown => false,
            Written::Known(written) => *written == self.rows,
        };
        if is_same {
            return Ok(());
        }
        let text = OffsetCheckpoint {
            offsets: self.rows.clone(),
        }
        .print();
        self.written = Written::Unknown;
        write_checkpoint(dir, self.name, &text)?;
        self.written = Written::Known(self.rows.clone());
        Ok(())
    }
}

/// The rows of one log.
#[derive(Clone, Copy, Debug)]
struct LogRows {
    recovery_point: Option<Offset>,
    high_watermark: Option<Offset>,
    log_start: Option<Offset>,
    line: Option<LogFacts>,
}

/// All rows of a data directory.
#[derive(Debug)]
pub(super) struct Table {
    recovery_points: TextFile,
    high_watermarks: TextFile,
    log_starts: TextFile,
    state: StateFile,
    written: Written<StateFile>,
}

impl Table {
    /// Reads the files; changes nothing. What is wrong with one of them is a note.
    pub(super) fn read<D: Dir>(dir: &D, notes: &mut Vec<Note>) -> Result<Self> {
        let mut table = Self {
            recovery_points: TextFile::read(dir, names::RECOVERY_POINT_CHECKPOINT, notes)?,
            high_watermarks: TextFile::read(dir, names::HIGH_WATERMARK_CHECKPOINT, notes)?,
            log_starts: TextFile::read(dir, names::LOG_START_CHECKPOINT, notes)?,
            state: StateFile::default(),
            written: Written::Nothing,
        };
        let bytes = read_file(dir, names::STATE, MAX_BYTES)
            .map_err(|e| Error::io("read state", &dir.path().join(names::STATE), e))?;
        match StateFile::parse(&bytes.unwrap_or_default()) {
            Ok(Some(state)) => {
                table
                    .recovery_points
                    .restore(&state, |facts| Some(facts.recovery_point));
                table
                    .high_watermarks
                    .restore(&state, |facts| facts.high_watermark);
                table.log_starts.restore(&state, |facts| facts.log_start);
                table.state = state.clone();
                table.written = Written::Known(state);
            }
            Ok(None) => {}
            Err(error) => {
                notes.push(note(names::STATE, &format!("{error}; not believed")));
                table.written = Written::Unknown;
            }
        }
        Ok(table)
    }

    /// What the files say of a log that is about to be opened. Our own line of it is dropped if
    /// somebody else moved its recovery point row since.
    pub(super) fn open_state(
        &mut self,
        log: &TopicPartition,
        marker: Option<&CleanShutdown>,
        notes: &mut Vec<Note>,
    ) -> OpenState {
        let clean = marker.is_some();
        let row = self.recovery_points.rows.get(log).copied();
        let line = self.state.logs.get(log).copied();
        let witness = line.filter(|line| Some(line.recovery_point) == row);
        if witness.is_none() {
            self.state.logs.remove(log);
        }
        let ours = marker.and_then(|marker| marker.generation);
        let nobody_since = witness.is_some() && ours == Some(self.state.generation);
        let recovery_point = match (row, line) {
            // Whoever left the marker synced all that its row says.
            (Some(row), Some(line)) if !clean => Some(row.min(line.recovery_point)),
            (row, _) => row,
        };
        if let Some(line) = witness.filter(|_| nobody_since)
            && line.log_start != self.log_starts.rows.get(log).copied()
        {
            let what = format!("the log start of {log} is not the one that was written, restored");
            notes.push(note(names::LOG_START_CHECKPOINT, &what));
            self.log_starts.set(log, line.log_start);
        }
        OpenState {
            clean,
            recovery_point,
            high_watermark: self.high_watermarks.rows.get(log).copied(),
            log_start: self.log_starts.rows.get(log).copied(),
            witness,
            nobody_since,
        }
    }

    /// The generation of the state file on the disk.
    pub(super) fn generation(&self) -> Option<u64> {
        match &self.written {
            Written::Known(state) => Some(state.generation),
            Written::Nothing | Written::Unknown => None,
        }
    }

    fn rows_of(&self, log: &TopicPartition) -> LogRows {
        LogRows {
            recovery_point: self.recovery_points.rows.get(log).copied(),
            high_watermark: self.high_watermarks.rows.get(log).copied(),
            log_start: self.log_starts.rows.get(log).copied(),
            line: self.state.logs.get(log).copied(),
        }
    }

    fn set_rows(&mut self, log: &TopicPartition, rows: LogRows) {
        self.recovery_points.set(log, rows.recovery_point);
        self.high_watermarks.set(log, rows.high_watermark);
        self.log_starts.set(log, rows.log_start);
        match rows.line {
            Some(line) => self.state.logs.insert(log.clone(), line),
            None => self.state.logs.remove(log),
        };
    }

    fn apply(&mut self, log: &TopicPartition, change: Change, facts: &LogFacts) {
        match change {
            Change::Checkpoint => {
                self.recovery_points.set(log, Some(facts.recovery_point));
                if facts.high_watermark.is_some() {
                    self.high_watermarks.set(log, facts.high_watermark);
                }
                self.log_starts.set(log, facts.log_start);
            }
            Change::Truncate => {
                self.recovery_points.set(log, Some(facts.recovery_point));
                if let Some(to) = facts.high_watermark {
                    self.high_watermarks.lower(log, to);
                }
                if let Some(to) = facts.log_start {
                    self.log_starts.lower(log, to);
                }
            }
            Change::DeleteRecords => self.log_starts.set(log, facts.log_start),
        }
        let rows = self.rows_of(log);
        // Without a recovery point row there is nothing that a line could stand for.
        if let Some(recovery_point) = rows.recovery_point {
            let line = LogFacts {
                recovery_point,
                high_watermark: rows.high_watermark,
                log_start: rows.log_start,
                ..*facts
            };
            self.state.logs.insert(log.clone(), line);
        }
    }

    fn save<D: Dir>(&mut self, dir: &D) -> Result<()> {
        self.recovery_points.save(dir)?;
        self.log_starts.save(dir)?;
        self.high_watermarks.save(dir)?;
        let is_same = match &self.written {
            Written::Nothing => self.state.logs.is_empty(),
            Written::Unknown => false,
            Written::Known(written) => written.logs == self.state.logs,
        };
        if is_same {
            return Ok(());
        }
        self.state.generation = self.state.generation.saturating_add(1);
        self.written = Written::Unknown;
        write_checkpoint(dir, names::STATE, &self.state.print())?;
        self.written = Written::Known(self.state.clone());
        Ok(())
    }
}

/// The rows of a data directory that is open.
#[derive(Debug)]
pub(super) struct Rows<D: Dir> {
    dir: Fenced<D>,
    table: Mutex<Table>,
}

thread_local! {
    static DEFERS: Cell<bool> = const { Cell::new(false) };
}

/// Runs checkpoints of this thread that move the rows in memory only: [`Rows::save`] follows. Many
/// logs then cost one write of each file.
pub(super) fn deferring<T>(run: impl FnOnce() -> T) -> T {
    let before = DEFERS.replace(true);
    let outcome = run();
    DEFERS.set(before);
    outcome
}

impl<D: Dir> Rows<D> {
    pub(super) fn new(dir: D, table: Table) -> Self {
        Self {
            dir: Fenced::new(dir),
            table: Mutex::new(table),
        }
    }

    pub(super) fn dir(&self) -> &Fenced<D> {
        &self.dir
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn open_state(
        &self,
        log: &TopicPartition,
        marker: Option<&CleanShutdown>,
        notes: &mut Vec<Note>,
    ) -> OpenState {
        self.table().open_state(log, marker, notes)
    }

    pub(super) fn generation(&self) -> Option<u64> {
        self.table().generation()
    }

    /// Writes what differs from the disk. Durable on return.
    pub(super) fn save(&self) -> Result<()> {
        self.table().save(&self.dir)
    }

    /// Forgets a log, durably: a later log of that name is not to inherit its values.
    pub(super) fn forget(&self, log: &TopicPartition) -> Result<()> {
        let nothing = LogRows {
            recovery_point: None,
            high_watermark: None,
            log_start: None,
            line: None,
        };
        self.change(log, |table| table.set_rows(log, nothing))
    }

    fn change(&self, log: &TopicPartition, change: impl FnOnce(&mut Table)) -> Result<()> {
        let mut table = self.table();
        let before = table.rows_of(log);
        change(&mut table);
        let outcome = table.save(&self.dir);
        if outcome.is_err() {
            table.set_rows(log, before);
        }
        outcome
    }

    /// The checkpoint files as one log sees them.
    pub(super) fn of(self: &Arc<Self>, log: &TopicPartition) -> Arc<dyn Checkpoints> {
        if log.to_string() == names::METADATA_LOG {
            return Arc::new(NoRows);
        }
        Arc::new(RowsOfLog {
            rows: Arc::clone(self),
            log: log.clone(),
        })
    }
}

/// The metadata log has no rows: it is read from its front at each start.
#[derive(Debug)]
struct NoRows;

impl Checkpoints for NoRows {
    fn write(&self, _: Change, _: &LogFacts) -> Result<()> {
        Ok(())
    }
}

#[derive(Debug)]
struct RowsOfLog<D: Dir> {
    rows: Arc<Rows<D>>,
    log: TopicPartition,
}

impl<D: Dir> Checkpoints for RowsOfLog<D> {
    fn write(&self, change: Change, facts: &LogFacts) -> Result<()> {
        if change == Change::Checkpoint && DEFERS.get() {
            self.rows.table().apply(&self.log, change, facts);
            return Ok(());
        }
        self.rows
            .change(&self.log, |table| table.apply(&self.log, change, facts))
    }
}

/// Durable on return. Without it a crash brings back values of before.
fn write_checkpoint<D: Dir>(dir: &D, name: &str, text: &str) -> Result<()> {
    replace_file(dir, name, text.as_bytes())
        .map_err(|e| Error::io("write checkpoint", &dir.path().join(name), e))
}

pub(super) fn note(file: &str, detail: &str) -> Note {
    Note {
        file: Some(file.into()),
        detail: detail.into(),
    }
}
