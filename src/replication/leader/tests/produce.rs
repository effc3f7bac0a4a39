//! Appends, deletions, and those who wait for them.

use super::*;

/// acks x ISR below or at the minimum.
#[test]
fn b04_only_acks_all_needs_the_minimum() {
    for acks in [Acks::None, Acks::Leader, Acks::All] {
        for (isr, enough) in [(&[1][..], false), (&[1, 2], true)] {
            let mut world = World::leading(isr);
            world.config.min_in_sync_replicas = 2;

            let produced = world.append_with(2, acks);

            if acks == Acks::All && !enough {
                assert_eq!(produced, Err(ErrorCode::NotEnoughReplicas));
                assert_eq!(world.log_end, at(0));
            } else {
                let waiter = produced.unwrap().waiter;
                assert_eq!(waiter.is_some(), acks == Acks::All);
                assert_eq!(world.log_end, at(2));
            }
        }
    }
    assert_eq!(Acks::from_wire(-1), Ok(Acks::All));
    assert_eq!(Acks::from_wire(0), Ok(Acks::None));
    assert_eq!(Acks::from_wire(1), Ok(Acks::Leader));
    assert_eq!(Acks::from_wire(2), Err(ErrorCode::InvalidRequiredAcks));
}

#[test]
fn b04_acks_all_waits_for_the_watermark() {
    for mut world in World::both(&[1, 2]) {
        let waiter = world.append_with(2, Acks::All).unwrap().waiter.unwrap();
        assert_eq!(waiter.required, at(2));
        assert_eq!(
            waiter.check(&world.partition, &world.env()),
            Progress::Waits
        );

        world.fetch(2, 2);

        assert_eq!(
            waiter.check(&world.partition, &world.env()),
            Progress::Done(Ok(()))
        );
    }
}

/// The same offset is acknowledged, refused, and acknowledged again, as the maximal ISR changes.
#[test]
fn a22_an_acknowledgement_counts_the_maximal_isr() {
    for mut world in World::both(&[1, 2]) {
        world.config.min_in_sync_replicas = 2;
        let waiter = world.append_with(1, Acks::All).unwrap().waiter.unwrap();
        world.fetch(2, 1);
        let check = |world: &World| waiter.check(&world.partition, &world.env());
        assert_eq!(check(&world), Progress::Done(Ok(())));

        // Proposed to leave: it counts.
        world.append(1);
        world.pass(30_001);
        let shrink = proposed(&world.tick()).unwrap();
        assert_eq!(check(&world), Progress::Done(Ok(())));

        world.accept(&shrink);
        let too_few = Progress::Done(Err(ErrorCode::NotEnoughReplicasAfterAppend));
        assert_eq!(check(&world), too_few);

        // Proposed to come: it counts.
        world.fetch(2, 2);
        assert!(world.pending().is_some());
        assert_eq!(check(&world), Progress::Done(Ok(())));
    }
}

#[test]
fn an_append_wakes_those_who_wait_for_records() {
    let mut world = World::leading(&[1]);
    let request = world.request();
    let acks = Acks::Leader;
    let out = world.handle(Input::Append { request, acks });
    let append = Output::Append {
        request,
        epoch: epoch(0),
    };
    assert_eq!(out, [append]);
    world.log_end = at(1);
    let offsets = AppendedRange {
        first_offset: at(0),
        last_offset: at(0),
    };
    let result = Ok(offsets);

    let out = world.handle(Input::Appended { request, result });

    let produced = Produced {
        offsets,
        high_watermark_moved: true,
        waiter: None,
    };
    let expected = [
        Output::Wake(Wake::LogEnd),
        Output::RaiseHighWatermark(at(1)),
        Output::Wake(Wake::HighWatermark),
        Output::Produced {
            request,
            result: Ok(produced),
        },
    ];
    assert_eq!(out, expected);
}

/// The log answers once; leadership that is lost meanwhile is the producer's answer.
#[test]
fn an_append_that_the_log_finishes_too_late_has_failed() {
    let mut world = World::leading(&[1]);
    let request = world.request();
    world.handle(Input::Append {
        request,
        acks: Acks::All,
    });
    world.metadata(2, 1, 1, &[1, 2, 3], &[1, 2]);
    let result = Ok(AppendedRange {
        first_offset: at(0),
        last_offset: at(0),
    });
    let appended = Input::Appended { request, result };

    let out = world.handle(appended.clone());

    let result = Err(ErrorCode::NotLeaderOrFollower);
    assert_eq!(out, [Output::Produced { request, result }]);
    assert_eq!(world.handle(appended), []);
    assert_eq!(world.partition.dropped_answers(), 1);
}

/// -1 is the high watermark; the low watermark waits for every broker that is alive.
#[test]
fn c13_records_are_deleted_up_to_the_high_watermark_at_most() {
    for mut world in World::both(&[1, 2]) {
        world.append(6);
        world.fetch(2, 4);
        assert_eq!(world.high_watermark, at(4));
        for (offset, to) in [
            (-1, Some(4)),
            (0, Some(0)),
            (4, Some(4)),
            (5, None),
            (-2, None),
        ] {
            let request = world.request();
            let out = world.handle(Input::DeleteRecords { request, offset });
            let expected = match to {
                Some(to) => Output::RaiseLogStart {
                    request,
                    to: at(to),
                },
                None => Output::Deleted {
                    request,
                    result: Err(ErrorCode::OffsetOutOfRange),
                },
            };
            assert_eq!(out, [expected], "{offset}");
        }
    }
}

#[test]
fn c13_a_deletion_waits_for_all_who_are_alive() {
    let mut world = World::leading(&[1, 2]);
    world.append(4);
    world.fetch(2, 4);
    let request = world.request();
    world.handle(Input::DeleteRecords { request, offset: 3 });
    world.log_start = at(3);
    let result = Ok(());
    let out = world.handle(Input::LogStartRaised { request, result });
    let waiter = DeleteWaiter { required: at(3) };
    let result = Ok(waiter);
    assert_eq!(out, [Output::Deleted { request, result }]);
    assert_eq!(
        waiter.check(&world.partition, &world.env()),
        Progress::Waits
    );

    let mut fetch = world.fetch_request(2, 4);
    fetch.log_start_offset = 3;
    let out = world.handle(Input::Fetch(fetch));
    assert!(out.contains(&Output::Wake(Wake::LowWatermark)));
    // Replica 3 has not fetched.
    assert_eq!(world.partition.low_watermark(&world.env()), Ok(None));

    world.brokers.register(
        BrokerId(3),
        BrokerView {
            fenced: true,
            ..alive(3)
        },
    );
    assert_eq!(world.partition.low_watermark(&world.env()), Ok(Some(at(3))));
    assert_eq!(
        waiter.check(&world.partition, &world.env()),
        Progress::Done(Ok(()))
    );
}
