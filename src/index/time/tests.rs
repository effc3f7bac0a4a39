#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

use super::*;

const BASE: Offset = match Offset::new(45) {
    Some(base) => base,
    None => Offset::ZERO,
};

fn at(timestamp: i64, offset: i64) -> (Timestamp, Offset) {
    (
        Timestamp::from_millis(timestamp),
        Offset::new(offset).unwrap(),
    )
}

fn push(index: &mut TimeIndex, timestamp: i64, offset: i64) -> Result<bool, IndexError> {
    let (timestamp, offset) = at(timestamp, offset);
    index.push(timestamp, offset)
}

/// Kafka's `TimeIndexTest`: base 45, 30 slots, entries (10i, 45 + 10i).
fn filled(count: i64) -> TimeIndex {
    let mut index = TimeIndex::new(BASE, 30 * 12);
    for i in 1..=count {
        assert_eq!(push(&mut index, 10 * i, 45 + 10 * i), Ok(true));
    }
    index
}

fn encoded(index: &TimeIndex) -> Vec<u8> {
    let mut out = Vec::new();
    index.encode_from(0, &mut out);
    out
}

/// Kafka: `testLookUp`, `testEntry`, `testEntryOverflow`.
#[test]
fn lookup_finds_the_greatest_timestamp_at_or_below() {
    let lookup = |index: &TimeIndex, ts| index.lookup(Timestamp::from_millis(ts));
    assert_eq!(lookup(&filled(0), 100), at(-1, 45));

    let index = filled(29);

    assert_eq!(lookup(&index, 9), at(-1, 45));
    assert_eq!(lookup(&index, 25), at(20, 65));
    assert_eq!(lookup(&index, 30), at(30, 75));
    let view = index.view();
    let entries: Vec<_> = view.iter().take(4).collect();
    assert_eq!(entries, [at(10, 55), at(20, 65), at(30, 75), at(40, 85)]);
    assert_eq!(view.entry(29), None);
}

/// Kafka: `testAppend`, `testIsFull`.
#[test]
fn the_last_slot_is_kept_for_the_final_entry() {
    let mut index = filled(28);
    assert!(!index.is_full());
    push(&mut index, 290, 335).unwrap();
    assert!(index.is_full());

    assert_eq!(push(&mut index, 10_000, 1000), Err(IndexError::Full));
    let (timestamp, lower) = at(10_000, 10);
    let last = Offset::new(335).unwrap();
    let expected = Err(IndexError::OffsetNotRising {
        last,
        offset: lower,
    });
    assert_eq!(index.push_final(timestamp, lower), expected);
    let (timestamp, offset) = at(10_000, 1000);
    assert_eq!(index.push_final(timestamp, offset), Ok(true));
    assert_eq!(
        index.push_final(Timestamp::from_millis(10_001), offset),
        Err(IndexError::Full)
    );
    assert_eq!(index.len(), 30);
    assert!(TimeIndex::new(BASE, 12).is_full());
    assert!(TimeIndex::new(BASE, 0).is_full());
}

#[test]
fn a_timestamp_that_does_not_rise_is_skipped() {
    let mut index = filled(2);

    assert_eq!(push(&mut index, 20, 70), Ok(false));
    assert_eq!(push(&mut index, -1, 70), Ok(false));
    assert_eq!(push(&mut TimeIndex::new(BASE, 36), -1, 46), Ok(false));
    assert_eq!(push(&mut index, 21, 65), Ok(true));
    assert_eq!(index.len(), 3);
}

/// Kafka: `testTruncate`, `testLastEntry`.
#[test]
fn truncation_drops_entries_at_and_above() {
    let mut index = filled(29);
    index.truncate_to(Offset::new(66).unwrap());
    assert_eq!(index.last_entry(), at(20, 65));
    index.truncate_to(Offset::new(55).unwrap());
    assert_eq!((index.len(), index.last_entry()), (0, at(-1, 45)));
    push(&mut index, 1, 46).unwrap();
    assert_eq!(index.last_entry(), at(1, 46));
    index.clear();
    assert!(index.is_empty());
}

/// Kafka-storage reference, part 8.
#[test]
fn an_entry_has_kafkas_bytes() {
    let mut index = TimeIndex::new(Offset::ZERO, 120);
    push(&mut index, 1_700_000_000_000, 5).unwrap();

    let bytes = encoded(&index);

    assert_eq!(bytes, [0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 5]);
    let reopened = TimeIndex::from_bytes(Offset::ZERO, 120, &bytes, 1);
    assert_eq!(reopened.last_entry(), at(1_700_000_000_000, 5));
}

/// Kafka: `testSanityCheck`, and stricter.
#[test]
fn check_names_the_first_problem() {
    let raw = |entries: &[(i64, u32)]| -> Vec<u8> {
        let entry = |&(millis, relative_offset): &(i64, u32)| {
            TimeIndexEntry {
                timestamp: Timestamp::from_millis(millis),
                relative_offset,
            }
            .encode()
        };
        entries.iter().flat_map(entry).collect()
    };
    let check = |bytes: &[u8]| TimeIndexView::new(BASE, bytes).check();

    let timestamp = Timestamp::from_millis(5);
    assert_eq!(
        check(&raw(&[(5, 1), (5, 2)])),
        Err(IndexProblem::TimestampNotRising {
            entry: 1,
            timestamp
        })
    );
    assert_eq!(
        check(&raw(&[(5, 3), (6, 2)])),
        Err(IndexProblem::OffsetNotRising { entry: 1 })
    );
    assert_eq!(
        check(&raw(&[(5, u32::MAX)])),
        Err(IndexProblem::OffsetOutOfRange { entry: 0 })
    );
    assert_eq!(
        check(&[0; 13]),
        Err(IndexProblem::Length {
            bytes: 13,
            entry_bytes: 12
        })
    );
    assert_eq!(check(&raw(&[(5, 2), (6, 2)])), Ok(()));
    assert_eq!(check(&raw(&[(0, 0)])), Ok(()));
}

#[test]
fn a_preallocated_index_ends_at_its_last_entry() {
    let mut bytes = encoded(&filled(3));
    let sound = |bytes: &[u8]| sound_prefix(bytes, BASE);
    bytes.resize(120, 0);
    assert_eq!(
        sound(&bytes),
        SoundPrefix {
            entries: 3,
            rest_is_zero: true
        }
    );

    bytes[119] = 1;
    assert_eq!(
        sound(&bytes),
        SoundPrefix {
            entries: 3,
            rest_is_zero: false
        }
    );
    assert_eq!(
        sound(&[0; 120]),
        SoundPrefix {
            entries: 0,
            rest_is_zero: true
        }
    );
    assert_eq!(
        sound(&[0; 12]),
        SoundPrefix {
            entries: 1,
            rest_is_zero: true
        }
    );
}
