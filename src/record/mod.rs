//! Record batches: their bytes, and nothing but their bytes.
//!
//! Reads versions 0, 1 and 2 as they stand in `.log` files and travel between brokers, builds and
//! stamps version 2. Decides what a leader takes from a client ([`validate_append`]). It does no
//! I/O, reads no clock, and never trusts a length before comparing it with the bytes that are
//! there.
//!
//! Invariants:
//!
//! 1. No input panics, and no allocation is larger than a small multiple of the input or the limit
//!    of the [`Scratch`].
//! 2. A [`Batch`] is whole: its bytes are exactly those that its size field names.
//! 3. [`DecodeError::TooShort`] comes from bytes that end early and from nothing else.
//! 4. What [`BatchBuilder`] builds, [`validate_append`] takes, if it begins at offset 0.

mod batch;
mod builder;
mod codec;
#[cfg_attr(
    not(all(
        feature = "gzip",
        feature = "snappy",
        feature = "lz4",
        feature = "zstd"
    )),
    allow(
        dead_code,
        unused_imports,
        unused_variables,
        unreachable_code,
        reason = "without every codec some of the plumbing lies idle"
    )
)]
mod compression;
mod control;
mod crc;
mod error;
#[cfg(feature = "legacy")]
mod legacy;
#[cfg(not(feature = "legacy"))]
#[path = "legacy_absent.rs"]
mod legacy;
#[expect(clippy::module_inception, reason = "a record is what it is called")]
mod record;
mod scan;
mod stamp;
mod sweep;
mod validate;
mod varint;

pub use batch::{BATCH_HEADER_BYTES, BATCH_PREFIX_BYTES, Batch, BatchHeader, LOG_OVERHEAD};
pub use builder::{BatchBuilder, BuildError};
pub use codec::{Codec, Magic, ParseNameError, TimestampType};
pub use compression::Scratch;
pub use control::{ControlType, EndTransactionMarker};
pub use crc::{crc_append, crc_start, crc32_ieee, crc32c, crc32c_append};
pub use error::DecodeError;
pub use record::{Header, Headers, Record, Records};
pub use scan::Batches;
pub use stamp::{restamp_timestamps, stamp};
pub use validate::{AppendRules, InvalidAppend, ValidatedAppend, stamp_append, validate_append};

#[cfg(test)]
mod tests;
