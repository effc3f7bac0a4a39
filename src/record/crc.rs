//! The two checksums of Kafka's formats, each behind one function.
//!
//! They share a length and nothing else: the checksum of `123456789` is `e3069283` in CRC-32C and
//! `cbf43926` in CRC-32 IEEE.

use super::codec::Magic;

/// The CRC-32C (Castagnoli) of `bytes`, the checksum of version 2 batches and of producer
/// snapshots.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    ::crc32c::crc32c(bytes)
}

/// The CRC-32C of bytes whose front has the checksum `front` and is followed by `bytes`.
#[must_use]
pub fn crc32c_append(front: u32, bytes: &[u8]) -> u32 {
    ::crc32c::crc32c_append(front, bytes)
}

/// The CRC-32 of IEEE 802.3 and zlib, the checksum of version 0 and 1 messages and of our side
/// files.
#[must_use]
pub fn crc32_ieee(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The place in an entry of this version where its checksum begins to cover. Unit: bytes.
#[must_use]
pub const fn crc_start(magic: Magic) -> usize {
    match magic {
        Magic::V0 | Magic::V1 => 16,
        Magic::V2 => 21,
    }
}

/// Continues the checksum of an entry of this version: CRC-32C for version 2, CRC-32 (IEEE) for the
/// others. The checksum of nothing is 0.
#[must_use]
pub fn crc_append(magic: Magic, front: u32, bytes: &[u8]) -> u32 {
    match magic {
        Magic::V2 => crc32c_append(front, bytes),
        Magic::V0 | Magic::V1 => {
            let mut hasher = crc32fast::Hasher::new_with_initial(front);
            hasher.update(bytes);
            hasher.finalize()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_polynomials_are_not_mixed_up() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(crc32_ieee(b"123456789"), 0xcbf4_3926);
        assert_eq!(crc32c_append(crc32c(b"1234"), b"56789"), 0xe306_9283);
    }
}
