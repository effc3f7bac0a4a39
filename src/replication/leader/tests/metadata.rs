//! Registrations.

use super::*;

fn applied(out: &[Output]) -> Applied {
    let applied = out.iter().find_map(|output| match output {
        Output::Applied(applied) => Some(*applied),
        _ => None,
    });
    applied.unwrap()
}

/// C1: the same leader, one epoch on, and more than one. Broker 2 may have led in between and cut
/// the log of 3; Kafka goes on with what it knew and commits what 3 has lost.
#[test]
fn c01_followers_are_forgotten_unless_the_epoch_rose_by_one() {
    let row = |compatibility, next| {
        let mut world = World::leading_with(&[1, 2, 3], compatibility);
        world.append(6);
        world.fetch(2, 2);
        world.fetch(3, 6);
        world.metadata(1, next, 2, &[1, 2, 3], &[1, 2, 3]);
        let known = world.replica(3).log_end_offset;
        world.fetch(2, 6);
        (known, world.high_watermark)
    };

    assert_eq!(row(Compatibility::Kafka, 1), (Some(at(6)), at(6)));
    assert_eq!(row(Compatibility::Kafka, 2), (Some(at(6)), at(6)));
    assert_eq!(row(Compatibility::Highwater, 1), (Some(at(6)), at(6)));
    assert_eq!(row(Compatibility::Highwater, 2), (None, at(2)));
    assert_eq!(row(Compatibility::Highwater, 7), (None, at(2)));
}

/// Kafka: `ReplicaTest`, resets of an elected and a re-elected leader.
#[test]
fn c02_what_a_leader_knows_when_its_epoch_begins() {
    for mut world in World::both(&[1, 2]) {
        world.append(10);
        world.fetch(2, 10);
        let proposal = proposed(&world.fetch(3, 10)).unwrap();
        world.answer(&proposal, Err(ErrorCode::IneligibleReplica));
        world.append(1);
        world.pass(1_000);

        world.metadata(1, 1, 1, &[1, 2, 3], &[1, 2]);

        for (id, time) in [(2, Some(world.now)), (3, None)] {
            let kept = world.replica(id);
            assert_eq!(kept.log_end_offset, Some(at(10)));
            assert_eq!(kept.broker_epoch, Some(alive(id).epoch));
            assert_eq!(kept.last_fetch_leader_log_end, Some(at(11)));
            assert_eq!((kept.last_fetch, kept.last_caught_up), (time, time));
        }

        world.metadata(2, 2, 2, &[1, 2, 3], &[1, 2]);
        world.metadata(1, 3, 3, &[1, 2, 3], &[1, 2]);

        for (id, time) in [(2, Some(world.now)), (3, None)] {
            let fresh = world.replica(id);
            assert_eq!(fresh.log_end_offset, None);
            assert_eq!(fresh.broker_epoch, None);
            assert_eq!(fresh.last_fetch_leader_log_end, None);
            assert_eq!((fresh.last_fetch, fresh.last_caught_up), (None, time));
        }
    }
}

/// Kafka: `testIgnoreLeaderPartitionStateChangeWithOlderPartitionEpoch`,
/// `testDoNotResetReplicaStateIfLeaderEpochIsNotBumped`.
#[test]
fn c03_a_registration_counts_from_the_known_partition_epoch_on() {
    for mut world in World::both(&[1, 2]) {
        world.metadata(1, 8, 4, &[1, 2, 3], &[1, 2]);
        world.append(1);
        world.fetch(2, 1);
        let before = world.partition.clone();

        let old = world.metadata(2, 9, 3, &[1, 2, 3], &[2]);
        assert_eq!(applied(&old), Applied::Ignored);
        assert_eq!(world.partition, before);

        let same = world.metadata(1, 8, 4, &[1, 2, 3], &[1]);
        assert_eq!(applied(&same), Applied::LeadsOn { new_epoch: false });
        assert_eq!(world.isr(), ids(&[1]));
        assert_eq!(world.replica(2).log_end_offset, Some(at(1)));
        assert_eq!(world.partition.epoch_start(), Some(at(0)));
    }
}

/// KAFKA-7415: the first output of a new epoch, before anything is served. The log then ends its
/// epoch before.
#[test]
fn c04_a_leader_notes_its_epoch_before_it_serves() {
    let mut world = World::new(Compatibility::Highwater);
    world.metadata(2, 0, 0, &[1, 2], &[1, 2]);
    world.epochs.assign(epoch(0), at(0));
    world.log_end = at(4);

    let out = world.metadata(1, 8, 1, &[1, 2], &[1, 2]);

    assert_eq!(out.first(), Some(&Output::AssignEpoch(epoch(8))));
    assert_eq!(world.partition.epoch_start(), Some(at(4)));
    let end = world
        .partition
        .end_offset_for(&world.env(), 0, None)
        .unwrap();
    let ends_at_4 = EndOffset {
        epoch: 0,
        end_offset: at(4),
    };
    assert_eq!(end, Some(ends_at_4));
}

/// Kafka: `testMakeFollowerWithNoLeaderIdChange`: the fetcher starts anew with each epoch.
#[test]
fn c05_a_follower_has_forgotten_what_a_leader_knows() {
    for mut world in World::both(&[1, 2]) {
        world.fetch(2, 0);

        let out = world.metadata(2, 1, 1, &[1, 2, 3], &[1, 2]);
        assert_eq!(applied(&out), Applied::Follows { new_epoch: true });
        assert!(out.contains(&Output::Wake(Wake::Role)));
        assert_eq!(world.partition.isr(), None);
        assert_eq!(world.partition.replicas(), []);
        assert_eq!(world.partition.epoch_start(), None);
        assert_eq!(world.partition.leader(), Some(BrokerId(2)));

        let again = world.metadata(2, 1, 2, &[1, 2, 3], &[2]);
        assert_eq!(applied(&again), Applied::Follows { new_epoch: false });
        let nobody = world.metadata(-1, 2, 3, &[1, 2, 3], &[2]);
        assert_eq!(applied(&nobody), Applied::Follows { new_epoch: true });
        assert_eq!(world.partition.leader(), None);
    }
}

/// A reassignment: who is there stays as it is, who comes is new, who goes is forgotten.
#[test]
fn c05_replicas_come_and_go_with_the_assignment() {
    let mut world = World::leading(&[1, 2]);
    world.append(1);
    world.fetch(2, 1);

    world.metadata(1, 0, 1, &[1, 2, 4], &[1, 2]);

    let known: Vec<_> = world
        .partition
        .replicas()
        .iter()
        .map(|replica| replica.id.0)
        .collect();
    assert_eq!(known, [2, 4]);
    assert_eq!(world.replica(2).log_end_offset, Some(at(1)));
    assert_eq!(world.replica(4), &ReplicaState::joined(BrokerId(4)));
}

#[test]
fn becoming_leader_looks_at_the_watermark() {
    for mut world in World::both(&[1, 2]) {
        world.append(3);

        world.metadata(1, 0, 1, &[1, 2, 3], &[1]);

        assert_eq!(world.high_watermark, at(3));
    }
}

#[test]
fn after_a_failure_of_the_log_nothing_is_served() {
    let mut world = World::leading(&[1]);
    world.append(1);

    let out = world.handle(Input::StorageFailed);

    assert_eq!(out, [Output::Wake(Wake::Role)]);
    assert_eq!(
        fetched(&world.fetch(2, 1)),
        Err(ErrorCode::KafkaStorageError)
    );
    let refused = world.append_with(1, Acks::All);
    assert_eq!(refused, Err(ErrorCode::KafkaStorageError));
    let ignored = applied(&world.metadata(1, 1, 1, &[1, 2], &[1]));
    assert_eq!(ignored, Applied::Ignored);
}
