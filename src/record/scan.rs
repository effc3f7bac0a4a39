//! Walking over entries that stand one behind the other. Kafka: `ByteBufferLogInputStream`.

use super::batch::{Batch, BatchHeader, LOG_OVERHEAD};
use super::codec::Magic;
use super::error::DecodeError;

/// The entries of a byte slice in order.
///
/// Ends after the first error, since nothing behind a damaged or torn entry can be found. Only
/// headers are looked at: ask [`Batch::verify`] for the checksum.
#[derive(Clone, Debug)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    ended: bool,
}

impl<'a> Batches<'a> {
    /// Starts at the front of `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            position: 0,
            ended: false,
        }
    }

    /// Where the next entry begins, or the one that could not be read. Unit: bytes from the front.
    #[must_use]
    pub const fn position(&self) -> usize {
        self.position
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = self.bytes.get(self.position..)?;
        if self.ended || rest.is_empty() {
            return None;
        }
        let batch = Batch::parse(rest);
        match &batch {
            Ok(batch) => self.position = self.position.saturating_add(batch.bytes().len()),
            Err(_) => self.ended = true,
        }
        Some(batch)
    }
}

impl std::iter::FusedIterator for Batches<'_> {}

/// The header of the entry at the front of `bytes`, once all of its bytes are there. Offsets in it
/// are not checked.
pub(super) fn whole_header(bytes: &[u8]) -> Result<Option<BatchHeader>, DecodeError> {
    // The size is looked at as soon as it is there, the version five bytes later.
    let size = bytes
        .first_chunk::<LOG_OVERHEAD>()
        .and_then(|front| front.last_chunk::<4>());
    let Some(length) = size.map(|size| i32::from_be_bytes(*size)) else {
        return Ok(None);
    };
    if length < 14 {
        return Err(DecodeError::BadLength(length));
    }
    let Some(magic) = bytes.get(16).map(|magic| magic.cast_signed()) else {
        return Ok(None);
    };
    if Magic::new(magic).is_none() {
        return Err(DecodeError::BadMagic(magic));
    }
    let needed = length.unsigned_abs().saturating_add(12);
    if usize::try_from(needed).is_ok_and(|needed| needed <= bytes.len()) {
        BatchHeader::parse_unchecked_offsets(bytes).map(Some)
    } else {
        Ok(None)
    }
}
