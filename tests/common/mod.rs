//! What the tests of whole logs share: a log on a simulated disk, batches of every format, its own
//! random numbers, and a look at the bytes past the engine.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::print_stdout,
    reason = "each test binary uses a part of it"
)]

use std::sync::Arc;

use highwater::error::Error;
use highwater::log::{Log, LogConfig, OpenReport};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::record::{BatchBuilder, Batches, Codec};
use highwater::storage::sim::{SimDir, SimDisk};
use highwater::storage::{Access, Dir, EntryKind, File};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

pub mod legacy;

/// The clock of all tests.
pub const NOW: Timestamp = Timestamp::from_millis(1_000_000);

pub fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

pub fn epoch(raw: i32) -> LeaderEpoch {
    LeaderEpoch::new(raw).unwrap()
}

pub fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

/// A data directory with one log in it. Dropping it is killing the process.
pub struct Store {
    pub dir: LogDir<SimDir>,
    pub log: Arc<Log<SimDir>>,
    pub report: Option<OpenReport>,
}

impl Store {
    pub fn create(disk: &SimDisk, config: &LogConfig) -> Result<Self, Error> {
        let (dir, _) = LogDir::open_in(disk.root(), options(config))?;
        let log = dir.create_log(&partition(), config.clone(), None, NOW)?;
        Ok(Self {
            dir,
            log,
            report: None,
        })
    }

    pub fn open(disk: &SimDisk, config: &LogConfig) -> Result<Self, Error> {
        let (dir, report) = LogDir::open_in(disk.root(), options(config))?;
        let mut logs = report.logs;
        let (_, outcome) = logs.pop().expect("there is one log");
        let report = outcome?;
        let log = dir.log(&partition()).expect("it was opened");
        Ok(Self {
            dir,
            log,
            report: Some(report),
        })
    }
}

pub fn options(config: &LogConfig) -> DirOptions {
    DirOptions::new(NOW).config(config.clone()).threads(1)
}

/// The directory of the log.
pub fn inside(disk: &SimDisk) -> SimDir {
    disk.root().subdir("t-0").unwrap()
}

pub fn read_all(dir: &SimDir, name: &str) -> Vec<u8> {
    let file = dir.open(name, Access::Read).unwrap();
    let mut bytes = vec![0; usize::try_from(file.bytes().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

pub fn files(dir: &SimDir) -> Vec<String> {
    let entries = dir.list().unwrap();
    entries
        .into_iter()
        .filter(|entry| entry.kind == EntryKind::File)
        .map(|e| e.name)
        .collect()
}

pub fn names_ending(dir: &SimDir, suffix: &str) -> Vec<String> {
    files(dir)
        .into_iter()
        .filter(|name| name.ends_with(suffix))
        .collect()
}

/// The bytes of all `.log` files, oldest first.
pub fn log_bytes(disk: &SimDisk) -> Vec<u8> {
    let dir = inside(disk);
    names_ending(&dir, ".log")
        .iter()
        .flat_map(|name| read_all(&dir, name))
        .collect()
}

/// A durable file with this content, in place of what stood there.
pub fn put(dir: &SimDir, name: &str, bytes: &[u8]) {
    highwater::storage::replace_file(dir, name, bytes).unwrap();
}

/// A copy of the disk on which everything is durable.
pub fn settled(disk: &SimDisk) -> SimDisk {
    disk.crash(&highwater::storage::sim::CrashPlan::KeepAll)
}

/// A batch of version 2 with records that name their offsets.
pub fn batch(codec: Codec, base: i64, leader_epoch: i32, records: i64) -> Vec<u8> {
    timed_batch(codec, base, leader_epoch, records, |at| 1_000 + at)
}

pub fn timed_batch(
    codec: Codec,
    base: i64,
    leader_epoch: i32,
    records: i64,
    time: impl Fn(i64) -> i64,
) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec)
        .base_offset(offset(base))
        .leader_epoch(epoch(leader_epoch));
    for at in base..base + records {
        let value = format!("value of the record at {at}, epoch {leader_epoch}");
        let key = at.to_be_bytes();
        builder
            .push(time(at), Some(&key), Some(value.as_bytes()), &[])
            .unwrap();
    }
    builder.finish().unwrap()
}

/// (base, last, epoch, bytes) of each batch. Bases of old wrappers are their last offsets.
pub fn parse(bytes: &[u8]) -> Vec<(i64, i64, i32, Vec<u8>)> {
    Batches::new(bytes)
        .map(|batch| {
            let batch = batch.expect("whole batches");
            batch.verify().expect("sound batches");
            let header = batch.header();
            let bytes = batch.bytes().to_vec();
            (
                header.base_offset,
                header.last_offset,
                header.leader_epoch,
                bytes,
            )
        })
        .collect()
}

/// `SplitMix64`.
pub struct Rng(pub u64);

impl Rng {
    /// Seeded by `HIGHWATER_SEED`, else as given; the seed is printed where a test fails.
    pub fn seeded(default: u64) -> Self {
        let seed = std::env::var("HIGHWATER_SEED")
            .ok()
            .and_then(|text| text.parse().ok());
        let seed = seed.unwrap_or(default);
        println!("HIGHWATER_SEED={seed}");
        Self(seed)
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: i64) -> i64 {
        let bound = u64::try_from(bound).unwrap().max(1);
        i64::try_from(self.next() % bound).unwrap()
    }

    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next().to_be_bytes()[0]).collect()
    }
}
