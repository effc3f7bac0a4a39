//! The walk over the records of an uncompressed version 2 batch that every append pays for.
//!
//! Nearly all records have numbers of one or two bytes and no headers. Those are read here, in few
//! instructions; any other is handed to the reader that knows all forms and says what is wrong.

use super::error::DecodeError;
use super::record::{Outline, V2Records, outline};
use super::varint::{Cursor, unzigzag};

/// What validation needs to know of all records together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sweep {
    /// The least timestamp delta. Unit: milliseconds.
    pub(super) least_delta: i64,
    /// The largest timestamp delta. Unit: milliseconds.
    pub(super) largest_delta: i64,
    /// Whether a record has no key.
    pub(super) keyless: bool,
}

/// Walks the records in `rest`, which must be `count` and nothing else; checks all that Kafka's
/// reader checks.
pub(super) fn sweep(payload: &[u8], count: i32) -> Result<Sweep, DecodeError> {
    let mut rest = payload;
    let mut sweep = Sweep {
        least_delta: i64::MAX,
        largest_delta: i64::MIN,
        keyless: false,
    };
    for found in 0..count {
        let (delta, keyless, behind) = match quick(rest) {
            Some((delta, keyless, behind)) => (i64::from(delta), keyless, behind),
            None if rest.is_empty() => {
                return Err(DecodeError::RecordCount {
                    header: count,
                    found,
                });
            }
            None => thorough(rest)?,
        };
        sweep.least_delta = sweep.least_delta.min(delta);
        sweep.largest_delta = sweep.largest_delta.max(delta);
        sweep.keyless |= keyless;
        rest = behind;
    }
    if rest.is_empty() {
        return Ok(sweep);
    }
    Err(DecodeError::RecordCount {
        header: count,
        found: count,
    })
}

/// Any record in front: its timestamp delta, whether it has no key, and what stands behind it.
#[cold]
#[inline(never)]
fn thorough(rest: &[u8]) -> Result<(i64, bool, &[u8]), DecodeError> {
    let mut cursor = Cursor::new(rest);
    let Outline {
        timestamp_delta,
        has_key,
        ..
    } = outline(&mut cursor, true)?;
    Ok((timestamp_delta, !has_key, cursor.rest()))
}

/// As [`thorough`], for a sound record with short numbers, a short key or none, a value and no
/// headers; `None` for any other.
///
/// Where the next record begins follows from the length field alone, so that a processor works on
/// several records at a time; the fields are compared with it. Which numbers take two bytes hardly
/// ever changes from one record to the next, so that branches on it cost nothing.
#[expect(
    clippy::inline_always,
    reason = "handed back through memory, the places would wait for one another"
)]
#[inline(always)]
fn quick(rest: &[u8]) -> Option<(i32, bool, &[u8])> {
    let (&[first, second], behind_two) = rest.split_first_chunk()?;
    let (length, fields) = if first < 0x80 {
        (u32::from(first), rest.get(1..)?)
    } else {
        (two_bytes(first, second)?, behind_two)
    };
    let (record, behind) = fields.split_at_checked(even_half(length)?)?;
    // The number of headers is the last byte. Behind the attributes, two bytes for each number are
    // there even if it takes one.
    let (&[_attributes, one, two, three, four, five], _) = record.split_first_chunk()?;
    // Offset deltas of an uncompressed batch are not looked at.
    let (timestamp_delta, key_length, key_at) = match (one < 0x80, two < 0x80) {
        (true, true) => (u32::from(one), three, 4),
        (true, false) if three < 0x80 => (u32::from(one), four, 5),
        (false, true) if three < 0x80 => (two_bytes(one, two)?, four, 5),
        (false, true) if four < 0x80 => (two_bytes(one, two)?, five, 6),
        _ => return None,
    };
    let keyless = key_length == 1;
    if key_length >= 0x80 || (key_length & 1 == 1 && !keyless) {
        return None;
    }
    let value_at = usize::from(key_length >> 1).wrapping_add(key_at);
    let (&[first, second], behind_two) = record.get(value_at..)?.split_first_chunk()?;
    // The value and the number of headers.
    let (value_length, left) = if first < 0x80 {
        (u32::from(first), behind_two.len().wrapping_add(1))
    } else {
        (two_bytes(first, second)?, behind_two.len())
    };
    if even_half(value_length)?.wrapping_add(1) != left || record.last() != Some(&0) {
        return None;
    }
    Some((unzigzag(timestamp_delta), keyless, behind))
}

/// A number of two bytes as it is stored; `None` for a longer one.
#[expect(clippy::inline_always, reason = "see quick")]
#[inline(always)]
fn two_bytes(first: u8, second: u8) -> Option<u32> {
    (second < 0x80).then_some(u32::from(first & 0x7f) | u32::from(second) << 7)
}

/// The length that a stored number stands for, unless it is negative.
#[inline]
fn even_half(stored: u32) -> Option<usize> {
    (stored & 1 == 0).then(|| usize::try_from(stored >> 1).ok())?
}

impl V2Records<'_> {
    /// See [`sweep`]. Only for a batch that is not compressed.
    pub(super) fn sweep(&self) -> Result<Sweep, DecodeError> {
        sweep(self.rest(), self.count())
    }
}
