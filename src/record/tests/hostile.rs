//! Bytes that nobody meant: cut, flipped, grown.

use super::super::*;
use crate::types::Timestamp;

fn sample(codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    builder
        .push(
            1000,
            Some(b"key"),
            Some(b"value"),
            &[("header", Some(b"x"))],
        )
        .unwrap();
    builder.push(1001, None, Some(b"value"), &[]).unwrap();
    builder.finish().unwrap()
}

/// The answer does not matter.
fn ignore<T>(_answer: T) {}

/// Runs everything that takes bytes; the answers do not matter, that there are some does.
fn read_all(bytes: &[u8], scratch: &mut Scratch) {
    let rules = AppendRules::default();
    ignore(validate_append(
        bytes,
        &rules,
        Timestamp::from_millis(1000),
        scratch,
    ));
    for batch in Batches::new(bytes).flatten() {
        ignore(batch.verify_deep(scratch));
        ignore((batch.base_offset(scratch), batch.record_count(scratch)));
        ignore(batch.end_transaction_marker(scratch));
        let header = batch.header();
        ignore((
            header.last_sequence(),
            header.codec(),
            header.last_offset_delta(),
        ));
        if let Ok(records) = batch.records(scratch) {
            for record in records.flatten() {
                assert!(record.headers().count() <= bytes.len().max(scratch_bound()));
            }
        }
    }
}

const fn scratch_bound() -> usize {
    1 << 20
}

#[test]
fn every_prefix_is_too_short() {
    let bytes = sample(Codec::None);
    for length in 0..bytes.len() {
        let error = Batch::parse(&bytes[..length]).unwrap_err();
        let DecodeError::TooShort { needed, found } = error else {
            panic!("{length}: {error}")
        };
        assert_eq!(found, u64::try_from(length).unwrap());
        let needed = usize::try_from(needed).unwrap();
        assert!(needed > length && needed <= bytes.len(), "{length}");
        let mut batches = Batches::new(&bytes[..length]);
        assert_eq!(batches.next().is_some(), length > 0);
        assert!(batches.next().is_none());
    }
}

/// The checksum covers all from the attributes on; base offset, size, epoch and version are on
/// their own.
#[test]
fn a_flip_that_the_checksum_covers_is_found() {
    let mut scratch = Scratch::new(1 << 20);
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_available()) {
        let bytes = sample(codec);
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.clone();
                flipped[at] ^= 1 << bit;
                read_all(&flipped, &mut scratch);
                let sound = Batch::parse(&flipped).and_then(|batch| batch.verify());
                if at >= 17 {
                    assert!(sound.is_err(), "{codec} byte {at} bit {bit}");
                }
                // With the checksum renewed the decoders have to stand it.
                if at > 20 {
                    let crc = crc32c(&flipped[21..]);
                    flipped[17..21].copy_from_slice(&crc.to_be_bytes());
                    read_all(&flipped, &mut scratch);
                }
            }
        }
    }
}

#[test]
fn a_bomb_stops_at_the_limit() {
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_available()) {
        if codec == Codec::None {
            continue;
        }
        let mut builder = BatchBuilder::new(codec);
        builder.push(0, None, Some(&vec![0; 8 << 20]), &[]).unwrap();
        let bytes = builder.finish().unwrap();
        let mut scratch = Scratch::new(100_000);

        let batch = Batch::parse(&bytes).unwrap();

        let error = batch.records(&mut scratch).unwrap_err();
        assert_eq!(error, DecodeError::TooLarge { limit: 100_000 }, "{codec}");
        let refused = validate_append(
            &bytes,
            &AppendRules {
                max_message_bytes: u32::MAX,
                ..AppendRules::default()
            },
            Timestamp::NONE,
            &mut scratch,
        );
        assert!(
            matches!(refused, Err(InvalidAppend::RecordTooLarge { .. })),
            "{codec}"
        );
    }
}

#[test]
fn offsets_past_63_bits_are_refused() {
    let mut bytes = sample(Codec::None);
    bytes[..8].copy_from_slice(&i64::MAX.to_be_bytes());
    assert_eq!(
        BatchHeader::parse(&bytes),
        Err(DecodeError::BadOffset(i64::MAX))
    );
    bytes[..8].copy_from_slice(&(-1_i64).to_be_bytes());
    assert_eq!(BatchHeader::parse(&bytes), Err(DecodeError::BadOffset(-1)));
    bytes[..8].copy_from_slice(&[0; 8]);
    bytes[23] = 0x80;
    assert!(matches!(
        BatchHeader::parse(&bytes),
        Err(DecodeError::BadOffsetDelta(_))
    ));
}

#[test]
fn a_zero_tail_has_a_bad_length() {
    assert_eq!(
        BatchHeader::parse(&[0; 100]),
        Err(DecodeError::BadLength(0))
    );
}
