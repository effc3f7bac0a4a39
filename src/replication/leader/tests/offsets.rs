//! Questions about offsets.

use super::*;

/// KIP-207. Kafka: `testMonotonicOffsetsAfterLeaderChange`.
#[test]
fn the_end_is_not_told_before_the_watermark_reaches_the_epoch() {
    for compatibility in [Compatibility::Kafka, Compatibility::Highwater] {
        let mut world = World::new(compatibility);
        world.metadata(2, 0, 0, &[1, 2], &[1, 2]);
        world.log_end = at(5);
        world.high_watermark = at(2);
        world.metadata(1, 1, 1, &[1, 2], &[1, 2]);
        let list = |world: &World, spec, client: bool| {
            let readable = client.then_some(world.high_watermark);
            world
                .partition
                .list_offsets(&world.env(), spec, readable, None, true)
        };
        let unavailable = ErrorCode::OffsetNotAvailable;
        assert_eq!(list(&world, OffsetSpec::Latest, true), Err(unavailable));
        let end = ListOffsets::Known(at(5));
        assert_eq!(list(&world, OffsetSpec::Latest, false), Ok(end));
        let start = ListOffsets::Known(at(0));
        assert_eq!(list(&world, OffsetSpec::Earliest, true), Ok(start));
        let search = ListOffsets::Search {
            below: at(2),
            otherwise: Some(unavailable),
        };
        assert_eq!(list(&world, OffsetSpec::ByTime, true), Ok(search));

        world.fetch(2, 5);

        assert_eq!(list(&world, OffsetSpec::Latest, true), Ok(end));
        let search = ListOffsets::Search {
            below: at(5),
            otherwise: None,
        };
        assert_eq!(list(&world, OffsetSpec::ByTime, true), Ok(search));
    }
}

/// The table of answers is the epoch cache's; here is that it is asked, and what it is fenced by.
#[test]
fn a25_the_end_of_an_epoch_is_the_start_of_the_next() {
    let mut world = World::leading(&[1]);
    world.append(3);
    world.metadata(1, 2, 1, &[1, 2, 3], &[1]);
    world.append(2);
    let end = |epoch| {
        let found = world
            .partition
            .end_offset_for(&world.env(), epoch, Some(2))
            .unwrap();
        found.map(|end| (end.epoch, end.end_offset))
    };

    assert_eq!(end(0), Some((0, at(3))));
    assert_eq!(end(1), Some((0, at(3))));
    assert_eq!(end(2), Some((2, at(5))));
    assert_eq!(end(3), None);
    assert_eq!(end(-1), None);
}
