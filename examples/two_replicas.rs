//! Two replicas in one process: a follower copies its leader, the leader changes, and the old one
//! cuts what the new one never had, at an epoch boundary.
//!
//! `cargo run --example two_replicas`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;

use highwater::log::{Durability, Isolation, Log, LogConfig, TruncateOptions};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::record::{BatchBuilder, Codec};
use highwater::types::{LeaderEpoch, Timestamp};

type Outcome<T> = Result<T, Box<dyn std::error::Error>>;

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn main() -> Outcome<()> {
    let scratch = tempfile::tempdir()?;
    let replica = |name: &str| -> Outcome<(LogDir, Arc<Log>)> {
        let options = DirOptions::new(NOW).create(true);
        let (dir, _) = LogDir::open(scratch.path().join(name), options)?;
        let partition = TopicPartition::new("pairs", 0);
        let log = dir.create_log(&partition, LogConfig::default(), None, NOW)?;
        Ok((dir, log))
    };
    let (dir_a, a) = replica("a")?;
    let (dir_b, b) = replica("b")?;
    let (first, second) = (epoch(0)?, epoch(1)?);

    // A leads in epoch 0. B copies the first three batches, then A is cut off and writes two more.
    append(&a, first, 3)?;
    copy(&a, &b, first)?;
    a.update_high_watermark(b.log_end_offset());
    append(&a, first, 2)?;

    // B leads in epoch 1.
    b.assign_epoch(second)?;
    append(&b, second, 4)?;

    // A comes back as a follower. It asks where its latest epoch ended, and cuts there:
    // OffsetsForLeaderEpoch.
    let latest = a.latest_epoch().ok_or("a has no epoch")?;
    let (_, end) = b
        .end_offset_for(latest)
        .ok_or("b does not know the epoch")?;
    let cut = a.truncate_to(end, TruncateOptions::default(), NOW)?;
    println!(
        "a: asked to end at {}, ends at {}",
        cut.requested, cut.log_end_offset
    );
    copy(&b, &a, second)?;

    let (of_a, of_b) = (bytes(&a)?, bytes(&b)?);
    println!(
        "a ends at {}, b at {}",
        a.log_end_offset(),
        b.log_end_offset()
    );
    println!("epochs of a: {:?}", a.epochs());
    if of_a != of_b {
        return Err("replicas that agree are equal byte for byte".into());
    }
    dir_a.close()?;
    dir_b.close()?;
    Ok(())
}

fn epoch(number: i32) -> Outcome<LeaderEpoch> {
    Ok(LeaderEpoch::new(number).ok_or("an epoch is not negative")?)
}

fn append(log: &Log, epoch: LeaderEpoch, batches: u32) -> Outcome<()> {
    for n in 0..batches {
        let mut batch = BatchBuilder::new(Codec::None);
        let value = format!("epoch {epoch}, batch {n}");
        batch.push(NOW.millis(), None, Some(value.as_bytes()), &[])?;
        log.append_as_leader(&mut batch.finish()?, epoch, NOW, Durability::Written)?;
    }
    Ok(())
}

/// Fetches until the follower has all that its leader has.
fn copy(leader: &Log, follower: &Log, epoch: LeaderEpoch) -> Outcome<()> {
    while follower.log_end_offset() < leader.log_end_offset() {
        let fetched = leader.read(follower.log_end_offset(), 1 << 16, Isolation::LogEnd)?;
        follower.append_as_follower(fetched.bytes(), epoch, NOW, Durability::Written)?;
    }
    Ok(())
}

fn bytes(log: &Log) -> Outcome<Vec<u8>> {
    Ok(log
        .read(log.log_start_offset(), 1 << 20, Isolation::LogEnd)?
        .bytes()
        .to_vec())
}
