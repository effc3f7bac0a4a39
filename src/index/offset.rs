//! The offset index (`.index`): from an offset to a position in the `.log` file.
//!
//! An entry is `relative offset i32 | position i32`, 8 bytes (Kafka: `OffsetIndex`). It is sparse:
//! about one entry for each `index.interval.bytes`, so a lookup answers where to begin a scan.

use byteorder::{BigEndian, ByteOrder};

use super::{
    IndexError, IndexProblem, MAX_RELATIVE_OFFSET, SoundPrefix, absolute, capacity, is_in_range,
    relative,
};
use crate::types::{Offset, Position};

/// The length of an entry. Unit: bytes.
pub const OFFSET_ENTRY_BYTES: usize = 8;

type Raw = [u8; OFFSET_ENTRY_BYTES];

/// An entry as the file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OffsetIndexEntry {
    /// The last offset of what begins at `position`, minus the base offset. Range: 0 to 2^31 - 1.
    pub relative_offset: u32,
    /// Where in the `.log` file a batch begins. Unit: bytes. Range: 0 to 2^31 - 1.
    pub position: u32,
}

impl OffsetIndexEntry {
    fn decode(raw: Raw) -> Self {
        let (offset, position) = raw.split_at(4);
        Self {
            relative_offset: BigEndian::read_u32(offset),
            position: BigEndian::read_u32(position),
        }
    }

    fn encode(self) -> Raw {
        let mut raw = [0; OFFSET_ENTRY_BYTES];
        let (offset, position) = raw.split_at_mut(4);
        BigEndian::write_u32(offset, self.relative_offset);
        BigEndian::write_u32(position, self.position);
        raw
    }

    fn at(self, base: Offset) -> (Offset, Position) {
        (
            absolute(base, self.relative_offset),
            Position::new(u64::from(self.position)),
        )
    }
}

/// The growing offset index of an active segment, on the heap.
#[derive(Clone, Debug)]
pub struct OffsetIndex {
    base: Offset,
    max_entries: usize,
    /// Offsets and positions rise strictly; never longer than `max_entries` but by a smaller limit
    /// set later.
    entries: Vec<Raw>,
}

impl OffsetIndex {
    /// Makes an empty index. `max_bytes` is Kafka's `segment.index.bytes`, rounded down to whole
    /// entries; an index of no entries is full from the beginning, as in Kafka.
    #[must_use]
    pub fn new(base: Offset, max_bytes: u32) -> Self {
        Self {
            base,
            max_entries: capacity(max_bytes, OFFSET_ENTRY_BYTES),
            entries: Vec::new(),
        }
    }

    /// Makes an index that continues the first `entries` entries of bytes found on disk, for
    /// instance those that [`sound_prefix`] counted.
    #[must_use]
    pub fn from_bytes(base: Offset, max_bytes: u32, bytes: &[u8], entries: usize) -> Self {
        let (found, _) = bytes.as_chunks();
        let mut index = Self::new(base, max_bytes);
        index
            .entries
            .extend_from_slice(found.get(..entries).unwrap_or(found));
        index
    }

    /// Adds an entry: `offset` is the last one of what begins at `position`.
    ///
    /// # Errors
    ///
    /// Full, out of order, or out of the range of an entry; the index stays as it was.
    pub fn push(&mut self, offset: Offset, position: Position) -> Result<(), IndexError> {
        if self.is_full() {
            return Err(IndexError::Full);
        }
        let relative_offset = relative(self.base, offset)?;
        let raw_position = u32::try_from(position.get())
            .ok()
            .filter(|&raw| raw <= MAX_RELATIVE_OFFSET)
            .ok_or(IndexError::PositionOverflow { position })?;
        if let Some((last_offset, last_position)) = self.last_entry() {
            if offset <= last_offset {
                return Err(IndexError::OffsetNotRising {
                    last: last_offset,
                    offset,
                });
            }
            if position <= last_position {
                return Err(IndexError::PositionNotRising {
                    last: last_position,
                    position,
                });
            }
        }
        self.entries.push(
            OffsetIndexEntry {
                relative_offset,
                position: raw_position,
            }
            .encode(),
        );
        Ok(())
    }

    /// Whether no further entry fits.
    pub fn is_full(&self) -> bool {
        self.entries.len() >= self.max_entries
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of entries that fit.
    pub fn max_entries(&self) -> usize {
        self.max_entries
    }

    /// The base offset of the segment.
    pub fn base_offset(&self) -> Offset {
        self.base
    }

    /// The last entry, if any.
    pub fn last_entry(&self) -> Option<(Offset, Position)> {
        self.entries
            .last()
            .map(|raw| OffsetIndexEntry::decode(*raw).at(self.base))
    }

    /// Drops the entries whose offset is at or above `target`.
    pub fn truncate_to(&mut self, target: Offset) {
        self.entries
            .truncate(self.view().count_while(|offset, _| offset < target));
    }

    /// Drops the entries whose position is at or above `end`.
    pub fn truncate_to_position(&mut self, end: Position) {
        self.entries
            .truncate(self.view().count_while(|_, position| position < end));
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The entry with the greatest offset at or below `target`; without one, the base offset at
    /// position 0.
    pub fn lookup(&self, target: Offset) -> (Offset, Position) {
        self.view().lookup(target)
    }

    /// See [`OffsetIndexView::last_before_position`].
    pub fn last_before_position(&self, position: Position) -> (Offset, Position) {
        self.view().last_before_position(position)
    }

    /// See [`OffsetIndexView::upper_bound`].
    pub fn upper_bound(&self, position: Position) -> Option<(Offset, Position)> {
        self.view().upper_bound(position)
    }

    /// Appends the bytes of the entries from number `first_entry` (counted from 0) on.
    pub fn encode_from(&self, first_entry: usize, out: &mut Vec<u8>) {
        let entries = self.entries.get(first_entry..).unwrap_or_default();
        out.extend_from_slice(entries.as_flattened());
    }

    /// The same entries as a view.
    pub fn view(&self) -> OffsetIndexView<'_> {
        OffsetIndexView {
            base: self.base,
            entries: &self.entries,
            odd_bytes: 0,
        }
    }
}

/// The lookups of an offset index over the bytes of a sealed one.
///
/// Nothing is checked on the way in: bytes that [`check`](Self::check) refuses give answers without
/// meaning, but answers.
#[derive(Clone, Copy, Debug)]
pub struct OffsetIndexView<'a> {
    base: Offset,
    entries: &'a [Raw],
    /// Bytes behind the last whole entry.
    odd_bytes: usize,
}

impl<'a> OffsetIndexView<'a> {
    /// Looks at the bytes of an index file.
    #[must_use]
    pub fn new(base: Offset, bytes: &'a [u8]) -> Self {
        let (entries, odd) = bytes.as_chunks();
        Self {
            base,
            entries,
            odd_bytes: odd.len(),
        }
    }

    /// The number of whole entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no whole entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Entry number `index`, counted from 0.
    pub fn entry(&self, index: usize) -> Option<(Offset, Position)> {
        self.entries
            .get(index)
            .map(|raw| OffsetIndexEntry::decode(*raw).at(self.base))
    }

    /// The last entry.
    pub fn last_entry(&self) -> Option<(Offset, Position)> {
        self.entry(self.len().checked_sub(1)?)
    }

    /// All entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Offset, Position)> + use<'a> {
        let base = self.base;
        self.entries
            .iter()
            .map(move |raw| OffsetIndexEntry::decode(*raw).at(base))
    }

    /// The entry with the greatest offset at or below `target`; without one, the base offset at
    /// position 0. Cost: a binary search.
    pub fn lookup(&self, target: Offset) -> (Offset, Position) {
        self.last_of(self.count_while(|offset, _| offset <= target))
    }

    /// The last entry whose position is below `position`; without one, the base offset at position
    /// 0.
    pub fn last_before_position(&self, position: Position) -> (Offset, Position) {
        self.last_of(self.count_while(|_, at| at < position))
    }

    /// The first entry at or behind `position`. Kafka's `fetchUpperBoundOffset` asks this of a
    /// fetch position plus the fetch size.
    pub fn upper_bound(&self, position: Position) -> Option<(Offset, Position)> {
        self.entry(self.count_while(|_, at| at < position))
    }

    /// Whether the entries can be believed beside a `.log` file of `log_bytes` bytes: whole
    /// entries, offsets and positions strictly rising, offsets in 31 bits, positions inside the
    /// file.
    ///
    /// # Errors
    ///
    /// The first problem. Rebuild the index from its segment.
    pub fn check(&self, log_bytes: u64) -> Result<(), IndexProblem> {
        if self.odd_bytes != 0 {
            let whole = self.entries.as_flattened().len();
            return Err(IndexProblem::Length {
                bytes: whole.saturating_add(self.odd_bytes),
                entry_bytes: OFFSET_ENTRY_BYTES,
            });
        }
        self.first_problem(log_bytes).map_or(Ok(()), Err)
    }

    fn first_problem(&self, log_bytes: u64) -> Option<IndexProblem> {
        let mut last: Option<OffsetIndexEntry> = None;
        self.entries.iter().enumerate().find_map(|(entry, raw)| {
            let found = OffsetIndexEntry::decode(*raw);
            let before = last.replace(found);
            self.problem_of(entry, before, found, log_bytes)
        })
    }

    fn problem_of(
        &self,
        entry: usize,
        before: Option<OffsetIndexEntry>,
        found: OffsetIndexEntry,
        log_bytes: u64,
    ) -> Option<IndexProblem> {
        if !is_in_range(self.base, found.relative_offset) {
            return Some(IndexProblem::OffsetOutOfRange { entry });
        }
        if before.is_some_and(|before| found.relative_offset <= before.relative_offset) {
            return Some(IndexProblem::OffsetNotRising { entry });
        }
        if before.is_some_and(|before| found.position <= before.position) {
            return Some(IndexProblem::PositionNotRising { entry });
        }
        if u64::from(found.position) >= log_bytes || found.position > MAX_RELATIVE_OFFSET {
            let position = Position::new(u64::from(found.position));
            return Some(IndexProblem::PositionPastEnd { entry, position });
        }
        None
    }

    fn last_of(&self, count: usize) -> (Offset, Position) {
        count
            .checked_sub(1)
            .and_then(|index| self.entry(index))
            .unwrap_or((self.base, Position::ZERO))
    }

    fn count_while(&self, keep: impl Fn(Offset, Position) -> bool) -> usize {
        self.entries.partition_point(|raw| {
            let (offset, position) = OffsetIndexEntry::decode(*raw).at(self.base);
            keep(offset, position)
        })
    }
}

/// Counts the entries at the front of an index that was not closed which pass the rules of
/// [`OffsetIndexView::check`]; everything behind the first that does not is left over.
///
/// An entry of zeros is padding: Kafka never makes one, since no entry is due before the first
/// byte.
#[must_use]
pub fn sound_prefix(bytes: &[u8], base: Offset, log_bytes: u64) -> SoundPrefix {
    let view = OffsetIndexView::new(base, bytes);
    let mut before = None;
    let entries = view
        .entries
        .iter()
        .enumerate()
        .take_while(|(entry, raw)| {
            let found = OffsetIndexEntry::decode(**raw);
            let fits = **raw != [0; OFFSET_ENTRY_BYTES]
                && view.problem_of(*entry, before, found, log_bytes).is_none();
            before = Some(found);
            fits
        })
        .count();
    SoundPrefix::of(bytes, entries, OFFSET_ENTRY_BYTES)
}

#[cfg(test)]
mod tests;
