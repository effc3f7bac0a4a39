//! Follows a log as `tail -f` does: one thread appends, another waits for the flushed offset to
//! move.
//!
//! `cargo run --example follow`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use highwater::log::{Durability, Isolation, Log, LogConfig, Watched, WatermarkPolicy};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::record::{BatchBuilder, Codec, Scratch};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

const RECORDS: i64 = 10;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let scratch = tempfile::tempdir()?;
    let now = Timestamp::from_millis(1_700_000_000_000);
    let (dir, _) = LogDir::open(scratch.path(), DirOptions::new(now))?;
    let config = LogConfig::default().watermark_policy(WatermarkPolicy::Flushed);
    let log = dir.create_log(&TopicPartition::new("ticks", 0), config, None, now)?;

    let writing = Arc::clone(&log);
    let writer = thread::spawn(move || write(&writing, now).map_err(|error| error.to_string()));
    follow(&log)?;
    writer.join().map_err(|_| "the writer panicked")??;
    dir.close()?;
    Ok(())
}

fn write(log: &Log, now: Timestamp) -> Result<(), Box<dyn std::error::Error>> {
    for n in 0..RECORDS {
        let mut batch = BatchBuilder::new(Codec::None);
        batch.push(
            now.millis(),
            None,
            Some(format!("tick {n}").as_bytes()),
            &[],
        )?;
        log.append_as_leader(
            &mut batch.finish()?,
            LeaderEpoch::ZERO,
            now,
            Durability::Synced,
        )?;
    }
    Ok(())
}

fn follow(log: &Log) -> Result<(), Box<dyn std::error::Error>> {
    let watcher = log.watch(Watched::Flushed);
    let mut scratch = Scratch::default();
    let mut from = Offset::ZERO;
    while from.get() < RECORDS {
        // Woken by the sync that makes the next record durable.
        if watcher.wait_above(from, Duration::from_secs(10)).is_none() {
            return Err("nothing came for ten seconds".into());
        }
        let fetched = log.read(from, 1 << 20, Isolation::HighWatermark)?;
        for batch in fetched.batches() {
            for record in batch?.records(&mut scratch)? {
                let record = record?;
                let value = record.value.unwrap_or_default();
                println!("{} {}", record.offset, String::from_utf8_lossy(value));
            }
        }
        from = fetched.next_offset().unwrap_or(from);
    }
    Ok(())
}
