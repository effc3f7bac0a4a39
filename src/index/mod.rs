//! The three indexes that stand beside a segment: offsets, timestamps, aborted transactions.
//!
//! Each index has a growing form on the heap, for the active segment, and (offset and time index) a
//! view over the bytes of a sealed one, mapped or read. Both look up alike.
//!
//! This module must never touch a file. Its invariants:
//!
//! 1. A growing index only takes entries in order, and never more than fit its size.
//! 2. A lookup in bytes of any content ends and answers something at or above the base offset; only
//!    [`check`](OffsetIndexView::check) says whether the answer can be believed.
//!
//! Formats: Kafka's `OffsetIndex`, `TimeIndex`, `TransactionIndex`; all fields big-endian.

pub mod offset;
pub mod time;
pub mod transaction;

use std::fmt;

use crate::types::{Offset, Position, Timestamp};

pub use offset::{OFFSET_ENTRY_BYTES, OffsetIndex, OffsetIndexEntry, OffsetIndexView};
pub use time::{TIME_ENTRY_BYTES, TimeIndex, TimeIndexEntry, TimeIndexView};
pub use transaction::{AbortedTransaction, TRANSACTION_ENTRY_BYTES, TransactionIndex};

/// The largest relative offset that an index entry can hold, since Kafka reads a signed 32-bit
/// field.
pub const MAX_RELATIVE_OFFSET: u32 = 0x7fff_ffff;

/// Why a growing index refuses an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexError {
    /// It holds as many entries as fit. Roll the segment.
    Full,
    /// The offset does not lie above (time index: lies below) that of the last entry.
    OffsetNotRising {
        /// The offset of the last entry.
        last: Offset,
        /// The offset that was refused.
        offset: Offset,
    },
    /// The position does not lie above that of the last entry.
    PositionNotRising {
        /// The position of the last entry.
        last: Position,
        /// The position that was refused.
        position: Position,
    },
    /// The offset lies below the base offset, or 2^31 and more above it.
    OffsetOverflow {
        /// The base offset of the segment.
        base: Offset,
        /// The offset that was refused.
        offset: Offset,
    },
    /// The position is 2^31 or more.
    PositionOverflow {
        /// The position that was refused.
        position: Position,
    },
}

impl fmt::Display for IndexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("the index is full"),
            Self::OffsetNotRising { last, offset } => {
                write!(f, "offset {offset} after offset {last}")
            }
            Self::PositionNotRising { last, position } => {
                write!(f, "position {position} after position {last}")
            }
            Self::OffsetOverflow { base, offset } => {
                write!(
                    f,
                    "offset {offset} does not fit an index of base offset {base}"
                )
            }
            Self::PositionOverflow { position } => {
                write!(f, "position {position} does not fit an index entry")
            }
        }
    }
}

impl std::error::Error for IndexError {}

/// Why the bytes of an index cannot be believed. Entries are counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexProblem {
    /// The file length is no multiple of the entry length.
    Length {
        /// The length of the file in bytes.
        bytes: usize,
        /// The length of an entry in bytes.
        entry_bytes: usize,
    },
    /// An offset is negative relative to the base, or past the largest offset.
    OffsetOutOfRange {
        /// The number of the entry.
        entry: usize,
    },
    /// An offset does not rise (time index, transaction index: see their `check`).
    OffsetNotRising {
        /// The number of the entry.
        entry: usize,
    },
    /// A position does not rise.
    PositionNotRising {
        /// The number of the entry.
        entry: usize,
    },
    /// A position lies at or past the end of the `.log` file.
    PositionPastEnd {
        /// The number of the entry.
        entry: usize,
        /// The position it holds.
        position: Position,
    },
    /// A timestamp does not rise.
    TimestampNotRising {
        /// The number of the entry.
        entry: usize,
        /// The timestamp it holds.
        timestamp: Timestamp,
    },
    /// A transaction entry has a version other than 0.
    Version {
        /// The number of the entry.
        entry: usize,
        /// The version it holds.
        version: i16,
    },
    /// A transaction ends before it begins.
    Reversed {
        /// The number of the entry.
        entry: usize,
    },
}

impl IndexProblem {
    /// The number of the entry that is wrong, counted from 0; `None` if it is the length.
    #[must_use]
    pub const fn entry(&self) -> Option<usize> {
        match self {
            Self::Length { .. } => None,
            Self::OffsetOutOfRange { entry }
            | Self::OffsetNotRising { entry }
            | Self::PositionNotRising { entry }
            | Self::PositionPastEnd { entry, .. }
            | Self::TimestampNotRising { entry, .. }
            | Self::Version { entry, .. }
            | Self::Reversed { entry } => Some(*entry),
        }
    }
}

impl fmt::Display for IndexProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { bytes, entry_bytes } => {
                write!(f, "{bytes} bytes are no multiple of {entry_bytes}")
            }
            Self::OffsetOutOfRange { entry } => write!(f, "entry {entry}: offset out of range"),
            Self::OffsetNotRising { entry } => write!(f, "entry {entry}: offset does not rise"),
            Self::PositionNotRising { entry } => write!(f, "entry {entry}: position does not rise"),
            Self::PositionPastEnd { entry, position } => {
                write!(
                    f,
                    "entry {entry}: position {position} is past the end of the log file"
                )
            }
            Self::TimestampNotRising { entry, timestamp } => {
                write!(f, "entry {entry}: timestamp {timestamp} does not rise")
            }
            Self::Version { entry, version } => {
                write!(f, "entry {entry}: version {version} is unknown")
            }
            Self::Reversed { entry } => {
                write!(f, "entry {entry}: the transaction ends before it begins")
            }
        }
    }
}

impl std::error::Error for IndexProblem {}

/// How much of an index that was not closed can be used.
///
/// Kafka makes the index of an active segment at full size, zeros at the end, and cuts it to its
/// entries only at a roll or a clean stop; a truncation does not wipe dropped entries either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoundPrefix {
    /// The number of entries from the front that fit one another.
    pub entries: usize,
    /// Whether all bytes behind those entries are zero (also true if there are none).
    pub rest_is_zero: bool,
}

impl SoundPrefix {
    fn of(bytes: &[u8], entries: usize, entry_bytes: usize) -> Self {
        let rest = bytes
            .get(entries.saturating_mul(entry_bytes)..)
            .unwrap_or_default();
        Self {
            entries,
            rest_is_zero: rest.iter().all(|&byte| byte == 0),
        }
    }
}

/// The offset as an entry holds it: relative to `base`, in 31 bits.
fn relative(base: Offset, offset: Offset) -> Result<u32, IndexError> {
    u32::try_from(offset.distance_from(base))
        .ok()
        .filter(|&relative| relative <= MAX_RELATIVE_OFFSET)
        .ok_or(IndexError::OffsetOverflow { base, offset })
}

/// The offset that an entry stands for; `Offset::MAX` if it would be larger.
fn absolute(base: Offset, relative: u32) -> Offset {
    base.checked_add(i64::from(relative)).unwrap_or(Offset::MAX)
}

fn is_in_range(base: Offset, relative: u32) -> bool {
    relative <= MAX_RELATIVE_OFFSET && base.checked_add(i64::from(relative)).is_some()
}

/// The number of whole entries that fit `max_bytes`.
fn capacity(max_bytes: u32, entry_bytes: usize) -> usize {
    usize::try_from(max_bytes)
        .unwrap_or(usize::MAX)
        .checked_div(entry_bytes)
        .unwrap_or(0)
}
