//! Raw snappy blocks in the framing of snappy-java (xerial), or a raw block alone as librdkafka
//! sends it.
//!
//! ```text
//! 82 "SNAPPY" 00 | version i32 = 1 | compatible i32 = 1 | ( length i32 | block )*
//! ```

use super::{Bounded, DecodeError};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER: [u8; 16] = {
    let [a, b, c, d, e, f, g, h] = MAGIC;
    [a, b, c, d, e, f, g, h, 0, 0, 0, 1, 0, 0, 0, 1]
};
/// The block size of snappy-java. Unit: bytes before compression.
const BLOCK_BYTES: usize = 32 * 1024;

pub(super) fn decompress(payload: &[u8], mut out: Bounded<'_>) -> Result<(), DecodeError> {
    if !payload.starts_with(&MAGIC) {
        return block(payload, &mut out);
    }
    let mut rest = payload.get(HEADER.len()..).ok_or_else(|| out.malformed())?;
    // As in snappy-java, fewer than four bytes at the end are passed over.
    while let Some((length, behind)) = rest.split_first_chunk::<4>() {
        if rest.starts_with(&MAGIC) {
            // Streams may stand one behind the other; snappy-java skips their headers.
            rest = rest.get(HEADER.len()..).ok_or_else(|| out.malformed())?;
            continue;
        }
        let length = usize::try_from(i32::from_be_bytes(*length)).map_err(|_| out.malformed())?;
        let (front, behind) = behind
            .split_at_checked(length)
            .ok_or_else(|| out.malformed())?;
        block(front, &mut out)?;
        rest = behind;
    }
    Ok(())
}

fn block(bytes: &[u8], out: &mut Bounded<'_>) -> Result<(), DecodeError> {
    let declared = snap::raw::decompress_len(bytes).map_err(|_| out.malformed())?;
    let from = out.out.len();
    let to = from.saturating_add(declared);
    if to > out.limit {
        return Err(out.too_large());
    }
    // A copy of 64 bytes takes 3, so that no block grows more than this.
    if declared > bytes.len().saturating_mul(22) {
        return Err(out.malformed());
    }
    out.out.resize(to, 0);
    let room = out.out.get_mut(from..).unwrap_or_default();
    snap::raw::Decoder::new()
        .decompress(bytes, room)
        .map_err(|_| out.malformed())?;
    Ok(())
}

pub(super) fn compress(records: &[u8], out: &mut Vec<u8>) -> Option<()> {
    out.extend_from_slice(&HEADER);
    let mut encoder = snap::raw::Encoder::new();
    for records in records.chunks(BLOCK_BYTES) {
        let block = encoder.compress_vec(records).ok()?;
        out.extend_from_slice(&i32::try_from(block.len()).ok()?.to_be_bytes());
        out.extend_from_slice(&block);
    }
    Some(())
}
