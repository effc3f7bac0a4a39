//! The codecs, each behind its feature, their output bounded while it grows.

#[cfg(feature = "lz4")]
mod lz4;
#[cfg(feature = "snappy")]
mod snappy;
#[cfg(feature = "zstd")]
mod zstandard;

use std::fmt;
#[cfg(any(feature = "gzip", feature = "lz4", feature = "zstd"))]
use std::io::Read;

use super::batch::wide;
use super::builder::BuildError;
use super::codec::{Codec, Magic};
use super::error::DecodeError;

/// Memory for decompressed records, used again from batch to batch.
///
/// It grows to the largest payload seen and never much past its limit, however a payload lies about
/// its size. Default limit: 64 MiB, which no batch of Kafka's default `max.message.bytes` (1 MiB)
/// reaches at honest ratios.
pub struct Scratch {
    limit: usize,
    out: Vec<u8>,
    #[cfg(feature = "zstd")]
    zstd: zstandard::Context,
}

impl Scratch {
    /// Makes an empty one that holds `limit_bytes` of decompressed records at most.
    #[must_use]
    pub fn new(limit_bytes: usize) -> Self {
        Self {
            limit: limit_bytes,
            out: Vec::new(),
            #[cfg(feature = "zstd")]
            zstd: zstandard::Context::default(),
        }
    }

    /// The limit. Unit: bytes.
    #[must_use]
    pub const fn limit_bytes(&self) -> usize {
        self.limit
    }

    /// Decompresses a payload; what was in here before is gone.
    pub(super) fn decompress(
        &mut self,
        codec: Codec,
        magic: Magic,
        payload: &[u8],
    ) -> Result<&[u8], DecodeError> {
        self.out.clear();
        let out = Bounded {
            out: &mut self.out,
            limit: self.limit,
            codec,
        };
        match codec {
            Codec::None => return Err(DecodeError::Decompress(codec)),
            #[cfg(feature = "gzip")]
            Codec::Gzip => gunzip(payload, out)?,
            #[cfg(feature = "snappy")]
            Codec::Snappy => snappy::decompress(payload, out)?,
            #[cfg(feature = "lz4")]
            Codec::Lz4 => lz4::decompress(payload, magic, out)?,
            #[cfg(feature = "zstd")]
            Codec::Zstd => self.zstd.decompress(payload, out)?,
            #[cfg(not(feature = "gzip"))]
            Codec::Gzip => return Err(DecodeError::CodecUnavailable(codec)),
            #[cfg(not(feature = "snappy"))]
            Codec::Snappy => return Err(DecodeError::CodecUnavailable(codec)),
            #[cfg(not(feature = "lz4"))]
            Codec::Lz4 => return Err(DecodeError::CodecUnavailable(codec)),
            #[cfg(not(feature = "zstd"))]
            Codec::Zstd => return Err(DecodeError::CodecUnavailable(codec)),
        }
        Ok(&self.out)
    }
}

impl Default for Scratch {
    fn default() -> Self {
        Self::new(64 << 20)
    }
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let capacity = self.out.capacity();
        f.debug_struct("Scratch")
            .field("limit", &self.limit)
            .field("capacity", &capacity)
            .finish_non_exhaustive()
    }
}

/// Where a codec writes.
struct Bounded<'o> {
    out: &'o mut Vec<u8>,
    limit: usize,
    codec: Codec,
}

impl Bounded<'_> {
    /// Reads `from` to its end, or until one byte more came than may.
    #[cfg(any(feature = "gzip", feature = "lz4", feature = "zstd"))]
    fn fill(&mut self, from: impl Read) -> Result<(), DecodeError> {
        let most = wide(self.limit.saturating_sub(self.out.len())).saturating_add(1);
        from.take(most)
            .read_to_end(self.out)
            .map_err(|_| self.malformed())?;
        if self.out.len() > self.limit {
            Err(self.too_large())
        } else {
            Ok(())
        }
    }

    fn malformed(&self) -> DecodeError {
        DecodeError::Decompress(self.codec)
    }

    fn too_large(&self) -> DecodeError {
        DecodeError::TooLarge {
            limit: wide(self.limit),
        }
    }
}

/// Appends the compressed form of `records`. `level` as in
/// [`BatchBuilder::level`](super::BatchBuilder::level).
pub(super) fn compress(
    codec: Codec,
    level: Option<i32>,
    records: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), BuildError> {
    let done = match codec {
        Codec::None => {
            out.extend_from_slice(records);
            Some(())
        }
        #[cfg(feature = "gzip")]
        Codec::Gzip => gzip(level, records, out),
        #[cfg(feature = "snappy")]
        Codec::Snappy => snappy::compress(records, out),
        #[cfg(feature = "lz4")]
        Codec::Lz4 => lz4::compress(records, out),
        #[cfg(feature = "zstd")]
        Codec::Zstd => zstandard::compress(level, records, out),
        #[cfg(not(feature = "gzip"))]
        Codec::Gzip => return Err(BuildError::CodecUnavailable(codec)),
        #[cfg(not(feature = "snappy"))]
        Codec::Snappy => return Err(BuildError::CodecUnavailable(codec)),
        #[cfg(not(feature = "lz4"))]
        Codec::Lz4 => return Err(BuildError::CodecUnavailable(codec)),
        #[cfg(not(feature = "zstd"))]
        Codec::Zstd => return Err(BuildError::CodecUnavailable(codec)),
    };
    done.ok_or(BuildError::Compress(codec))
}

/// Members one behind the other; as in Java, what is no member behind the first is passed over.
#[cfg(feature = "gzip")]
fn gunzip(payload: &[u8], mut out: Bounded<'_>) -> Result<(), DecodeError> {
    let mut rest = payload;
    loop {
        let mut member = flate2::bufread::GzDecoder::new(rest);
        out.fill(&mut member)?;
        rest = member.into_inner();
        if !rest.starts_with(&[0x1f, 0x8b, 8]) {
            return Ok(());
        }
    }
}

#[cfg(feature = "gzip")]
fn gzip(level: Option<i32>, records: &[u8], out: &mut Vec<u8>) -> Option<()> {
    use std::io::Write;

    let level = level.map_or(6, |level| level.clamp(0, 9).unsigned_abs());
    let mut encoder = flate2::write::GzEncoder::new(out, flate2::Compression::new(level));
    encoder.write_all(records).ok()?;
    encoder.finish().ok().map(|_| ())
}
