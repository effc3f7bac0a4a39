//! Why bytes are no record batch.

use std::fmt;

use super::codec::{Codec, Magic};

/// Why bytes are no record batch, or not one that this build can read.
///
/// [`DecodeError::TooShort`] alone says that more bytes could make it right; all others stay wrong
/// whatever follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The bytes end before what they announce.
    TooShort {
        /// The bytes wanted, counted from the front of the entry.
        needed: u64,
        /// The bytes that are there.
        found: u64,
    },
    /// A size field that is too small for the entry's own header. In a preallocated tail it is 0.
    BadLength(i32),
    /// A version that is not 0, 1 or 2.
    BadMagic(i8),
    /// The checksum does not match.
    BadCrc {
        /// The checksum in the header.
        stored: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A codec number above 4.
    UnknownCodec(u8),
    /// A codec that this build leaves out.
    CodecUnavailable(Codec),
    /// A payload that its codec cannot decompress.
    Decompress(Codec),
    /// A payload that grows past the caller's limit.
    TooLarge {
        /// The limit of the [`Scratch`](super::Scratch). Unit: bytes.
        limit: u64,
    },
    /// A base offset that is negative, or that leaves 63 bits with the offset delta added.
    BadOffset(i64),
    /// A last offset delta below zero.
    BadOffsetDelta(i32),
    /// The number of records is not the one in the header.
    RecordCount {
        /// The number in the header.
        header: i32,
        /// The records found, not counting what stands behind the last announced one.
        found: i32,
    },
    /// A record whose fields do not add up.
    BadRecord(&'static str),
    /// Only version 2 can be stamped.
    CannotStamp(Magic),
    /// A version 0 or 1 entry in a build without the feature `legacy`.
    LegacyUnavailable(Magic),
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::TooShort { needed, found } => {
                write!(f, "the batch needs {needed} bytes and {found} are there")
            }
            Self::BadLength(length) => {
                write!(f, "a size field of {length} is too small for a batch")
            }
            Self::BadMagic(magic) => write!(f, "version {magic} is not 0, 1 or 2"),
            Self::BadCrc { stored, computed } => {
                write!(
                    f,
                    "the stored checksum is {stored:08x}, that of the bytes {computed:08x}"
                )
            }
            Self::UnknownCodec(id) => write!(f, "codec {id} does not exist"),
            Self::CodecUnavailable(codec) => write!(f, "codec {codec} is left out of this build"),
            Self::Decompress(codec) => write!(f, "the payload is not valid {codec}"),
            Self::TooLarge { limit } => write!(f, "the payload grows past {limit} bytes"),
            Self::BadOffset(offset) => write!(f, "base offset {offset} is out of range"),
            Self::BadOffsetDelta(delta) => write!(f, "last offset delta {delta} is negative"),
            Self::RecordCount { header, found } => {
                write!(
                    f,
                    "the header counts {header} records, the payload does not end after {found}"
                )
            }
            Self::BadRecord(why) => write!(f, "malformed record: {why}"),
            Self::CannotStamp(magic) => write!(f, "a version {magic} entry cannot be stamped"),
            Self::LegacyUnavailable(magic) => {
                write!(
                    f,
                    "version {magic} is left out of this build (feature legacy)"
                )
            }
        }
    }
}

impl std::error::Error for DecodeError {}
