//! The producer snapshots of a log: which files stand, and when one is due.
//!
//! Kafka: `ProducerStateManager`. A log without producers has snapshots of ten bytes. A log with
//! producers keeps the files that it has and gets no more here: what is left is older than the log
//! end and sound, and Kafka replays the batches behind it.

use std::collections::BTreeSet;
use std::io;

use crate::error::{Error, Result};
use crate::names::{FileType, segment_name};
use crate::producer::snapshot;
use crate::storage::{Dir, remove_if_there, replace_file};
use crate::types::Offset;

/// The snapshot files, and the two offsets that decide when one is due.
#[derive(Clone, Debug)]
pub(crate) struct Snapshots {
    /// The offsets that files are named by.
    files: BTreeSet<Offset>,
    /// The offset up to which the producers of the log are known; exclusive.
    map_end: Offset,
    /// The offset of the last snapshot that was taken or loaded.
    last: Offset,
    /// A batch with a producer id, or a snapshot that names one, was seen.
    producers: bool,
}

impl Snapshots {
    /// The snapshots of a log that holds these files.
    pub(crate) fn new(files: BTreeSet<Offset>, producers: bool) -> Self {
        Self {
            files,
            map_end: Offset::ZERO,
            last: Offset::ZERO,
            producers,
        }
    }

    /// Whether the log holds, or may hold, batches of producers.
    pub(crate) fn producers(&self) -> bool {
        self.producers
    }

    /// Notes that a batch with a producer id was written.
    pub(crate) fn producer_seen(&mut self) {
        self.producers = true;
    }

    pub(crate) fn advance(&mut self, log_end: Offset) {
        self.map_end = log_end;
    }

    /// Writes a snapshot at the end of what is known, if the last one is older. Durable on return.
    pub(crate) fn take<D: Dir>(&mut self, dir: &D) -> Result<()> {
        if self.producers || self.map_end <= self.last {
            return Ok(());
        }
        let name = segment_name(self.map_end, FileType::Snapshot);
        replace_file(dir, &name, &snapshot::print([]))
            .map_err(|e| Error::io("write snapshot", &dir.path().join(&name), e))?;
        self.files.insert(self.map_end);
        self.last = self.map_end;
        Ok(())
    }

    /// Removes the snapshot of a segment that is removed.
    pub(crate) fn remove<D: Dir>(&mut self, dir: &D, offset: Offset) -> Result<()> {
        if self.files.remove(&offset) {
            let name = segment_name(offset, FileType::Snapshot);
            remove_if_there(dir, &name)
                .map_err(|e: io::Error| Error::io("remove snapshot", &dir.path().join(&name), e))?;
        }
        Ok(())
    }

    /// Removes all but those that stand at a base offset, and the largest other one unless it lies
    /// below the largest base offset. Kafka: `removeStraySnapshots`.
    pub(crate) fn remove_strays<D: Dir>(
        &mut self,
        dir: &D,
        bases: &BTreeSet<Offset>,
    ) -> Result<()> {
        let strays: Vec<Offset> = self.files.difference(bases).copied().collect();
        let newest = strays
            .last()
            .copied()
            .filter(|newest| Some(newest) > bases.last());
        for stray in strays {
            if Some(stray) != newest {
                self.remove(dir, stray)?;
            }
        }
        Ok(())
    }

    /// Follows a truncated log to its end: snapshots outside (start, end] go, the newest that is
    /// left counts as loaded, and one is taken at the end. Kafka: `truncateAndReload`, then
    /// `takeSnapshot`.
    pub(crate) fn reload<D: Dir>(
        &mut self,
        dir: &D,
        log_start: Offset,
        log_end: Offset,
    ) -> Result<()> {
        self.load(dir, log_start, log_end)?;
        self.map_end = log_end;
        self.take(dir)
    }

    /// Follows a log that is being opened to `end`, as if nothing were known of it: as
    /// [`Snapshots::reload`], and one is taken at each of the last two base offsets that lie behind
    /// the newest snapshot. Kafka: `rebuildProducerState`.
    pub(crate) fn replay<D: Dir>(
        &mut self,
        dir: &D,
        log_start: Offset,
        end: Offset,
        bases: &BTreeSet<Offset>,
    ) -> Result<()> {
        self.load(dir, log_start, end)?;
        self.map_end = self.last;
        let first = bases.range(..=self.map_end).next_back().copied();
        let last_two: Vec<Offset> = bases.iter().rev().take(2).copied().collect();
        for base in bases.range(first.unwrap_or_default()..end.max(first.unwrap_or_default())) {
            self.map_end = self.map_end.max(*base).max(log_start);
            if last_two.contains(base) {
                self.take(dir)?;
            }
        }
        self.map_end = end;
        self.take(dir)
    }

    /// Removes the snapshots outside (start, end]; the newest that is left counts as loaded.
    fn load<D: Dir>(&mut self, dir: &D, log_start: Offset, end: Offset) -> Result<()> {
        let outside: Vec<Offset> = self
            .files
            .iter()
            .copied()
            .filter(|offset| *offset > end || *offset <= log_start)
            .collect();
        for offset in outside {
            self.remove(dir, offset)?;
        }
        self.last = self.files.last().copied().unwrap_or(log_start);
        Ok(())
    }

    /// Follows a raised log start: the newest snapshot counts as the last one, whatever was taken.
    /// Kafka: `onLogStartOffsetIncremented`.
    pub(crate) fn start_raised(&mut self, log_start: Offset) {
        self.map_end = self.map_end.max(log_start);
        self.last = self.files.last().copied().unwrap_or(log_start);
    }

    /// Takes the snapshots of an opened log that has none at all: at the last two base offsets and
    /// at its end. Kafka: the upgrade path of `rebuildProducerState`.
    pub(crate) fn take_missing<D: Dir>(&mut self, dir: &D, at: &[Offset]) -> Result<()> {
        for offset in at {
            self.map_end = *offset;
            self.take(dir)?;
        }
        Ok(())
    }

    /// As a log that is being opened begins: nothing is known, the files say the rest.
    pub(crate) fn forget_position(&mut self) {
        self.map_end = Offset::ZERO;
        self.last = Offset::ZERO;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Removes every snapshot; the log goes on at `start`, where none is due. Kafka:
    /// `truncateFullyAndStartAt`.
    pub(crate) fn reset<D: Dir>(&mut self, dir: &D, start: Offset) -> Result<()> {
        for offset in std::mem::take(&mut self.files) {
            let name = segment_name(offset, FileType::Snapshot);
            remove_if_there(dir, &name)
                .map_err(|e| Error::io("remove snapshot", &dir.path().join(&name), e))?;
        }
        self.last = start;
        self.map_end = start;
        self.producers = false;
        Ok(())
    }
}
