//! The cases of Kafka's `ProducerStateManagerTest` that need no files, by their names there.
#![expect(
    clippy::arithmetic_side_effects,
    clippy::panic_in_result_fn,
    reason = "tests stop at the first surprise"
)]

use super::*;
use crate::producer::Transactions;

const ID: i64 = 1;
const DAY: i64 = 86_400_000;

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn time(millis: i64) -> Timestamp {
    Timestamp::from_millis(millis)
}

fn records(epoch: i16, first_sequence: i32, count: i32, at: i64) -> ProducerBatch {
    let last = i64::from(first_sequence) + i64::from(count) - 1;
    let wrapped = if last > i64::from(i32::MAX) {
        last - i64::from(i32::MAX) - 1
    } else {
        last
    };
    ProducerBatch {
        producer_id: ID,
        producer_epoch: epoch,
        first_sequence,
        last_sequence: i32::try_from(wrapped).unwrap(),
        first_offset: offset(at),
        last_offset: offset(at + i64::from(count) - 1),
        max_timestamp: time(at),
        content: Content::Records {
            transactional: false,
        },
    }
}

fn one(epoch: i16, sequence: i32, at: i64) -> ProducerBatch {
    records(epoch, sequence, 1, at)
}

fn in_transaction(batch: ProducerBatch) -> ProducerBatch {
    ProducerBatch {
        content: Content::Records {
            transactional: true,
        },
        ..batch
    }
}

fn marker(epoch: i16, coordinator_epoch: i32, commit: bool, at: i64) -> ProducerBatch {
    ProducerBatch {
        first_sequence: -1,
        last_sequence: -1,
        content: Content::EndTransaction {
            commit,
            coordinator_epoch,
        },
        ..one(epoch, 0, at)
    }
}

/// Producers that take what they are given.
#[derive(Default)]
struct Log {
    producers: Producers,
    transactions: Transactions,
}

impl Log {
    fn of(batches: &[ProducerBatch]) -> Self {
        let mut log = Self::default();
        for batch in batches {
            log.take(Origin::Client, *batch).unwrap();
        }
        log
    }

    fn take(
        &mut self,
        origin: Origin,
        batch: ProducerBatch,
    ) -> Result<Vec<CompletedTransaction>, ProducerError> {
        let before = self.producers.clone();
        let update = self.producers.check(origin, [batch])?;
        assert_eq!(self.producers, before, "a check changes nothing");
        self.producers.apply(&update);
        for (first, producer) in update.started() {
            self.transactions.start(*first, *producer);
        }
        for completed in update.completed() {
            self.transactions.end(completed);
        }
        Ok(update.completed().to_vec())
    }

    fn refuses(&self, batch: ProducerBatch) -> ProducerError {
        self.producers.check(Origin::Client, [batch]).unwrap_err()
    }

    fn state(&self) -> ProducerState {
        self.producers.get(ID).unwrap().clone()
    }
}

fn out_of_order(last: i32, first: i32) -> ProducerError {
    ProducerError::OutOfOrderSequence {
        producer_id: ID,
        last,
        first,
    }
}

#[test]
fn basic_id_mapping() {
    let mut log = Log::of(&[one(0, 0, 0), one(0, 1, 0)]);

    assert_eq!(log.refuses(one(0, 1, 0)), out_of_order(1, 1));
    assert_eq!(log.refuses(one(0, 5, 0)), out_of_order(1, 5));
    log.take(Origin::Client, one(1, 0, 0)).unwrap();
    let fenced = ProducerError::InvalidProducerEpoch {
        producer_id: ID,
        known: 1,
        epoch: 0,
    };
    assert_eq!(log.refuses(one(0, 0, 0)), fenced);
}

#[test]
fn marker_without_producer_state_starts_at_sequence_zero() {
    let mut log = Log::default();
    log.take(Origin::Coordinator, marker(2, 0, true, 0))
        .unwrap();

    assert_eq!(log.state().last_sequence(), -1);
    assert_eq!(log.refuses(one(2, 17, 1)), out_of_order(-1, 17));
    log.take(Origin::Client, one(2, 0, 1)).unwrap();
}

#[test]
fn sequences_begin_again_at_zero() {
    let mut log = Log::of(&[one(0, i32::MAX, 0)]);

    assert_eq!(log.refuses(one(0, 1, 1)), out_of_order(i32::MAX, 1));
    log.take(Origin::Client, one(0, 0, 1)).unwrap();
}

#[test]
fn a_batch_may_wrap_in_its_middle() {
    let log = Log::of(&[records(0, i32::MAX - 10, 21, 2000)]);

    let state = log.state();
    let [batch] = state.batches() else {
        panic!("one batch");
    };
    assert_eq!(batch.last_sequence, 9);
    assert_eq!(batch.first_sequence(), i32::MAX - 10);
    assert_eq!(
        (batch.first_offset(), batch.last_offset),
        (offset(2000), offset(2020))
    );
}

#[test]
fn a_new_producer_may_start_at_any_sequence() {
    Log::of(&[one(0, 16, 0), one(0, 17, 1)]);
}

#[test]
fn a_later_epoch_starts_at_zero() {
    let log = Log::of(&[one(0, 0, 0)]);

    assert_eq!(log.refuses(one(1, 1, 1)), out_of_order(-1, 1));
}

#[test]
fn out_of_sequence_after_a_marker_of_a_later_epoch() {
    let mut log = Log::of(&[one(0, 0, 0), one(0, 1, 1)]);
    log.take(Origin::Coordinator, marker(1, 1, false, 2))
        .unwrap();

    assert_eq!(log.refuses(one(1, 2, 3)), out_of_order(-1, 2));
    log.take(Origin::Client, one(1, 0, 3)).unwrap();
}

#[test]
fn a_plain_batch_inside_an_open_transaction_is_refused_on_leader_and_follower() {
    let log = Log::of(&[in_transaction(one(0, 0, 0))]);

    let expected = ProducerError::InvalidTransactionState {
        producer_id: ID,
        open_since: offset(0),
    };
    assert_eq!(log.refuses(one(0, 1, 1)), expected);
    assert_eq!(
        log.producers
            .check(Origin::Leader, [one(0, 1, 1)])
            .unwrap_err(),
        expected
    );
}

#[test]
fn a_follower_takes_gaps_and_lower_epochs() {
    let mut log = Log::of(&[one(1, 0, 0)]);

    log.take(Origin::Leader, one(1, 3, 1)).unwrap();
    assert_eq!(log.state().last_sequence(), 3);
    log.take(Origin::Leader, one(0, 4, 2)).unwrap();
    assert_eq!(log.state().producer_epoch(), 0);
    assert_eq!(
        log.state().batches().len(),
        1,
        "another epoch starts the window anew"
    );
}

#[test]
fn an_old_coordinator_is_fenced() {
    let mut log = Log::of(&[one(0, 0, 0)]);
    for coordinator in [1, 1, 2] {
        log.take(Origin::Coordinator, marker(0, coordinator, true, 1))
            .unwrap();
    }

    let fenced = ProducerError::CoordinatorFenced {
        producer_id: ID,
        known: 2,
        epoch: 1,
    };
    let old = marker(0, 1, true, 2);
    assert_eq!(
        log.producers.check(Origin::Coordinator, [old]).unwrap_err(),
        fenced
    );
    log.take(Origin::Leader, old).unwrap();
    assert_eq!(log.state().coordinator_epoch(), 1);
}

#[test]
fn a_marker_of_an_older_producer_epoch_is_fenced() {
    let log = Log::of(&[one(5, 0, 0)]);

    let old = marker(4, 0, true, 1);
    assert!(matches!(
        log.producers.check(Origin::Coordinator, [old]),
        Err(ProducerError::InvalidProducerEpoch {
            known: 5,
            epoch: 4,
            ..
        })
    ));
}

#[test]
fn only_transactions_with_records_complete() {
    let mut log = Log::of(&[in_transaction(records(0, 0, 3, 16))]);

    let completed = log
        .take(Origin::Coordinator, marker(0, 0, false, 40))
        .unwrap();
    let again = log
        .take(Origin::Coordinator, marker(0, 0, false, 41))
        .unwrap();

    assert_eq!(
        completed,
        [CompletedTransaction {
            producer_id: ID,
            first_offset: offset(16),
            last_offset: offset(40),
            aborted: true,
        }]
    );
    assert_eq!(again, []);
}

#[test]
fn a_control_batch_without_its_marker_says_nothing() {
    let mut log = Log::of(&[in_transaction(one(0, 0, 0))]);
    let before = log.state();
    let empty = ProducerBatch {
        content: Content::NoMarker,
        ..marker(7, 0, true, 1)
    };

    log.take(Origin::Leader, empty).unwrap();

    assert_eq!(log.state(), before);
}

#[test]
fn five_batches_are_remembered() {
    let batches: Vec<_> = (0..6)
        .map(|at| records(0, at * 2, 2, i64::from(at) * 2))
        .collect();
    let log = Log::of(&batches);

    assert_eq!(log.producers.duplicate(&batches[0]), None);
    for known in &batches[1..] {
        let found = log.producers.duplicate(known).unwrap();
        assert_eq!(found.first_offset(), known.first_offset);
        assert_eq!(found.last_offset, known.last_offset);
    }
    let longer = records(0, 10, 3, 10);
    assert_eq!(
        log.producers.duplicate(&longer),
        None,
        "first and last must match"
    );
    let later = ProducerBatch {
        producer_epoch: 1,
        ..batches[5]
    };
    assert_eq!(
        log.producers.duplicate(&later),
        None,
        "the epoch must match"
    );
}

#[test]
fn producers_expire_but_not_with_an_open_transaction() {
    let open = ProducerBatch {
        producer_id: 2,
        ..in_transaction(one(0, 0, 0))
    };
    let mut log = Log::of(&[one(0, 0, 0), open]);

    log.producers.expire(time(DAY - 1), DAY);
    assert_eq!(log.producers.len(), 2);
    log.producers.expire(time(DAY), DAY);
    assert_eq!(log.producers.get(ID), None, "at exactly that age");
    assert!(log.producers.get(2).is_some());
}

#[test]
fn a_snapshot_keeps_the_last_batch_and_what_is_open() {
    let open = ProducerBatch {
        producer_id: 2,
        ..in_transaction(records(3, 7, 4, 20))
    };
    let mut log = Log::of(&[one(0, 0, 0), one(0, 1, 1), open]);
    log.take(
        Origin::Coordinator,
        ProducerBatch {
            producer_id: 3,
            ..marker(9, 4, true, 30)
        },
    )
    .unwrap();

    let entries: Vec<_> = log.producers.to_snapshot().collect();
    let loaded = Producers::of_snapshot(&entries, time(40), DAY);

    let ids: Vec<i64> = entries.iter().map(|entry| entry.producer_id).collect();
    assert_eq!(ids, [1, 2, 3], "by id");
    assert_eq!(loaded.get(1).unwrap().batches().len(), 1);
    assert_eq!(loaded.get(1).unwrap().last_sequence(), 1);
    assert_eq!(loaded.get(2), log.producers.get(2));
    assert_eq!(loaded.get(3), log.producers.get(3));
    assert_eq!(entries[2].last_offset, None);
    assert_eq!(
        Producers::of_snapshot(&entries, time(DAY + 25), DAY).len(),
        2
    );
}

/// Kafka: `testFirstUnstableOffset`.
#[test]
fn the_first_unstable_offset_waits_for_the_high_watermark() {
    let mut log = Log::of(&[in_transaction(one(0, 0, 99))]);
    assert_eq!(log.transactions.first_unstable_offset(), Some(offset(99)));

    let other = ProducerBatch {
        producer_id: 2,
        ..in_transaction(one(0, 0, 105))
    };
    log.take(Origin::Client, other).unwrap();
    log.take(Origin::Coordinator, marker(0, 0, true, 109))
        .unwrap();
    assert_eq!(log.transactions.first_unstable_offset(), Some(offset(99)));

    log.transactions.replicated_below(offset(109));
    assert_eq!(
        log.transactions.first_unstable_offset(),
        Some(offset(99)),
        "the marker is at 109"
    );
    log.transactions.replicated_below(offset(110));
    assert_eq!(log.transactions.first_unstable_offset(), Some(offset(105)));

    let end = ProducerBatch {
        producer_id: 2,
        ..marker(0, 0, false, 112)
    };
    log.take(Origin::Coordinator, end).unwrap();
    log.transactions.replicated_below(offset(113));
    assert_eq!(log.transactions.first_unstable_offset(), None);
    assert!(log.transactions.is_empty());
}

/// Kafka: `testLastStableOffsetCompletedTxn`: what the transaction index gets.
#[test]
fn an_ended_transaction_is_stable_up_to_the_next_open_one() {
    let mut transactions = Transactions::new();
    for (producer, first) in [(1, 99), (2, 180), (3, 200)] {
        transactions.start(offset(first), producer);
    }
    let mut end = |producer, first, last| {
        transactions.end(&CompletedTransaction {
            producer_id: producer,
            first_offset: offset(first),
            last_offset: offset(last),
            aborted: false,
        })
    };

    assert_eq!(end(2, 180, 210), offset(99));
    assert_eq!(end(3, 200, 211), offset(99));
    assert_eq!(end(1, 99, 212), offset(213));
}
