//! Message sets: entries of versions 0 and 1, read only.
//!
//! Kafka: `AbstractLegacyRecordBatch`, `LegacyRecord`. An entry is one message, or, compressed, a
//! wrapper whose value is a message set of its own:
//!
//! ```text
//!      wrapper   its offset   offset of an inner message          timestamps of the inner messages
//!   A  v0        any          as it stands (absolute)             none
//!   B  v1        0            as it stands (old librdkafka)       as in D, E
//!   C  v1        above 0      wrapper - last inner + inner        as in D, E
//!   D  v1, CreateTime                                             each its own
//!   E  v1, LogAppendTime                                          the wrapper's
//! ```

use super::batch::BatchHeader;
use super::codec::{Codec, Magic, TimestampType};
use super::compression::Scratch;
use super::crc::crc32_ieee;
use super::error::DecodeError;
use super::record::Record;
use super::varint::Cursor;

/// The records of a version 0 or 1 entry.
#[derive(Clone, Debug)]
pub(super) struct LegacyRecords<'s> {
    /// The message of an entry that is not compressed.
    single: Option<Record<'s>>,
    inner: Entries<'s>,
    /// What is added to the offset of an inner message.
    base: i64,
    append_time: Option<i64>,
}

impl<'s> LegacyRecords<'s> {
    pub(super) fn of(
        header: &BatchHeader,
        payload: &'s [u8],
        scratch: &'s mut Scratch,
    ) -> Result<Self, DecodeError> {
        let mut fields = Cursor::new(payload);
        let key = delimited(&mut fields)?;
        let value = delimited(&mut fields)?;
        let codec = header.codec()?;
        if codec == Codec::None {
            let (offset, timestamp) = (header.base_offset, header.max_timestamp);
            let single = Record {
                offset,
                timestamp,
                key,
                value,
                header_count: 0,
                headers: &[],
            };
            let inner = Entries {
                cursor: Cursor::new(&[]),
            };
            return Ok(Self {
                single: Some(single),
                inner,
                base: 0,
                append_time: None,
            });
        }
        let inner = Entries {
            cursor: Cursor::new(unwrapped(codec, header.magic, value, scratch)?),
        };

        let mut last = None;
        for entry in inner.clone() {
            last = Some(entry?.offset);
        }
        let last = last.ok_or(DecodeError::BadRecord("a compressed message holds none"))?;
        let base = match header.magic {
            Magic::V1 if header.last_offset != 0 => {
                if last > header.last_offset {
                    return Err(DecodeError::BadOffset(header.last_offset));
                }
                header.last_offset.wrapping_sub(last)
            }
            Magic::V0 | Magic::V1 | Magic::V2 => 0,
        };
        let append_time = match header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(header.max_timestamp),
        };
        Ok(Self {
            single: None,
            inner,
            base,
            append_time,
        })
    }

    pub(super) fn next(&mut self) -> Option<Result<Record<'s>, DecodeError>> {
        if let Some(single) = self.single.take() {
            return Some(Ok(single));
        }
        let record = self.inner.next()?.and_then(|entry| entry.record());
        Some(match record {
            Ok(record) => Ok(Record {
                offset: self.base.wrapping_add(record.offset),
                timestamp: self.append_time.unwrap_or(record.timestamp),
                ..record
            }),
            Err(error) => {
                self.inner.end();
                Err(error)
            }
        })
    }
}

/// Checks the checksum of each message inside a compressed one.
pub(super) fn verify_inner(
    header: &BatchHeader,
    payload: &[u8],
    scratch: &mut Scratch,
) -> Result<(), DecodeError> {
    let mut fields = Cursor::new(payload);
    delimited(&mut fields)?;
    let value = delimited(&mut fields)?;
    let messages = unwrapped(header.codec()?, header.magic, value, scratch)?;
    for entry in (Entries {
        cursor: Cursor::new(messages),
    }) {
        entry?.verify()?;
    }
    Ok(())
}

fn unwrapped<'s>(
    codec: Codec,
    magic: Magic,
    value: Option<&'s [u8]>,
    scratch: &'s mut Scratch,
) -> Result<&'s [u8], DecodeError> {
    if codec == Codec::Zstd {
        return Err(DecodeError::BadRecord("zstd in a version below 2"));
    }
    let value = value.ok_or(DecodeError::BadRecord(
        "a compressed message without a value",
    ))?;
    scratch.decompress(codec, magic, value)
}

/// The entries of a decompressed message set. As in Kafka a torn last one is passed over.
#[derive(Clone, Debug)]
struct Entries<'s> {
    cursor: Cursor<'s>,
}

impl Entries<'_> {
    fn end(&mut self) {
        self.cursor = Cursor::new(&[]);
    }
}

impl<'s> Iterator for Entries<'s> {
    type Item = Result<Entry<'s>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let offset = i64::from_be_bytes(self.cursor.array().ok()?);
        let size = i32::from_be_bytes(self.cursor.array().ok()?);
        if size < 14 {
            self.end();
            return Some(Err(DecodeError::BadLength(size)));
        }
        let message = self.cursor.take(usize::try_from(size).ok()?).ok()?;
        Some(Ok(Entry { offset, message }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Entry<'s> {
    offset: i64,
    /// From the checksum on, 14 bytes at least.
    message: &'s [u8],
}

impl<'s> Entry<'s> {
    fn verify(&self) -> Result<(), DecodeError> {
        let (stored, covered) = self
            .message
            .split_first_chunk::<4>()
            .unwrap_or((&[0; 4], &[]));
        let (stored, computed) = (u32::from_be_bytes(*stored), crc32_ieee(covered));
        if stored == computed {
            Ok(())
        } else {
            Err(DecodeError::BadCrc { stored, computed })
        }
    }

    fn record(&self) -> Result<Record<'s>, DecodeError> {
        let mut fields = Cursor::new(self.message);
        fields.take(4)?;
        let magic = fields.byte()?.cast_signed();
        let attributes = fields.byte()?;
        let timestamp = match magic {
            0 => -1,
            1 => i64::from_be_bytes(fields.array()?),
            other => return Err(DecodeError::BadMagic(other)),
        };
        if attributes & 0b111 != 0 {
            return Err(DecodeError::BadRecord(
                "compressed inside a compressed message",
            ));
        }
        let key = delimited(&mut fields)?;
        let value = delimited(&mut fields)?;
        let offset = self.offset;
        Ok(Record {
            offset,
            timestamp,
            key,
            value,
            header_count: 0,
            headers: &[],
        })
    }
}

/// A 32-bit length and that many bytes; `None` for a negative length.
fn delimited<'s>(fields: &mut Cursor<'s>) -> Result<Option<&'s [u8]>, DecodeError> {
    match usize::try_from(i32::from_be_bytes(fields.array()?)) {
        Ok(length) => fields.take(length).map(Some),
        Err(_) => Ok(None),
    }
}
