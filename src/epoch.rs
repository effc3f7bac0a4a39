//! Which leader epoch began at which offset.
//!
//! [`EpochCache`] answers where the records of an epoch end, from which replicas find the place
//! where they diverged (KIP-101, KIP-279). Rules: Kafka's `LeaderEpochFileCache`.
//!
//! Invariant: epochs and start offsets both rise strictly. A new entry removes those at the end
//! that contradict it; nothing is refused here, so a log asks [`EpochCache::would_rewrite_history`]
//! first.

pub use crate::types::EpochEntry;
use crate::types::{LeaderEpoch, Offset};

/// The epochs of a log, ascending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochCache {
    entries: Vec<EpochEntry>,
}

impl EpochCache {
    /// Makes an empty cache.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes a cache of the rows of a file. Rows that do not rise are repaired silently, each
    /// removing what contradicts it before, as Kafka's load does.
    pub fn from_entries(entries: impl IntoIterator<Item = EpochEntry>) -> Self {
        let mut cache = Self::new();
        for entry in entries {
            cache.assign(entry.epoch, entry.start_offset);
        }
        cache
    }

    /// Notes that `epoch` begins at `start_offset`. True if an entry was added: then the file must
    /// be written before a record of that epoch.
    ///
    /// The latest epoch at the same or a later offset changes nothing. Otherwise entries are
    /// removed from the end as long as their epoch or their start is at or above the given one.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        if let Some(latest) = self.latest()
            && latest.epoch == epoch
            && latest.start_offset <= start_offset
        {
            return false;
        }
        while self
            .entries
            .pop_if(|entry| entry.epoch >= epoch || entry.start_offset >= start_offset)
            .is_some()
        {}
        self.entries.push(EpochEntry {
            epoch,
            start_offset,
        });
        true
    }

    /// Whether [`assign`](Self::assign) of this epoch would undo a later one. A log refuses that.
    pub fn would_rewrite_history(&self, epoch: LeaderEpoch) -> bool {
        self.latest().is_some_and(|latest| epoch < latest.epoch)
    }

    /// The entry of the largest epoch.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// The entry of the smallest epoch.
    pub fn earliest(&self) -> Option<EpochEntry> {
        self.entries.first().copied()
    }

    /// Where the records up to and including epoch `requested` end (exclusive), and of which epoch
    /// they are. `None` is Kafka's (-1, -1).
    ///
    /// ```text
    ///   1  requested is -1                          None
    ///   2  it is the latest epoch                   (requested, log end)
    ///   3  no entry above it                        None, never the log end
    ///   4  an entry H above it, none at or below    (requested, start of H), though nobody has
    ///   that epoch 5  F at or below it, H the next above       (epoch of F, start of H)
    /// ```
    pub fn end_offset_for(&self, requested: i32, log_end: Offset) -> Option<(i32, Offset)> {
        if requested == -1 {
            return None;
        }
        if self.latest()?.epoch.get() == requested {
            return Some((requested, log_end));
        }
        let above = self
            .entries
            .partition_point(|entry| entry.epoch.get() <= requested);
        let higher = self.entries.get(above)?;
        let floor = above
            .checked_sub(1)
            .and_then(|index| self.entries.get(index));
        let epoch = floor.map_or(requested, |floor| floor.epoch.get());
        Some((epoch, higher.start_offset))
    }

    /// Removes the entries that start at or above `end_offset`, for a log that ends there. True if
    /// there was one.
    pub fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        let keep = self
            .entries
            .partition_point(|entry| entry.start_offset < end_offset);
        let changed = keep < self.entries.len();
        self.entries.truncate(keep);
        changed
    }

    /// Removes the entries that start at or below `start_offset` but keeps the last of them, which
    /// then starts there. True if anything differs afterwards.
    pub fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        let passed = self
            .entries
            .partition_point(|entry| entry.start_offset <= start_offset);
        let Some(first_kept) = passed.checked_sub(1) else {
            return false;
        };
        self.entries.drain(..first_kept);
        let Some(first) = self.entries.first_mut() else {
            return false;
        };
        let changed = first_kept > 0 || first.start_offset != start_offset;
        first.start_offset = start_offset;
        changed
    }

    /// The epoch of the record at `offset`; `None` before the first entry.
    pub fn epoch_for_offset(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self
            .entries
            .partition_point(|entry| entry.start_offset <= offset);
        self.entries
            .get(after.checked_sub(1)?)
            .map(|entry| entry.epoch)
    }

    /// The entry of exactly this epoch.
    pub fn entry(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let at = self
            .entries
            .binary_search_by_key(&epoch, |entry| entry.epoch)
            .ok()?;
        self.entries.get(at).copied()
    }

    /// The entry of the next epoch below `epoch`, which need not be in the cache.
    pub fn previous(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let below = self.entries.partition_point(|entry| entry.epoch < epoch);
        self.entries.get(below.checked_sub(1)?).copied()
    }

    /// The entry of the next epoch above `epoch`, which need not be in the cache.
    pub fn next(&self, epoch: LeaderEpoch) -> Option<EpochEntry> {
        let above = self.entries.partition_point(|entry| entry.epoch <= epoch);
        self.entries.get(above).copied()
    }

    /// All entries, ascending.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Removes all entries.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests;
