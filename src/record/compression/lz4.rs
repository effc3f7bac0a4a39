//! LZ4 frames: independent blocks of 64 KiB, no sizes and no checksums but that of the frame
//! header.
//!
//! Kafka: `Lz4BlockOutputStream`. In version 0 it computes the header checksum over the magic
//! number too, and does not check it when it reads; so that byte is put right here before the
//! decoder sees it.

use std::io::Read;

use lz4_flex::frame::{BlockMode, BlockSize, FrameDecoder, FrameEncoder, FrameInfo};

use super::super::codec::Magic;
use super::{Bounded, DecodeError};

const MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

pub(super) fn decompress(
    payload: &[u8],
    magic: Magic,
    mut out: Bounded<'_>,
) -> Result<(), DecodeError> {
    let flags = match payload.split_first_chunk::<4>() {
        Some((&MAGIC, [flags, ..])) => *flags,
        _ => return Err(out.malformed()),
    };
    // Kafka refuses blocks that refer to earlier ones.
    if flags & 0b10_0000 == 0 {
        return Err(out.malformed());
    }
    // Flags and block size, 8 bytes more if the flags announce the content's size, then the
    // checksum.
    let descriptor_bytes = if flags & 0b1000 == 0 { 2 } else { 10 };
    let descriptor = payload
        .get(4..)
        .and_then(|rest| rest.split_at_checked(descriptor_bytes));
    let Some((descriptor, [_, blocks @ ..])) = descriptor else {
        return Err(out.malformed());
    };
    if !has_end_mark(blocks, flags & 0b1_0000 != 0) {
        return Err(out.malformed());
    }
    if magic != Magic::V0 {
        return out.fill(FrameDecoder::new(payload));
    }
    let [_, _, checksum, _] = xxh32_short(descriptor).to_be_bytes();
    let checksum = [checksum];
    let front = MAGIC.chain(descriptor).chain(checksum.as_slice());
    out.fill(FrameDecoder::new(front.chain(blocks)))
}

/// Tells whether an empty block ends the frame, which the decoder does not ask for at the end of
/// its input.
fn has_end_mark(blocks: &[u8], block_checksums: bool) -> bool {
    let mut rest = blocks;
    while let Some((&[a, b, c, d], behind)) = rest.split_first_chunk::<4>() {
        // The upper bit marks a block that is stored as it is.
        let size = u32::from_be_bytes([d & 0x7f, c, b, a]);
        if size == 0 {
            return true;
        }
        let checksum_bytes = if block_checksums { 4 } else { 0 };
        let block = usize::try_from(size)
            .ok()
            .and_then(|size| size.checked_add(checksum_bytes));
        let Some(next) = block.and_then(|block| behind.get(block..)) else {
            return false;
        };
        rest = next;
    }
    false
}

pub(super) fn compress(records: &[u8], out: &mut Vec<u8>) -> Option<()> {
    use std::io::Write;

    let info = FrameInfo::new()
        .block_size(BlockSize::Max64KB)
        .block_mode(BlockMode::Independent);
    let mut encoder = FrameEncoder::with_frame_info(info, out);
    encoder.write_all(records).ok()?;
    encoder.finish().ok().map(|_| ())
}

/// xxHash-32 with seed 0 of fewer than 16 bytes.
fn xxh32_short(bytes: &[u8]) -> u32 {
    const PRIME_1: u32 = 0x9e37_79b1;
    const PRIME_2: u32 = 0x85eb_ca77;
    const PRIME_3: u32 = 0xc2b2_ae3d;
    const PRIME_4: u32 = 0x27d4_eb2f;
    const PRIME_5: u32 = 0x1656_67b1;

    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let mut hash = PRIME_5.wrapping_add(length);
    let (words, tail) = bytes.as_chunks::<4>();
    for &[a, b, c, d] in words {
        let word = u32::from_be_bytes([d, c, b, a]);
        hash = hash
            .wrapping_add(word.wrapping_mul(PRIME_3))
            .rotate_left(17)
            .wrapping_mul(PRIME_4);
    }
    for &byte in tail {
        hash = hash.wrapping_add(u32::from(byte).wrapping_mul(PRIME_5));
        hash = hash.rotate_left(11).wrapping_mul(PRIME_1);
    }
    hash = (hash ^ (hash >> 15)).wrapping_mul(PRIME_2);
    hash = (hash ^ (hash >> 13)).wrapping_mul(PRIME_3);
    hash ^ (hash >> 16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_begin_as_those_of_kafka() {
        let mut out = Vec::new();
        compress(&[7; 1000], &mut out).unwrap();
        assert_eq!(out[..7], [0x04, 0x22, 0x4d, 0x18, 0x60, 0x40, 0x82]);
    }

    #[test]
    fn the_hash_is_xxhash() {
        assert_eq!(xxh32_short(b""), 0x02cc_5d05);
        assert_eq!(xxh32_short(b"a"), 0x550d_7456);
        assert_eq!(xxh32_short(b"abc"), 0x32d1_53ff);
        assert_eq!(xxh32_short(&[0x60, 0x40]).to_be_bytes()[2], 0x82);
    }

    /// KAFKA-3160: the checksum over the magic number as well.
    #[test]
    fn version_0_takes_the_wrong_header_checksum() {
        let mut frame = Vec::new();
        compress(b"hello hello hello", &mut frame).unwrap();
        frame[6] = 0x1a;

        for (magic, want) in [
            (Magic::V0, Ok(())),
            (
                Magic::V1,
                Err(DecodeError::Decompress(super::super::Codec::Lz4)),
            ),
        ] {
            let mut out = Vec::new();
            let codec = super::super::Codec::Lz4;
            let bounded = Bounded {
                out: &mut out,
                limit: 100,
                codec,
            };
            assert_eq!(decompress(&frame, magic, bounded), want);
        }
    }
}
