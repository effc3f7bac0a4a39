//! A durable log in a program: append with a sync, read back, close cleanly.
//!
//! `cargo run --example embed -- /tmp/embed-demo`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;

use highwater::log::{Durability, Fetched, Isolation, LogConfig, WatermarkPolicy};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::record::{BatchBuilder, Codec, Scratch};
use highwater::types::{LeaderEpoch, Timestamp};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os()
        .nth(1)
        .map_or_else(|| "embed-demo".into(), PathBuf::from);
    let now = clock();
    // Without replicas readers may see what is on the device.
    let config = LogConfig::default().watermark_policy(WatermarkPolicy::Flushed);
    let options = DirOptions::new(now).config(config.clone()).create(true);
    let (dir, report) = LogDir::open(&path, options)?;
    for (name, outcome) in &report.logs {
        match outcome {
            Ok(opened) => println!(
                "{name}: {:?}, ends at {}",
                opened.decision, opened.log_end_offset
            ),
            Err(error) => println!("{name}: {error}"),
        }
    }
    let name = TopicPartition::new("orders", 0);
    let log = match dir.log(&name) {
        Some(log) => log,
        None => dir.create_log(&name, config, None, now)?,
    };
    let epoch = log.latest_epoch().unwrap_or(LeaderEpoch::ZERO);
    let mut batch = BatchBuilder::new(Codec::Lz4);
    for n in 0..3 {
        let value = format!("order {n} at {now}");
        batch.push(now.millis(), None, Some(value.as_bytes()), &[])?;
    }
    let appended = log.append_as_leader(&mut batch.finish()?, epoch, now, Durability::Synced)?;
    println!("durable up to {}", appended.log_end_offset);

    let mut fetched = Fetched::default();
    let mut scratch = Scratch::default();
    let mut from = log.log_start_offset();
    while from < log.high_watermark() {
        log.read_into(from, 1 << 20, true, Isolation::HighWatermark, &mut fetched)?;
        let Some(next) = fetched.next_offset() else {
            break;
        };
        for batch in fetched.batches() {
            for record in batch?.records(&mut scratch)? {
                let record = record?;
                let value = record.value.unwrap_or_default();
                println!("{} {}", record.offset, String::from_utf8_lossy(value));
            }
        }
        from = next;
    }
    dir.close()?;
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "a program may read the clock")]
fn clock() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}
