//! Who comes into the ISR and who leaves it.

use super::*;
use crate::replication::alter_partition::{Reaction, reaction};
use crate::replication::isr::{Ineligible, admission, eligible};

fn replica(broker_epoch: Option<i64>, log_end: i64) -> ReplicaState {
    ReplicaState {
        log_end_offset: Some(at(log_end)),
        broker_epoch: broker_epoch.map(BrokerEpoch),
        ..ReplicaState::joined(BrokerId(2))
    }
}

/// Each test is reached only if those before it pass: with all of them failing, each answer names
/// the first.
#[test]
fn a02_the_tests_of_an_admission_come_in_their_order() {
    let mut world = World::leading(&[1, 2]);
    world.append(2);
    world.fetch(3, 2);
    let state = |world: &World| world.partition.isr().unwrap().clone();
    let in_flight = {
        let mut other = World::leading(&[1]);
        other.fetch(2, 0);
        state(&other)
    };
    let bounds = LeaderBounds {
        high_watermark: at(5),
        epoch_start: Some(at(7)),
    };
    let nobody = Brokers::new();
    let come = |state: &IsrState, id: i32, log_end, brokers: &Brokers| {
        admission(
            state,
            BrokerId(id),
            Some(&replica(Some(12), log_end)),
            brokers,
            bounds,
        )
    };
    let own = state(&World::leading(&[1]));
    let member = state(&World::leading(&[1, 2]));

    assert_eq!(come(&in_flight, 1, 0, &nobody), Admission::InFlight);
    assert_eq!(come(&member, 2, 0, &nobody), Admission::Member);
    let unregistered = Admission::Ineligible(Ineligible::Unregistered);
    assert_eq!(come(&own, 2, 0, &nobody), unregistered);
    assert_eq!(
        come(&own, 2, 4, &world.brokers),
        Admission::BelowHighWatermark
    );
    assert_eq!(come(&own, 2, 6, &world.brokers), Admission::BelowEpochStart);
    assert_eq!(come(&own, 2, 7, &world.brokers), Admission::Proposed);
}

#[test]
fn a03_a_replica_is_eligible_if_its_broker_is_as_it_was() {
    let fetched = replica(Some(12), 0);
    for fenced in [false, true] {
        for shutting_down in [false, true] {
            for registered in [12, 13] {
                let mut brokers = Brokers::new();
                let view = BrokerView {
                    epoch: BrokerEpoch(registered),
                    fenced,
                    shutting_down,
                };
                brokers.register(BrokerId(2), view);

                let expected = match (fenced, shutting_down, registered) {
                    (true, _, _) => Err(Ineligible::Fenced),
                    (_, true, _) => Err(Ineligible::ShuttingDown),
                    (_, _, 13) => Err(Ineligible::OtherEpoch),
                    _ => Ok(()),
                };
                assert_eq!(eligible(Some(&fetched), &brokers), expected);
            }
        }
    }
    let brokers = World::leading(&[1]).brokers;
    assert_eq!(eligible(None, &brokers), Err(Ineligible::NoReplica));
    let unregistered = eligible(Some(&fetched), &Brokers::new());
    assert_eq!(unregistered, Err(Ineligible::Unregistered));
}

#[test]
fn a04_broker_epochs_are_equal_or_not_compared() {
    let mut brokers = Brokers::new();
    let view = BrokerView {
        epoch: BrokerEpoch(12),
        ..alive(2)
    };
    brokers.register(BrokerId(2), view);
    for (stored, expected) in [
        (None, Err(Ineligible::NotFetched)),
        (Some(-1), Ok(())),
        (Some(12), Ok(())),
        (Some(11), Err(Ineligible::OtherEpoch)),
        (Some(13), Err(Ineligible::OtherEpoch)),
    ] {
        assert_eq!(
            eligible(Some(&replica(stored, 0)), &brokers),
            expected,
            "{stored:?}"
        );
    }
}

#[test]
fn a05_minus_one_is_not_compared_on_either_side() {
    for mut world in World::both(&[1, 3]) {
        let mut request = world.fetch_request(2, 0);
        request.broker_epoch = BrokerEpoch::UNVERIFIED;

        let proposal = proposed(&world.handle(Input::Fetch(request))).unwrap();

        // Replica 3 is a member and has not fetched.
        let epochs: Vec<i64> = proposal.isr.iter().map(|(_, epoch)| epoch.0).collect();
        assert_eq!(epochs, [11, -1, -1]);
    }
    let mut world = World::leading(&[1]);
    world.brokers.unregister(BrokerId(2));
    let mut request = world.fetch_request(2, 0);
    request.broker_epoch = BrokerEpoch::UNVERIFIED;
    assert_eq!(proposed(&world.handle(Input::Fetch(request))), None);
}

/// At or above the high watermark and the start of the epoch, both inclusive. Kafka:
/// `testFollowerDoesNotJoinISRUntilCaughtUpToOffsetWithinCurrentLeaderEpoch`.
#[test]
fn a06_in_sync_is_from_the_watermark_and_the_epoch_start_on() {
    for (offset, joins) in [(3, false), (4, false), (5, true), (6, true)] {
        let mut world = World::new(Compatibility::Highwater);
        world.metadata(2, 0, 0, &[1, 2, 3], &[1, 2]);
        world.log_end = at(5);
        world.high_watermark = at(3);
        world.metadata(1, 1, 1, &[1, 2, 3], &[1, 2]);
        world.append(1);

        let out = world.fetch(3, offset);

        assert_eq!(proposed(&out).is_some(), joins, "{offset}");
        assert_eq!(world.isr(), ids(&[1, 2]));
    }
    for (offset, joins) in [(4, false), (5, true)] {
        let mut world = World::leading(&[1]);
        world.append(5);
        let out = world.fetch(2, offset);
        assert_eq!(proposed(&out).is_some(), joins, "{offset}");
    }
}

#[test]
fn a07_who_was_not_caught_up_in_time_leaves() {
    for (millis, leaves) in [(30_000, false), (30_001, true)] {
        let mut world = World::leading(&[1, 2, 3]);
        world.append(5);
        world.fetch(2, 5);
        world.fetch(3, 5);
        world.append(1);
        world.pass(millis);

        let proposal = proposed(&world.tick());

        // Both in one request.
        let change = leaves.then(|| Change::Shrink(ids(&[2, 3])));
        assert_eq!(proposal.map(|proposal| proposal.change), change);
    }
}

/// KAFKA-7152: nothing is appended, nobody leaves. One that has not fetched is not at the end.
#[test]
fn a07_who_is_at_the_log_end_never_leaves() {
    let mut world = World::leading(&[1, 2, 3]);
    world.append(5);
    world.fetch(2, 5);
    world.pass(90_000);

    let proposal = proposed(&world.tick()).unwrap();

    assert_eq!(proposal.change, Change::Shrink(ids(&[3])));
}

/// Kafka: `testSingleInFlightAlterIsr`.
#[test]
fn a08_nobody_leaves_while_a_change_is_in_flight() {
    for mut world in World::both(&[1, 2]) {
        world.append(1);
        world.fetch(2, 0);
        world.fetch(3, 1);
        assert!(world.pending().is_some());
        world.append(1);
        world.pass(30_001);

        assert_eq!(world.tick(), []);
    }
}

/// Kafka: `testUpdateFollowerFetchState`, `ReplicaTest`.
#[test]
fn a09_a_fetch_tells_up_to_where_and_since_when() {
    for mut world in World::both(&[1, 2]) {
        world.append(6);
        world.pass(500);
        world.fetch(2, 3);
        let began = Some(Timestamp::from_millis(START));
        assert_eq!(world.replica(2).last_caught_up, began);
        assert_eq!(world.replica(2).log_end_offset, Some(at(3)));

        // At the log end: now.
        world.pass(500);
        world.fetch(2, 6);
        let at_end = Some(world.now);
        assert_eq!(world.replica(2).last_caught_up, at_end);

        // Where the log ended at the fetch before: at that one.
        world.append(1);
        world.pass(500);
        world.fetch(2, 6);
        assert_eq!(world.replica(2).last_caught_up, at_end);
        let before = Some(world.now);
        world.append(1);
        world.pass(500);
        world.fetch(2, 7);
        assert_eq!(world.replica(2).last_caught_up, before);
        assert_eq!(world.replica(2).broker_epoch, Some(BrokerEpoch(12)));
    }
}

/// Kafka: `testFenceFollowerFetchWithStaleBrokerEpoch`. An old epoch counts while the broker is
/// fenced: it is stored, and keeps the replica out.
#[test]
fn a09_a_fetch_of_an_earlier_incarnation_changes_nothing() {
    for mut world in World::both(&[1]) {
        world.append(1);
        let mut request = world.fetch_request(2, 1);
        request.broker_epoch = BrokerEpoch(11);
        let before = world.partition.clone();

        let out = world.handle(Input::Fetch(request));

        assert_eq!(fetched(&out), Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(out.len(), 1);
        assert_eq!(world.partition, before);
        world.brokers.register(
            BrokerId(2),
            BrokerView {
                fenced: true,
                ..alive(2)
            },
        );
        let out = world.handle(Input::Fetch(request));
        assert!(fetched(&out).is_ok());
        assert_eq!(world.replica(2).broker_epoch, Some(BrokerEpoch(11)));
    }
}

#[test]
fn a10_the_isr_changes_by_the_controllers_word_only() {
    let mut world = World::leading(&[1, 2, 3]);
    world.append(3);
    world.fetch(2, 3);
    world.append(1);
    world.pass(30_001);
    world.fetch(2, 3);
    let proposal = proposed(&world.tick()).unwrap();
    world.fetch(3, 4);
    world.tick();
    assert_eq!(world.isr(), ids(&[1, 2, 3]));

    world.accept(&proposal);

    assert_ne!(world.isr(), ids(&[1, 2, 3]));
    world.metadata(1, 0, 5, &[1, 2, 3], &[1, 3]);
    assert_eq!(world.isr(), ids(&[1, 3]));
}

#[test]
fn a11_an_admission_counts_at_once() {
    for mut world in World::both(&[1]) {
        world.append(2);
        let proposal = proposed(&world.fetch(2, 2)).unwrap();
        assert_eq!(proposal.change, Change::Expand(BrokerId(2)));
        assert_eq!(world.isr(), ids(&[1]));
        assert_eq!(world.maximal(), ids(&[1, 2]));

        // Not even time takes it away.
        world.pass(90_000);
        world.append(3);

        assert_eq!(world.high_watermark, at(2));
    }
}

#[test]
fn a12_a_removal_does_not_count_before_it_is_committed() {
    for mut world in World::both(&[1, 2]) {
        world.append(2);
        world.pass(30_001);
        let proposal = proposed(&world.tick()).unwrap();
        assert_eq!(proposal.change, Change::Shrink(ids(&[2])));
        world.append(1);
        assert_eq!(world.high_watermark, at(0));

        world.accept(&proposal);

        assert_eq!(world.high_watermark, at(3));
    }
}

#[test]
fn a13_a_proposal_carries_the_present_epochs_and_is_pending_when_it_is_sent() {
    let mut world = World::leading(&[1]);
    world.metadata(1, 3, 7, &[1, 2, 3], &[1]);

    let proposal = proposed(&world.fetch(2, 0)).unwrap();

    assert_eq!(proposal.leader_epoch, epoch(3));
    assert_eq!(proposal.partition_epoch, PartitionEpoch(7));
    assert_eq!(world.pending().unwrap().proposal, proposal);
}

/// The answer counts, not what was asked.
#[test]
fn a14_the_isr_is_that_of_the_answer() {
    for mut world in World::both(&[1, 2]) {
        let proposal = proposed(&world.fetch(3, 0)).unwrap();
        let answer = AlterPartitionAnswer {
            isr: ids(&[1, 3]),
            partition_epoch: PartitionEpoch(4),
            ..accepted(&proposal)
        };

        let out = world.answer(&proposal, Ok(answer));

        assert_eq!(marked(&out), [Marked::IsrExpand]);
        assert_eq!(world.isr(), ids(&[1, 3]));
        assert_eq!(world.pending(), None);
        assert_eq!(world.partition.partition_epoch(), Some(PartitionEpoch(4)));
    }
}

#[test]
fn a15_an_answer_that_nobody_waits_for_is_dropped_and_counted() {
    for mut world in World::both(&[1]) {
        let overtaken = proposed(&world.fetch(2, 0)).unwrap();
        world.metadata(1, 0, 1, &[1, 2, 3], &[1]);
        let before = world.partition.clone();
        for result in [Ok(accepted(&overtaken)), Err(ErrorCode::NotController)] {
            assert_eq!(world.answer(&overtaken, result), []);
        }
        assert_eq!(
            world.partition.dropped_answers(),
            before.dropped_answers() + 2
        );
        assert_eq!(world.isr(), ids(&[1]));
        assert_eq!(world.partition.partition_epoch(), Some(PartitionEpoch(1)));
    }
}

/// The proposal is accepted and the watermark looked at in one transition; both waiters and
/// followers are told.
#[test]
fn a15_an_accepted_answer_raises_the_watermark_and_wakes() {
    let mut world = World::leading(&[1, 2]);
    world.append(2);
    world.pass(30_001);
    let proposal = proposed(&world.tick()).unwrap();

    let out = world.accept(&proposal);

    let raised = [
        Output::Marked(Marked::IsrShrink),
        Output::RaiseHighWatermark(at(2)),
        Output::Wake(Wake::HighWatermark),
    ];
    assert_eq!(out, raised);
}

/// Every error of the protocol.
#[test]
fn a16_each_error_has_its_reaction() {
    for error in ErrorCode::ALL {
        for mut world in World::both(&[1]) {
            let compatibility = world.config.compatibility;
            let proposal = proposed(&world.fetch(2, 0)).unwrap();

            let out = world.answer(&proposal, Err(*error));

            assert_eq!(marked(&out), [Marked::Failed], "{error}");
            let status = world.pending().map(|pending| pending.status);
            match (error.code(), compatibility) {
                (55 | 107, _) => assert_eq!(status, None, "{error}"),
                (3 | 100 | 74 | 95 | 42 | 108, _) => {
                    assert_eq!(reaction(*error), Reaction::AwaitMetadata);
                    assert_eq!(status, Some(PendingStatus::Frozen), "{error}");
                    assert_eq!(world.maximal(), ids(&[1, 2]));
                }
                (_, Compatibility::Kafka) => {
                    let again = proposed(&out).unwrap();
                    assert!(again.asks_the_same(&proposal));
                    assert_ne!(again.id, proposal.id);
                }
                (_, Compatibility::Highwater) => {
                    assert_eq!(proposed(&out), None);
                    assert!(
                        matches!(status, Some(PendingStatus::Paused { .. })),
                        "{error}"
                    );
                }
            }
        }
    }
}

/// A frozen proposal holds everything until metadata comes, be it the same again.
#[test]
fn a16_a_frozen_proposal_waits_for_metadata() {
    for mut world in World::both(&[1, 3]) {
        let proposal = proposed(&world.fetch(2, 0)).unwrap();
        world.answer(&proposal, Err(ErrorCode::InvalidUpdateVersion));
        world.append(1);
        world.pass(90_000);
        assert_eq!(world.tick(), []);
        assert_eq!(proposed(&world.fetch(2, 1)), None);

        world.metadata(1, 0, 0, &[1, 2, 3], &[1, 3]);

        assert_eq!(world.pending(), None);
        assert!(proposed(&world.fetch(2, 1)).is_some());
    }
}

#[test]
fn a17_an_answer_of_another_epoch_freezes_the_proposal() {
    for (leader_epoch, partition_epoch, taken) in [
        (4, 9, false),
        (6, 9, false),
        (5, 7, false),
        (5, 8, true),
        (5, 9, true),
    ] {
        for mut world in World::both(&[1]) {
            world.metadata(1, 5, 8, &[1, 2, 3], &[1]);
            let proposal = proposed(&world.fetch(2, 0)).unwrap();
            let answer = AlterPartitionAnswer {
                leader_epoch,
                partition_epoch: PartitionEpoch(partition_epoch),
                ..accepted(&proposal)
            };

            let out = world.answer(&proposal, Ok(answer));

            let (mark, isr) = if taken {
                (Marked::IsrExpand, ids(&[1, 2]))
            } else {
                (Marked::Failed, ids(&[1]))
            };
            assert_eq!(marked(&out), [mark]);
            assert_eq!(world.isr(), isr);
            assert_eq!(world.pending().is_some(), !taken);
        }
    }
}
