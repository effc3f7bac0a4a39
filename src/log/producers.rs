//! The producers of a log: their state in memory, and the snapshots of it on disk.
//!
//! Kafka: `ProducerStateManager`, and `rebuildProducerState` of `UnifiedLog`. A snapshot holds the
//! producers as of the offset in its name. One is written at each roll, at a clean close, behind
//! each recovered segment and after a truncation; the state at any offset is the newest sound
//! snapshot below it and the batches from there on.

use std::collections::BTreeSet;
use std::io;

use crate::error::{Error, Result};
use crate::index::AbortedTransaction;
use crate::log::Log;
use crate::log::layout::unused_saved_name;
use crate::log::plan::Note;
use crate::log::replay::{Replay, ReplayedSegment};
use crate::names::{FileType, segment_name};
use crate::producer::{Producers, Transactions, snapshot};
use crate::storage::{Dir, read_file, remove_if_there, replace_file};
use crate::types::{Offset, Timestamp};

/// No snapshot is larger: five million producers.
const MAX_SNAPSHOT_BYTES: u64 = 256 << 20;

/// The producers, the snapshot files, and the two offsets that decide when a snapshot is due.
#[derive(Debug)]
pub(crate) struct LogProducers {
    pub(crate) state: Producers,
    /// The offsets that files are named by.
    files: BTreeSet<Offset>,
    /// The offset up to which the producers are known; exclusive.
    map_end: Offset,
    /// The offset of the last snapshot that was taken or loaded.
    last: Offset,
    /// Producers are forgotten this long after their last timestamp.
    expiration_ms: i64,
    /// The files stay as they are: the log is degraded.
    frozen: bool,
    /// What became of damaged snapshots.
    notes: Vec<Note>,
}

/// What a state is rebuilt from.
pub(crate) struct Rebuild<'a, D> {
    pub(crate) dir: &'a D,
    /// The segments with what is left of them, by base offset.
    pub(crate) segments: &'a [ReplayedSegment],
    pub(crate) log_start: Offset,
    /// Where the log ends; exclusive.
    pub(crate) end: Offset,
    pub(crate) now: Timestamp,
}

impl<D> Rebuild<'_, D> {
    /// The base offsets of the last two segments, the last one first.
    fn last_two(&self) -> impl Iterator<Item = Offset> {
        self.segments
            .iter()
            .rev()
            .take(2)
            .map(|segment| segment.base)
    }
}

impl LogProducers {
    /// The producers of a log that holds these snapshots; none of them is loaded yet.
    pub(crate) fn new(files: BTreeSet<Offset>, expiration_ms: i64, frozen: bool) -> Self {
        Self {
            state: Producers::new(),
            files,
            map_end: Offset::ZERO,
            last: Offset::ZERO,
            expiration_ms,
            frozen,
            notes: Vec::new(),
        }
    }

    pub(crate) fn advance(&mut self, log_end: Offset) {
        self.map_end = log_end;
    }

    pub(crate) fn has_no_files(&self) -> bool {
        self.files.is_empty()
    }

    pub(crate) fn take_notes(&mut self) -> Vec<Note> {
        std::mem::take(&mut self.notes)
    }

    pub(crate) fn expire(&mut self, now: Timestamp) {
        self.state.expire(now, self.expiration_ms);
    }

    /// Writes a snapshot at the end of what is known, if the last one is older. Durable on return.
    pub(crate) fn take<D: Dir>(&mut self, dir: &D) -> Result<()> {
        if self.frozen || self.map_end <= self.last {
            return Ok(());
        }
        let name = segment_name(self.map_end, FileType::Snapshot);
        replace_file(dir, &name, &snapshot::print(self.state.to_snapshot()))
            .map_err(|e| Error::io("write snapshot", &dir.path().join(&name), e))?;
        self.files.insert(self.map_end);
        self.last = self.map_end;
        Ok(())
    }

    /// Removes the snapshot of a segment that is removed.
    pub(crate) fn remove<D: Dir>(&mut self, dir: &D, offset: Offset) -> Result<()> {
        if !self.frozen && self.files.remove(&offset) {
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

    /// Follows the log to its end: from what is known if that is the end, else from the newest
    /// sound snapshot, with the batches behind it. Snapshots outside (log start, end] go; one is
    /// taken at each of the last two base offsets that lie behind the loaded one, and at the end.
    /// Kafka: `rebuildProducerState`.
    ///
    /// `had_ended` says whether ended transactions wait for the high watermark. The transactions as
    /// the rebuilt state has them, `None` if nothing was rebuilt.
    pub(crate) fn rebuild<D: Dir>(
        &mut self,
        from: &Rebuild<'_, D>,
        had_ended: bool,
    ) -> Result<Option<Transactions>> {
        // Where nobody produced nothing is to be rebuilt.
        let nobody = self.state.is_empty() && !had_ended && self.map_end >= from.end;
        let mut rebuilt = self.truncate_and_load(from)?;
        if from.end > self.map_end && !nobody {
            self.replay(from, rebuilt.get_or_insert_default())?;
        }
        self.map_end = from.end;
        self.take(from.dir)?;
        Ok(rebuilt)
    }

    /// As [`rebuild`](Self::rebuild), for a log that was closed cleanly and has no snapshot at all:
    /// the state comes from all of its batches, and snapshots are taken at the last two base
    /// offsets and at the end. Kafka takes empty ones there and forgets the producers.
    pub(crate) fn rebuild_lost<D: Dir>(&mut self, from: &Rebuild<'_, D>) -> Result<Transactions> {
        self.forget_position();
        let mut transactions = Transactions::new();
        self.replay(from, &mut transactions)?;
        self.map_end = from.end;
        self.take(from.dir)?;
        Ok(transactions)
    }

    /// What Kafka makes of a log that was closed cleanly and has no snapshot: empty ones at the
    /// last two base offsets and at the end, whatever its batches say.
    pub(crate) fn forget_all<D: Dir>(&mut self, from: &Rebuild<'_, D>) -> Result<Transactions> {
        self.forget_position();
        let due: BTreeSet<Offset> = from.last_two().chain([from.end]).collect();
        for offset in due {
            self.map_end = offset;
            self.take(from.dir)?;
        }
        Ok(Transactions::new())
    }

    /// Kafka: `truncateAndReload`.
    fn truncate_and_load<D: Dir>(&mut self, from: &Rebuild<'_, D>) -> Result<Option<Transactions>> {
        let outside: Vec<Offset> = self
            .files
            .iter()
            .copied()
            .filter(|offset| *offset > from.end || *offset <= from.log_start)
            .collect();
        for offset in outside {
            self.remove(from.dir, offset)?;
        }
        if self.map_end == from.end {
            self.start_raised(from.log_start);
            return Ok(None);
        }
        let mut transactions = Transactions::new();
        self.state = Producers::new();
        self.last = from.log_start;
        let mut newest = self.files.range(..=from.end).next_back().copied();
        while let Some(offset) = newest.filter(|offset| *offset > from.log_start) {
            newest = self.files.range(..offset).next_back().copied();
            if let Some(entries) = self.load(from.dir, offset)? {
                self.state = Producers::of_snapshot(&entries, from.now, self.expiration_ms);
                transactions = Transactions::of(&self.state);
                self.last = offset;
                break;
            }
        }
        self.map_end = self.last;
        Ok(Some(transactions))
    }

    /// Reads a snapshot; a damaged one is set aside.
    fn load<D: Dir>(
        &mut self,
        dir: &D,
        offset: Offset,
    ) -> Result<Option<Vec<snapshot::ProducerSnapshotEntry>>> {
        let name = segment_name(offset, FileType::Snapshot);
        match load_snapshot(dir, offset)? {
            Ok(entries) => Ok(Some(entries)),
            Err(why) => {
                let mut detail = format!(
                    "{why}; the producers come from the batches behind an \
                     older one"
                );
                if !self.frozen {
                    let saved = set_aside(dir, &name, offset)
                        .map_err(|e| Error::io("set snapshot aside", &dir.path().join(&name), e))?;
                    detail = format!("{detail}; set aside as {saved}");
                    self.files.remove(&offset);
                }
                self.notes.push(Note {
                    file: Some(name),
                    detail,
                });
                Ok(None)
            }
        }
    }

    /// Sets those behind `from` aside that cannot be believed, before they are written anew.
    pub(crate) fn set_damaged_aside<D: Dir>(&mut self, dir: &D, from: Offset) -> Result<()> {
        let behind: Vec<Offset> = self.files.range(from..).copied().collect();
        for offset in behind {
            self.load(dir, offset)?;
        }
        Ok(())
    }

    pub(crate) fn note(&mut self, note: Note) {
        self.notes.push(note);
    }

    /// Folds the batches from what is known to the end. A snapshot is taken at each of the last two
    /// base offsets that lie behind the last one.
    fn replay<D: Dir>(
        &mut self,
        from: &Rebuild<'_, D>,
        transactions: &mut Transactions,
    ) -> Result<()> {
        let first = from
            .segments
            .partition_point(|segment| segment.base <= self.map_end)
            .saturating_sub(1);
        for segment in from.segments.iter().skip(first) {
            if segment.base >= from.end && segment.base > self.map_end {
                break;
            }
            self.map_end = self.map_end.max(segment.base).max(from.log_start);
            if from.last_two().any(|base| base == segment.base) {
                self.take(from.dir)?;
            }
            let mut replay = Replay {
                producers: &mut self.state,
                transactions,
            };
            replay.segment(from.dir, segment, self.map_end, from.end, |_, _, _| {})?;
        }
        Ok(())
    }

    /// Folds all of a segment that is being recovered, and takes a snapshot behind its last batch.
    /// `aborted` is told of each aborted transaction that ends in it.
    pub(crate) fn recover<D: Dir>(
        &mut self,
        dir: &D,
        segment: &ReplayedSegment,
        transactions: &mut Transactions,
        mut aborted: impl FnMut(AbortedTransaction),
    ) -> Result<()> {
        let mut end = segment.without_producers.unwrap_or(segment.base);
        let mut replay = Replay {
            producers: &mut self.state,
            transactions,
        };
        replay.segment(
            dir,
            segment,
            segment.base,
            Offset::MAX,
            |header, _, ended| {
                end = Offset::new(header.last_offset).unwrap_or(end).next();
                if let Some(ended) = ended {
                    aborted(ended);
                }
            },
        )?;
        self.map_end = end;
        self.take(dir)
    }

    /// Follows a raised log start: the newest snapshot counts as the last one, whatever was taken.
    /// Kafka: `onLogStartOffsetIncremented`.
    pub(crate) fn start_raised(&mut self, log_start: Offset) {
        self.map_end = self.map_end.max(log_start);
        self.last = self.files.last().copied().unwrap_or(log_start);
    }

    /// As a log that is being opened begins: nothing is known, the files say the rest.
    pub(crate) fn forget_position(&mut self) {
        self.state = Producers::new();
        self.map_end = Offset::ZERO;
        self.last = Offset::ZERO;
    }

    /// Forgets every producer and removes every snapshot; the log goes on at `start`, where none is
    /// due. Kafka: `truncateFullyAndStartAt`.
    pub(crate) fn reset<D: Dir>(&mut self, dir: &D, start: Offset) -> Result<()> {
        for offset in self.files.clone() {
            self.remove(dir, offset)?;
        }
        self.state = Producers::new();
        self.last = start;
        self.map_end = start;
        Ok(())
    }
}

/// What a snapshot file holds, or why it cannot be believed.
pub(crate) fn load_snapshot<D: Dir>(
    dir: &D,
    offset: Offset,
) -> Result<std::result::Result<Vec<snapshot::ProducerSnapshotEntry>, String>> {
    let name = segment_name(offset, FileType::Snapshot);
    match read_file(dir, &name, MAX_SNAPSHOT_BYTES) {
        Ok(Some(bytes)) => Ok(snapshot::parse(&bytes)
            .map_err(|why| format!("position {}: {why}", why.position(bytes.len())))),
        Ok(None) => Ok(Err("the file is gone".into())),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            Ok(Err("larger than any snapshot".into()))
        }
        Err(error) => Err(Error::io("read snapshot", &dir.path().join(&name), error)),
    }
}

/// Renames a file to one of ours; returns its name. One that is gone needs no other name.
fn set_aside<D: Dir>(dir: &D, name: &str, offset: Offset) -> io::Result<String> {
    let saved = unused_saved_name(dir, offset)?;
    match dir.rename(name, &saved) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(saved),
    }
}

impl<D: Dir> Log<D> {
    /// Calls `look` with the producers of the log as they stand. Appends wait meanwhile.
    pub fn with_producers<T>(&self, look: impl FnOnce(&Producers) -> T) -> T {
        look(&self.writer().producers.state)
    }

    /// Forgets the producers that have been silent for `producer.id.expiration.ms` and have no
    /// transaction open. Kafka does so every ten minutes.
    pub fn expire_producers(&self, now: Timestamp) {
        self.writer().producers.expire(now);
    }

    /// The first offsets of the open transactions with their producers, oldest first.
    pub fn open_transactions(&self) -> Vec<(Offset, i64)> {
        self.transactions().ongoing().collect()
    }
}
