//! Read-only walks over Kafka log directories.
//!
//! [`Target::open`] takes a data directory or one log, [`examine`] counts a log and says what is
//! wrong with it, [`read`] hands out its records, [`dump_log`] shows its batches as they stand.
//!
//! This module must never write, lock or map a file, so that it works on a read-only mount and
//! beside a running broker. Its invariants:
//!
//! 1. A file that grows, shrinks or vanishes meanwhile is no finding: it is looked at again.
//! 2. Memory is bounded by the number of files and a few limits, whatever the files hold.
//! 3. [`Severity::Damage`] is kept for bytes that are wrong; what Kafka leaves in the course of its
//!    work,
//!    a kill included, is a [`Severity::Note`].

mod catalog;
mod dump;
mod examine;
mod finding;
mod index_check;
mod producer_check;
mod producers;
mod read;
mod side_files;
mod walk;

pub use catalog::{LogDirectory, SegmentFiles, Target, read_file};
pub use dump::{DumpedBatch, dump_log};
pub use examine::{Depth, PartitionInfo, examine};
pub use finding::{Finding, FindingKind, Severity};
pub use producers::OpenTransaction;
pub use read::{Isolation, Query, ReadOutcome, ReadRecord, read};

use std::fmt;

use crate::types::Timestamp;

/// What a walk is told by its caller.
#[derive(Clone, Copy, Default)]
pub struct Options<'a> {
    /// The `segment.bytes` of the topic, where it is known. Unit: bytes. It decides whether a tail
    /// of zeros is room that was made beforehand.
    pub segment_bytes: Option<u64>,
    /// The time. Producers that have been silent for a day by then and have no transaction open
    /// are left out; without it none is.
    pub now: Option<Timestamp>,
    /// Told now and then how many more bytes of `.log` files were looked at.
    pub progress: Option<&'a dyn Fn(u64)>,
}

impl fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("segment_bytes", &self.segment_bytes)
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

impl Options<'_> {
    fn advance(&self, bytes: u64) {
        if let Some(progress) = self.progress {
            progress(bytes);
        }
    }
}

/// The largest batch whose records are looked at, and the largest payload when decompressed.
/// Kafka's default `max.message.bytes` is 1 MiB. Unit: bytes.
const MAX_BODY_BYTES: u32 = 64 << 20;

/// The largest index that is read; Kafka's default `segment.index.bytes` is 10 MiB. Unit: bytes.
const MAX_INDEX_BYTES: u64 = 64 << 20;

fn scratch() -> crate::record::Scratch {
    crate::record::Scratch::new(usize::try_from(MAX_BODY_BYTES).unwrap_or(usize::MAX))
}
