//! Data directories: the lock, the marker, the checkpoint files, real brokers' directories, power
//! cuts.
#![allow(
    clippy::unwrap_in_result,
    clippy::needless_continue,
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and build what they look at with std"
)]

mod checkpoints;
#[cfg(feature = "cli")]
mod golden;
mod logs;
mod marker;
#[cfg(feature = "sim")]
mod power;

use std::path::Path;
use std::sync::Arc;

use highwater::error::Result;
use highwater::log::{Durability, Log, LogConfig};
use highwater::log_dir::{DirOptions, DirReport, LogDir};
use highwater::names::TopicPartition;
use highwater::record::{BatchBuilder, Codec};
use highwater::storage::Dir;
use highwater::types::{LeaderEpoch, Offset, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn options() -> DirOptions {
    DirOptions::new(NOW)
}

fn open(path: &Path) -> (LogDir, DirReport) {
    LogDir::open(path, options()).unwrap()
}

fn log(name: &str) -> TopicPartition {
    TopicPartition::parse(name).unwrap()
}

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

/// Appends a batch of `records`, synced, and moves the high watermark to its end.
fn append<D: Dir>(log: &Log<D>, records: u32) -> Result<()> {
    let mut batch = BatchBuilder::new(Codec::None);
    for n in 0..records {
        batch
            .push(
                NOW.millis(),
                None,
                Some(format!("value {n}").as_bytes()),
                &[],
            )
            .unwrap();
    }
    let mut bytes = batch.finish().unwrap();
    log.append_as_leader(&mut bytes, LeaderEpoch::ZERO, NOW, Durability::Synced)?;
    log.update_high_watermark(log.log_end_offset());
    Ok(())
}

fn create<D: Dir>(dir: &LogDir<D>, name: &str) -> Result<Arc<Log<D>>> {
    dir.create_log(&log(name), LogConfig::default(), None, NOW)
}

/// A data directory with the logs, ten records each, closed cleanly.
fn closed_with(path: &Path, names: &[&str]) {
    let (dir, _) = open(path);
    for name in names {
        let log = create(&dir, name).unwrap();
        append(&log, 10).unwrap();
    }
    dir.close().unwrap();
}

fn report_of<'r>(report: &'r DirReport, name: &str) -> &'r highwater::log::OpenReport {
    let found = report.logs.iter().find(|(log, _)| log.to_string() == name);
    found.unwrap().1.as_ref().unwrap()
}
