//! What other files say of a segment: its indexes, and our own record of sealed segments.

use std::io;

use crate::checkpoint::{SegmentFacts, SegmentsFile};
use crate::error::{Error, Result};
use crate::index::{OffsetIndex, OffsetIndexView, TimeIndex, TimeIndexView, offset, time};
use crate::log::Log;
use crate::log::config::LogConfig;
use crate::log::decision::{Situation, Stop, decide};
use crate::log::layout::{Layout, SegmentFiles, Stored};
use crate::log::plan::{Damage, OpenState};
use crate::log::segment::{IndexTally, Segment};
use crate::log::view::View;
use crate::log::walk::SegmentWalk;
use crate::names::{FileType, SEGMENTS, segment_name};
use crate::record::crc32_ieee;
use crate::storage::{Dir, Fenced, read_file, replace_file};
use crate::types::{Offset, Position, Timestamp};
use std::sync::Arc;

/// No index that Kafka or this crate writes is larger than its `segment.index.bytes`.
const MAX_INDEX_BYTES: u64 = i32::MAX.unsigned_abs() as u64;

fn read<D: Dir>(dir: &D, stored: Option<&Stored>) -> Result<Option<Vec<u8>>> {
    let Some(stored) = stored else {
        return Ok(None);
    };
    match read_file(dir, &stored.name, MAX_INDEX_BYTES) {
        Ok(bytes) => Ok(bytes),
        // Larger than any index may be: as good as none.
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(None),
        Err(error) => Err(Error::io(
            "read index",
            &dir.path().join(&stored.name),
            error,
        )),
    }
}

/// Both indexes of a cleanly closed segment; `None` if one is missing or wrong.
pub(crate) fn load_indexes<D: Dir>(
    dir: &D,
    base: Offset,
    files: &SegmentFiles,
    log_bytes: u64,
    config: &LogConfig,
) -> Result<Option<(OffsetIndex, TimeIndex)>> {
    let (index, times) = (
        read(dir, files.index.as_ref())?,
        read(dir, files.time.as_ref())?,
    );
    let (Some(index), Some(times)) = (index, times) else {
        return Ok(None);
    };
    let index_view = OffsetIndexView::new(base, &index);
    let time_view = TimeIndexView::new(base, &times);
    if index_view.check(log_bytes).is_err() || time_view.check().is_err() {
        return Ok(None);
    }
    if time_view.is_empty() && log_bytes > 0 {
        return Ok(None);
    }
    let max = config.segment_index_bytes;
    Ok(Some((
        OffsetIndex::from_bytes(base, max, &index, index_view.len()),
        TimeIndex::from_bytes(base, max, &times, time_view.len()),
    )))
}

/// The entries of a stored index that fit one another and the log. In an index that was not closed
/// all behind the first that does not fit is left over.
pub(crate) fn sound_index<D: Dir>(
    dir: &D,
    base: Offset,
    files: &SegmentFiles,
    log_bytes: u64,
    config: &LogConfig,
) -> Result<OffsetIndex> {
    let bytes = read(dir, files.index.as_ref())?.unwrap_or_default();
    let sound = offset::sound_prefix(&bytes, base, log_bytes);
    Ok(OffsetIndex::from_bytes(
        base,
        config.segment_index_bytes,
        &bytes,
        sound.entries,
    ))
}

/// The start of a scan at `from`: the stored index entries before it are kept, the rest is made
/// anew.
pub(crate) fn start_walk<D: Dir>(
    dir: &D,
    base: Offset,
    files: &SegmentFiles,
    log_bytes: u64,
    config: &LogConfig,
    from: Position,
) -> Result<SegmentWalk> {
    let max = config.segment_index_bytes;
    let stored = sound_index(dir, base, files, log_bytes, config)?;
    let mut walk = SegmentWalk {
        base,
        from,
        index: OffsetIndex::new(base, max),
        time: TimeIndex::new(base, max),
        tally: IndexTally::new(base),
        stored,
        producers: false,
    };
    if from == Position::ZERO {
        return Ok(walk);
    }
    walk.index = walk.stored.clone();
    walk.index.truncate_to_position(from);
    let times = read(dir, files.time.as_ref())?.unwrap_or_default();
    let sound = time::sound_prefix(&times, base);
    walk.time = TimeIndex::from_bytes(base, max, &times, sound.entries);
    // Those of batches before `from` stay. The one that was made at `from` is among them if an
    // earlier batch has the largest timestamp; else the walk makes it again.
    let entry = walk.stored.view().iter().find(|(_, at)| *at == from);
    walk.time
        .truncate_to(entry.map_or(base, |(offset, _)| offset));
    if sound.entries == 0 || entry.is_none() {
        // A lost time index: all of the segment is walked again.
        walk.from = Position::ZERO;
        walk.index.clear();
        return Ok(walk);
    }
    walk.tally.largest = walk.time.last_entry();
    walk.tally.bytes_since_entry = u64::from(config.index_interval_bytes).saturating_add(1);
    Ok(walk)
}

/// Whether the stored indexes of a scanned, sealed segment can stay as they are.
pub(crate) fn indexes_fit<D: Dir>(
    dir: &D,
    base: Offset,
    files: &SegmentFiles,
    log_bytes: u64,
    largest: (Timestamp, Offset),
) -> Result<bool> {
    let (index, times) = (
        read(dir, files.index.as_ref())?,
        read(dir, files.time.as_ref())?,
    );
    let (Some(index), Some(times)) = (index, times) else {
        return Ok(false);
    };
    let time_view = TimeIndexView::new(base, &times);
    Ok(OffsetIndexView::new(base, &index).check(log_bytes).is_ok()
        && time_view.check().is_ok()
        && (time_view.last_entry().0 == largest.0 || largest.0 == Timestamp::NONE))
}

/// Whether the index files of the last segment hold what an index that was not closed may hold:
/// entries that fit, then zeros. They are made anew at open all the same; the report names them
/// only if they do not.
pub(crate) fn active_indexes_fit<D: Dir>(
    dir: &D,
    base: Offset,
    files: &SegmentFiles,
    log_bytes: u64,
) -> Result<bool> {
    let (index, times) = (
        read(dir, files.index.as_ref())?,
        read(dir, files.time.as_ref())?,
    );
    let (Some(index), Some(times)) = (index, times) else {
        return Ok(log_bytes == 0);
    };
    Ok(offset::sound_prefix(&index, base, log_bytes).rest_is_zero
        && time::sound_prefix(&times, base).rest_is_zero)
}

/// Row K: sealed segments that our own record names and that are missing or shorter. Only while the
/// record is a witness, and only if no cleaner was at work.
pub(crate) fn missing_segments<D: Dir>(
    dir: &D,
    layout: &Layout,
    state: &OpenState,
) -> Result<Vec<Damage>> {
    let Some(facts) = state.witness.filter(|_| !layout.swapped) else {
        return Ok(Vec::new());
    };
    let bytes = read_file(dir, SEGMENTS, MAX_INDEX_BYTES)
        .map_err(|e| Error::io("read", &dir.path().join(SEGMENTS), e))?;
    let record = bytes.and_then(|bytes| SegmentsFile::parse(&bytes).ok().flatten());
    let Some(record) = record.filter(|_| state.log_start == facts.log_start) else {
        return Ok(Vec::new());
    };
    let first = layout.segments.keys().next().copied();
    // Of segments at the front nobody knows whether somebody removed them since.
    let first = first.filter(|_| !state.nobody_since);
    let start = state.log_start.max(first).unwrap_or_default();
    let mut damage = Vec::new();
    for sealed in &record.segments {
        let last = sealed.last_offset.unwrap_or(sealed.base);
        if last < start {
            continue;
        }
        let stored = layout
            .segments
            .get(&sealed.base)
            .and_then(|files| files.log.as_ref());
        let found = stored.map_or(0, |stored| stored.bytes);
        if stored.is_some() && found >= sealed.bytes {
            continue;
        }
        let row = decide(Situation {
            stop: Stop::End,
            below_recovery_point: true,
            last_segment: false,
            more_behind: true,
            witness_says_more: true,
        });
        damage.push(Damage {
            file: segment_name(sealed.base, FileType::Log),
            position: Position::new(found),
            first_offset: sealed.base,
            end_offset: last.next(),
            row,
            detail: match stored {
                Some(_) => format!("{found} bytes, {} when it was sealed", sealed.bytes),
                None => format!("missing, {} bytes when it was sealed", sealed.bytes),
            },
        });
    }
    Ok(damage)
}

/// Takes the segments from `base` on out of our record, before they are cut: the next open is not
/// to miss them. Durable on return.
pub(crate) fn forget_sealed<D: Dir>(dir: &D, base: Offset) -> Result<()> {
    let fail = |e| Error::io("write segment record", &dir.path().join(SEGMENTS), e);
    let bytes = read_file(dir, SEGMENTS, MAX_INDEX_BYTES).map_err(fail)?;
    let Some(mut record) = bytes.and_then(|bytes| SegmentsFile::parse(&bytes).ok().flatten())
    else {
        return Ok(());
    };
    let known = record.segments.len();
    record.segments.retain(|sealed| sealed.base < base);
    if record.segments.len() < known {
        replace_file(dir, SEGMENTS, record.print().as_bytes()).map_err(fail)?;
    }
    Ok(())
}

impl<D: Dir> Log<D> {
    pub(crate) fn write_segments_file(&self) -> Result<()> {
        let view = self.view.load_full();
        let sealed: Vec<_> = view
            .segments
            .iter()
            .filter(|segment| !View::is_active(segment))
            .cloned()
            .collect();
        self.write_segments_file_of(&sealed)
    }

    /// Records the sealed segments, if they are not those that the file has.
    pub(crate) fn write_segments_file_of(&self, sealed: &[Arc<Segment<Fenced<D>>>]) -> Result<()> {
        let fail = |e| Error::io("write segment record", &self.path().join(SEGMENTS), e);
        let old = read_file(&self.dir, SEGMENTS, MAX_INDEX_BYTES).map_err(fail)?;
        if old.is_none() && sealed.is_empty() {
            return Ok(());
        }
        let known = old
            .as_deref()
            .and_then(|bytes| SegmentsFile::parse(bytes).ok().flatten())
            .unwrap_or_default();
        let view = self.view.load();
        let mut record = SegmentsFile::default();
        for (at, segment) in sealed.iter().enumerate() {
            let bytes = view.bytes_of(segment);
            match known
                .segment(segment.base)
                .filter(|facts| facts.bytes == bytes)
            {
                Some(facts) => record.segments.push(*facts),
                None => record
                    .segments
                    .push(self.facts_of(segment, bytes, view.end_of(at))?),
            }
        }
        if record == known && old.is_some() {
            return Ok(());
        }
        replace_file(&self.dir, SEGMENTS, record.print().as_bytes()).map_err(fail)
    }

    fn facts_of(
        &self,
        segment: &Segment<Fenced<D>>,
        bytes: u64,
        end: Offset,
    ) -> Result<SegmentFacts> {
        let crc = |kind| -> Result<Option<u32>> {
            let name = segment.file_name(kind);
            let content = read_file(&self.dir, &name, MAX_INDEX_BYTES)
                .map_err(|e| Error::io("read", &self.path().join(&name), e))?;
            Ok(content.map(|content| crc32_ieee(&content)))
        };
        Ok(SegmentFacts {
            base: segment.base,
            bytes,
            last_offset: end
                .previous()
                .filter(|last| bytes > 0 && *last >= segment.base),
            index_crc: crc(FileType::Index)?,
            timeindex_crc: crc(FileType::TimeIndex)?,
            txnindex_crc: crc(FileType::TxnIndex)?,
            snapshot_crc: crc(FileType::Snapshot)?,
        })
    }
}
