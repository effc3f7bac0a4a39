//! Hands out the records of a log that need not be opened for it.

use std::ops::ControlFlow;

use super::Options;
use super::catalog::{LogDirectory, SegmentFiles};
use super::finding::{Finding, FindingKind, Severity};
use super::producers::Aborted;
use super::walk::{Seen, Visitor, Walk, load, wrong};
use super::{MAX_BODY_BYTES, MAX_INDEX_BYTES, scratch};
use crate::error::Result;
use crate::index::OffsetIndexView;
use crate::log::replay::State;
use crate::log::scan::{self, Fault, Scanner, Step};
use crate::names::{FileType, segment_name};
use crate::record::{Batch, BatchHeader, ControlType, Record, Scratch};
use crate::storage::{Dir, File};
use crate::types::{Offset, Position, Timestamp};

/// Up to where a reader sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Isolation {
    /// All sound batches.
    LogEnd,
    /// Below the checkpointed high watermark. Without one there is nothing to see.
    #[default]
    HighWatermark,
    /// Below the last stable offset, without the records of aborted transactions.
    Committed,
}

/// What is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// From this offset on (inclusive); else from the log start.
    pub from: Option<Offset>,
    /// From the first record with at least this timestamp on.
    pub since: Option<Timestamp>,
    /// Up to where.
    pub isolation: Isolation,
}

/// A record and the leader epoch of its batch.
#[derive(Clone, Copy, Debug)]
pub struct ReadRecord<'s> {
    /// Its place in the log.
    pub offset: Offset,
    /// Milliseconds since the Unix epoch, -1 for none.
    pub timestamp: Timestamp,
    /// The leader epoch; `None` in versions 0 and 1.
    pub leader_epoch: Option<crate::types::LeaderEpoch>,
    /// The key, if it has one.
    pub key: Option<&'s [u8]>,
    /// The value, if it has one.
    pub value: Option<&'s [u8]>,
    record: Record<'s>,
}

impl<'s> ReadRecord<'s> {
    /// The record as it stands in its batch, with its headers.
    #[must_use]
    pub fn record(&self) -> &Record<'s> {
        &self.record
    }
}

/// How a read ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadOutcome {
    /// Where the next read goes on (inclusive).
    pub next_offset: Offset,
    /// The end of what this isolation shows (exclusive); `None` for no bound.
    pub bound: Option<Offset>,
    /// What was stepped over or stopped the read.
    pub damage: Vec<Finding>,
    /// A torn tail at or above the recovery point: the end of the log.
    pub torn_tail: Option<Finding>,
}

/// Hands the records of a log to `visit` in order, until there are no more or it says to stop.
/// Control batches are left out; a batch that reaches past the bound is hidden as a whole.
///
/// # Errors
///
/// A file that is there cannot be read, this build leaves out a codec, or `visit` fails.
pub fn read<D: Dir>(
    log: &LogDirectory<D>,
    query: &Query,
    options: &Options<'_>,
    visit: &mut dyn FnMut(&ReadRecord<'_>) -> Result<ControlFlow<()>>,
) -> Result<ReadOutcome> {
    let first = log
        .segments
        .first()
        .map_or(Offset::ZERO, |segment| segment.base);
    let last_base = log.segments.last().map_or(first, |segment| segment.base);
    let is_inside = log.log_start.is_none_or(|start| start <= last_base);
    let start = log.log_start_offset(if is_inside {
        last_base
    } else {
        last_end(log)?.offset
    });
    let from = query.from.unwrap_or(start).max(start.max(first));
    let bound = match query.isolation {
        Isolation::LogEnd => None,
        Isolation::HighWatermark => Some(log.high_watermark.unwrap_or(start)),
        Isolation::Committed => Some(stable_bound(log, from, start)?),
    };
    let mut reader = Reader {
        log,
        from: from.get(),
        since: query.since.map(Timestamp::millis),
        bound: bound.map(Offset::get),
        next: from.get(),
        header_end: 0,
        visit,
        scratch: scratch(),
        body: Vec::new(),
        aborted: None,
        outcome: ReadOutcome::default(),
    };
    if bound.is_none_or(|bound| from < bound) {
        let (number, position) = place(log, from)?;
        if query.isolation == Isolation::Committed {
            reader.aborted = Some(Aborted::new(log, number)?);
        }
        Walk::new(log, options, false).run(number, position, &mut reader)?;
    }
    let mut outcome = reader.finish();
    outcome.bound = bound;
    Ok(outcome)
}

/// The last stable offset; where the high watermark alone says that there is nothing to read from
/// `from` on, nothing is looked at.
fn stable_bound<D: Dir>(log: &LogDirectory<D>, from: Offset, start: Offset) -> Result<Offset> {
    let Some(high_watermark) = log.high_watermark.filter(|row| *row > from) else {
        return Ok(log.high_watermark.unwrap_or(start));
    };
    let end = match last_end(log)? {
        LastEnd {
            offset,
            is_damaged: false,
        } => offset,
        // Reading goes on behind it.
        LastEnd {
            offset,
            is_damaged: true,
        } => offset.max(high_watermark),
    };
    let mut state = State::at_end(log, start, end)?;
    Ok(state.last_stable_offset(Some(high_watermark), start, end))
}

/// The end of the last segment by its headers, which is all that a checkpointed log start and a
/// last stable offset are held against.
fn last_end<D: Dir>(log: &LogDirectory<D>) -> Result<LastEnd> {
    let mut end = LastEnd::default();
    let Some(segment) = log.segments.last() else {
        return Ok(end);
    };
    end.offset = segment.base;
    let name = segment.log_name();
    let Some(file) = log.open(&name)? else {
        return Ok(end);
    };
    let failed = |source| log.failed("cannot read the segment", &name, source);
    let bytes = file.bytes().map_err(failed)?;
    let mut scanner = Scanner::new(&file, Position::ZERO, bytes, scan::Depth::Headers);
    loop {
        match scanner.step().map_err(failed)? {
            Step::Batch(_, header) => {
                let last = Offset::new(header.last_offset).unwrap_or(end.offset);
                end.offset = end.offset.max(last.next());
            }
            Step::End(_) | Step::Bad(_, _, Fault::Zeros | Fault::Short) => return Ok(end),
            Step::Bad(_, _, Fault::Decode(_)) => {
                end.is_damaged = true;
                return Ok(end);
            }
        }
    }
}

/// Where the headers of the last segment end.
#[derive(Clone, Copy, Debug, Default)]
struct LastEnd {
    /// Exclusive.
    offset: Offset,
    /// Something that is no header stands there.
    is_damaged: bool,
}

/// The segment and position from which an offset is found. An index that names no fitting batch is
/// not believed.
fn place<D: Dir>(log: &LogDirectory<D>, from: Offset) -> Result<(usize, u64)> {
    let above = log.segments.partition_point(|segment| segment.base <= from);
    let number = above.saturating_sub(1);
    let Some(segment) = log.segments.get(number) else {
        return Ok((0, 0));
    };
    let name = segment_name(segment.base, FileType::Index);
    let Ok(Some(index)) = log.content(&name, MAX_INDEX_BYTES) else {
        return Ok((number, 0));
    };
    let sound = crate::index::offset::sound_prefix(&index, segment.base, segment.log_bytes);
    let bytes = sound
        .entries
        .saturating_mul(crate::index::OFFSET_ENTRY_BYTES);
    let view = OffsetIndexView::new(segment.base, index.get(..bytes).unwrap_or_default());
    let (_, position) = view.lookup(from);
    let name = segment.log_name();
    let Some(file) = log.open(&name)? else {
        return Ok((number, 0));
    };
    let failed = |source| log.failed("cannot read the segment", &name, source);
    let end = file.bytes().map_err(failed)?;
    let mut scanner = Scanner::new(&file, position, end, scan::Depth::Headers);
    if let Step::Batch(_, header) = scanner.step().map_err(failed)?
        && (segment.base.get()..=from.get()).contains(&header.base_offset)
        && !header.is_compressed_wrapper()
    {
        return Ok((number, position.get()));
    }
    Ok((number, 0))
}

struct Reader<'r, D: Dir> {
    log: &'r LogDirectory<D>,
    from: i64,
    since: Option<i64>,
    bound: Option<i64>,
    next: i64,
    header_end: i64,
    visit: &'r mut dyn FnMut(&ReadRecord<'_>) -> Result<ControlFlow<()>>,
    scratch: Scratch,
    body: Vec<u8>,
    /// Knows what readers of committed records do not get.
    aborted: Option<Aborted<'r, D>>,
    outcome: ReadOutcome,
}

impl<D: Dir> Reader<'_, D> {
    fn finish(mut self) -> ReadOutcome {
        if self
            .outcome
            .damage
            .last()
            .is_some_and(|last| self.is_tail(last))
        {
            self.outcome.torn_tail = self.outcome.damage.pop();
            if let Some(tail) = &mut self.outcome.torn_tail {
                tail.severity = Severity::Note;
                tail.next_step = "nothing: opening the log cuts it";
            }
        }
        // What lies above the bound was neither stepped over nor did it stop the read.
        if let Some(bound) = self.bound {
            let is_hidden = |offset: Offset| offset.get() >= bound;
            self.outcome
                .damage
                .retain(|finding| !finding.offset.is_some_and(is_hidden));
        }
        self.outcome.next_offset = Offset::new(self.next).unwrap_or_default();
        self.outcome
    }

    /// Whether damage is what a kill or a power cut leaves behind the last batch, at or above the
    /// recovery point. Bytes that are no batch at all count as that only behind sound batches of a
    /// log that has a recovery point: without one nothing tells garbage from a log that this
    /// version cannot read.
    fn is_tail(&self, finding: &Finding) -> bool {
        let active = self.log.segments.last().map(SegmentFiles::log_name);
        let is_torn = matches!(
            finding.kind,
            FindingKind::TornTail | FindingKind::ZeroedRange
        );
        let is_garbage = finding.kind == FindingKind::BadLength
            && self.log.recovery_point.is_some()
            && finding.position.is_some_and(|position| position.get() > 0);
        let row = self.log.recovery_point.map_or(0, Offset::get);
        let is_believed = self.log.is_witnessed() || row <= self.header_end;
        let point = if is_believed { row } else { 0 };
        (is_torn || is_garbage)
            && Some(&finding.file) == active.as_ref()
            && finding.offset.is_some_and(|offset| offset.get() >= point)
    }

    fn records(
        &mut self,
        seen: &Seen,
    ) -> Result<std::result::Result<ControlFlow<()>, super::walk::Wrong>> {
        let batch = match Batch::parse(&self.body) {
            Ok(batch) => batch,
            Err(error) => return Ok(Err(wrong(&error))),
        };
        let records = match batch.records(&mut self.scratch) {
            Ok(records) => records,
            Err(error) => return Ok(Err(wrong(&error))),
        };
        for record in records {
            let record = match record {
                Ok(record) => record,
                Err(error) => return Ok(Err(wrong(&error))),
            };
            if record.offset < self.from || self.since.is_some_and(|since| record.timestamp < since)
            {
                continue;
            }
            self.since = None;
            let Some(offset) = Offset::new(record.offset) else {
                continue;
            };
            let shown = ReadRecord {
                offset,
                timestamp: Timestamp::from_millis(record.timestamp),
                leader_epoch: crate::types::LeaderEpoch::new(seen.header.leader_epoch),
                key: record.key,
                value: record.value,
                record,
            };
            self.next = record.offset.saturating_add(1);
            if (self.visit)(&shown)?.is_break() {
                return Ok(Ok(ControlFlow::Break(())));
            }
        }
        Ok(Ok(ControlFlow::Continue(())))
    }
}

impl<D: Dir> Visitor<D::File> for Reader<'_, D> {
    fn segment_start(&mut self, segment: &SegmentFiles) -> Result<()> {
        let Some(aborted) = &mut self.aborted else {
            return Ok(());
        };
        let above = |other: &&SegmentFiles| other.base > segment.base;
        let next = self.log.segments.iter().find(above);
        let bound = self.bound.and_then(Offset::new).unwrap_or(Offset::MAX);
        aborted.look_ahead(next.map_or(bound, |next| next.base.min(bound)))
    }

    fn batch(
        &mut self,
        segment: &SegmentFiles,
        file: &D::File,
        seen: &Seen,
    ) -> Result<ControlFlow<()>> {
        let header = &seen.header;
        self.header_end = self.header_end.max(seen.end());
        if self.bound.is_some_and(|bound| seen.end() > bound) {
            return Ok(ControlFlow::Break(()));
        }
        let is_abort = seen.control.first == Some(ControlType::Abort);
        let is_shown = match &mut self.aborted {
            Some(aborted) => aborted.filter().delivers_header(header, is_abort),
            None => !header.is_control(),
        };
        let is_early = header.magic != crate::record::Magic::V0
            && self.since.is_some_and(|since| header.max_timestamp < since);
        if header.last_offset < self.from || !is_shown || is_early {
            self.next = self.next.max(seen.end());
            return Ok(ControlFlow::Continue(()));
        }
        let found = if header.bytes > MAX_BODY_BYTES {
            let detail = format!("a batch of {} bytes is too large to be read", header.bytes);
            Err((FindingKind::RecordBody, detail))
        } else if load(file, seen.position, header, &mut self.body).is_err() {
            Err((
                FindingKind::TornTail,
                "the file was cut while it was read".to_owned(),
            ))
        } else {
            self.records(seen)?
        };
        match found {
            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
            Ok(ControlFlow::Continue(())) => {}
            Err((kind, detail)) => {
                let finding = Finding::damage(kind, segment.log_name(), detail);
                let finding = finding.of_log(&self.log.name).at(seen.position);
                self.outcome
                    .damage
                    .push(finding.at_offset(seen.base_offset));
            }
        }
        self.next = self.next.max(seen.end());
        Ok(ControlFlow::Continue(()))
    }

    fn found(&mut self, finding: Finding, end: i64, header: Option<&BatchHeader>) {
        if let Some(header) = header.filter(|header| header.base_offset >= end) {
            self.header_end = self.header_end.max(header.last_offset.saturating_add(1));
        }
        if finding.is_damage() {
            self.outcome.damage.push(finding);
        }
    }

    fn segment_end(&mut self, _segment: &SegmentFiles) -> Result<()> {
        Ok(())
    }
}
