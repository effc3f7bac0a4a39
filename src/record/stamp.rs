//! What a leader writes into a batch that it takes: base offset, leader epoch and, if told to,
//! timestamps.
//!
//! Kafka: `DefaultRecordBatch.setLastOffset`, `setPartitionLeaderEpoch`, `setMaxTimestamp`.

use super::batch::{BatchHeader, CRC_FROM};
use super::codec::{Magic, TimestampType};
use super::crc::crc32c;
use super::error::DecodeError;
use crate::types::{LeaderEpoch, Offset};

/// Writes base offset and leader epoch into a version 2 batch. Both lie outside its checksum.
///
/// # Errors
///
/// As [`BatchHeader::parse`], [`DecodeError::CannotStamp`] for versions 0 and 1,
/// [`DecodeError::BadOffset`] if the last offset would leave 63 bits. Nothing is written then.
pub fn stamp(batch: &mut [u8], base_offset: Offset, epoch: LeaderEpoch) -> Result<(), DecodeError> {
    let header = version_2(batch)?;
    let delta = i64::from(header.last_offset_delta());
    if base_offset.checked_add(delta).is_none() {
        return Err(DecodeError::BadOffset(base_offset.get()));
    }
    put(batch, 0, base_offset.get().to_be_bytes());
    put(batch, 12, epoch.get().to_be_bytes());
    Ok(())
}

/// Writes timestamp type and largest timestamp into a version 2 batch and renews its checksum. Does
/// nothing if both stand there already, so that bits of the attributes that Kafka does not know
/// stay; otherwise they go, as they do in Kafka.
///
/// The base timestamp and the records keep theirs. `max_timestamp` is in milliseconds since the
/// Unix epoch. Costs a checksum over the batch.
///
/// # Errors
///
/// As [`stamp`], [`DecodeError::TooShort`] if the batch is not all there. Nothing is written then.
pub fn restamp_timestamps(
    batch: &mut [u8],
    kind: TimestampType,
    max_timestamp: i64,
) -> Result<(), DecodeError> {
    let header = version_2(batch)?;
    if header.timestamp_type() == kind && header.max_timestamp == max_timestamp {
        return Ok(());
    }
    let needed = u64::from(header.bytes);
    let found = super::batch::wide(batch.len());
    let whole = usize::try_from(header.bytes)
        .ok()
        .and_then(|length| batch.get_mut(..length));
    let batch = whole.ok_or(DecodeError::TooShort { needed, found })?;
    // Codec, transactional, control and delete horizon stay; bit 3 is the timestamp type.
    let append_time = match kind {
        TimestampType::CreateTime => 0,
        TimestampType::LogAppendTime => 0b1000,
    };
    let attributes = (header.attributes & 0b0111_0111) | append_time;
    put(batch, 21, attributes.to_be_bytes());
    put(batch, 35, max_timestamp.to_be_bytes());
    let crc = crc32c(batch.get(CRC_FROM..).unwrap_or_default());
    put(batch, 17, crc.to_be_bytes());
    Ok(())
}

fn version_2(batch: &[u8]) -> Result<BatchHeader, DecodeError> {
    let header = BatchHeader::parse(batch)?;
    if header.magic == Magic::V2 {
        Ok(header)
    } else {
        Err(DecodeError::CannotStamp(header.magic))
    }
}

/// Writes a field of a header that was parsed, so that it is there.
pub(super) fn put<const N: usize>(batch: &mut [u8], at: usize, field: [u8; N]) {
    if let Some(place) = batch
        .get_mut(at..)
        .and_then(|rest| rest.first_chunk_mut::<N>())
    {
        *place = field;
    }
}
