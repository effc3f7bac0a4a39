//! The records of a batch, one after the other, borrowed from its bytes.
//!
//! Kafka: `DefaultRecord`. Everything is checked that Kafka's reader checks; offset deltas need not
//! rise.

use super::batch::BatchHeader;
use super::codec::{Codec, Magic, TimestampType};
use super::compression::Scratch;
use super::error::DecodeError;
use super::legacy;
use super::varint::Cursor;

/// One record, borrowed from its batch or from the scratch space it was decompressed into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'s> {
    /// Its place in the log.
    pub offset: i64,
    /// Milliseconds since the Unix epoch, -1 for none. In a batch with `LogAppendTime` the
    /// header's.
    pub timestamp: i64,
    /// The key, if it has one.
    pub key: Option<&'s [u8]>,
    /// The value; none is a tombstone in a compacted topic.
    pub value: Option<&'s [u8]>,
    /// The number of headers; 0 in versions 0 and 1.
    pub header_count: u32,
    pub(super) headers: &'s [u8],
}

impl<'s> Record<'s> {
    /// The headers in order; a key may come twice.
    #[must_use]
    pub fn headers(&self) -> Headers<'s> {
        Headers {
            left: self.header_count,
            cursor: Cursor::new(self.headers),
        }
    }
}

/// A header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header<'s> {
    /// The key as it stands. Kafka writes UTF-8 and checks nothing when it reads.
    pub key: &'s [u8],
    /// The value, if it has one.
    pub value: Option<&'s [u8]>,
}

/// The headers of a record. See [`Record::headers`].
#[derive(Clone, Debug)]
pub struct Headers<'s> {
    left: u32,
    cursor: Cursor<'s>,
}

impl<'s> Iterator for Headers<'s> {
    type Item = Result<Header<'s>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let header = header(&mut self.cursor);
        if header.is_err() {
            self.left = 0;
        }
        Some(header)
    }
}

fn header<'s>(cursor: &mut Cursor<'s>) -> Result<Header<'s>, DecodeError> {
    let key = cursor
        .delimited()?
        .ok_or(DecodeError::BadRecord("a header has no key"))?;
    Ok(Header {
        key,
        value: cursor.delimited()?,
    })
}

/// The records of a batch. See [`Batch::records`](super::Batch::records).
///
/// Ends after the first error.
#[derive(Clone, Debug)]
pub struct Records<'s>(Form<'s>);

#[derive(Clone, Debug)]
enum Form<'s> {
    V2(V2Records<'s>),
    Legacy(legacy::LegacyRecords<'s>),
}

impl<'s> Records<'s> {
    pub(super) fn of(
        header: &BatchHeader,
        payload: &'s [u8],
        scratch: &'s mut Scratch,
    ) -> Result<Self, DecodeError> {
        if header.magic != Magic::V2 {
            return legacy::LegacyRecords::of(header, payload, scratch)
                .map(|r| Self(Form::Legacy(r)));
        }
        V2Records::of(header, payload, scratch).map(|r| Self(Form::V2(r)))
    }
}

impl<'s> Iterator for Records<'s> {
    type Item = Result<Record<'s>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Form::V2(records) => records.next(),
            Form::Legacy(records) => records.next(),
        }
    }
}

impl std::iter::FusedIterator for Records<'_> {}

/// The records of a version 2 batch.
#[derive(Clone, Debug)]
pub(super) struct V2Records<'s> {
    cursor: Cursor<'s>,
    count: i32,
    found: i32,
    base_offset: i64,
    base_timestamp: i64,
    append_time: Option<i64>,
}

impl<'s> V2Records<'s> {
    pub(super) fn of(
        header: &BatchHeader,
        payload: &'s [u8],
        scratch: &'s mut Scratch,
    ) -> Result<Self, DecodeError> {
        if header.record_count < 0 {
            return Err(DecodeError::RecordCount {
                header: header.record_count,
                found: 0,
            });
        }
        // Compaction leaves a header alone, and no codec makes sense of no bytes.
        let payload = match header.codec()? {
            Codec::None => payload,
            _ if header.record_count == 0 && payload.is_empty() => payload,
            codec @ (Codec::Gzip | Codec::Snappy | Codec::Lz4 | Codec::Zstd) => {
                scratch.decompress(codec, header.magic, payload)?
            }
        };
        let append_time = match header.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(header.max_timestamp),
        };
        Ok(Self {
            cursor: Cursor::new(payload),
            count: header.record_count,
            found: 0,
            base_offset: header.base_offset,
            base_timestamp: header.base_timestamp,
            append_time,
        })
    }

    /// Reads one record through `read`, or tells that the announced number is reached. The flag of
    /// the answer is false once nothing more may be read.
    #[inline]
    fn step<T>(
        &mut self,
        read: impl FnOnce(&mut Cursor<'s>) -> Result<T, DecodeError>,
    ) -> Option<Result<T, DecodeError>> {
        if self.found >= self.count {
            // An emptied batch holds nothing; a longer payload showed after its last record.
            return None;
        }
        if self.cursor.is_empty() {
            let found = self.found;
            self.found = self.count;
            return Some(Err(DecodeError::RecordCount {
                header: self.count,
                found,
            }));
        }
        let item = read(&mut self.cursor);
        self.found = self.found.saturating_add(1);
        if item.is_err() {
            self.found = self.count;
        } else if self.found == self.count && !self.cursor.is_empty() {
            return Some(Err(DecodeError::RecordCount {
                header: self.count,
                found: self.count,
            }));
        }
        Some(item)
    }

    /// Shows each record's fields but its key, value and headers, with its timestamp. Unless
    /// `exact`, as Kafka's partial reader does: a record's own length is not compared with what its
    /// fields take.
    #[inline]
    pub(super) fn outlines(
        self,
        exact: bool,
        mut visit: impl FnMut(Outline, i64),
    ) -> Result<(), DecodeError> {
        let mut cursor = self.cursor;
        for found in 0..self.count {
            if cursor.is_empty() {
                return Err(DecodeError::RecordCount {
                    header: self.count,
                    found,
                });
            }
            let outline = outline(&mut cursor, exact)?;
            visit(outline, self.timestamp(outline.timestamp_delta));
        }
        if cursor.is_empty() {
            return Ok(());
        }
        Err(DecodeError::RecordCount {
            header: self.count,
            found: self.count,
        })
    }

    /// The bytes of the records that were not read.
    pub(super) fn rest(&self) -> &'s [u8] {
        self.cursor.rest()
    }

    /// The number of records that the header names.
    pub(super) fn count(&self) -> i32 {
        self.count
    }

    /// The timestamp of a record with this delta; `None` if Kafka's addition wraps.
    pub(super) fn exact_timestamp(&self, delta: i64) -> Option<i64> {
        match self.append_time {
            Some(append_time) => Some(append_time),
            None => self.base_timestamp.checked_add(delta),
        }
    }

    /// The timestamp of a record with this delta.
    #[inline]
    fn timestamp(&self, delta: i64) -> i64 {
        // Kafka's addition wraps.
        self.append_time
            .unwrap_or_else(|| self.base_timestamp.wrapping_add(delta))
    }
}

impl<'s> Iterator for V2Records<'s> {
    type Item = Result<Record<'s>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let (base_offset, base_timestamp, append_time) =
            (self.base_offset, self.base_timestamp, self.append_time);
        self.step(|cursor| {
            let length = cursor.varint()?;
            let length = usize::try_from(length).map_err(|_| BAD_SIZE)?;
            let mut body = Cursor::new(cursor.take(length)?);
            let _attributes = body.byte()?;
            let timestamp_delta = body.varlong()?;
            let offset_delta = body.varint()?;
            let key = body.delimited()?;
            let value = body.delimited()?;
            let header_count = header_count(&mut body)?;
            let headers = body.rest();
            for _ in 0..header_count {
                header(&mut body)?;
            }
            if !body.is_empty() {
                return Err(BAD_SIZE);
            }
            Ok(Record {
                offset: base_offset.wrapping_add(i64::from(offset_delta)),
                timestamp: append_time
                    .unwrap_or_else(|| base_timestamp.wrapping_add(timestamp_delta)),
                key,
                value,
                header_count,
                headers,
            })
        })
    }
}

const BAD_SIZE: DecodeError = DecodeError::BadRecord("its length is not that of its fields");

fn header_count(cursor: &mut Cursor<'_>) -> Result<u32, DecodeError> {
    let count = cursor.varint()?;
    // Each header takes two bytes at least, which bounds every walk over them.
    let fits = usize::try_from(count).is_ok_and(|count| count <= cursor.rest().len());
    if fits {
        Ok(count.unsigned_abs())
    } else {
        Err(DecodeError::BadRecord("bad number of headers"))
    }
}

/// What validation needs of a record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outline {
    pub(super) timestamp_delta: i64,
    pub(super) offset_delta: i32,
    pub(super) has_key: bool,
}

#[inline]
pub(super) fn outline(cursor: &mut Cursor<'_>, exact: bool) -> Result<Outline, DecodeError> {
    let length = cursor.varint()?;
    let before = cursor.rest().len();
    let _attributes = cursor.byte()?;
    let timestamp_delta = cursor.varlong()?;
    let offset_delta = cursor.varint()?;
    let has_key = cursor.delimited()?.is_some();
    cursor.delimited()?;
    for _ in 0..header_count(cursor)? {
        header(cursor)?;
    }
    let taken = before.saturating_sub(cursor.rest().len());
    if length < 0 || (exact && usize::try_from(length) != Ok(taken)) {
        return Err(BAD_SIZE);
    }
    Ok(Outline {
        timestamp_delta,
        offset_delta,
        has_key,
    })
}
