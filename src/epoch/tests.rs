use super::*;

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn epoch(raw: i32) -> LeaderEpoch {
    LeaderEpoch::new(raw).unwrap()
}

fn cache(rows: &[(i32, i64)]) -> EpochCache {
    EpochCache::from_entries(rows.iter().map(|&(e, o)| EpochEntry {
        epoch: epoch(e),
        start_offset: offset(o),
    }))
}

fn rows(cache: &EpochCache) -> Vec<(i32, i64)> {
    cache
        .entries()
        .iter()
        .map(|entry| (entry.epoch.get(), entry.start_offset.get()))
        .collect()
}

/// Kafka-storage reference 3.1 and `LeaderEpochFileCacheTest` (monotonicity, no overwriting).
#[test]
fn assign_removes_what_contradicts_it() {
    for (before, (e, o), after, changed) in [
        (vec![], (2, 10), vec![(2, 10)], true),
        (vec![(2, 9)], (2, 10), vec![(2, 9)], false),
        (vec![(2, 9)], (2, 9), vec![(2, 9)], false),
        (
            vec![(5, 11), (6, 12), (7, 13)],
            (7, 12),
            vec![(5, 11), (7, 12)],
            true,
        ),
        (vec![(2, 9)], (3, 9), vec![(3, 9)], true),
        (vec![(2, 6)], (3, 5), vec![(3, 5)], true),
        (vec![(1, 5), (2, 6)], (1, 7), vec![(1, 7)], true),
        (vec![(2, 6), (5, 20)], (3, 30), vec![(2, 6), (3, 30)], true),
    ] {
        let mut cache = cache(&before);

        assert_eq!(cache.assign(epoch(e), offset(o)), changed);

        assert_eq!(rows(&cache), after, "({e}, {o}) after {before:?}");
    }
}

/// Kafka-storage reference 3.2, letters as in the table there, and the tests of 6.6.
#[test]
fn end_offset_for_answers_every_case() {
    let gaps = [(0, 10), (2, 13), (4, 17)];
    for (rows, requested, log_end, expected) in [
        (&[][..], -1, 0, None),
        (&gaps, -1, 20, None),
        (&gaps, 4, 20, Some((4, 20))),
        (&[(2, 10)], 2, 11, Some((2, 11))),
        (&[(2, 11), (2, 12)], 2, 14, Some((2, 14))),
        (&[], 0, 5, None),
        (&[], 7, 5, None),
        (&gaps, 5, 20, None),
        (&[(2, 100)], 3, 200, None),
        (&[(5, 11), (6, 12), (7, 13)], 4, 20, Some((4, 11))),
        (&[(5, 11), (6, 12), (7, 12)], 5, 20, Some((5, 12))),
        (&[(5, 11), (6, 12), (7, 12)], 6, 20, Some((5, 12))),
        (&[(1, 11), (2, 13), (3, 15)], 2, 20, Some((2, 15))),
        (&gaps, 1, 20, Some((0, 13))),
        (&gaps, 2, 20, Some((2, 17))),
        (&gaps, 3, 20, Some((2, 17))),
        (&[(1, 5), (2, 6), (1, 7)], 1, 8, Some((1, 8))),
        (&[(1, 5), (2, 6), (1, 7)], 2, 8, None),
        (&[(0, 0), (1, 0)], 0, 0, Some((0, 0))),
        (&[(0, 0), (1, 0), (2, 5)], 0, 10, Some((0, 0))),
        (&[(0, 0), (1, 0), (2, 5)], 1, 10, Some((1, 5))),
        (&[(0, 0), (1, 0), (2, 5)], 2, 10, Some((2, 10))),
        (&[(0, 0), (1, 3), (2, 6)], 0, 9, Some((0, 3))),
        (&[(0, 0), (1, 3), (2, 6)], 1, 9, Some((1, 6))),
    ] {
        let found = cache(rows).end_offset_for(requested, offset(log_end));
        let expected = expected.map(|(epoch, end)| (epoch, offset(end)));
        assert_eq!(found, expected, "{requested} of {rows:?}");
    }
}

/// Kafka-storage reference 3.3 and the truncations of 6.6.
#[test]
fn truncation_from_the_end_drops_starts_at_or_above() {
    for (end, after) in [
        (8, vec![(2, 6)]),
        (9, vec![(2, 6), (3, 8)]),
        (11, vec![(2, 6), (3, 8)]),
        (12, vec![(2, 6), (3, 8), (4, 11)]),
        (0, vec![]),
    ] {
        let mut cache = cache(&[(2, 6), (3, 8), (4, 11)]);
        let changed = cache.truncate_from_end(offset(end));
        assert_eq!(rows(&cache), after);
        assert_eq!(changed, after.len() < 3);
    }
    assert!(!EpochCache::new().truncate_from_end(offset(5)));
}

/// Kafka-storage reference 3.4 and the truncations of 6.6.
#[test]
fn truncation_from_the_start_keeps_the_epoch_it_falls_into() {
    let three = [(2, 6), (3, 8), (4, 11)];
    for (before, start, after) in [
        (&three[..], 8, vec![(3, 8), (4, 11)]),
        (&three, 9, vec![(3, 9), (4, 11)]),
        (&three, 1, three.to_vec()),
        (&three, 6, three.to_vec()),
        (&three, 11, vec![(4, 11)]),
        (&three, 15, vec![(4, 15)]),
        (&[(0, 0), (1, 7), (2, 10)], 5, vec![(0, 5), (1, 7), (2, 10)]),
        (&[], 5, vec![]),
    ] {
        let mut cache = cache(before);
        let changed = cache.truncate_from_start(offset(start));
        assert_eq!(rows(&cache), after);
        assert_eq!(changed, after != before);
    }
}

/// Kafka: `testPreviousEpoch`, `testFindPreviousEntry`, `testFindNextEpoch`, `testGetEpochEntry`.
#[test]
fn neighbours_need_no_exact_match() {
    let mut found = cache(&[(2, 10), (4, 15), (10, 20)]);
    let number = |entry: Option<EpochEntry>| entry.map(|entry| entry.epoch.get());
    for (asked, previous, next) in [
        (2, None, Some(4)),
        (3, Some(2), Some(4)),
        (4, Some(2), Some(10)),
        (10, Some(4), None),
    ] {
        assert_eq!(number(found.previous(epoch(asked))), previous);
        assert_eq!(number(found.next(epoch(asked))), next);
    }
    assert_eq!(
        found.entry(epoch(4)).map(|entry| entry.start_offset),
        Some(offset(15))
    );
    assert_eq!(found.entry(epoch(3)), None);
    assert_eq!(
        (number(found.earliest()), number(found.latest())),
        (Some(2), Some(10))
    );

    found.truncate_from_end(offset(18));
    assert_eq!(
        number(found.previous(found.latest().unwrap().epoch)),
        Some(2)
    );
    found.clear();
    assert!(found.is_empty());
    assert_eq!((found.len(), found.latest()), (0, None));
}

/// Kafka: `shouldFetchEpochForGivenOffset`.
#[test]
fn epoch_for_offset_is_that_of_the_last_start_at_or_below() {
    let cache = cache(&[(0, 10), (1, 20), (5, 30)]);
    for (asked, expected) in [
        (25, Some(1)),
        (20, Some(1)),
        (30, Some(5)),
        (50, Some(5)),
        (5, None),
    ] {
        assert_eq!(
            cache.epoch_for_offset(offset(asked)).map(LeaderEpoch::get),
            expected
        );
    }
}

#[test]
fn only_a_lower_epoch_rewrites_history() {
    let cache = cache(&[(2, 6), (5, 20)]);
    assert!(cache.would_rewrite_history(epoch(4)));
    assert!(!cache.would_rewrite_history(epoch(5)));
    assert!(!cache.would_rewrite_history(epoch(6)));
    assert!(!EpochCache::new().would_rewrite_history(epoch(0)));
}

/// All sequences of three assignments over small numbers keep both columns rising.
#[test]
fn both_columns_rise_whatever_is_assigned() {
    let all: Vec<(i32, i64)> = (0..4).flat_map(|e| (0..4).map(move |o| (e, o))).collect();
    for first in &all {
        for second in &all {
            for third in &all {
                let found = rows(&cache(&[*first, *second, *third]));
                assert_eq!(found.last().map(|row| row.0), Some(third.0));
                assert!(found.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 < w[1].1));
            }
        }
    }
}
