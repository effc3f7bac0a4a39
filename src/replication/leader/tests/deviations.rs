//! Where our rules differ from Kafka's, each in both modes. D1 is C1.

use super::*;
use crate::replication::alter_partition::retry_pause_ms;

/// D2: the answer to an overtaken proposal passes for that to an equal one.
#[test]
fn d02_an_answer_belongs_to_the_proposal_with_its_id() {
    for mut world in World::both(&[1]) {
        let overtaken = proposed(&world.fetch(2, 0)).unwrap();
        world.metadata(1, 0, 0, &[1, 2, 3], &[1]);
        let present = proposed(&world.fetch(2, 0)).unwrap();
        assert!(overtaken.asks_the_same(&present));

        let out = world.accept(&overtaken);

        if world.config.compatibility == Compatibility::Kafka {
            assert_eq!(world.isr(), ids(&[1, 2]));
        } else {
            assert_eq!(out, []);
            assert_eq!(world.pending().unwrap().proposal, present);
            world.accept(&present);
            assert_eq!(world.isr(), ids(&[1, 2]));
        }
    }
}

/// D3: a refused proposal is sent again after a pause that doubles, not at once.
#[test]
fn d03_a_proposal_is_tried_again_after_a_pause() {
    let mut world = World::leading(&[1]);
    let mut proposal = proposed(&world.fetch(2, 0)).unwrap();
    let mut pauses = Vec::new();
    for _ in 0..3 {
        let out = world.answer(&proposal, Err(ErrorCode::NotController));
        assert_eq!(proposed(&out), None);
        let Some(Output::TickAt(due)) = out.last() else {
            panic!("no time to wake up: {out:?}");
        };
        let pause = due.millis() - world.now.millis();
        // A lost answer to the sending before changes nothing.
        assert_eq!(world.answer(&proposal, Ok(accepted(&proposal))), []);
        world.pass(pause - 1);
        assert_eq!(world.tick(), [Output::TickAt(*due)]);
        world.pass(1);
        let again = proposed(&world.tick()).unwrap();
        assert!(again.asks_the_same(&proposal));
        proposal = again;
        pauses.push(pause);
    }

    for (pause, least) in pauses.iter().zip([50, 100, 200]) {
        assert!((least..least + least / 4).contains(pause), "{pauses:?}");
    }
    world.accept(&proposal);
    assert_eq!(world.isr(), ids(&[1, 2]));
    assert!((6_400..8_000).contains(&retry_pause_ms(u32::MAX, 7)));
}

/// D4: what metadata overtakes is taken out of the broker's queue, or it blocks the next proposal.
#[test]
fn d04_an_overtaken_proposal_is_withdrawn() {
    for mut world in World::both(&[1]) {
        let proposal = proposed(&world.fetch(2, 0)).unwrap();

        let out = world.metadata(1, 1, 1, &[1, 2, 3], &[1]);

        let withdrawn = out.contains(&Output::Withdraw(proposal.id));
        let ours = world.config.compatibility == Compatibility::Highwater;
        assert_eq!(withdrawn, ours);
    }
}

/// D6: the watermark passes the offset again, with other records: leader, follower and leader again
/// within the wait, and a reign that skipped an epoch.
#[test]
fn d06_a_producer_is_not_told_of_other_records() {
    for (epochs, holds) in [
        (&[1][..], true),
        (&[1, 2], true),
        (&[2], false),
        (&[1, 3], false),
    ] {
        for mut world in World::both(&[1]) {
            world.metadata(1, 0, 1, &[1, 2, 3], &[1, 2]);
            let waiter = world.append_with(1, Acks::All).unwrap().waiter.unwrap();
            for (next, partition_epoch) in epochs.iter().zip(2..) {
                world.metadata(1, *next, partition_epoch, &[1, 2, 3], &[1, 2]);
            }
            world.fetch(2, 1);
            assert_eq!(world.high_watermark, at(1));

            let progress = waiter.check(&world.partition, &world.env());

            let kafka = world.config.compatibility == Compatibility::Kafka;
            let expected = if kafka || holds {
                Ok(())
            } else {
                Err(ErrorCode::NotLeaderOrFollower)
            };
            assert_eq!(progress, Progress::Done(expected), "{epochs:?}");
        }
    }
    for mut world in World::both(&[1, 2]) {
        let waiter = world.append_with(1, Acks::All).unwrap().waiter.unwrap();
        world.metadata(2, 1, 1, &[1, 2, 3], &[1, 2]);
        let lost = Progress::Done(Err(ErrorCode::NotLeaderOrFollower));
        assert_eq!(waiter.check(&world.partition, &world.env()), lost);
    }
}

/// D8: a parked fetch that names an epoch from the future is answered, not left to time out.
#[test]
fn d08_a_parked_fetch_of_an_unknown_epoch_is_answered() {
    let mut world = World::leading(&[1, 2]);
    let mut request = world.fetch_request(2, 0);
    request.leader_epoch = Some(1);

    let end = FetchWaiter { request }.check(&world.partition, &world.env());

    assert_eq!(end, Err(FetchEnd::Failed(ErrorCode::UnknownLeaderEpoch)));
}

/// Kafka leaves the watermark where the refused replica held it, until something moves: on a quiet
/// topic producers time out though everything is replicated.
#[test]
fn a_refused_expansion_looks_at_the_watermark_again() {
    for error in [
        ErrorCode::IneligibleReplica,
        ErrorCode::OperationNotAttempted,
    ] {
        for mut world in World::both(&[1, 2]) {
            world.append(2);
            world.fetch(2, 2);
            let proposal = proposed(&world.fetch(3, 2)).unwrap();
            world.append(4);
            world.fetch(2, 6);
            world.brokers.register(
                BrokerId(3),
                BrokerView {
                    fenced: true,
                    ..alive(3)
                },
            );
            assert_eq!(world.high_watermark, at(2));

            world.answer(&proposal, Err(error));

            let ours = world.config.compatibility == Compatibility::Highwater;
            let expected = if ours { at(6) } else { at(2) };
            assert_eq!(world.high_watermark, expected);
        }
    }
}

/// Kafka 4.4 counts the base of the batch that a fetch begins in.
#[test]
fn a_fetch_inside_a_batch_counts_as_it_stands() {
    for mut world in World::both(&[1, 2]) {
        world.append(4);
        world.append(4);
        let mut request = world.fetch_request(2, 6);
        request.batch_base = Some(at(4));

        world.handle(Input::Fetch(request));

        let kafka = world.config.compatibility == Compatibility::Kafka;
        let expected = if kafka { at(4) } else { at(6) };
        assert_eq!(world.replica(2).log_end_offset, Some(expected));
        assert_eq!(world.high_watermark, expected);
    }
}
