//! What the files of a log directory are, and what a killed cleaner or a killed deletion left to
//! finish.
//!
//! Kafka: the first three passes of `LogLoader.load`. Nothing is changed here: [`Layout::finish`]
//! is called once the whole recovery is planned.

use std::collections::BTreeMap;
use std::io;

use crate::error::{Error, Result};
use crate::log::barrier;
use crate::log::scan::{Depth, Scanner, Step};
use crate::names::{FileName, FileType, Suffix, saved_name, segment_name};
use crate::storage::{Access, Dir, DirEntry, EntryKind, remove_if_there};
use crate::types::{Offset, Position};

/// A file of a segment as it stands in the directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored {
    /// Its name before [`Layout::finish`].
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

/// The files of one segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct SegmentFiles {
    pub(crate) log: Option<Stored>,
    pub(crate) index: Option<Stored>,
    pub(crate) time: Option<Stored>,
    pub(crate) transactions: Option<Stored>,
}

impl SegmentFiles {
    fn slot(&mut self, kind: FileType) -> Option<&mut Option<Stored>> {
        match kind {
            FileType::Log => Some(&mut self.log),
            FileType::Index => Some(&mut self.index),
            FileType::TimeIndex => Some(&mut self.time),
            FileType::TxnIndex => Some(&mut self.transactions),
            FileType::Snapshot => None,
        }
    }
}

/// The files of a log directory, as they are once what was left over is finished.
#[derive(Clone, Debug, Default)]
pub(crate) struct Layout {
    /// Segments with a `.log` file, by base offset.
    pub(crate) segments: BTreeMap<Offset, SegmentFiles>,
    /// Producer snapshots by offset, with their lengths.
    pub(crate) snapshots: BTreeMap<Offset, u64>,
    /// Whether a cleaner's or a splitter's output stands here: Kafka was at work.
    pub(crate) swapped: bool,
    removals: Vec<String>,
    renames: Vec<(String, String)>,
    /// Files that nobody knows: left alone.
    pub(crate) unknown: Vec<String>,
}

impl Layout {
    /// Reads a directory.
    pub(crate) fn read<D: Dir>(dir: &D) -> Result<Self> {
        let entries = dir
            .list()
            .map_err(|e| Error::io("list log directory", dir.path(), e))?;
        let files: Vec<(DirEntry, FileName)> = entries
            .into_iter()
            .filter(|entry| entry.kind == EntryKind::File)
            .map(|entry| {
                let name = FileName::parse(&entry.name);
                (entry, name)
            })
            .collect();
        let mut layout = Self::default();
        let swap_range = layout.sort_out_swaps(dir, &files)?;
        for (entry, name) in &files {
            layout.place(entry, name, swap_range);
        }
        layout.drop_orphans();
        Ok(layout)
    }

    /// Decides on `.cleaned` and `.swap` files. Output is published from the highest base offset
    /// down, so a `.cleaned` file that is left says that nothing at or above it was. Returns the
    /// offsets that the published output covers.
    fn sort_out_swaps<D: Dir>(
        &mut self,
        dir: &D,
        files: &[(DirEntry, FileName)],
    ) -> Result<Option<(Offset, Offset)>> {
        let with = |wanted: Suffix| {
            files.iter().filter_map(move |(entry, name)| match name {
                FileName::Segment {
                    base, kind, suffix, ..
                } if *suffix == wanted => Some((entry, *base, *kind)),
                FileName::Segment { .. }
                | FileName::LeaderEpochCheckpoint
                | FileName::PartitionMetadata
                | FileName::KraftCheckpoint { .. }
                | FileName::QuorumState
                | FileName::Ours(_)
                | FileName::Tmp(_)
                | FileName::Unknown => None,
            })
        };
        let unpublished = with(Suffix::Cleaned).map(|(_, base, _)| base).min();
        self.swapped = unpublished.is_some() || with(Suffix::Swap).next().is_some();
        self.removals
            .extend(with(Suffix::Cleaned).map(|(entry, ..)| entry.name.clone()));
        let mut range: Option<(Offset, Offset)> = None;
        for (entry, base, kind) in with(Suffix::Swap) {
            if unpublished.is_some_and(|from| base >= from) {
                self.removals.push(entry.name.clone());
                continue;
            }
            self.renames
                .push((entry.name.clone(), segment_name(base, kind)));
            if kind == FileType::Log {
                let end = batches_end(dir, entry)
                    .map_err(|e| Error::io("read", &dir.path().join(&entry.name), e))?;
                let (low, high) = range.unwrap_or((base, base));
                range = Some((low.min(base), high.max(end.unwrap_or(base))));
            }
        }
        // In the order in which Kafka renames: rising base offsets, the log first.
        self.renames.sort_by_key(|(_, to)| rank(to));
        Ok(range)
    }

    fn place(&mut self, entry: &DirEntry, name: &FileName, swaps: Option<(Offset, Offset)>) {
        match name {
            FileName::Segment {
                base,
                kind,
                suffix: Suffix::None,
                canonical: true,
            } => {
                if swaps.is_some_and(|(low, high)| low <= *base && *base < high) {
                    self.removals.push(entry.name.clone());
                } else {
                    self.add(*base, *kind, entry);
                }
            }
            FileName::Segment {
                base,
                kind,
                suffix: Suffix::Swap,
                ..
            } => {
                if self.renames.iter().any(|(from, _)| *from == entry.name) {
                    self.add(*base, *kind, entry);
                }
            }
            FileName::Segment {
                suffix: Suffix::Deleted,
                ..
            } => {
                self.removals.push(entry.name.clone());
            }
            FileName::Segment {
                suffix: Suffix::Cleaned,
                ..
            } => {}
            // A torn write of a file that is written here; the old file stands.
            FileName::Tmp(target) if **target != FileName::PartitionMetadata => {
                self.removals.push(entry.name.clone());
            }
            FileName::Segment {
                canonical: false, ..
            }
            | FileName::Unknown => {
                self.unknown.push(entry.name.clone());
            }
            FileName::LeaderEpochCheckpoint
            | FileName::PartitionMetadata
            | FileName::KraftCheckpoint { .. }
            | FileName::QuorumState
            | FileName::Ours(_)
            | FileName::Tmp(_) => {}
        }
    }

    fn add(&mut self, base: Offset, kind: FileType, entry: &DirEntry) {
        if kind == FileType::Snapshot {
            self.snapshots.insert(base, entry.bytes);
        } else if let Some(slot) = self.segments.entry(base).or_default().slot(kind) {
            *slot = Some(Stored {
                name: entry.name.clone(),
                bytes: entry.bytes,
            });
        }
    }

    /// Indexes without a log are what a killed deletion left.
    fn drop_orphans(&mut self) {
        let removals = &mut self.removals;
        self.segments.retain(|_, files| {
            if files.log.is_none() {
                for orphan in [&files.index, &files.time, &files.transactions]
                    .into_iter()
                    .flatten()
                {
                    removals.push(orphan.name.clone());
                }
            }
            files.log.is_some()
        });
    }

    /// The files that [`Layout::finish`] removes, and those it gives their final names.
    pub(crate) fn leftovers(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let removed = self.removals.iter().map(|name| (name.as_str(), None));
        let renamed = self
            .renames
            .iter()
            .map(|(from, to)| (from.as_str(), Some(to.as_str())));
        removed.chain(renamed)
    }

    /// Removes and renames what was left over; durable on return. What a swap replaces is gone for
    /// good before the swap gets its final name: the other order could bring it back beside it.
    pub(crate) fn finish<D: Dir>(&mut self, dir: &D) -> Result<()> {
        for name in &self.removals {
            remove_if_there(dir, name)
                .map_err(|e| Error::io("remove leftover", &dir.path().join(name), e))?;
        }
        if !self.removals.is_empty() {
            barrier::removals_before_reuse(dir)?;
        }
        for (from, to) in &self.renames {
            dir.rename(from, to)
                .map_err(|e| Error::io("finish swap", &dir.path().join(from), e))?;
        }
        if !self.renames.is_empty() {
            barrier::names_before_first_append(dir)?;
        }
        self.removals.clear();
        self.renames.clear();
        for (base, files) in &mut self.segments {
            for kind in FileType::ALL {
                if let Some(Some(stored)) = files.slot(kind) {
                    stored.name = segment_name(*base, kind);
                }
            }
        }
        Ok(())
    }
}

/// A name for bytes that are kept beside the log, which no file has.
pub(crate) fn unused_saved_name<D: Dir>(dir: &D, offset: Offset) -> io::Result<String> {
    let mut number = 0;
    loop {
        let name = saved_name(offset, number);
        match dir.open(&name, Access::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(name),
            Err(error) => return Err(error),
            // Bounded by the files that are there.
            Ok(_) => number = number.saturating_add(1),
        }
    }
}

/// The end of the last batch of a published output.
fn batches_end<D: Dir>(dir: &D, entry: &DirEntry) -> io::Result<Option<Offset>> {
    let file = dir.open(&entry.name, Access::Read)?;
    let mut scan = Scanner::new(&file, Position::ZERO, entry.bytes, Depth::Headers);
    let mut end = None;
    while let Step::Batch(_, header) = scan.step()? {
        end = Offset::new(header.last_offset).map(Offset::next);
    }
    Ok(end)
}

fn rank(name: &str) -> (Offset, FileType) {
    if let FileName::Segment { base, kind, .. } = FileName::parse(name) {
        (base, kind)
    } else {
        (Offset::MAX, FileType::Snapshot)
    }
}
