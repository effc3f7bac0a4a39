//! The time index (`.timeindex`): from a timestamp to an offset.
//!
//! An entry is `timestamp i64 | relative offset i32`, 12 bytes (Kafka: `TimeIndex`): the largest
//! timestamp seen up to and including that offset, which is the last one of the batch that holds
//! it.

use byteorder::{BigEndian, ByteOrder};

use super::{IndexError, IndexProblem, SoundPrefix, absolute, capacity, is_in_range, relative};
use crate::types::{Offset, Timestamp};

/// The length of an entry. Unit: bytes.
pub const TIME_ENTRY_BYTES: usize = 12;

type Raw = [u8; TIME_ENTRY_BYTES];

/// An entry as the file holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeIndexEntry {
    /// The largest timestamp up to and including the offset.
    pub timestamp: Timestamp,
    /// The offset minus the base offset. Range: 0 to 2^31 - 1.
    pub relative_offset: u32,
}

impl TimeIndexEntry {
    fn decode(raw: &Raw) -> Self {
        let (timestamp, offset) = raw.split_at(8);
        Self {
            timestamp: Timestamp::from_millis(BigEndian::read_i64(timestamp)),
            relative_offset: BigEndian::read_u32(offset),
        }
    }

    fn encode(self) -> Raw {
        let mut raw = [0; TIME_ENTRY_BYTES];
        let (timestamp, offset) = raw.split_at_mut(8);
        BigEndian::write_i64(timestamp, self.timestamp.millis());
        BigEndian::write_u32(offset, self.relative_offset);
        raw
    }

    fn at(self, base: Offset) -> (Timestamp, Offset) {
        (self.timestamp, absolute(base, self.relative_offset))
    }
}

/// The growing time index of an active segment, on the heap.
#[derive(Clone, Debug)]
pub struct TimeIndex {
    base: Offset,
    max_entries: usize,
    /// Timestamps rise strictly, offsets never fall.
    entries: Vec<Raw>,
}

impl TimeIndex {
    /// Makes an empty index. `max_bytes` is Kafka's `segment.index.bytes`, rounded down to whole
    /// entries.
    #[must_use]
    pub fn new(base: Offset, max_bytes: u32) -> Self {
        Self {
            base,
            max_entries: capacity(max_bytes, TIME_ENTRY_BYTES),
            entries: Vec::new(),
        }
    }

    /// Makes an index that continues the first `entries` entries of bytes found on disk.
    #[must_use]
    pub fn from_bytes(base: Offset, max_bytes: u32, bytes: &[u8], entries: usize) -> Self {
        let (found, _) = bytes.as_chunks();
        let mut index = Self::new(base, max_bytes);
        index
            .entries
            .extend_from_slice(found.get(..entries).unwrap_or(found));
        index
    }

    /// Adds an entry if `timestamp` lies above that of the last one (without one: above -1); says
    /// whether it did. Kafka: `maybeAppend`, but for a lower timestamp, which is skipped too.
    ///
    /// # Errors
    ///
    /// Full (the last slot is kept for [`push_final`](Self::push_final)), an offset below the last
    /// entry's, or one out of the range of an entry; the index stays as it was.
    pub fn push(&mut self, timestamp: Timestamp, offset: Offset) -> Result<bool, IndexError> {
        self.add(timestamp, offset, self.is_full())
    }

    /// As [`push`](Self::push), but may take the last slot: for the entry that a roll, a close or
    /// the end of a recovery adds.
    ///
    /// # Errors
    ///
    /// As [`push`](Self::push); full only if no slot is left at all.
    pub fn push_final(&mut self, timestamp: Timestamp, offset: Offset) -> Result<bool, IndexError> {
        self.add(timestamp, offset, self.entries.len() >= self.max_entries)
    }

    fn add(&mut self, ts: Timestamp, offset: Offset, full: bool) -> Result<bool, IndexError> {
        let (last_timestamp, last_offset) = self.last_entry();
        if !self.is_empty() && offset < last_offset {
            return Err(IndexError::OffsetNotRising {
                last: last_offset,
                offset,
            });
        }
        if ts <= last_timestamp {
            return Ok(false);
        }
        if full {
            return Err(IndexError::Full);
        }
        let relative_offset = relative(self.base, offset)?;
        self.entries.push(
            TimeIndexEntry {
                timestamp: ts,
                relative_offset,
            }
            .encode(),
        );
        Ok(true)
    }

    /// Whether no further entry fits but the final one.
    pub fn is_full(&self) -> bool {
        self.entries.len().saturating_add(1) >= self.max_entries
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The number of entries that fit, the reserved slot included.
    pub fn max_entries(&self) -> usize {
        self.max_entries
    }

    /// The base offset of the segment.
    pub fn base_offset(&self) -> Offset {
        self.base
    }

    /// The last entry; without one, timestamp -1 at the base offset.
    pub fn last_entry(&self) -> (Timestamp, Offset) {
        self.view().last_entry()
    }

    /// Drops the entries whose offset is at or above `target`.
    pub fn truncate_to(&mut self, target: Offset) {
        self.entries
            .truncate(self.view().count_while(|_, offset| offset < target));
    }

    /// Drops all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// The entry with the greatest timestamp at or below `target`; without one, timestamp -1 at the
    /// base offset.
    pub fn lookup(&self, target: Timestamp) -> (Timestamp, Offset) {
        self.view().lookup(target)
    }

    /// Appends the bytes of the entries from number `first_entry` (counted from 0) on.
    pub fn encode_from(&self, first_entry: usize, out: &mut Vec<u8>) {
        let entries = self.entries.get(first_entry..).unwrap_or_default();
        out.extend_from_slice(entries.as_flattened());
    }

    /// The same entries as a view.
    pub fn view(&self) -> TimeIndexView<'_> {
        TimeIndexView {
            base: self.base,
            entries: &self.entries,
            odd_bytes: 0,
        }
    }
}

/// The lookups of a time index over the bytes of a sealed one, unchecked as in
/// [`OffsetIndexView`](super::OffsetIndexView).
#[derive(Clone, Copy, Debug)]
pub struct TimeIndexView<'a> {
    base: Offset,
    entries: &'a [Raw],
    /// Bytes behind the last whole entry.
    odd_bytes: usize,
}

impl<'a> TimeIndexView<'a> {
    /// Looks at the bytes of a time index file.
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
    pub fn entry(&self, index: usize) -> Option<(Timestamp, Offset)> {
        self.entries
            .get(index)
            .map(|raw| TimeIndexEntry::decode(raw).at(self.base))
    }

    /// The last entry; without one, timestamp -1 at the base offset.
    pub fn last_entry(&self) -> (Timestamp, Offset) {
        self.last_of(self.len())
    }

    /// All entries in order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Timestamp, Offset)> + use<'a> {
        let base = self.base;
        self.entries
            .iter()
            .map(move |raw| TimeIndexEntry::decode(raw).at(base))
    }

    /// The entry with the greatest timestamp at or below `target`; without one, timestamp -1 at the
    /// base offset. Cost: a binary search.
    pub fn lookup(&self, target: Timestamp) -> (Timestamp, Offset) {
        self.last_of(self.count_while(|timestamp, _| timestamp <= target))
    }

    /// Whether the entries can be believed: whole entries, timestamps strictly rising, offsets
    /// never falling and in 31 bits.
    ///
    /// # Errors
    ///
    /// The first problem. Rebuild the index from its segment.
    pub fn check(&self) -> Result<(), IndexProblem> {
        if self.odd_bytes != 0 {
            let whole = self.entries.as_flattened().len();
            return Err(IndexProblem::Length {
                bytes: whole.saturating_add(self.odd_bytes),
                entry_bytes: TIME_ENTRY_BYTES,
            });
        }
        let mut last: Option<TimeIndexEntry> = None;
        let problem = self.entries.iter().enumerate().find_map(|(entry, raw)| {
            let found = TimeIndexEntry::decode(raw);
            let before = last.replace(found);
            self.problem_of(entry, before, found)
        });
        problem.map_or(Ok(()), Err)
    }

    fn problem_of(
        &self,
        entry: usize,
        before: Option<TimeIndexEntry>,
        found: TimeIndexEntry,
    ) -> Option<IndexProblem> {
        if !is_in_range(self.base, found.relative_offset) {
            return Some(IndexProblem::OffsetOutOfRange { entry });
        }
        if before.is_some_and(|before| found.relative_offset < before.relative_offset) {
            return Some(IndexProblem::OffsetNotRising { entry });
        }
        let last_timestamp = before.map_or(Timestamp::NONE, |before| before.timestamp);
        if found.timestamp <= last_timestamp {
            let timestamp = found.timestamp;
            return Some(IndexProblem::TimestampNotRising { entry, timestamp });
        }
        None
    }

    fn last_of(&self, count: usize) -> (Timestamp, Offset) {
        count
            .checked_sub(1)
            .and_then(|index| self.entry(index))
            .unwrap_or((Timestamp::NONE, self.base))
    }

    fn count_while(&self, keep: impl Fn(Timestamp, Offset) -> bool) -> usize {
        self.entries.partition_point(|raw| {
            let (timestamp, offset) = TimeIndexEntry::decode(raw).at(self.base);
            keep(timestamp, offset)
        })
    }
}

/// Counts the entries at the front of an index that was not closed which pass the rules of
/// [`TimeIndexView::check`]; everything behind the first that does not is left over.
///
/// A first entry of zeros is one of timestamp 0 at the base offset, or padding: it counts as
/// padding if more zeros follow it and nothing else. Both readings begin a search at the same
/// offset.
#[must_use]
pub fn sound_prefix(bytes: &[u8], base: Offset) -> SoundPrefix {
    let view = TimeIndexView::new(base, bytes);
    let mut before = None;
    let entries = view
        .entries
        .iter()
        .enumerate()
        .take_while(|(entry, raw)| {
            let found = TimeIndexEntry::decode(raw);
            let fits = view.problem_of(*entry, before, found).is_none();
            before = Some(found);
            fits
        })
        .count();
    let sound = SoundPrefix::of(bytes, entries, TIME_ENTRY_BYTES);
    let starts_with_zeros = view.entries.first() == Some(&[0; TIME_ENTRY_BYTES]);
    let only_padding = entries == 1 && starts_with_zeros && bytes.len() > TIME_ENTRY_BYTES;
    if only_padding && sound.rest_is_zero {
        SoundPrefix {
            entries: 0,
            ..sound
        }
    } else {
        sound
    }
}

#[cfg(test)]
mod tests;
