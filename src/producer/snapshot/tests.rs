#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

use super::*;

/// Kafka-storage reference, part 8: the entries of `testReadWriteSnapshot`.
const GOLDEN: &str = "\
    0001fedf4e50000000020000000000000001000200000001000000000000000200000003ffffffffffffffff\
    000000030000000000000064000000000000000b000cffffffffffffffffffffffff00000000000000000001\
    e2400000000dffffffffffffffff";

fn golden_entries() -> [ProducerSnapshotEntry; 2] {
    [
        ProducerSnapshotEntry {
            producer_id: 1,
            producer_epoch: 2,
            last_sequence: 1,
            last_offset: Offset::new(2),
            offset_delta: 3,
            timestamp: Timestamp::NONE,
            coordinator_epoch: 3,
            current_txn_first_offset: Offset::new(100),
        },
        ProducerSnapshotEntry {
            producer_id: 11,
            producer_epoch: 12,
            last_sequence: -1,
            last_offset: None,
            offset_delta: 0,
            timestamp: Timestamp::from_millis(123_456),
            coordinator_epoch: 13,
            current_txn_first_offset: None,
        },
    ]
}

fn bytes_of(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2)
        .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap())
        .collect()
}

/// Puts the right checksum into changed bytes.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let crc = crc32c::crc32c(&bytes[6..]);
    bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    bytes
}

#[test]
fn a_snapshot_has_kafkas_bytes() {
    let bytes = bytes_of(GOLDEN);

    assert_eq!(bytes.len(), 102);
    assert_eq!(parse(&bytes).as_deref(), Ok(&golden_entries()[..]));
    assert_eq!(print(golden_entries()), bytes);
}

/// The IEEE CRC-32 that Kafka's own empty snapshots have in the golden directories.
#[test]
fn a_snapshot_without_producers_has_10_bytes() {
    let bytes = print([]);

    assert_eq!(bytes.len(), SNAPSHOT_HEADER_BYTES);
    assert_eq!(crc32fast::hash(&bytes), 0x7e32_1962);
    assert_eq!(parse(&bytes), Ok(Vec::new()));
}

#[test]
fn every_prefix_and_every_flipped_bit_is_refused() {
    let bytes = bytes_of(GOLDEN);
    for end in 0..bytes.len() {
        assert!(parse(&bytes[..end]).is_err(), "{end} bytes");
    }
    for bit in 0..bytes.len() * 8 {
        let mut flipped = bytes.clone();
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(parse(&flipped).is_err(), "bit {bit}");
    }
}

#[test]
fn the_count_is_bounded_by_the_length() {
    let with_count = |count: i32, extra: usize| {
        let mut bytes = bytes_of(GOLDEN);
        bytes[6..10].copy_from_slice(&count.to_be_bytes());
        bytes.resize(102 + extra, 0);
        resealed(bytes)
    };

    assert_eq!(
        parse(&with_count(i32::MAX, 0)),
        Err(SnapshotError::Short { bytes: 102 })
    );
    assert_eq!(parse(&with_count(-1, 0)), Err(SnapshotError::Count(-1)));
    assert_eq!(
        parse(&with_count(1, 0)),
        Err(SnapshotError::Trailing { bytes: 46 })
    );
    assert_eq!(
        parse(&with_count(2, 3)),
        Err(SnapshotError::Trailing { bytes: 3 })
    );
    let mut negative = bytes_of(GOLDEN);
    negative[10 + 14..10 + 22].copy_from_slice(&(-2_i64).to_be_bytes());
    assert_eq!(
        parse(&resealed(negative)),
        Err(SnapshotError::Offset { entry: 0 })
    );
}
