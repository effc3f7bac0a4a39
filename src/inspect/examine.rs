//! Counts a log, finds its end and says what is wrong with it.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::Options;
use super::catalog::{LogDirectory, SegmentFiles};
use super::finding::{Finding, FindingKind};
use super::index_check::IndexCheck;
use super::producer_check::ProducerCheck;
use super::producers::{EXPIRATION_MS, OpenTransaction, snapshots};
use super::side_files;
use super::walk::{Seen, Visitor, Walk};
use crate::checkpoint::SegmentsFile;
use crate::epoch::EpochEntry;
use crate::error::Result;
use crate::log::replay::State;
use crate::log::scan::{self, Fault, Scanner, Step};
use crate::names::{self, FileName, FileType, Suffix, segment_name};
use crate::producer::Producers;
use crate::record::{BatchHeader, Codec, Magic, crc32_ieee};
use crate::storage::{Dir, File};
use crate::types::{LeaderEpoch, Offset, Position, Timestamp};

/// How closely a log is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Every checksum and every rule of continuity.
    Batches,
    /// Every record, index entry, snapshot and epoch too.
    Everything,
}

/// What a log holds. With damage, counts are of the sound prefix of each segment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PartitionInfo {
    /// The name of its directory.
    pub partition: String,
    /// The number of `.log` files.
    pub segments: u64,
    /// Their length together. Unit: bytes.
    pub bytes: u64,
    /// The offset of the first record that a reader sees.
    pub log_start_offset: Offset,
    /// Where the log ends when it is opened (exclusive): the end of the sound prefix of the first
    /// segment that is damaged at or above the believed recovery point.
    pub log_end_offset: Offset,
    /// The row of the data directory's checkpoint, as it stands.
    pub high_watermark: Option<Offset>,
    /// The row of the data directory's checkpoint, as it stands.
    pub recovery_point: Option<Offset>,
    /// The rows of the epoch file, as they stand.
    pub epochs: Vec<EpochEntry>,
    /// The first offset of each leader epoch in the batches.
    pub epochs_in_log: Vec<EpochEntry>,
    /// The number of entries: a wrapper of version 0 or 1 is one.
    pub batches: u64,
    /// The number of records, those in wrappers counted.
    pub records: u64,
    /// Control records by [`ControlType::name`](crate::record::ControlType::name).
    pub control: BTreeMap<&'static str, u64>,
    /// Batches by version.
    pub magic: BTreeMap<Magic, u64>,
    /// Batches by codec.
    pub codecs: BTreeMap<Codec, u64>,
    /// The largest timestamp of a batch.
    pub max_timestamp: Option<Timestamp>,
    /// The producers at the log end.
    pub producers: Producers,
    /// The open transactions at the log end, oldest first.
    pub open_transactions: Vec<OpenTransaction>,
    /// The offset below which every transaction has ended (exclusive), by the high watermark of the
    /// checkpoint; the log start if that has no row.
    pub last_stable_offset: Offset,
    /// What was found.
    pub findings: Vec<Finding>,
}

/// Looks at all of a log.
///
/// # Errors
///
/// A file that is there cannot be read, or this build leaves out what it needs.
pub fn examine<D: Dir>(
    log: &LogDirectory<D>,
    depth: Depth,
    options: &Options<'_>,
) -> Result<PartitionInfo> {
    let deep = depth == Depth::Everything;
    let mut examiner = Examiner::new(log, depth, options.now);
    examiner.info.epochs = side_files::epochs(log, &mut examiner.info.findings)?;
    Walk::new(log, options, deep).run(0, 0, &mut examiner)?;
    examiner.finish()
}

/// More open transactions than this are not told the time of.
const MAX_OPEN: usize = 100_000;

struct Examiner<'a, D: Dir> {
    log: &'a LogDirectory<D>,
    depth: Depth,
    info: PartitionInfo,
    /// How each segment that was walked ended.
    ends: Vec<SegmentEnd>,
    /// Where damage begins in the last segment: its position, and the end of the batches before it.
    places: Vec<(u64, i64)>,
    /// Whether headers lead from each of them to the recovery point, torn and bad bodies included.
    chain_reaches: bool,
    /// Whether the recovery point lies inside a batch.
    point_is_inside: bool,
    indexes: Option<IndexCheck>,
    in_log: Vec<(EpochEntry, String, u64)>,
    now: Option<Timestamp>,
    has_producers: bool,
    /// First offset and timestamp of transactions that no marker has ended, by producer.
    open: BTreeMap<i64, (i64, i64)>,
    /// Beside [`Depth::Everything`] only.
    producer_check: Option<ProducerCheck<'a, D>>,
}

struct SegmentEnd {
    base: i64,
    /// The end of the sound batches.
    end: i64,
    /// Where the sound prefix ends, if damage does it.
    damaged_at: Option<i64>,
    holds_batches: bool,
}

impl<'a, D: Dir> Examiner<'a, D> {
    fn new(log: &'a LogDirectory<D>, depth: Depth, now: Option<Timestamp>) -> Self {
        let mut info = PartitionInfo {
            partition: log.name.clone(),
            high_watermark: log.high_watermark,
            recovery_point: log.recovery_point,
            findings: log.findings.clone(),
            ..PartitionInfo::default()
        };
        info.segments = u64::try_from(log.segments.len()).unwrap_or(u64::MAX);
        Self {
            log,
            depth,
            info,
            ends: Vec::new(),
            places: Vec::new(),
            chain_reaches: true,
            point_is_inside: false,
            indexes: None,
            in_log: Vec::new(),
            now,
            has_producers: false,
            open: BTreeMap::new(),
            producer_check: (depth == Depth::Everything).then(|| ProducerCheck::new(log, now)),
        }
    }

    fn header(&mut self, base: i64, last: i64) {
        if let Some(point) = self.log.recovery_point {
            self.point_is_inside |= base < point.get() && point.get() <= last;
        }
    }

    fn count(&mut self, seen: &Seen) {
        let info = &mut self.info;
        let header = &seen.header;
        increase(&mut info.batches, 1);
        increase(&mut info.records, seen.records);
        increase(info.magic.entry(header.magic).or_default(), 1);
        if let Ok(codec) = header.codec() {
            increase(info.codecs.entry(codec).or_default(), 1);
        }
        for (name, count) in seen.control.counts() {
            increase(info.control.entry(name).or_default(), count);
        }
        if header.max_timestamp >= 0 {
            let found = Timestamp::from_millis(header.max_timestamp);
            info.max_timestamp = info.max_timestamp.max(Some(found));
        }
    }

    fn epoch(&mut self, segment: &SegmentFiles, seen: &Seen) {
        let Some(epoch) = LeaderEpoch::new(seen.header.leader_epoch) else {
            return;
        };
        let Some(start_offset) = Offset::new(seen.base_offset) else {
            return;
        };
        if self
            .info
            .epochs_in_log
            .last()
            .is_none_or(|last| epoch > last.epoch)
        {
            let entry = EpochEntry {
                epoch,
                start_offset,
            };
            self.info.epochs_in_log.push(entry);
            self.in_log.push((entry, segment.log_name(), seen.position));
        }
    }

    fn transaction(&mut self, seen: &Seen) {
        let header = &seen.header;
        if header.is_control() {
            self.open.remove(&header.producer_id);
        } else if header.is_transactional() && self.open.len() < MAX_OPEN {
            self.open
                .entry(header.producer_id)
                .or_insert((seen.base_offset, header.base_timestamp));
        }
    }

    fn producers(&mut self, start: Offset, end: Offset) -> Result<()> {
        let mut state = State::default();
        if self.has_producers || !snapshots(self.log).is_empty() {
            state = State::at_end(self.log, start, end)?;
        }
        let info = &mut self.info;
        info.last_stable_offset = state.last_stable_offset(info.high_watermark, start, end);
        info.open_transactions = state.open_transactions(|id, first| {
            let (offset, timestamp) = self.open.get(&id)?;
            (*offset == first.get()).then_some(Timestamp::from_millis(*timestamp))
        });
        info.producers = state.producers;
        if let Some(now) = self.now {
            info.producers.expire(now, EXPIRATION_MS);
        }
        Ok(())
    }

    /// Holes are legal, but the log once ended at its recovery point: a batch behind a hole around
    /// it may have a wrong base offset, which no checksum covers.
    fn point_in_hole(&mut self, segment: &SegmentFiles, seen: &Seen) {
        let before = self
            .ends
            .last()
            .filter(|end| end.holds_batches)
            .map(|end| end.end);
        if let (Some(before), Some(point)) = (before, self.log.recovery_point)
            && before < point.get()
            && point.get() < seen.base_offset
        {
            let detail = format!(
                "no offsets from {before} to {}, though the recovery point is {point}: its base \
                 offset may be wrong",
                seen.base_offset
            );
            let finding = Finding::note(FindingKind::Hole, segment.log_name(), detail);
            self.say(finding.at(seen.position).at_offset(before));
        }
    }

    /// The recovery point below which damage is kept: the row, if the log can have had it.
    fn believed_point(&self) -> i64 {
        let Some(point) = self.log.recovery_point else {
            return 0;
        };
        if self.witness().is_some() {
            return point.get();
        }
        let reached = match self.places.first() {
            Some((_, end)) if *end < point.get() => self.chain_reaches,
            Some(_) => true,
            None => self.ends.last().is_some_and(|last| last.end >= point.get()),
        };
        if reached && !self.point_is_inside {
            point.get()
        } else {
            0
        }
    }

    /// Whether the headers of the last segment lead from a place to the recovery point.
    fn chain_from(&self, file: &D::File, bytes: u64, place: (u64, i64)) -> std::io::Result<bool> {
        let point = self.log.recovery_point.map_or(0, Offset::get);
        let (position, mut end) = place;
        let mut chain = Scanner::new(file, Position::new(position), bytes, scan::Depth::Headers);
        loop {
            let (header, is_last) = match chain.step()? {
                Step::Batch(_, header) => (header, false),
                Step::Bad(_, Some(header), Fault::Short) => (header, true),
                Step::End(_) | Step::Bad(..) => return Ok(end >= point),
            };
            if header.base_offset < end {
                return Ok(end >= point);
            }
            end = header.last_offset.saturating_add(1);
            if is_last {
                return Ok(end >= point);
            }
        }
    }

    fn follow_chains(&mut self, segment: &SegmentFiles) -> Result<()> {
        let point = self.log.recovery_point.map_or(0, Offset::get);
        let places: Vec<_> = self.places.iter().filter(|place| place.1 < point).collect();
        let name = segment.log_name();
        if places.is_empty() {
            return Ok(());
        }
        let Some(file) = self.log.open(&name)? else {
            return Ok(());
        };
        let failed = |source| self.log.failed("cannot read the segment", &name, source);
        let bytes = file.bytes().map_err(failed)?;
        let mut reaches = true;
        for place in places {
            reaches &= self.chain_from(&file, bytes, *place).map_err(failed)?;
        }
        self.chain_reaches = reaches;
        Ok(())
    }

    fn witness(&self) -> Option<&crate::checkpoint::LogFacts> {
        let facts = self.log.facts.as_ref();
        facts.filter(|_| self.log.is_witnessed())
    }

    fn log_end(&self) -> i64 {
        let point = self.believed_point();
        let cut = self
            .ends
            .iter()
            .find(|end| end.damaged_at.is_some_and(|at| at >= point));
        if let Some(cut) = cut {
            return cut.damaged_at.unwrap_or(cut.end);
        }
        // With nothing sound behind damage that is kept, the log reaches to its recovery point.
        let is_kept = |last: &SegmentEnd| self.places.last().is_some_and(|p| p.1 == last.end);
        match self.ends.last() {
            Some(last) if is_kept(last) => last.end.max(point),
            Some(last) => last.end,
            None if self.log.segments.is_empty() => self.log.log_start.map_or(0, Offset::get),
            None => 0,
        }
    }

    fn finish(mut self) -> Result<PartitionInfo> {
        let mut end = Offset::new(self.log_end()).unwrap_or_default();
        // Only where no segment holds a byte does a checkpointed start say where the log is empty.
        let start = match self.log.log_start {
            // Opening cuts all there is.
            Some(start) if start >= end && self.is_cut_at_front() => start,
            _ => self.log.log_start_offset(end),
        };
        end = end.max(start);
        self.info.log_end_offset = end;
        self.info.log_start_offset = start;
        self.producers(start, end)?;
        self.witnessed(end)?;
        self.holes();
        if let Some(check) = self.producer_check.take() {
            for finding in check.finish() {
                self.say(finding);
            }
            self.rows(end);
            let mut findings = std::mem::take(&mut self.info.findings);
            side_files::compare_epochs(
                self.log,
                &self.info.epochs,
                &self.in_log,
                end,
                &mut findings,
            );
            side_files::check(self.log, end, self.has_producers, &mut findings)?;
            self.info.findings = findings;
        }
        Ok(self.info)
    }

    fn is_deep(&self) -> bool {
        self.depth == Depth::Everything
    }

    fn is_cut_at_front(&self) -> bool {
        let point = self.believed_point();
        self.ends.first().is_some_and(|first| {
            !first.holds_batches && first.damaged_at.is_some_and(|at| at >= point)
        })
    }

    fn say(&mut self, finding: Finding) {
        self.info.findings.push(finding.of_log(&self.log.name));
    }

    /// What this crate's own files remember and the log does not have.
    fn witnessed(&mut self, end: Offset) -> Result<()> {
        let Some(facts) = self.witness() else {
            return Ok(());
        };
        let (point, log_start, epoch_crc) =
            (facts.recovery_point, facts.log_start, facts.epoch_file_crc);
        let last = self
            .log
            .segments
            .last()
            .map_or_else(String::new, SegmentFiles::log_name);
        if end < point {
            let detail = format!("the log ends at {end}, but offsets up to {point} were synced");
            self.say(Finding::damage(FindingKind::Gap, last, detail).at_offset(end.get()));
        }
        let kafka_was_here = self.log.log_start != log_start
            || self
                .log
                .content(names::LEADER_EPOCH_CHECKPOINT, super::MAX_INDEX_BYTES)?
                .map(|bytes| crc32_ieee(&bytes))
                != epoch_crc
            || self.log.files.iter().any(|(_, kind, _)| {
                matches!(
                    kind,
                    FileName::Segment {
                        suffix: Suffix::Swap | Suffix::Cleaned,
                        ..
                    }
                )
            });
        let Some(bytes) = self.log.content(names::SEGMENTS, super::MAX_INDEX_BYTES)? else {
            return Ok(());
        };
        let remembered = match SegmentsFile::parse(&bytes) {
            Ok(remembered) => remembered.unwrap_or_default(),
            Err(error) => {
                let kind = FindingKind::CheckpointFile;
                self.say(Finding::note(kind, names::SEGMENTS, error.to_string()));
                return Ok(());
            }
        };
        if kafka_was_here {
            return Ok(());
        }
        let first = self.log.segments.first().map(|segment| segment.base);
        for facts in remembered
            .segments
            .iter()
            .filter(|facts| Some(facts.base) > first)
        {
            let name = segment_name(facts.base, FileType::Log);
            match self
                .log
                .segments
                .iter()
                .find(|segment| segment.base == facts.base)
            {
                None => {
                    let detail = format!("a segment of {} bytes stood here", facts.bytes);
                    let finding = Finding::damage(FindingKind::MissingSegment, name, detail);
                    self.say(finding.at_offset(facts.base.get()));
                }
                Some(found) if found.log_bytes < facts.bytes => {
                    let detail = format!("{} bytes, where {} were", found.log_bytes, facts.bytes);
                    let finding = Finding::damage(FindingKind::Gap, name, detail);
                    self.say(finding.at(found.log_bytes));
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    fn holes(&mut self) {
        let mut holes = Vec::new();
        let mut before: Option<&SegmentEnd> = None;
        for end in &self.ends {
            if let Some(before) = before
                && before.damaged_at.is_none()
                && end.base > before.end
            {
                let what = if before.holds_batches {
                    ""
                } else {
                    "an empty segment, and "
                };
                let detail = format!("{what}no offsets from {} to {}", before.end, end.base);
                let base = Offset::new(before.base).unwrap_or_default();
                let name = segment_name(base, FileType::Log);
                let hole = Finding::note(FindingKind::Hole, name, detail);
                holes.push(hole.at_offset(before.end));
            }
            before = Some(end);
        }
        for hole in holes {
            self.say(hole);
        }
    }

    /// Rows of the data directory that this log cannot have had.
    fn rows(&mut self, end: Offset) {
        let rows = [
            (names::RECOVERY_POINT_CHECKPOINT, self.log.recovery_point),
            (names::HIGH_WATERMARK_CHECKPOINT, self.log.high_watermark),
            (names::LOG_START_CHECKPOINT, self.log.log_start),
        ];
        for (file, row) in rows {
            if let Some(row) = row.filter(|row| *row > end) {
                let detail = format!("{row} lies past the log end {end}: not believed");
                let finding = Finding::note(FindingKind::CheckpointFile, file, detail);
                self.say(finding.at_offset(row.get()));
            }
        }
        if self.point_is_inside
            && let Some(point) = self.log.recovery_point
        {
            let detail = format!("{point} lies inside a batch: not believed");
            let file = names::RECOVERY_POINT_CHECKPOINT;
            let finding = Finding::note(FindingKind::CheckpointFile, file, detail);
            self.say(finding.at_offset(point.get()));
        }
    }
}

impl<D: Dir> Visitor<D::File> for Examiner<'_, D> {
    fn segment_start(&mut self, segment: &SegmentFiles) -> Result<()> {
        increase(&mut self.info.bytes, segment.log_bytes);
        let base = segment.base.get();
        self.ends.push(SegmentEnd {
            base,
            end: base,
            damaged_at: None,
            holds_batches: false,
        });
        self.places.clear();
        if self.is_deep() {
            self.indexes = Some(IndexCheck::read(self.log, segment)?);
        }
        if let Some(check) = &mut self.producer_check {
            check.segment_start(segment)?;
        }
        Ok(())
    }

    fn batch(
        &mut self,
        segment: &SegmentFiles,
        file: &D::File,
        seen: &Seen,
    ) -> Result<ControlFlow<()>> {
        self.header(seen.base_offset, seen.header.last_offset);
        self.point_in_hole(segment, seen);
        if let Some(end) = self.ends.last_mut() {
            end.end = seen.end();
            end.holds_batches = true;
        }
        if let Some(indexes) = &mut self.indexes {
            indexes.batch(seen);
        }
        if let Some(check) = &mut self.producer_check {
            check.batch(file, seen)?;
        }
        self.has_producers |= seen.header.has_producer_id();
        self.transaction(seen);
        if !seen.behind_damage {
            self.count(seen);
            self.epoch(segment, seen);
        }
        Ok(ControlFlow::Continue(()))
    }

    fn found(&mut self, finding: Finding, end: i64, header: Option<&BatchHeader>) {
        // Opening a log looks at no records: what is wrong only there does not end it.
        let is_body = matches!(
            finding.kind,
            FindingKind::RecordBody | FindingKind::RecordCount
        );
        if let Some(header) = header.filter(|_| is_body)
            && let Some(last) = self.ends.last_mut()
        {
            last.end = last.end.max(header.last_offset.saturating_add(1));
            last.holds_batches = true;
        }
        if finding.is_damage() {
            if let Some(last) = self.ends.last_mut().filter(|_| !is_body) {
                last.damaged_at.get_or_insert(end);
            }
            if let Some(position) = finding.position.filter(|_| !is_body) {
                self.places.push((position.get(), end));
            }
            if let Some(indexes) = &mut self.indexes {
                indexes.damaged();
            }
            if let Some(check) = &mut self.producer_check {
                check.damaged();
            }
        }
        self.has_producers |= header.is_some_and(BatchHeader::has_producer_id);
        self.info.findings.push(finding);
    }

    fn segment_end(&mut self, segment: &SegmentFiles) -> Result<()> {
        if segment.is_active {
            self.follow_chains(segment)?;
        }
        for finding in self
            .indexes
            .take()
            .map(IndexCheck::finish)
            .unwrap_or_default()
        {
            self.say(finding);
        }
        if let Some(check) = &mut self.producer_check {
            check.segment_end(segment)?;
        }
        Ok(())
    }
}

fn increase(count: &mut u64, by: u64) {
    *count = count.saturating_add(by);
}
