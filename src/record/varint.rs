//! Variable-length integers: zigzag, then 7 bits a byte, the least first. Kafka: `ByteUtils`.
//!
//! The reader takes what Kafka's takes: over-long encodings, and fifth or tenth bytes whose upper
//! bits fall away. It refuses a sixth or an eleventh byte.

use super::error::DecodeError;

const ENDED: DecodeError = DecodeError::BadRecord("it ends inside a field");
const TOO_LONG: DecodeError = DecodeError::BadRecord("a varint is too long");

/// A reader over a byte slice that remembers what is left.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) const fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    #[inline]
    pub(crate) fn byte(&mut self) -> Result<u8, DecodeError> {
        let (&first, rest) = self.rest.split_first().ok_or(ENDED)?;
        self.rest = rest;
        Ok(first)
    }

    /// The next `count` bytes.
    #[inline]
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], DecodeError> {
        let (front, rest) = self.rest.split_at_checked(count).ok_or(ENDED)?;
        self.rest = rest;
        Ok(front)
    }

    #[cfg(feature = "legacy")]
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let (front, rest) = self.rest.split_first_chunk::<N>().ok_or(ENDED)?;
        self.rest = rest;
        Ok(*front)
    }

    /// One and two bytes, which nearly all numbers take, are read in line.
    #[inline]
    pub(crate) fn varint(&mut self) -> Result<i32, DecodeError> {
        match *self.rest {
            [low, ref rest @ ..] if low < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(u32::from(low)))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.rest = rest;
                Ok(unzigzag(u32::from(low & 0x7f) | u32::from(high) << 7))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<i32, DecodeError> {
        let mut value = 0;
        for shift in [0_u32, 7, 14, 21, 28] {
            let byte = self.byte()?;
            value |= u32::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(unzigzag(value));
            }
        }
        Err(TOO_LONG)
    }

    #[inline]
    pub(crate) fn varlong(&mut self) -> Result<i64, DecodeError> {
        match *self.rest {
            [low, ref rest @ ..] if low < 0x80 => {
                self.rest = rest;
                Ok(unzigzag_long(u64::from(low)))
            }
            [low, high, ref rest @ ..] if high < 0x80 => {
                self.rest = rest;
                Ok(unzigzag_long(u64::from(low & 0x7f) | u64::from(high) << 7))
            }
            _ => self.long_varlong(),
        }
    }

    fn long_varlong(&mut self) -> Result<i64, DecodeError> {
        let mut value = 0;
        for shift in [0_u32, 7, 14, 21, 28, 35, 42, 49, 56, 63] {
            let byte = self.byte()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(unzigzag_long(value));
            }
        }
        Err(TOO_LONG)
    }

    /// A length and that many bytes; `None` for a negative length.
    #[inline]
    pub(crate) fn delimited(&mut self) -> Result<Option<&'a [u8]>, DecodeError> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }
}

#[inline]
pub(super) const fn unzigzag(value: u32) -> i32 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

#[inline]
const fn unzigzag_long(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ (value & 1).cast_signed().wrapping_neg()
}

/// Appends a 32-bit number, 1 to 5 bytes.
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_unsigned(
        out,
        u64::from(((value << 1) ^ (value >> 31)).cast_unsigned()),
    );
}

/// Appends a 64-bit number, 1 to 10 bytes.
pub(crate) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    put_unsigned(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

fn put_unsigned(out: &mut Vec<u8>, mut value: u64) {
    // Bounded: each turn takes 7 of 64 bits.
    loop {
        let [.., last] = value.to_be_bytes();
        let low = last & 0x7f;
        value >>= 7;
        if value == 0 {
            out.push(low);
            return;
        }
        out.push(low | 0x80);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_kafkas_encoding() {
        let vectors: [(i32, &[u8]); 12] = [
            (0, &[0]),
            (-1, &[1]),
            (1, &[2]),
            (-2, &[3]),
            (63, &[0x7e]),
            (-64, &[0x7f]),
            (64, &[0x80, 1]),
            (8191, &[0xfe, 0x7f]),
            (-8192, &[0xff, 0x7f]),
            (8192, &[0x80, 0x80, 1]),
            (i32::MAX, &[0xfe, 0xff, 0xff, 0xff, 0x0f]),
            (i32::MIN, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        ];

        for (value, bytes) in vectors {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            assert_eq!(out, bytes);
            assert_eq!(Cursor::new(bytes).varint(), Ok(value));
            assert_eq!(Cursor::new(bytes).varlong(), Ok(i64::from(value)));
        }
    }

    #[test]
    fn long_numbers_come_back() {
        for value in [0, 1, -1, i64::MAX, i64::MIN, 1 << 40, -(1 << 56)] {
            let mut out = Vec::new();
            put_varlong(&mut out, value);
            assert_eq!(Cursor::new(&out).varlong(), Ok(value));
        }
    }

    #[test]
    fn over_long_is_taken_and_endless_is_not() {
        assert_eq!(Cursor::new(&[0x80, 0]).varint(), Ok(0));
        assert_eq!(Cursor::new(&[0x82, 0x80, 0x80, 0x80, 0x70]).varint(), Ok(1));
        assert_eq!(Cursor::new(&[0x80; 6]).varint(), Err(TOO_LONG));
        assert_eq!(Cursor::new(&[0x80; 12]).varlong(), Err(TOO_LONG));
        assert_eq!(Cursor::new(&[0x80; 3]).varint(), Err(ENDED));
        assert_eq!(Cursor::new(&[]).varlong(), Err(ENDED));
    }
}
