//! Goes over the batches of a log in order and tells where they stop being a log.
//!
//! A batch is handed on once the one behind it has been seen, since base offset and leader epoch
//! lie outside the checksum: of two overlapping batches the later is stale if it begins below the
//! end of the batch before the earlier one; otherwise the earlier has a wrong base offset and is
//! the damage.
//!
//! Behind damage the walk goes on only at the place that the damaged batch's length names, at an
//! entry of the offset index, or in the next segment, and only with a sound batch at or above the
//! last good end.

use std::io;
use std::ops::ControlFlow;

use super::catalog::{LogDirectory, SegmentFiles};
use super::finding::{Finding, FindingKind};
use super::{MAX_BODY_BYTES, MAX_INDEX_BYTES, Options, scratch};
use crate::error::{Error, ErrorKind, Result};
use crate::index::OffsetIndexView;
use crate::log::scan::{Depth, Fault, Scanner, Step};
use crate::names::{FileType, segment_name};
use crate::record::{Batch, BatchHeader, ControlType, DecodeError, LOG_OVERHEAD, Magic, Scratch};
use crate::storage::{Dir, File};
use crate::types::Position;

/// More damage than this in one segment is not listed; the walk goes on in the next.
const MAX_DAMAGE_PER_SEGMENT: u32 = 100;
/// How often the end of a file that changes under the walk is looked at again.
const MAX_LOOKS: u32 = 16;

/// A sound batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    pub(super) header: BatchHeader,
    pub(super) position: u64,
    /// The offset of the first record, decompressed where that is needed.
    pub(super) base_offset: i64,
    pub(super) records: u64,
    pub(super) control: Controls,
    /// Whether damage lies before it in its segment.
    pub(super) behind_damage: bool,
}

/// The control records of a batch.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Controls {
    pub(super) first: Option<ControlType>,
    /// How many there are by name. The first leader of a metadata quorum writes three in one batch.
    counts: [(&'static str, u64); 8],
}

impl Controls {
    fn add(&mut self, kind: ControlType) {
        self.first.get_or_insert(kind);
        let name = kind.name();
        let mut slots = self.counts.iter_mut();
        if let Some(slot) = slots.find(|slot| slot.1 == 0 || slot.0 == name) {
            *slot = (name, slot.1.saturating_add(1));
        }
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&'static str, u64)> {
        self.counts.into_iter().take_while(|slot| slot.1 > 0)
    }
}

impl Seen {
    pub(super) fn end(&self) -> i64 {
        self.header.last_offset.saturating_add(1)
    }
}

/// Told what a walk meets, in order.
pub(super) trait Visitor<F> {
    fn segment_start(&mut self, segment: &SegmentFiles) -> Result<()>;
    fn batch(&mut self, segment: &SegmentFiles, file: &F, seen: &Seen) -> Result<ControlFlow<()>>;
    /// `end` is where the sound batches before it end; the header is the damaged batch's, where it
    /// has one.
    fn found(&mut self, finding: Finding, end: i64, header: Option<&BatchHeader>);
    fn segment_end(&mut self, segment: &SegmentFiles) -> Result<()>;
}

/// A walk over one log.
pub(super) struct Walk<'a, D: Dir> {
    log: &'a LogDirectory<D>,
    options: &'a Options<'a>,
    /// Whether all records are decoded, not only what counting needs.
    bodies: bool,
    /// Where the batches so far end.
    end: i64,
    epoch: i32,
    scratch: Scratch,
    body: Vec<u8>,
}

/// Where a walk in one segment stands.
struct Place<'s> {
    segment: &'s SegmentFiles,
    name: String,
    pending: Option<Seen>,
    /// Where the batches before the pending one end.
    before_pending: i64,
    behind_damage: bool,
    damage_left: u32,
}

/// What becomes of a batch.
enum Fit {
    Follows,
    /// It does not belong here, and neither does what is behind it.
    Stale(FindingKind, String),
    /// The batch before it has a wrong base offset.
    PendingIsWrong(String),
}

pub(super) type Wrong = (FindingKind, String);

impl<'a, D: Dir> Walk<'a, D> {
    pub(super) fn new(log: &'a LogDirectory<D>, options: &'a Options<'a>, bodies: bool) -> Self {
        Self {
            log,
            options,
            bodies,
            end: 0,
            epoch: -1,
            scratch: scratch(),
            body: Vec::new(),
        }
    }

    /// Goes over all segments from number `first` on, in that one from `position` on.
    pub(super) fn run(
        &mut self,
        first: usize,
        position: u64,
        visitor: &mut dyn Visitor<D::File>,
    ) -> Result<()> {
        let mut from = position;
        for (number, segment) in self.log.segments.iter().enumerate().skip(first) {
            let next = number
                .checked_add(1)
                .and_then(|next| self.log.segments.get(next));
            let Some(file) = self.log.open(&segment.log_name())? else {
                continue;
            };
            visitor.segment_start(segment)?;
            let next = next.map(|next| next.base.get());
            let flow = self.segment(segment, &file, from, next, visitor)?;
            visitor.segment_end(segment)?;
            if flow.is_break() {
                break;
            }
            from = 0;
        }
        Ok(())
    }

    fn segment(
        &mut self,
        segment: &SegmentFiles,
        file: &D::File,
        from: u64,
        next_base: Option<i64>,
        visitor: &mut dyn Visitor<D::File>,
    ) -> Result<ControlFlow<()>> {
        let name = segment.log_name();
        let mut place = Place {
            segment,
            name,
            pending: None,
            before_pending: self.end,
            behind_damage: false,
            damage_left: MAX_DAMAGE_PER_SEGMENT,
        };
        let failed = |source| {
            self.log
                .failed("cannot read the segment", &segment.log_name(), source)
        };
        let mut bytes = file.bytes().map_err(failed)?;
        let mut scanner = Scanner::new(file, Position::new(from), bytes, Depth::Checksums);
        let mut looks = MAX_LOOKS;
        loop {
            match scanner.step().map_err(failed)? {
                Step::End(_) => break,
                Step::Batch(at, header) => {
                    self.options.advance(u64::from(header.bytes));
                    let (end, wrong) = match self.look(&place.name, file, at.get(), &header)? {
                        Ok(seen) => match self.accept(&mut place, seen, file, visitor)? {
                            Ok(ControlFlow::Continue(())) => continue,
                            Ok(ControlFlow::Break(())) => return Ok(ControlFlow::Break(())),
                            Err(wrong) => (true, wrong),
                        },
                        Err(wrong) => (false, wrong),
                    };
                    if commit(&mut place, file, visitor)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    self.tell(&mut place, at.get(), Some(&header), wrong, visitor);
                    if end || place.damage_left == 0 {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                Step::Bad(at, header, fault) => {
                    let now = file.bytes().map_err(failed)?;
                    if now != bytes && looks > 0 {
                        // It was written or cut meanwhile.
                        (bytes, looks) = (now, looks.saturating_sub(1));
                        scanner = Scanner::new(file, at, bytes.max(at.get()), Depth::Checksums);
                        continue;
                    }
                    if commit(&mut place, file, visitor)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                    if fault == Fault::Zeros && self.is_padding(segment, bytes) {
                        let finding = Finding::note(
                            FindingKind::Padding,
                            place.name.as_str(),
                            "zeros to the end: room that was made beforehand",
                        );
                        let finding = finding.of_log(&self.log.name).at(at.get());
                        visitor.found(finding.at_offset(self.end), self.end, None);
                        break;
                    }
                    let wrong = classify(file, bytes, at.get(), header.as_ref(), fault);
                    self.tell(&mut place, at.get(), header.as_ref(), wrong, visitor);
                    let resumed = place.damage_left > 0
                        && self
                            .resume(&mut scanner, segment, at.get(), header, fault)
                            .map_err(failed)?;
                    if !resumed {
                        break;
                    }
                }
            }
        }
        self.close(&mut place, file, next_base, visitor)
    }

    /// Takes a batch that is sound by itself, and hands on the one before it.
    fn accept(
        &mut self,
        place: &mut Place<'_>,
        mut seen: Seen,
        file: &D::File,
        visitor: &mut dyn Visitor<D::File>,
    ) -> Result<Result<ControlFlow<()>, Wrong>> {
        match self.fit(place, &seen) {
            Fit::Stale(kind, detail) => return Ok(Err((kind, detail))),
            Fit::Follows => {
                if commit(place, file, visitor)?.is_break() {
                    return Ok(Ok(ControlFlow::Break(())));
                }
            }
            Fit::PendingIsWrong(detail) => {
                if let Some(wrong) = place.pending.take() {
                    self.end = place.before_pending;
                    let wrong_kind = (FindingKind::OffsetOrder, detail);
                    self.tell(
                        place,
                        wrong.position,
                        Some(&wrong.header),
                        wrong_kind,
                        visitor,
                    );
                }
            }
        }
        seen.behind_damage = place.behind_damage;
        if seen.header.leader_epoch >= 0 {
            self.epoch = seen.header.leader_epoch;
        }
        place.before_pending = self.end;
        self.end = seen.end();
        place.pending = Some(seen);
        Ok(Ok(ControlFlow::Continue(())))
    }

    fn fit(&self, place: &Place<'_>, seen: &Seen) -> Fit {
        let base = seen.base_offset;
        if base < place.segment.base.get() {
            let detail = format!("base offset {base} is below that of the segment");
            return Fit::Stale(FindingKind::OffsetOrder, detail);
        }
        if base < self.end {
            if place.pending.is_none() {
                let detail = format!(
                    "base offset {base} is below {}, where the log ends before",
                    self.end
                );
                let kind = if seen.position == 0 {
                    FindingKind::Overlap
                } else {
                    FindingKind::OffsetOrder
                };
                return Fit::Stale(kind, detail);
            }
            if base < place.before_pending {
                let detail = format!("a stale batch: base offset {base} is below {}", self.end);
                return Fit::Stale(FindingKind::OffsetOrder, detail);
            }
            return Fit::PendingIsWrong(format!(
                "a wrong base offset: the batch ends at {} and the next begins at {base}",
                self.end
            ));
        }
        let epoch = seen.header.leader_epoch;
        if epoch >= 0 && epoch < self.epoch {
            let detail = format!("leader epoch {epoch} behind leader epoch {}", self.epoch);
            return Fit::Stale(FindingKind::EpochOrder, detail);
        }
        Fit::Follows
    }

    /// The end of a segment: its last batch must end at or below the next segment.
    fn close(
        &mut self,
        place: &mut Place<'_>,
        file: &D::File,
        next_base: Option<i64>,
        visitor: &mut dyn Visitor<D::File>,
    ) -> Result<ControlFlow<()>> {
        if let (Some(next), Some(last)) = (next_base, place.pending)
            && last.end() > next
            && next >= place.before_pending
        {
            place.pending = None;
            self.end = place.before_pending;
            let detail = format!(
                "a wrong base offset: the batch ends at {} and the next segment begins at {next}",
                last.end()
            );
            let wrong = (FindingKind::OffsetOrder, detail);
            self.tell(place, last.position, Some(&last.header), wrong, visitor);
            return Ok(ControlFlow::Continue(()));
        }
        commit(place, file, visitor)
    }

    fn tell(
        &self,
        place: &mut Place<'_>,
        position: u64,
        header: Option<&BatchHeader>,
        (kind, detail): Wrong,
        visitor: &mut dyn Visitor<D::File>,
    ) {
        place.behind_damage = true;
        place.damage_left = place.damage_left.saturating_sub(1);
        let end = self.end.max(place.segment.base.get());
        let finding = Finding::damage(kind, place.name.as_str(), detail);
        let finding = finding.of_log(&self.log.name).at(position).at_offset(end);
        visitor.found(finding, end, header);
    }

    fn is_padding(&self, segment: &SegmentFiles, bytes: u64) -> bool {
        let fits = match self.options.segment_bytes {
            Some(segment_bytes) => bytes == segment_bytes,
            None => bytes.is_multiple_of(4096),
        };
        segment.is_active && fits
    }

    /// Finds the next sound batch behind damage. False if there is none in this segment.
    fn resume(
        &self,
        scanner: &mut Scanner<'_, D::File>,
        segment: &SegmentFiles,
        at: u64,
        header: Option<BatchHeader>,
        fault: Fault,
    ) -> io::Result<bool> {
        if fault == Fault::Zeros {
            return Ok(false);
        }
        if let Some(header) = header
            && self.try_at(scanner, at.saturating_add(header.bytes.into()))?
        {
            return Ok(true);
        }
        let index = segment_name(segment.base, FileType::Index);
        let Ok(Some(index)) = self.log.content(&index, MAX_INDEX_BYTES) else {
            return Ok(false);
        };
        let entries = OffsetIndexView::new(segment.base, &index);
        let behind = entries.iter().filter(|(_, position)| position.get() > at);
        for (_, position) in behind.take(1000) {
            if self.try_at(scanner, position.get())? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn try_at(&self, scanner: &mut Scanner<'_, D::File>, position: u64) -> io::Result<bool> {
        scanner.seek(Position::new(position));
        let is_sound = match scanner.step()? {
            Step::Batch(_, header) => header.base_offset >= self.end,
            Step::End(_) | Step::Bad(..) => false,
        };
        scanner.seek(Position::new(position));
        Ok(is_sound)
    }

    /// Looks into a batch with a right checksum, as far as is needed.
    fn look(
        &mut self,
        name: &str,
        file: &D::File,
        position: u64,
        header: &BatchHeader,
    ) -> Result<Result<Seen, Wrong>> {
        let mut seen = Seen {
            header: *header,
            position,
            base_offset: header.base_offset,
            records: u64::try_from(header.record_count).unwrap_or(0),
            control: Controls::default(),
            behind_damage: false,
        };
        if let Err(error) = header.codec() {
            return Ok(Err(wrong(&error)));
        }
        let needs_body = self.bodies || header.is_compressed_wrapper() || header.is_control();
        if !needs_body || header.bytes > MAX_BODY_BYTES {
            return Ok(Ok(seen));
        }
        if load(file, position, header, &mut self.body).is_err() {
            let detail = "the file was cut while it was read".to_owned();
            return Ok(Err((FindingKind::TornTail, detail)));
        }
        let looked =
            Batch::parse(&self.body).and_then(|batch| look(&batch, &mut self.scratch, &mut seen));
        match looked {
            Ok(()) => Ok(Ok(seen)),
            Err(error @ (DecodeError::CodecUnavailable(_) | DecodeError::LegacyUnavailable(_))) => {
                Err(Error::new(ErrorKind::Unsupported, "cannot read a batch")
                    .at_path(&self.log.dir.path().join(name))
                    .at_position(Position::new(position))
                    .next_step("build with the features of its codec and version")
                    .caused_by(error))
            }
            Err(error) => Ok(Err(wrong(&error))),
        }
    }
}

/// Hands on the pending batch.
fn commit<F>(
    place: &mut Place<'_>,
    file: &F,
    visitor: &mut dyn Visitor<F>,
) -> Result<ControlFlow<()>> {
    match place.pending.take() {
        Some(seen) => visitor.batch(place.segment, file, &seen),
        None => Ok(ControlFlow::Continue(())),
    }
}

/// What bytes that are no sound batch are called.
pub(super) fn classify<F: File>(
    file: &F,
    bytes: u64,
    at: u64,
    header: Option<&BatchHeader>,
    fault: Fault,
) -> Wrong {
    let left = bytes.saturating_sub(at);
    match fault {
        Fault::Zeros => (
            FindingKind::ZeroedRange,
            format!("{left} zero bytes to the end of the file"),
        ),
        Fault::Short => match header {
            Some(header) if at.saturating_add(header.bytes.into()) > 0x7fff_ffff => (
                FindingKind::BadLength,
                format!("a batch of {} bytes fits no segment", header.bytes),
            ),
            Some(header) => (
                FindingKind::TornTail,
                format!(
                    "a batch of {} bytes, of which {left} are there",
                    header.bytes
                ),
            ),
            None => (
                FindingKind::TornTail,
                format!("{left} bytes are no whole batch header"),
            ),
        },
        Fault::Decode(error @ DecodeError::BadCrc { .. }) => match zeros_at_end(file, at, bytes) {
            Some(zeros) => (
                FindingKind::ZeroedRange,
                format!("the last {zeros} bytes of the file are zero, inside a batch: {error}"),
            ),
            None => (FindingKind::Crc, error.to_string()),
        },
        Fault::Decode(error @ DecodeError::BadMagic(_)) => match wild_size(file, at, left) {
            Some(size) => (
                FindingKind::BadLength,
                format!("no batch: a size field of {size}, and {error}"),
            ),
            None => wrong(&error),
        },
        Fault::Decode(error) => wrong(&error),
    }
}

/// The size field of what may be garbage, if no batch of that size can begin here.
fn wild_size<F: File>(file: &F, at: u64, left: u64) -> Option<i32> {
    let mut prefix = [0_u8; LOG_OVERHEAD];
    file.read_exact_at(&mut prefix, at).ok()?;
    let size = i32::from_be_bytes(*prefix.last_chunk()?);
    let whole = u64::try_from(size).ok().map(|size| size.saturating_add(12));
    whole.is_none_or(|whole| whole > left).then_some(size)
}

/// Reads a whole batch.
pub(super) fn load<F: File>(
    file: &F,
    position: u64,
    header: &BatchHeader,
    body: &mut Vec<u8>,
) -> io::Result<()> {
    body.clear();
    body.resize(usize::try_from(header.bytes).unwrap_or(0), 0);
    file.read_exact_at(body, position)
}

fn look(
    batch: &Batch<'_>,
    scratch: &mut Scratch,
    seen: &mut Seen,
) -> std::result::Result<(), DecodeError> {
    let header = *batch.header();
    let mut records = 0_u64;
    let mut last = None;
    for record in batch.records(scratch)? {
        let record = record?;
        if records == 0 && header.is_compressed_wrapper() {
            seen.base_offset = record.offset;
        }
        if header.is_control() {
            let kind = ControlType::of_key(record.key.unwrap_or_default())?;
            seen.control.add(kind);
        }
        if header.magic == Magic::V2 {
            let is_inside = (header.base_offset..=header.last_offset).contains(&record.offset);
            if !is_inside || last.is_some_and(|last| record.offset <= last) {
                return Err(DecodeError::BadOffset(record.offset));
            }
        }
        last = Some(record.offset);
        records = records.saturating_add(1);
    }
    seen.records = records;
    Ok(())
}

/// A kind for what is wrong with a batch.
pub(super) fn wrong(error: &DecodeError) -> Wrong {
    let kind = match error {
        DecodeError::TooShort { .. } => FindingKind::TornTail,
        DecodeError::BadLength(_) => FindingKind::BadLength,
        DecodeError::BadMagic(_) => FindingKind::BadMagic,
        DecodeError::BadCrc { .. } => FindingKind::Crc,
        DecodeError::BadOffset(_) | DecodeError::BadOffsetDelta(_) => FindingKind::OffsetOrder,
        DecodeError::RecordCount { .. } => FindingKind::RecordCount,
        DecodeError::UnknownCodec(_)
        | DecodeError::CodecUnavailable(_)
        | DecodeError::Decompress(_)
        | DecodeError::TooLarge { .. }
        | DecodeError::BadRecord(_)
        | DecodeError::CannotStamp(_)
        | DecodeError::LegacyUnavailable(_) => FindingKind::RecordBody,
    };
    (kind, error.to_string())
}

/// How many zeros end a file, if they begin behind `at` and are too many for the end of a value.
fn zeros_at_end<F: File>(file: &F, at: u64, bytes: u64) -> Option<u64> {
    const PIECE: usize = 4096;
    let mut buffer = [0_u8; PIECE];
    let mut zeros = 0_u64;
    let mut end = bytes;
    while end > at {
        let start = end.saturating_sub(4096).max(at);
        let length = usize::try_from(end.saturating_sub(start)).ok()?;
        let piece = buffer.get_mut(..length)?;
        file.read_exact_at(piece, start).ok()?;
        let found = piece.iter().rev().take_while(|byte| **byte == 0).count();
        zeros = zeros.saturating_add(u64::try_from(found).ok()?);
        if found < length {
            break;
        }
        end = start;
    }
    (zeros >= 128).then_some(zeros)
}
