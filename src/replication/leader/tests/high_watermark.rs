//! The high watermark.

use super::*;

/// A record is committed when the fetch *behind* it has come: a fetch offset proves what is below.
#[test]
fn a01_the_second_fetch_commits() {
    for mut world in World::both(&[1, 2]) {
        world.append(1);
        world.fetch(2, 0);
        assert_eq!(world.high_watermark, at(0));

        world.fetch(2, 1);

        assert_eq!(world.high_watermark, at(1));
    }
}

#[test]
fn a18_the_high_watermark_is_the_lowest_end_of_those_who_hold_it() {
    // Member, caught up, eligible: whether a replica at 4 of 10 holds it.
    let rows = [
        (true, true, true, true),
        (true, true, false, true),
        (true, false, true, true),
        (true, false, false, true),
        (false, true, true, true),
        (false, true, false, false),
        (false, false, true, false),
        (false, false, false, false),
    ];
    for (member, caught_up, eligible, holds) in rows {
        let isr: &[i32] = if member { &[1, 2, 3] } else { &[1, 2] };
        let mut world = World::leading(isr);
        world.append(4);
        if let Some(proposal) = proposed(&world.fetch(3, 4)) {
            world.answer(&proposal, Err(ErrorCode::IneligibleReplica));
        }
        world.append(6);
        if !caught_up {
            world.pass(30_001);
        }
        if !eligible {
            world.brokers.register(
                BrokerId(3),
                BrokerView {
                    fenced: true,
                    ..alive(3)
                },
            );
        }

        world.fetch(2, 10);

        let expected = if holds { at(4) } else { at(10) };
        let row = (member, caught_up, eligible);
        let why = world.partition.holds(world.now, &world.env(), BrokerId(3));
        let reason = match row {
            (true, _, _) => Holds::Member,
            (false, true, true) => Holds::CatchingUp,
            (false, _, _) => Holds::No,
        };
        assert_eq!(why, Ok(reason), "{row:?}");
        assert_eq!(world.high_watermark, expected, "{row:?}");
    }
}

/// A member from which nothing has come in this term holds it wherever it is.
#[test]
fn a18_every_member_must_have_fetched() {
    for mut world in World::both(&[1, 2, 3]) {
        world.append(5);
        world.fetch(2, 5);
        assert_eq!(world.high_watermark, at(0));

        world.fetch(3, 2);

        assert_eq!(world.high_watermark, at(2));
    }
}

/// The minimum looks at the committed ISR, the watermark at the maximal one.
#[test]
fn a18_nothing_moves_under_the_minimum() {
    for mut world in World::both(&[1, 2]) {
        world.config.min_in_sync_replicas = 3;
        world.append(5);
        world.fetch(2, 5);
        let proposal = proposed(&world.fetch(3, 5)).unwrap();
        world.fetch(3, 5);
        assert_eq!(world.maximal(), ids(&[1, 2, 3]));
        assert_eq!(world.high_watermark, at(0));

        world.accept(&proposal);

        assert_eq!(world.high_watermark, at(5));
    }
}

/// A fetch that does not move its follower is no occasion to look.
#[test]
fn a18_a_fetch_at_the_same_offset_moves_nothing() {
    let mut world = World::leading(&[1, 2]);
    world.config.min_in_sync_replicas = 2;
    world.metadata(1, 0, 1, &[1, 2, 3], &[1]);
    world.append(5);
    world.fetch(2, 5);
    assert_eq!(world.high_watermark, at(0));
    world.config.min_in_sync_replicas = 1;

    world.fetch(2, 5);

    assert_eq!(world.high_watermark, at(0));
    world.append(1);
    assert_eq!(world.high_watermark, at(5));
}

/// Whatever comes, the maximal ISR holds what the controller may have.
#[test]
fn a19_the_maximal_isr_holds_both_sides_of_a_change() {
    let mut world = World::leading(&[1, 2]);
    world.append(2);
    world.fetch(2, 2);
    let grow = proposed(&world.fetch(3, 2)).unwrap();
    assert_eq!(world.maximal(), ids(&[1, 2, 3]));
    world.accept(&grow);

    world.append(1);
    world.pass(30_001);
    world.fetch(2, 3);
    let shrink = proposed(&world.tick()).unwrap();

    assert_eq!(shrink.change, Change::Shrink(ids(&[3])));
    assert_eq!(world.maximal(), ids(&[1, 2, 3]));
}

/// [`World::handle`] asserts that each raise is one; a follower that goes back lowers nothing.
#[test]
fn a20_a_follower_that_goes_back_does_not_take_the_watermark_along() {
    for mut world in World::both(&[1, 2]) {
        world.append(5);
        world.fetch(2, 5);
        assert_eq!(world.high_watermark, at(5));

        let out = world.fetch(2, 3);

        assert_eq!(world.replica(2).log_end_offset, Some(at(3)));
        assert!(
            !out.iter()
                .any(|output| matches!(output, Output::RaiseHighWatermark(_)))
        );
    }
}

/// A leader that is alone and appends a record between every two fetches: the follower is always
/// one behind, and still gets in, because the watermark waits for it once it was caught up.
#[test]
fn a21_a_follower_that_catches_up_is_let_in() {
    for mut world in World::both(&[1]) {
        world.append(1);
        world.fetch(2, 0);
        let mut behind = 0;
        let joined = (0..10).any(|_| {
            let next = world.log_end.get();
            world.append(1);
            world.pass(100);
            let out = world.fetch(2, next);
            behind = world.log_end.get() - next;
            proposed(&out).is_some()
        });

        assert_eq!(behind, 1);
        assert!(joined);
    }
}

/// The same follower, never caught up, does not hold it: it has to come near first.
#[test]
fn a21_a_follower_far_behind_holds_nothing() {
    let mut world = World::leading(&[1]);
    world.append(10);
    world.fetch(2, 0);
    world.fetch(2, 2);

    world.append(1);

    assert_eq!(world.high_watermark, at(11));
}

#[test]
fn a22_the_effective_minimum_is_at_most_the_number_of_replicas() {
    for (configured, replicas, isr, under, at_min) in [
        (2, &[1, 2][..], &[1, 2][..], false, true),
        (2, &[1, 2], &[1], true, false),
        (3, &[1, 2], &[1, 2], false, true),
        (1, &[1, 2, 3], &[1, 2], false, false),
        (4, &[1, 2, 3], &[1, 2], true, false),
        // An adding replica counts.
        (4, &[1, 2, 3, 4], &[1, 2, 3], true, false),
    ] {
        let mut world = World::new(Compatibility::Highwater);
        world.config.min_in_sync_replicas = configured;
        world.metadata(1, 0, 0, replicas, isr);

        let row = (configured, replicas, isr);
        assert_eq!(
            world.partition.is_under_min_isr(&world.env()),
            under,
            "{row:?}"
        );
        assert_eq!(
            world.partition.is_at_min_isr(&world.env()),
            at_min,
            "{row:?}"
        );
    }
    let mut follower = World::leading(&[1]);
    follower.config.min_in_sync_replicas = 2;
    follower.metadata(2, 1, 1, &[1, 2, 3], &[2]);
    assert!(!follower.partition.is_under_min_isr(&follower.env()));
}

#[test]
fn b01_the_leader_knows_the_last_fetch_offset_of_each() {
    let mut world = World::leading(&[1, 2, 3]);
    world.append(150);

    world.fetch(2, 148);
    world.fetch(3, 145);

    assert_eq!(world.log_end, at(150));
    assert_eq!(world.replica(2).log_end_offset, Some(at(148)));
    assert_eq!(world.replica(3).log_end_offset, Some(at(145)));
}

#[test]
fn b02_the_150_148_145_example() {
    for mut world in World::both(&[1, 2, 3]) {
        world.append(150);
        world.fetch(2, 148);
        world.fetch(3, 145);

        assert_eq!(world.high_watermark, at(145));
        for (offset, readable) in [(144, true), (145, false), (149, false), (150, false)] {
            let answer = world
                .partition
                .consumer_read(&world.env(), offset, None, None, true)
                .unwrap();
            assert_eq!(answer.outcome, FetchOutcome::Records(at(offset)));
            assert_eq!(at(offset) < answer.high_watermark, readable);
        }
        let above = world
            .partition
            .consumer_read(&world.env(), 151, None, None, true);
        assert_eq!(above, Err(ErrorCode::OffsetOutOfRange));
    }
}

/// An outsider at 140 that is caught up and eligible holds it there.
#[test]
fn b02_a_caught_up_outsider_counts() {
    let mut world = World::leading(&[1, 2]);
    world.append(140);
    world.fetch(2, 140);
    let proposal = proposed(&world.fetch(3, 140)).unwrap();
    world.answer(&proposal, Err(ErrorCode::OperationNotAttempted));
    world.append(10);

    world.fetch(2, 148);

    assert_eq!(world.high_watermark, at(140));
}

/// The third replica of the example is elected: its log is shorter, its watermark is the old one.
#[test]
fn b03_what_a_consumer_has_read_is_on_the_next_leader() {
    let mut world = World::new(Compatibility::Highwater);
    world.metadata(3, 0, 0, &[1, 2, 3], &[1, 2, 3]);
    world.epochs.assign(epoch(0), at(0));
    world.log_end = at(145);
    world.high_watermark = at(145);

    world.metadata(1, 1, 1, &[1, 2, 3], &[1, 2]);

    assert_eq!(world.high_watermark, at(145));
    let answer = world
        .partition
        .consumer_read(&world.env(), 145, None, None, true)
        .unwrap();
    assert_eq!(answer.outcome, FetchOutcome::Records(at(145)));
    let diverging = FetchOutcome::Diverging {
        epoch: 0,
        end_offset: at(145),
    };
    let mut request = world.fetch_request(2, 148);
    request.last_epoch = Some(0);
    let out = world.handle(Input::Fetch(request));
    assert_eq!(fetched(&out).unwrap().outcome, diverging);
}

/// The answer to the fetch that commits is the one from before; the next carries the new watermark.
#[test]
fn b05_a_follower_learns_of_a_commit_one_fetch_later() {
    for mut world in World::both(&[1, 2]) {
        world.append(1);
        let answers = [0, 1, 1].map(|offset| {
            let out = world.fetch(2, offset);
            fetched(&out).unwrap().high_watermark
        });

        assert_eq!(answers, [at(0), at(0), at(1)]);
    }
}

/// A member that lags counts until its removal is committed.
#[test]
fn b08_a_removed_member_counts_no_more() {
    for mut world in World::both(&[1, 2, 3]) {
        world.append(5);
        world.fetch(3, 2);
        world.pass(30_001);
        world.fetch(2, 5);
        let proposal = proposed(&world.tick()).unwrap();
        assert_eq!(world.high_watermark, at(2));

        let out = world.accept(&proposal);

        assert_eq!(marked(&out), [Marked::IsrShrink]);
        assert_eq!(world.high_watermark, at(5));
    }
}

#[test]
fn b09_a_leader_alone_commits_unless_the_minimum_is_two() {
    for (minimum, expected) in [(1, 3), (2, 0)] {
        let mut world = World::leading(&[1]);
        world.config.min_in_sync_replicas = minimum;

        world.append(3);

        assert_eq!(world.high_watermark, at(expected));
    }
}
