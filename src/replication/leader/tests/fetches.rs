//! How fetches are answered.

use super::*;

/// Kafka: `testLastFetchedOffsetValidation`, its numbers.
#[test]
fn a24_a_fetch_finds_where_the_logs_went_different_ways() {
    let mut world = World::new(Compatibility::Highwater);
    for (number, start) in [(0, 0), (3, 2), (4, 8), (7, 13), (9, 14)] {
        world.epochs.assign(epoch(number), at(start));
    }
    world.metadata(2, 9, 0, &[1, 2, 3], &[1, 2]);
    world.log_end = at(17);
    world.metadata(1, 10, 1, &[1, 2, 3], &[1, 2]);
    let out_of_range = Err(ErrorCode::OffsetOutOfRange);
    let diverging = |epoch, end| {
        Ok(FetchOutcome::Diverging {
            epoch,
            end_offset: at(end),
        })
    };
    let records = |offset| Ok(FetchOutcome::Records(at(offset)));
    for (log_start, last_epoch, offset, expected) in [
        (0, 2, 5, diverging(0, 2)),
        (0, 0, 4, diverging(0, 2)),
        (0, 6, 6, diverging(4, 13)),
        (0, 5, 9, diverging(4, 13)),
        (0, 10, 18, diverging(10, 17)),
        (0, 11, 6, out_of_range),
        (0, -1, 6, out_of_range),
        (0, 9, 17, records(17)),
        (0, 3, 8, records(8)),
        (5, 0, 0, out_of_range),
        (10, 3, 6, out_of_range),
        (10, 5, 6, out_of_range),
    ] {
        world.log_start = at(log_start);
        let mut request = world.fetch_request(2, offset);
        request.last_epoch = Some(last_epoch);

        let answer = world.partition.follower_read(&world.env(), &request);

        let row = (log_start, last_epoch, offset);
        assert_eq!(answer.map(|answer| answer.outcome), expected, "{row:?}");
    }
}

/// KAFKA-8400: a fetch that is told of a divergence has proved nothing.
#[test]
fn a09_a_diverging_fetch_does_not_count() {
    for mut world in World::both(&[1, 2]) {
        world.append(3);
        world.metadata(1, 1, 1, &[1, 2, 3], &[1, 2]);
        world.append(3);
        let before = world.partition.clone();
        let mut request = world.fetch_request(2, 5);
        request.last_epoch = Some(0);

        let out = world.handle(Input::Fetch(request));

        assert!(matches!(
            fetched(&out).unwrap().outcome,
            FetchOutcome::Diverging { .. }
        ));
        assert_eq!(out.len(), 1);
        assert_eq!(world.partition, before);
    }
}

#[test]
fn a30_the_epoch_is_looked_at_before_the_role() {
    let ours = Some(5);
    let newer = Some(6);
    let older = Some(4);
    for mut world in World::both(&[1, 2]) {
        world.metadata(1, 5, 1, &[1, 2, 3], &[1, 2]);
        let leader = world.clone();
        let mut follower = world;
        follower.metadata(2, 5, 2, &[1, 2, 3], &[1, 2]);
        let not_here = Some(ErrorCode::NotLeaderOrFollower);
        for (given, on_leader, on_follower) in [
            (None, None, not_here),
            (ours, None, not_here),
            (
                older,
                Some(ErrorCode::FencedLeaderEpoch),
                Some(ErrorCode::FencedLeaderEpoch),
            ),
            (
                newer,
                Some(ErrorCode::UnknownLeaderEpoch),
                Some(ErrorCode::UnknownLeaderEpoch),
            ),
        ] {
            for (mut world, expected) in
                [(leader.clone(), on_leader), (follower.clone(), on_follower)]
            {
                let mut request = world.fetch_request(2, 0);
                request.leader_epoch = given;
                let fetch = fetched(&world.handle(Input::Fetch(request)));
                assert_eq!(fetch.err(), expected, "{given:?}");
                let env = world.env();
                let consume = world.partition.consumer_read(&env, 0, given, None, true);
                assert_eq!(consume.err(), expected);
                let end = world.partition.end_offset_for(&env, 5, given);
                assert_eq!(end.err(), expected);
                let spec = OffsetSpec::Earliest;
                let list = world.partition.list_offsets(&env, spec, None, given, true);
                assert_eq!(list.err(), expected);
            }
        }
    }
}

/// KIP-392: a consumer that knows how may read from a follower.
#[test]
fn a30_a_follower_serves_consumers_that_want_it() {
    let mut world = World::leading(&[1, 2]);
    world.append(2);
    world.metadata(2, 1, 1, &[1, 2, 3], &[1, 2]);

    let read = |only_leader| {
        world
            .partition
            .consumer_read(&world.env(), 0, Some(1), None, only_leader)
    };

    assert!(read(false).is_ok());
    assert_eq!(read(true), Err(ErrorCode::NotLeaderOrFollower));
}

/// KAFKA-13837. Kafka: `testFetchFromUnrecognizedFollower`.
#[test]
fn a30_a_stranger_may_know_more_than_the_leader() {
    for mut world in World::both(&[1, 2]) {
        for stranger in [1, 4] {
            let mut request = world.fetch_request(stranger, 0);
            let out = world.handle(Input::Fetch(request));
            assert_eq!(fetched(&out), Err(ErrorCode::UnknownLeaderEpoch));
            request.leader_epoch = None;
            let out = world.handle(Input::Fetch(request));
            assert_eq!(fetched(&out), Err(ErrorCode::NotLeaderOrFollower));
        }
        world.metadata(1, 0, 1, &[1, 2, 3, 4], &[1, 2]);
        assert!(fetched(&world.fetch(4, 0)).is_ok());
        assert_eq!(world.replica(4).log_end_offset, Some(at(0)));
    }
}

#[test]
fn before_any_metadata_nobody_is_served() {
    let mut world = World::new(Compatibility::Highwater);
    let mut request = world.fetch_request(2, 0);
    let out = world.handle(Input::Fetch(request));
    assert_eq!(fetched(&out), Err(ErrorCode::NotLeaderOrFollower));
    request.leader_epoch = Some(0);
    let out = world.handle(Input::Fetch(request));
    assert_eq!(fetched(&out), Err(ErrorCode::UnknownLeaderEpoch));
}

/// A parked fetch: what ends it, and what it has in sight.
#[test]
fn c15_a_parked_fetch_ends_with_its_cause() {
    let mut world = World::leading(&[1, 2]);
    world.append(2);
    let mut request = world.fetch_request(2, 2);
    request.last_epoch = Some(0);
    let waiter = FetchWaiter { request };
    let check = |world: &World| waiter.check(&world.partition, &world.env());
    assert_eq!(check(&world), Ok((at(2), at(2))));

    world.append(3);
    assert_eq!(check(&world), Ok((at(2), at(5))));

    let mut cut = world.clone();
    cut.log_end = at(1);
    assert_eq!(check(&cut), Err(FetchEnd::Diverging));
    let mut next = world.clone();
    next.metadata(1, 1, 1, &[1, 2, 3], &[1, 2]);
    assert_eq!(
        check(&next),
        Err(FetchEnd::Failed(ErrorCode::FencedLeaderEpoch))
    );
    world.handle(Input::StorageFailed);
    assert_eq!(
        check(&world),
        Err(FetchEnd::Failed(ErrorCode::KafkaStorageError))
    );
}
