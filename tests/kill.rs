//! `highwater append --sync batch` is killed at random moments: every line that was acknowledged
//! is there, in order, once.
//!
//! `HIGHWATER_SEED` sets the seed, which is printed.
#![cfg(feature = "cli")]
#![allow(
    clippy::print_stdout,
    clippy::similar_names,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and run processes with std"
)]

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use highwater::log::Isolation;
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::record::Scratch;
use highwater::types::{Offset, Timestamp};
use serde_json::Value;
use tempfile::TempDir;

/// Batches that were acknowledged in a life: first and last offset.
type Acknowledged = Vec<(i64, i64)>;

fn live_and_die(log: &Path, life: u64, lines: u64, after: Duration) -> Acknowledged {
    let mut child = Command::new(env!("CARGO_BIN_EXE_highwater"))
        .arg("append")
        .arg(log)
        .args(["--sync", "batch", "--batch-records", "7", "--json"])
        .args(["--config", "segment.bytes=65536"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let output = BufReader::new(child.stdout.take().unwrap());
    let feeder = std::thread::spawn(move || {
        for line in 0..lines {
            if input
                .write_all(format!("life {life} line {line}\n").as_bytes())
                .is_err()
            {
                return;
            }
        }
    });
    let reader = std::thread::spawn(move || {
        let mut told = Acknowledged::new();
        for line in output.lines() {
            // The last line may be torn: then it told nothing.
            let Ok(line) = serde_json::from_str::<Value>(&line.unwrap()) else {
                break;
            };
            assert_eq!(line["synced"], true);
            told.push((
                line["base_offset"].as_i64().unwrap(),
                line["last_offset"].as_i64().unwrap(),
            ));
        }
        told
    });
    std::thread::sleep(after);
    child.kill().unwrap();
    child.wait().unwrap();
    feeder.join().unwrap();
    reader.join().unwrap()
}

/// Every value of the log by offset.
fn values(data: &Path) -> Vec<String> {
    let (dir, report) = LogDir::open(data, DirOptions::new(Timestamp::from_millis(0))).unwrap();
    for (_, outcome) in report.logs {
        assert_eq!(outcome.unwrap().damage, []);
    }
    let log = dir.log(&TopicPartition::new("topic", 0));
    let mut values = Vec::new();
    let mut at = Offset::ZERO;
    while let Some(log) = log.as_ref().filter(|log| at < log.log_end_offset()) {
        let fetched = log.read(at, 1 << 20, Isolation::LogEnd).unwrap();
        for batch in fetched.batches() {
            let mut scratch = Scratch::default();
            for record in batch.unwrap().records(&mut scratch).unwrap() {
                let record = record.unwrap();
                assert_eq!(record.offset, i64::try_from(values.len()).unwrap());
                values.push(String::from_utf8(record.value.unwrap().to_vec()).unwrap());
            }
        }
        at = fetched.next_offset().unwrap();
    }
    // No close: the next life meets what the kill left, but for what this open recovered.
    values
}

fn rounds(count: u64) {
    let seed = std::env::var("HIGHWATER_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let mut random: u64 = seed.unwrap_or(0x9e37_79b9_7f4a_7c15);
    println!("HIGHWATER_SEED={random}");
    let temp = TempDir::new().unwrap();
    let log = temp.path().join("data/topic-0");
    let mut acknowledged: Vec<(u64, Acknowledged)> = Vec::new();
    for life in 0..count {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let after = Duration::from_millis((random >> 33) % 400);
        acknowledged.push((life, live_and_die(&log, life, 100_000, after)));
        let data = temp.path().join("data");
        if !data.exists() {
            continue;
        }
        let values = values(&data);
        for (life, batches) in &acknowledged {
            let mut line = 0;
            for (base, last) in batches {
                for offset in *base..=*last {
                    let value = values.get(usize::try_from(offset).unwrap());
                    assert_eq!(
                        value,
                        Some(&format!("life {life} line {line}")),
                        "offset {offset}"
                    );
                    line += 1;
                }
            }
        }
        let mut seen = values.clone();
        seen.sort();
        seen.dedup();
        assert_eq!(seen.len(), values.len(), "a line is there twice");
    }
    let told: usize = acknowledged.iter().map(|(_, batches)| batches.len()).sum();
    println!("{told} batches acknowledged in {count} lives");
    assert!(told > 0, "nothing was ever acknowledged");
}

#[test]
fn acknowledged_lines_outlive_ten_kills() {
    rounds(10);
}

#[test]
#[ignore = "100 lives take a minute"]
fn acknowledged_lines_outlive_a_hundred_kills() {
    rounds(100);
}
