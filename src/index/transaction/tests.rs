use super::*;

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn aborted(id: i64, first: i64, last: i64, stable: i64) -> AbortedTransaction {
    AbortedTransaction {
        producer_id: id,
        first_offset: offset(first),
        last_offset: offset(last),
        last_stable_offset: offset(stable),
    }
}

/// The entries A to D of Kafka's `TransactionIndexTest`.
fn four() -> TransactionIndex {
    let mut index = TransactionIndex::new();
    for entry in [
        aborted(0, 0, 10, 11),
        aborted(1, 5, 15, 13),
        aborted(2, 18, 35, 25),
        aborted(3, 32, 50, 40),
    ] {
        index.push(entry).unwrap();
    }
    index
}

fn encoded(index: &TransactionIndex) -> Vec<u8> {
    let mut out = Vec::new();
    index.encode_from(0, &mut out);
    out
}

/// Kafka: `testCollectAbortedTransactions`.
#[test]
fn collect_stops_where_nothing_later_can_overlap() {
    for (from, to, ids, complete) in [
        (0, 100, vec![0, 1, 2, 3], false),
        (0, 32, vec![0, 1, 2], true),
        (0, 35, vec![0, 1, 2, 3], true),
        (10, 35, vec![0, 1, 2, 3], true),
        (11, 35, vec![1, 2, 3], true),
        (20, 41, vec![2, 3], false),
    ] {
        let mut out = Vec::new();
        let found = four().collect(offset(from), offset(to), &mut out);

        let found_ids: Vec<i64> = out.iter().map(|entry| entry.producer_id).collect();
        assert_eq!((found_ids, found), (ids, complete), "from {from} to {to}");
    }
}

/// Kafka: `testTruncate`.
#[test]
fn truncation_drops_transactions_that_end_at_or_above() {
    let mut index = four();
    index.truncate_to(offset(51));
    assert_eq!(index.len(), 4);
    index.truncate_to(offset(50));
    assert_eq!(index.len(), 3);
    index.truncate_to(offset(0));
    assert!(index.is_empty());
}

/// Kafka: `testLastOffsetMustIncrease`, `testLastOffsetCannotDecrease`, `testSanityCheck`.
#[test]
fn last_offsets_rise_above_the_base() {
    let mut index = four();
    let last = offset(50);
    for lower in [50, 10] {
        let expected = Err(IndexError::OffsetNotRising {
            last,
            offset: offset(lower),
        });
        assert_eq!(index.push(aborted(9, 0, lower, 60)), expected);
    }
    assert_eq!(index.check(Offset::ZERO), Ok(()));
    assert_eq!(
        index.check(offset(100)),
        Err(IndexProblem::OffsetOutOfRange { entry: 0 })
    );

    let reversed = aborted(1, 20, 15, 21);
    let parsed = TransactionIndex {
        entries: vec![reversed],
    };
    assert_eq!(
        parsed.check(Offset::ZERO),
        Err(IndexProblem::Reversed { entry: 0 })
    );
    let parsed = TransactionIndex {
        entries: vec![aborted(1, 0, 15, 21), aborted(1, 0, 15, 21)],
    };
    assert_eq!(
        parsed.check(Offset::ZERO),
        Err(IndexProblem::OffsetNotRising { entry: 1 })
    );
}

/// Kafka-storage reference, part 8.
#[test]
fn an_entry_has_kafkas_bytes() {
    let mut bytes = Vec::new();
    aborted(983_493, 137, 299, 200).encode(&mut bytes);

    let expected = "000000000000000f01c50000000000000089000000000000012b00000000000000c8";
    let hex: Vec<String> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex.concat(), expected);
    let parsed = TransactionIndex::parse(&bytes).unwrap();
    assert_eq!(parsed.index.entries(), [aborted(983_493, 137, 299, 200)]);
}

#[test]
fn every_prefix_gives_its_whole_entries_and_the_torn_rest() {
    let bytes = encoded(&four());

    for end in 0..=bytes.len() {
        let parsed = TransactionIndex::parse(&bytes[..end]).unwrap();
        assert_eq!(parsed.index.entries(), &four().entries()[..end / 34]);
        assert_eq!(parsed.torn_bytes, end % 34);
    }
}

#[test]
fn other_versions_and_negative_offsets_are_refused() {
    let mut bytes = encoded(&four());
    bytes[35] = 1;
    let expected = IndexProblem::Version {
        entry: 1,
        version: 1,
    };
    assert_eq!(TransactionIndex::parse(&bytes), Err(expected));

    let mut bytes = encoded(&four());
    bytes[34 + 10] = 0x80;
    let expected = IndexProblem::OffsetOutOfRange { entry: 1 };
    assert_eq!(TransactionIndex::parse(&bytes), Err(expected));
}
