//! Building version 2 batches. Kafka: `MemoryRecordsBuilder`.

use std::fmt;

use super::batch::{BATCH_HEADER_BYTES, CRC_FROM, LOG_OVERHEAD, wide};
use super::codec::{Codec, TimestampType};
use super::compression;
use super::crc::crc32c;
use super::stamp::put;
use super::varint::{put_varint, put_varlong};
use crate::types::{LeaderEpoch, Offset};

/// Collects records and makes one version 2 batch of them.
///
/// Nothing is compressed before [`BatchBuilder::finish`]. Unless told otherwise the batch begins at
/// offset 0, has no leader epoch and no producer, as a client sends it.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    codec: Codec,
    level: Option<i32>,
    base_offset: Offset,
    leader_epoch: i32,
    producer_id: i64,
    producer_epoch: i16,
    base_sequence: i32,
    transactional: bool,
    control: bool,
    timestamp_type: TimestampType,
    base_timestamp: i64,
    max_timestamp: i64,
    count: i32,
    /// Room for the header, then the records.
    bytes: Vec<u8>,
    body: Vec<u8>,
}

impl BatchBuilder {
    /// Starts an empty batch.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self {
            codec,
            level: None,
            base_offset: Offset::ZERO,
            leader_epoch: -1,
            producer_id: -1,
            producer_epoch: -1,
            base_sequence: -1,
            transactional: false,
            control: false,
            timestamp_type: TimestampType::CreateTime,
            base_timestamp: -1,
            max_timestamp: -1,
            count: 0,
            bytes: vec![0; BATCH_HEADER_BYTES],
            body: Vec::new(),
        }
    }

    /// Sets the offset of the first record.
    #[must_use]
    pub fn base_offset(mut self, base_offset: Offset) -> Self {
        self.base_offset = base_offset;
        self
    }

    /// Sets the leader epoch; without it the header says -1, "unknown".
    #[must_use]
    pub fn leader_epoch(mut self, epoch: LeaderEpoch) -> Self {
        self.leader_epoch = epoch.get();
        self
    }

    /// Sets producer id, producer epoch and the sequence number of the first record; -1 is none of
    /// each.
    #[must_use]
    pub fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.producer_id = id;
        self.producer_epoch = epoch;
        self.base_sequence = base_sequence;
        self
    }

    /// Sets whether it belongs to a transaction.
    #[must_use]
    pub fn transactional(mut self, transactional: bool) -> Self {
        self.transactional = transactional;
        self
    }

    /// Sets whether its records are control records.
    #[must_use]
    pub fn control(mut self, control: bool) -> Self {
        self.control = control;
        self
    }

    /// Sets whose clock the timestamps come from.
    #[must_use]
    pub fn timestamp_type(mut self, timestamp_type: TimestampType) -> Self {
        self.timestamp_type = timestamp_type;
        self
    }

    /// Sets the level of gzip (0 to 9, default 6) or zstd (default 3); the others have none. A
    /// level out of the codec's range is taken to its nearest end.
    #[must_use]
    pub fn level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// The number of records so far.
    #[must_use]
    pub fn record_count(&self) -> u32 {
        self.count.unsigned_abs()
    }

    /// The size of the batch so far, before compression. Unit: bytes, the header included.
    #[must_use]
    pub fn len_estimate(&self) -> usize {
        self.bytes.len()
    }

    /// Adds a record behind the others. `timestamp` is in milliseconds since the Unix epoch, -1 for
    /// none.
    ///
    /// # Errors
    ///
    /// [`BuildError::TooLarge`] if the batch would pass 2^31 - 1 bytes. Nothing is added then.
    pub fn push(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&str, Option<&[u8]>)],
    ) -> Result<(), BuildError> {
        let base = if self.count == 0 {
            timestamp
        } else {
            self.base_timestamp
        };
        self.body.clear();
        self.body.push(0);
        put_varlong(&mut self.body, timestamp.wrapping_sub(base));
        put_varint(&mut self.body, self.count);
        put_delimited(&mut self.body, key)?;
        put_delimited(&mut self.body, value)?;
        put_varint(&mut self.body, length(headers.len())?);
        for (key, value) in headers {
            put_delimited(&mut self.body, Some(key.as_bytes()))?;
            put_delimited(&mut self.body, *value)?;
        }
        let body = length(self.body.len())?;
        length(
            self.bytes
                .len()
                .saturating_add(self.body.len())
                .saturating_add(5),
        )?;
        let count = self
            .count
            .checked_add(1)
            .ok_or(BuildError::TooLarge { bytes: u64::MAX })?;

        put_varint(&mut self.bytes, body);
        self.bytes.extend_from_slice(&self.body);
        self.max_timestamp = if self.count == 0 {
            timestamp
        } else {
            self.max_timestamp.max(timestamp)
        };
        self.base_timestamp = base;
        self.count = count;
        Ok(())
    }

    /// Compresses the records, writes the header and gives out the batch.
    ///
    /// # Errors
    ///
    /// [`BuildError::Empty`], [`BuildError::CodecUnavailable`], [`BuildError::Compress`];
    /// [`BuildError::BadOffset`] if the last offset would leave 63 bits.
    pub fn finish(self) -> Result<Vec<u8>, BuildError> {
        let last_delta = self
            .count
            .checked_sub(1)
            .filter(|d| *d >= 0)
            .ok_or(BuildError::Empty)?;
        if self
            .base_offset
            .checked_add(i64::from(last_delta))
            .is_none()
        {
            return Err(BuildError::BadOffset(self.base_offset));
        }
        let flag = |on: bool, bit: i16| if on { bit } else { 0 };
        let attributes = i16::from(self.codec.id())
            | flag(self.timestamp_type == TimestampType::LogAppendTime, 1 << 3)
            | flag(self.transactional, 1 << 4)
            | flag(self.control, 1 << 5);
        let mut bytes = self.bytes;
        if self.codec != Codec::None {
            let (front, records) = bytes.split_at(BATCH_HEADER_BYTES.min(bytes.len()));
            let mut out = front.to_vec();
            compression::compress(self.codec, self.level, records, &mut out)?;
            bytes = out;
        }
        let size = length(bytes.len().saturating_sub(LOG_OVERHEAD))?;

        let all = bytes.as_mut_slice();
        put(all, 0, self.base_offset.get().to_be_bytes());
        put(all, 8, size.to_be_bytes());
        put(all, 12, self.leader_epoch.to_be_bytes());
        put(all, 16, [2]);
        put(all, 21, attributes.to_be_bytes());
        put(all, 23, last_delta.to_be_bytes());
        put(all, 27, self.base_timestamp.to_be_bytes());
        put(all, 35, self.max_timestamp.to_be_bytes());
        put(all, 43, self.producer_id.to_be_bytes());
        put(all, 51, self.producer_epoch.to_be_bytes());
        put(all, 53, self.base_sequence.to_be_bytes());
        put(all, 57, self.count.to_be_bytes());
        let crc = crc32c(all.get(CRC_FROM..).unwrap_or_default());
        put(all, 17, crc.to_be_bytes());
        Ok(bytes)
    }
}

fn put_delimited(out: &mut Vec<u8>, bytes: Option<&[u8]>) -> Result<(), BuildError> {
    match bytes {
        Some(bytes) => {
            put_varint(out, length(bytes.len())?);
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
    Ok(())
}

fn length(bytes: usize) -> Result<i32, BuildError> {
    i32::try_from(bytes).map_err(|_| BuildError::TooLarge { bytes: wide(bytes) })
}

/// Why a batch cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// It holds no record.
    Empty,
    /// It would pass 2^31 - 1 bytes.
    TooLarge {
        /// What it would take. Unit: bytes.
        bytes: u64,
    },
    /// A codec that this build leaves out.
    CodecUnavailable(Codec),
    /// The codec failed, for want of memory.
    Compress(Codec),
    /// The last record's offset would leave 63 bits.
    BadOffset(Offset),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("a batch without records"),
            Self::TooLarge { bytes } => write!(f, "a batch of {bytes} bytes is too large"),
            Self::CodecUnavailable(codec) => write!(f, "codec {codec} is left out of this build"),
            Self::Compress(codec) => write!(f, "{codec} could not compress"),
            Self::BadOffset(offset) => write!(f, "no room for the batch's offsets from {offset}"),
        }
    }
}

impl std::error::Error for BuildError {}
