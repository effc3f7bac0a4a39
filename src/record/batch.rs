//! One entry of a `.log` file: its header, its checksum, its records.
//!
//! Layout: Kafka `DefaultRecordBatch` (version 2, KIP-98) and `LegacyRecord` (versions 0 and 1).
//! The checksum of version 2 covers everything from the attributes on, so base offset, size, leader
//! epoch and version can be changed, or flip, without a trace.

use super::codec::{Codec, Magic, TimestampType};
use super::compression::Scratch;
use super::control::{ControlType, EndTransactionMarker};
use super::crc::{crc32_ieee, crc32c};
use super::error::DecodeError;
use super::legacy;
use super::record::Records;

/// The bytes of an entry before the part that its size field counts: offset and size.
pub const LOG_OVERHEAD: usize = 12;
/// The bytes of a version 2 header, [`LOG_OVERHEAD`] included.
pub const BATCH_HEADER_BYTES: usize = 61;
/// The bytes up to and including the version, which stands at the same place in every format.
pub const BATCH_PREFIX_BYTES: usize = 17;

/// The bytes of a version 0 entry that holds a null key and a null value.
const V0_BYTES: usize = 26;
/// The same of version 1, which has a timestamp more.
const V1_BYTES: usize = 34;
/// Where the checksum of version 2 begins to cover.
pub(super) const CRC_FROM: usize = 21;
/// Where that of versions 0 and 1 does.
const LEGACY_CRC_FROM: usize = 16;

const _: () = assert!(LOG_OVERHEAD + 4 + 1 == BATCH_PREFIX_BYTES);

/// The header of an entry, whatever its version.
///
/// Fields that a version does not have hold what Kafka answers for them: see each field. Values are
/// those of the file; only sizes, versions and offsets were checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// The offset of the first record, 0 or more. In versions 0 and 1 it equals `last_offset`, even
    /// where the entry wraps several records: [`Batch::base_offset`] decompresses to learn it.
    pub base_offset: i64,
    /// The offset of the last record, inclusive.
    pub last_offset: i64,
    /// The whole entry with its first [`LOG_OVERHEAD`] bytes. Unit: bytes.
    pub bytes: u32,
    /// The leader epoch, -1 if unknown; -1 in versions 0 and 1.
    pub leader_epoch: i32,
    /// The version.
    pub magic: Magic,
    /// The stored checksum.
    pub crc: u32,
    /// The attributes as they stand; versions 0 and 1 have one byte of them.
    pub attributes: i16,
    /// The timestamp that those of the records count from; the delete horizon if
    /// [`BatchHeader::has_delete_horizon`]. Version 1: the timestamp; version 0: -1.
    pub base_timestamp: i64,
    /// The largest timestamp. Version 1: the timestamp; version 0: -1.
    pub max_timestamp: i64,
    /// The producer, -1 for none; -1 in versions 0 and 1.
    pub producer_id: i64,
    /// The producer's epoch, -1 for none; -1 in versions 0 and 1.
    pub producer_epoch: i16,
    /// The sequence number of the first record, -1 for none; -1 in versions 0 and 1.
    pub base_sequence: i32,
    /// The number of records, 0 after a compaction that removed all. Versions 0 and 1: 1, or -1 for
    /// a compressed entry, which tells only when it is decompressed.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header from the front of `front`, which may be longer or shorter than the entry.
    ///
    /// It looks at [`BATCH_PREFIX_BYTES`] to tell the version, then at 61, 34 or 26 bytes in
    /// versions 2, 1 and 0.
    ///
    /// # Errors
    ///
    /// [`DecodeError::TooShort`] if `front` ends before that: read more.
    /// [`DecodeError::BadLength`], [`DecodeError::BadMagic`], [`DecodeError::BadOffset`],
    /// [`DecodeError::BadOffsetDelta`]: it is damaged.
    #[inline]
    pub fn parse(front: &[u8]) -> Result<Self, DecodeError> {
        let header = Self::parse_unchecked_offsets(front)?;
        header.check_offsets()?;
        Ok(header)
    }

    /// As [`BatchHeader::parse`], but negative offsets and deltas stay in the answer.
    #[inline]
    pub(super) fn parse_unchecked_offsets(front: &[u8]) -> Result<Self, DecodeError> {
        let prefix: &[u8; BATCH_PREFIX_BYTES] = front
            .first_chunk()
            .ok_or_else(|| too_short(BATCH_PREFIX_BYTES, front))?;
        let length = i32::from_be_bytes(field(prefix, 8));
        let [magic] = field(prefix, 16);
        let magic = magic.cast_signed();
        let smallest = |bytes: usize| {
            let fits =
                usize::try_from(length).is_ok_and(|l| l >= bytes.saturating_sub(LOG_OVERHEAD));
            if fits {
                Ok(())
            } else {
                Err(DecodeError::BadLength(length))
            }
        };
        smallest(V0_BYTES)?;
        let magic = Magic::new(magic).ok_or(DecodeError::BadMagic(magic))?;
        // At least 14, so the sum is a whole size of up to 2^31 + 11.
        let bytes = length.unsigned_abs().saturating_add(12);
        match magic {
            Magic::V2 => {
                smallest(BATCH_HEADER_BYTES)?;
                let all = front
                    .first_chunk()
                    .ok_or_else(|| too_short(BATCH_HEADER_BYTES, front))?;
                Ok(Self::of_v2(all, bytes))
            }
            Magic::V1 => {
                smallest(V1_BYTES)?;
                let all: &[u8; V1_BYTES] = front
                    .first_chunk()
                    .ok_or_else(|| too_short(V1_BYTES, front))?;
                Ok(Self::of_legacy(
                    prefix,
                    all[17],
                    bytes,
                    magic,
                    i64::from_be_bytes(field(all, 18)),
                ))
            }
            Magic::V0 => {
                let all: &[u8; V0_BYTES] = front
                    .first_chunk()
                    .ok_or_else(|| too_short(V0_BYTES, front))?;
                Ok(Self::of_legacy(prefix, all[17], bytes, magic, -1))
            }
        }
    }

    #[inline]
    fn of_v2(all: &[u8; BATCH_HEADER_BYTES], bytes: u32) -> Self {
        let base_offset = i64::from_be_bytes(field(all, 0));
        let last_offset_delta = i32::from_be_bytes(field(all, 23));
        Self {
            base_offset,
            last_offset: base_offset.wrapping_add(i64::from(last_offset_delta)),
            bytes,
            leader_epoch: i32::from_be_bytes(field(all, 12)),
            magic: Magic::V2,
            crc: u32::from_be_bytes(field(all, 17)),
            attributes: i16::from_be_bytes(field(all, 21)),
            base_timestamp: i64::from_be_bytes(field(all, 27)),
            max_timestamp: i64::from_be_bytes(field(all, 35)),
            producer_id: i64::from_be_bytes(field(all, 43)),
            producer_epoch: i16::from_be_bytes(field(all, 51)),
            base_sequence: i32::from_be_bytes(field(all, 53)),
            record_count: i32::from_be_bytes(field(all, 57)),
        }
    }

    fn of_legacy(
        prefix: &[u8; BATCH_PREFIX_BYTES],
        attributes: u8,
        bytes: u32,
        magic: Magic,
        timestamp: i64,
    ) -> Self {
        let offset = i64::from_be_bytes(field(prefix, 0));
        Self {
            base_offset: offset,
            last_offset: offset,
            bytes,
            leader_epoch: -1,
            magic,
            crc: u32::from_be_bytes(field(prefix, 12)),
            attributes: i16::from(attributes),
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            record_count: if is_compressed(i16::from(attributes)) {
                -1
            } else {
                1
            },
        }
    }

    fn check_offsets(&self) -> Result<(), DecodeError> {
        if self.base_offset < 0 {
            return Err(DecodeError::BadOffset(self.base_offset));
        }
        if self.last_offset < self.base_offset {
            let delta = self.last_offset_delta();
            // A delta of 2^31 at most wraps a positive base into the negatives.
            return Err(if delta < 0 {
                DecodeError::BadOffsetDelta(delta)
            } else {
                DecodeError::BadOffset(self.base_offset)
            });
        }
        Ok(())
    }

    /// How many offsets the last record lies behind the first.
    #[must_use]
    pub fn last_offset_delta(&self) -> i32 {
        let delta = self.last_offset.wrapping_sub(self.base_offset);
        // By construction it is the sign extension of 32 bits; the fields are public, so it may not
        // be.
        i32::try_from(delta).unwrap_or(if delta < 0 { i32::MIN } else { i32::MAX })
    }

    /// The codec of the attributes.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownCodec`] for the numbers 5 to 7.
    pub fn codec(&self) -> Result<Codec, DecodeError> {
        let [_, low] = self.attributes.to_be_bytes();
        let id = low & 0b111;
        Codec::from_id(id).ok_or(DecodeError::UnknownCodec(id))
    }

    /// Whose clock the timestamps come from. Version 0, which has none: `CreateTime`.
    #[must_use]
    pub fn timestamp_type(&self) -> TimestampType {
        if self.magic != Magic::V0 && self.attributes & 0b1000 != 0 {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        }
    }

    /// Tells whether it belongs to a transaction; a marker does too.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        self.has_flag(1 << 4)
    }

    /// Tells whether it holds control records, which no consumer sees.
    #[must_use]
    pub fn is_control(&self) -> bool {
        self.has_flag(1 << 5)
    }

    /// Tells whether the base timestamp is the time at which compaction may drop its tombstones
    /// (KIP-534).
    #[must_use]
    pub fn has_delete_horizon(&self) -> bool {
        self.has_flag(1 << 6)
    }

    /// Tells whether an idempotent or transactional producer wrote it.
    #[must_use]
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > -1
    }

    fn has_flag(&self, flag: i16) -> bool {
        self.magic == Magic::V2 && self.attributes & flag != 0
    }

    /// The sequence number of the last record, -1 for none. Sequences wrap from 2147483647 to 0.
    #[must_use]
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == -1 {
            return -1;
        }
        let delta = self.last_offset_delta();
        if self.base_sequence > i32::MAX.wrapping_sub(delta) {
            delta
                .wrapping_sub(i32::MAX.wrapping_sub(self.base_sequence))
                .wrapping_sub(1)
        } else {
            self.base_sequence.wrapping_add(delta)
        }
    }

    /// Tells whether it is a version 0 or 1 entry around compressed messages, whose first offset
    /// and number show only when it is decompressed.
    #[must_use]
    pub fn is_compressed_wrapper(&self) -> bool {
        self.magic != Magic::V2 && is_compressed(self.attributes)
    }

    /// The first byte behind the fixed part of this version's header.
    pub(super) fn payload_from(&self) -> usize {
        match self.magic {
            Magic::V0 => 18,
            Magic::V1 => 26,
            Magic::V2 => BATCH_HEADER_BYTES,
        }
    }
}

fn too_short(needed: usize, found: &[u8]) -> DecodeError {
    DecodeError::TooShort {
        needed: wide(needed),
        found: wide(found.len()),
    }
}

/// The codec bits of the attributes.
const fn is_compressed(attributes: i16) -> bool {
    attributes & 0b111 > 0
}

/// A length in memory as a 64-bit number.
pub(super) fn wide(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}

/// `N` bytes of a header at a fixed place. Zeros if the place is past its end, which no caller
/// asks.
#[inline]
fn field<const N: usize>(all: &[u8], at: usize) -> [u8; N] {
    let found = all.get(at..).and_then(|rest| rest.first_chunk());
    debug_assert!(found.is_some(), "a field past the end of its header");
    found.copied().unwrap_or([0; N])
}

/// A whole entry in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl<'a> Batch<'a> {
    /// Takes the entry at the front of `bytes`; what stands behind it is ignored.
    ///
    /// # Errors
    ///
    /// As [`BatchHeader::parse`]; [`DecodeError::TooShort`] also if the entry is longer than
    /// `bytes`.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        Self::around(BatchHeader::parse(bytes)?, bytes)
    }

    /// The entry of a header that was read from the front of `bytes`.
    pub(super) fn around(header: BatchHeader, bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let needed = u64::from(header.bytes);
        let whole = usize::try_from(header.bytes)
            .ok()
            .and_then(|length| bytes.get(..length));
        let bytes = whole.ok_or(DecodeError::TooShort {
            needed,
            found: wide(bytes.len()),
        })?;
        Ok(Self { header, bytes })
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole entry.
    #[must_use]
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Checks the checksum and nothing else: CRC-32C in version 2, CRC-32 IEEE before.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadCrc`].
    pub fn verify(&self) -> Result<(), DecodeError> {
        let computed = match self.header.magic {
            Magic::V2 => crc32c(self.bytes.get(CRC_FROM..).unwrap_or_default()),
            Magic::V0 | Magic::V1 => {
                crc32_ieee(self.bytes.get(LEGACY_CRC_FROM..).unwrap_or_default())
            }
        };
        let stored = self.header.crc;
        if stored == computed {
            Ok(())
        } else {
            Err(DecodeError::BadCrc { stored, computed })
        }
    }

    /// Checks the checksum and, in a compressed version 0 or 1 entry, that of each message inside.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadCrc`], and as [`Batch::records`] where something was to be decompressed.
    pub fn verify_deep(&self, scratch: &mut Scratch) -> Result<(), DecodeError> {
        self.verify()?;
        if self.header.is_compressed_wrapper() {
            legacy::verify_inner(&self.header, self.payload(), scratch)?;
        }
        Ok(())
    }

    /// The records, decompressed into `scratch` if need be.
    ///
    /// # Errors
    ///
    /// [`DecodeError::UnknownCodec`], [`DecodeError::CodecUnavailable`],
    /// [`DecodeError::LegacyUnavailable`], [`DecodeError::Decompress`], [`DecodeError::TooLarge`];
    /// a negative count is [`DecodeError::RecordCount`]. Damage inside the records comes out of the
    /// iterator.
    pub fn records<'s>(&'s self, scratch: &'s mut Scratch) -> Result<Records<'s>, DecodeError> {
        Records::of(&self.header, self.payload(), scratch)
    }

    /// The bytes behind the fixed part of the header.
    pub(super) fn payload(&self) -> &'a [u8] {
        self.bytes
            .get(self.header.payload_from()..)
            .unwrap_or_default()
    }

    /// The offset of the first record. Decompresses a version 0 or 1 entry that is compressed.
    ///
    /// # Errors
    ///
    /// As [`Batch::records`], and what is wrong with the first record.
    pub fn base_offset(&self, scratch: &mut Scratch) -> Result<i64, DecodeError> {
        if !self.header.is_compressed_wrapper() {
            return Ok(self.header.base_offset);
        }
        match self.records(scratch)?.next() {
            Some(first) => Ok(first?.offset),
            None => Err(DecodeError::BadRecord("a compressed message holds none")),
        }
    }

    /// The number of records. Decompresses a version 0 or 1 entry that is compressed.
    ///
    /// # Errors
    ///
    /// As [`Batch::records`].
    pub fn record_count(&self, scratch: &mut Scratch) -> Result<u32, DecodeError> {
        if self.header.is_compressed_wrapper() {
            return self.records(scratch)?.try_fold(0, |count: u32, record| {
                record.map(|_| count.saturating_add(1))
            });
        }
        let header = self.header.record_count;
        u32::try_from(header).map_err(|_| DecodeError::RecordCount { header, found: 0 })
    }

    /// What a control batch says; `None` if it is none or has no record.
    ///
    /// # Errors
    ///
    /// As [`Batch::records`], and a malformed first record or key.
    pub fn control_type(&self, scratch: &mut Scratch) -> Result<Option<ControlType>, DecodeError> {
        if !self.header.is_control() {
            return Ok(None);
        }
        match self.records(scratch)?.next() {
            Some(first) => ControlType::of_key(first?.key.unwrap_or_default()).map(Some),
            None => Ok(None),
        }
    }

    /// The end of a transaction, if this is its marker.
    ///
    /// # Errors
    ///
    /// As [`Batch::control_type`], and a malformed value.
    pub fn end_transaction_marker(
        &self,
        scratch: &mut Scratch,
    ) -> Result<Option<EndTransactionMarker>, DecodeError> {
        if !self.header.is_control() {
            return Ok(None);
        }
        match self.records(scratch)?.next() {
            Some(first) => EndTransactionMarker::of_record(&first?),
            None => Ok(None),
        }
    }
}
