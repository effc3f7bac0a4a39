//! What a leader takes from a client. Kafka: `UnifiedLog.analyzeAndValidateRecords`, then
//! `LogValidator`, with `compression.type=producer`.
//!
//! The checks in their order; the first that fails decides. "All" means every whole batch in the
//! append.
//!
//! ```text
//!   A  all     size field too small for the header, or a version above 2       CorruptRecord
//!   B  all     version 2 and a base offset other than 0                        InvalidRecord
//!   C  all     larger than max.message.bytes                                   RecordTooLarge
//!   D  all     the checksum is wrong                                           CorruptRecord
//!   E  all     codec above 4, or left out of this build                       
//!   UnsupportedCompression F          a version 0 or 1 batch (ours: Kafka's log converts it)      
//!      UnsupportedMagic G          a second batch                                                 
//!      InvalidRecord H          last offset delta below 0, no record, or the two disagree      
//!      InvalidRecord I          a control batch; a producer without a sequence                 
//!      InvalidRecord J          a payload that does not decompress or whose records are bad    
//!      InvalidRecord K          any timestamp out of bounds, or flagged LogAppendTime          
//!      InvalidTimestamp L          a record without a key in a compacted topic                    
//!      InvalidRecord M          a compressed batch whose offset deltas are not 0, 1, 2 ..      
//!      InvalidRecord ```
//!
//! As in Kafka, offset deltas of an uncompressed batch are not looked at, of a compressed batch
//! only what precedes the values is compared with anything, and a wrong largest timestamp is
//! mended. Kafka would compress M again with right deltas; it then fails on the fields that it did
//! not decode.

use std::fmt;

use super::batch::{Batch, BatchHeader};
use super::codec::{Codec, Magic, TimestampType};
use super::compression::Scratch;
use super::error::DecodeError;
use super::record::V2Records;
use super::scan::whole_header;
use super::stamp::{restamp_timestamps, stamp};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// The settings of a topic that decide over an append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendRules {
    /// The largest batch, header included. Kafka: `max.message.bytes`. Unit: bytes.
    pub max_message_bytes: u32,
    /// Whose clock counts. Kafka: `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// How far a record's timestamp may lie in the past. Kafka: `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// How far it may lie in the future. Kafka: `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// Whether every record needs a key. Kafka: `cleanup.policy` with `compact`.
    pub compacted: bool,
}

impl Default for AppendRules {
    /// Kafka's defaults: 1048588 bytes, `CreateTime`, any past, one hour of future, not compacted.
    fn default() -> Self {
        Self {
            max_message_bytes: 1_048_588,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            compacted: false,
        }
    }
}

/// Why a leader refuses an append. See the table at the top of `validate.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidAppend {
    /// Damaged on its way. Send it again.
    CorruptRecord(DecodeError),
    /// Against the rules of the format or the topic. Do not send it again.
    InvalidRecord(&'static str),
    /// A record whose bytes do not decode. Do not send it again.
    UndecodableRecord(DecodeError),
    /// A timestamp out of the topic's bounds, or a batch flagged `LogAppendTime` where it may not
    /// be.
    InvalidTimestamp {
        /// The record's place in the batch, from 0.
        record: u32,
        /// Its timestamp. Unit: milliseconds since the Unix epoch.
        timestamp: i64,
    },
    /// Larger than a batch may be, or than the scratch space when decompressed.
    RecordTooLarge {
        /// Its size, or how far it was decompressed. Unit: bytes.
        bytes: u64,
        /// The largest. Unit: bytes.
        limit: u64,
    },
    /// A codec that does not exist or that this build leaves out.
    UnsupportedCompression(DecodeError),
    /// A version 0 or 1 batch: only version 2 is written.
    UnsupportedMagic(Magic),
}

impl fmt::Display for InvalidAppend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CorruptRecord(source)
            | Self::UndecodableRecord(source)
            | Self::UnsupportedCompression(source) => source.fmt(f),
            Self::InvalidRecord(why) => f.write_str(why),
            Self::InvalidTimestamp { record, timestamp } => {
                write!(f, "timestamp {timestamp} of record {record} is not allowed")
            }
            Self::RecordTooLarge { bytes, limit } => {
                write!(f, "a batch of {bytes} bytes is larger than {limit}")
            }
            Self::UnsupportedMagic(magic) => write!(f, "version {magic} is not written, only 2"),
        }
    }
}

impl std::error::Error for InvalidAppend {}

/// An append that a leader takes, and what it writes into it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValidatedAppend {
    /// The size of the one batch that is taken. What stands behind it is a torn batch and is
    /// dropped.
    pub bytes: usize,
    /// The number of its records, 1 or more.
    pub record_count: u32,
    /// How many offsets its last record lies behind its first: `record_count` - 1.
    pub last_offset_delta: i32,
    /// The largest timestamp: of the records with `CreateTime`, -1 if none has one; else that of
    /// the validation.
    pub max_timestamp: i64,
    /// Whose clock the timestamps come from once it is stamped.
    pub timestamp_type: TimestampType,
    /// Whether the header holds another type or largest timestamp, so that stamping costs a
    /// checksum.
    pub needs_timestamp_restamp: bool,
    /// The header as the client sent it.
    pub header: BatchHeader,
}

/// Decides whether a leader takes `bytes` from a client, by the table at the top of `validate.rs`.
///
/// `None` if there is not one whole batch in it: an append that does nothing and is no error. `now`
/// is the time of the append. Costs one checksum over the bytes and one walk over the records,
/// decompressed in `scratch` if need be.
///
/// # Errors
///
/// The first check that fails.
pub fn validate_append(
    bytes: &[u8],
    rules: &AppendRules,
    now: Timestamp,
    scratch: &mut Scratch,
) -> Result<Option<ValidatedAppend>, InvalidAppend> {
    let Some((header, more)) = analyze(bytes, rules)? else {
        return Ok(None);
    };
    if more {
        return Err(InvalidAppend::InvalidRecord(
            "more than one batch in an append",
        ));
    }
    let record_count = check_header(&header)?;
    let batch = Batch::around(header, bytes).map_err(InvalidAppend::CorruptRecord)?;
    let largest = check_records(&batch, rules, now, scratch)?;

    let max_timestamp = match rules.timestamp_type {
        TimestampType::CreateTime => largest,
        TimestampType::LogAppendTime => now.millis(),
    };
    Ok(Some(ValidatedAppend {
        bytes: batch.bytes().len(),
        record_count,
        last_offset_delta: header.last_offset_delta(),
        max_timestamp,
        timestamp_type: rules.timestamp_type,
        needs_timestamp_restamp: header.timestamp_type() != rules.timestamp_type
            || header.max_timestamp != max_timestamp,
        header,
    }))
}

/// Writes offsets, epoch and, if need be, timestamps into an append that was validated. With
/// `LogAppendTime` its largest timestamp becomes `now`. What stands behind the batch is left alone.
///
/// # Panics
///
/// If `bytes` are not those that were validated, or if the offsets from `base_offset` leave 63
/// bits: the caller looks at [`ValidatedAppend::last_offset_delta`] first.
pub fn stamp_append(
    bytes: &mut [u8],
    validated: &ValidatedAppend,
    base_offset: Offset,
    epoch: LeaderEpoch,
    now: Timestamp,
) {
    let stamped = stamp(bytes, base_offset, epoch);
    assert!(
        stamped.is_ok(),
        "these bytes were not validated: {stamped:?}"
    );
    let max_timestamp = match validated.timestamp_type {
        TimestampType::CreateTime if !validated.needs_timestamp_restamp => return,
        TimestampType::CreateTime => validated.max_timestamp,
        TimestampType::LogAppendTime => now.millis(),
    };
    let stamped = restamp_timestamps(bytes, validated.timestamp_type, max_timestamp);
    assert!(
        stamped.is_ok(),
        "these bytes were not validated: {stamped:?}"
    );
}

/// Checks A to F over all whole batches: the first header, and whether there are more.
fn analyze(
    bytes: &[u8],
    rules: &AppendRules,
) -> Result<Option<(BatchHeader, bool)>, InvalidAppend> {
    let mut rest = bytes;
    let mut first = None;
    let mut more = false;
    let mut legacy = None;
    while let Some(header) = whole_header(rest).map_err(InvalidAppend::CorruptRecord)? {
        if header.magic == Magic::V2 && header.base_offset != 0 {
            return Err(InvalidAppend::InvalidRecord(
                "the base offset of an append is not 0",
            ));
        }
        if header.bytes > rules.max_message_bytes {
            let (bytes, limit) = (header.bytes.into(), rules.max_message_bytes.into());
            return Err(InvalidAppend::RecordTooLarge { bytes, limit });
        }
        let batch = Batch::around(header, rest).map_err(InvalidAppend::CorruptRecord)?;
        batch.verify().map_err(InvalidAppend::CorruptRecord)?;
        let codec = header
            .codec()
            .map_err(InvalidAppend::UnsupportedCompression)?;
        if !codec.is_available() {
            let source = DecodeError::CodecUnavailable(codec);
            return Err(InvalidAppend::UnsupportedCompression(source));
        }
        if header.magic != Magic::V2 {
            legacy = Some(header.magic);
        }
        more = first.is_some();
        first = first.or(Some(header));
        rest = rest.get(batch.bytes().len()..).unwrap_or_default();
    }
    match legacy {
        Some(magic) => Err(InvalidAppend::UnsupportedMagic(magic)),
        None => Ok(first.map(|first| (first, more))),
    }
}

/// Checks H and I: the number of records.
fn check_header(header: &BatchHeader) -> Result<u32, InvalidAppend> {
    let why = if header.last_offset < header.base_offset {
        "the last offset is below the base offset"
    } else if header.record_count <= 0 {
        "a batch without records"
    } else if header.last_offset_delta().checked_add(1) != Some(header.record_count) {
        "the number of records is not that of the offsets"
    } else if header.is_control() {
        "a control batch from a client"
    } else if header.has_producer_id() && header.base_sequence < 0 {
        "a producer without a sequence number"
    } else {
        return Ok(header.record_count.unsigned_abs());
    };
    Err(InvalidAppend::InvalidRecord(why))
}

/// Checks J to M: the largest timestamp, -1 if there is none.
fn check_records(
    batch: &Batch<'_>,
    rules: &AppendRules,
    now: Timestamp,
    scratch: &mut Scratch,
) -> Result<i64, InvalidAppend> {
    let header = batch.header();
    let compressed = header.codec().is_ok_and(|codec| codec != Codec::None);
    let flagged = header.timestamp_type() == TimestampType::LogAppendTime;
    let records = V2Records::of(header, batch.payload(), scratch).map_err(undecodable)?;
    if !compressed {
        let sweep = records.sweep().map_err(undecodable)?;
        let bounds = [sweep.least_delta, sweep.largest_delta].map(|d| records.exact_timestamp(d));
        // What lies between two timestamps that are allowed is too, as long as nothing wraps.
        if let [Some(least), Some(largest)] = bounds
            && least >= 0
            && now.millis() >= 0
            && is_allowed(least, flagged, rules, now)
            && is_allowed(largest, flagged, rules, now)
            && !(rules.compacted && sweep.keyless)
        {
            return Ok(largest);
        }
    }
    let mut largest = -1;
    let mut index: u32 = 0;
    let mut bad_timestamp = None;
    let mut keyless = false;
    let mut in_order = true;
    let walked = records.outlines(!compressed, |record, timestamp| {
        largest = largest.max(timestamp);
        in_order &= u32::try_from(record.offset_delta) == Ok(index);
        if rules.compacted && !record.has_key {
            keyless = true;
        } else if bad_timestamp.is_none() && !is_allowed(timestamp, flagged, rules, now) {
            bad_timestamp = Some(InvalidAppend::InvalidTimestamp {
                record: index,
                timestamp,
            });
        }
        index = index.saturating_add(1);
    });
    walked.map_err(undecodable)?;
    if let Some(bad_timestamp) = bad_timestamp {
        return Err(bad_timestamp);
    }
    if keyless {
        return Err(InvalidAppend::InvalidRecord(
            "a record without a key in a compacted topic",
        ));
    }
    if compressed && !in_order {
        return Err(InvalidAppend::InvalidRecord(
            "offset deltas of a compressed batch are not 0, 1, 2",
        ));
    }
    Ok(largest)
}

/// Tells whether the topic takes a record with this timestamp.
///
/// ```text
///   topic           timestamp   batch flagged LogAppendTime   taken
///   CreateTime      not -1      _                             if it is within the bounds
///   CreateTime      -1          no                            yes
///   LogAppendTime   _           no                            yes
///   the other cases             yes                           no
/// ```
#[inline]
fn is_allowed(timestamp: i64, flagged: bool, rules: &AppendRules, now: Timestamp) -> bool {
    if rules.timestamp_type == TimestampType::CreateTime && timestamp != -1 {
        // Kafka's subtractions wrap.
        let age = now.millis().wrapping_sub(timestamp);
        return age <= rules.timestamp_before_max_ms
            && age.wrapping_neg() <= rules.timestamp_after_max_ms;
    }
    !flagged
}

fn undecodable(error: DecodeError) -> InvalidAppend {
    if let DecodeError::TooLarge { limit } = error {
        return InvalidAppend::RecordTooLarge {
            bytes: limit.saturating_add(1),
            limit,
        };
    }
    InvalidAppend::UndecodableRecord(error)
}
