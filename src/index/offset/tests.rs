#![expect(clippy::arithmetic_side_effects, reason = "small numbers")]

use super::*;

const BASE: Offset = match Offset::new(45) {
    Some(base) => base,
    None => Offset::ZERO,
};

fn at(offset: i64, position: u64) -> (Offset, Position) {
    (Offset::new(offset).unwrap(), Position::new(position))
}

fn index(base: Offset, slots: u32, entries: &[(i64, u64)]) -> OffsetIndex {
    let mut index = OffsetIndex::new(base, slots * 8);
    for &(offset, position) in entries {
        let (offset, position) = at(offset, position);
        index.push(offset, position).unwrap();
    }
    index
}

fn encoded(index: &OffsetIndex) -> Vec<u8> {
    let mut out = Vec::new();
    index.encode_from(0, &mut out);
    out
}

/// Kafka: `OffsetIndexTest.randomLookupTest`, over all targets instead of random ones.
#[test]
fn lookup_finds_the_floor_of_every_target() {
    let entries: Vec<(i64, u64)> = (1..=30)
        .map(|i: i64| (45 + i * 3, (i * 7).unsigned_abs()))
        .collect();
    let index = index(BASE, 30, &entries);
    let bytes = encoded(&index);
    let view = OffsetIndexView::new(BASE, &bytes);

    for target in 0..200 {
        let floor = entries.iter().rev().find(|&&(offset, _)| offset <= target);
        let expected = floor.map_or((BASE, Position::ZERO), |&(offset, pos)| at(offset, pos));
        assert_eq!(index.lookup(Offset::new(target).unwrap()), expected);
        assert_eq!(view.lookup(Offset::new(target).unwrap()), expected);
    }
    assert_eq!(index.lookup(Offset::MAX), at(135, 210));
}

/// Kafka: `lookupExtremeCases`, `testEntry`, `testEntryOverflow`.
#[test]
fn an_empty_index_answers_the_base() {
    let empty = index(BASE, 30, &[]);

    assert_eq!(empty.lookup(BASE), at(45, 0));
    assert_eq!(empty.view().entry(0), None);
    assert_eq!(empty.view().last_entry(), None);
    assert_eq!(empty.last_before_position(Position::new(9)), at(45, 0));
}

/// Kafka: `appendTooMany`, `appendOutOfOrder`.
#[test]
fn entries_out_of_order_or_past_the_end_are_refused() {
    let mut full = index(BASE, 2, &[(46, 1), (47, 2)]);
    assert!(full.is_full());
    assert_eq!(
        full.push(Offset::new(48).unwrap(), Position::new(3)),
        Err(IndexError::Full)
    );

    let mut index = index(BASE, 30, &[(51, 10)]);
    let last = Offset::new(51).unwrap();
    let lower = Offset::new(50).unwrap();
    let expected = Err(IndexError::OffsetNotRising {
        last,
        offset: lower,
    });
    assert_eq!(index.push(lower, Position::new(11)), expected);
    let position = Position::new(10);
    let expected = Err(IndexError::PositionNotRising {
        last: position,
        position,
    });
    assert_eq!(index.push(last.next(), position), expected);
    let offset = Offset::new(45 + (1 << 31)).unwrap();
    let overflow = IndexError::OffsetOverflow { base: BASE, offset };
    assert_eq!(index.push(offset, Position::new(11)), Err(overflow));
    let position = Position::new(1 << 31);
    let overflow = IndexError::PositionOverflow { position };
    assert_eq!(
        index.push(Offset::new(52).unwrap(), position),
        Err(overflow)
    );
    assert_eq!(index.len(), 1);
}

/// KAFKA-6388: an index file of no bytes is full.
#[test]
fn an_index_of_no_slots_is_full() {
    assert!(OffsetIndex::new(BASE, 7).is_full());
    assert_eq!(OffsetIndex::new(BASE, 31).max_entries(), 3);
}

/// Kafka: `testFetchUpperBoundOffset`.
#[test]
fn upper_bound_is_the_first_entry_at_or_behind_a_position() {
    let index = index(BASE, 30, &[(45, 0), (46, 10), (47, 23), (48, 37)]);

    for (from, size, expected) in [
        (0, 5, Some(46)),
        (0, 10, Some(46)),
        (0, 22, Some(47)),
        (0, 23, Some(47)),
        (10, 24, Some(48)),
        (37, 1, None),
        (0, 200, None),
    ] {
        let found = index.upper_bound(Position::new(from + size));
        assert_eq!(found.map(|(offset, _)| offset.get()), expected);
    }
    assert_eq!(index.last_before_position(Position::new(23)), at(46, 10));
}

/// Kafka: `testReopen`.
#[test]
fn a_reopened_index_goes_on_where_it_ended() {
    let bytes = encoded(&index(BASE, 30, &[(51, 10), (52, 20)]));

    let mut reopened = OffsetIndex::from_bytes(BASE, 16, &bytes, 2);

    assert_eq!(
        (reopened.len(), reopened.last_entry()),
        (2, Some(at(52, 20)))
    );
    assert_eq!(
        reopened.push(Offset::new(53).unwrap(), Position::new(30)),
        Err(IndexError::Full)
    );
}

/// Kafka: `truncate`.
#[test]
fn truncation_drops_entries_at_and_above() {
    let entries: Vec<(i64, u64)> = (1..10).map(|i: i64| (i, i.unsigned_abs())).collect();
    let mut index = index(Offset::ZERO, 10, &entries);
    let last = |index: &OffsetIndex| index.last_entry().unwrap().0.get();

    index.truncate_to(Offset::new(12).unwrap());
    assert_eq!(last(&index), 9);
    index
        .push(Offset::new(10).unwrap(), Position::new(10))
        .unwrap();
    for (to, expected) in [(10, 9), (9, 8), (5, 4)] {
        index.truncate_to(Offset::new(to).unwrap());
        assert_eq!(last(&index), expected);
    }
    index.truncate_to_position(Position::new(2));
    assert_eq!(last(&index), 1);
    index.clear();
    assert_eq!(index.len(), 0);
}

/// Kafka-storage reference, part 8.
#[test]
fn an_entry_has_kafkas_bytes() {
    let bytes = encoded(&index(Offset::ZERO, 10, &[(5, 4096)]));

    assert_eq!(bytes, [0, 0, 0, 5, 0, 0, 0x10, 0]);
    assert_eq!(
        OffsetIndexView::new(Offset::ZERO, &bytes).entry(0),
        Some(at(5, 4096))
    );
}

#[test]
fn encode_from_gives_only_what_was_added() {
    let mut index = index(BASE, 30, &[(51, 10)]);
    let mut file = encoded(&index);
    index
        .push(Offset::new(60).unwrap(), Position::new(99))
        .unwrap();

    index.encode_from(1, &mut file);

    assert_eq!(file, encoded(&index));
    index.encode_from(7, &mut file);
    assert_eq!(file.len(), 16);
}

/// The first problem of each kind; Kafka's `testSanityLastOffsetEqualToBaseOffset` is the last row.
#[test]
fn check_names_the_first_problem() {
    let raw = |entries: &[(u32, u32)]| -> Vec<u8> {
        let entry = |&(relative_offset, position): &(u32, u32)| {
            OffsetIndexEntry {
                relative_offset,
                position,
            }
            .encode()
        };
        entries.iter().flat_map(entry).collect()
    };
    let check = |bytes: &[u8]| OffsetIndexView::new(BASE, bytes).check(100);

    assert_eq!(
        check(&raw(&[(1, 1), (1, 2)])),
        Err(IndexProblem::OffsetNotRising { entry: 1 })
    );
    assert_eq!(
        check(&raw(&[(1, 1), (2, 1)])),
        Err(IndexProblem::PositionNotRising { entry: 1 })
    );
    assert_eq!(
        check(&raw(&[(1 << 31, 1)])),
        Err(IndexProblem::OffsetOutOfRange { entry: 0 })
    );
    let position = Position::new(100);
    assert_eq!(
        check(&raw(&[(1, 1), (2, 100)])),
        Err(IndexProblem::PositionPastEnd { entry: 1, position })
    );
    assert_eq!(
        check(&[0; 9]),
        Err(IndexProblem::Length {
            bytes: 9,
            entry_bytes: 8
        })
    );
    let near_the_end = OffsetIndexView::new(Offset::MAX, &[0, 0, 0, 1, 0, 0, 0, 1]).check(9);
    assert_eq!(
        near_the_end,
        Err(IndexProblem::OffsetOutOfRange { entry: 0 })
    );
    assert_eq!(check(&raw(&[(0, 0)])), Ok(()));
    assert_eq!(check(&raw(&[(1, 1), (2, 99)])), Ok(()));
}

#[test]
fn a_preallocated_index_ends_at_its_last_entry() {
    let mut bytes = encoded(&index(BASE, 30, &[(51, 10), (52, 20)]));
    let sound = |bytes: &[u8]| sound_prefix(bytes, BASE, 100);

    assert_eq!(
        sound(&bytes),
        SoundPrefix {
            entries: 2,
            rest_is_zero: true
        }
    );
    bytes.resize(80, 0);
    assert_eq!(
        sound(&bytes),
        SoundPrefix {
            entries: 2,
            rest_is_zero: true
        }
    );
    bytes[33] = 1;
    assert_eq!(
        sound(&bytes),
        SoundPrefix {
            entries: 2,
            rest_is_zero: false
        }
    );
    assert_eq!(sound_prefix(&bytes, BASE, 20).entries, 1);
    assert_eq!(
        sound(&[0; 80]),
        SoundPrefix {
            entries: 0,
            rest_is_zero: true
        }
    );
    assert_eq!(
        sound(&[]),
        SoundPrefix {
            entries: 0,
            rest_is_zero: true
        }
    );
}
