//! What is measured with: ready batches, logs in a scratch directory, the time.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use highwater::error::Error;
use highwater::log::{Durability, Log, LogConfig};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::record::{BatchBuilder, Codec};
use highwater::types::{LeaderEpoch, Timestamp};

/// The records of a batch that is not of one record.
pub(crate) const RECORDS: usize = 100;
/// The size of a batch of so many records.
pub(crate) const BATCH_BYTES: usize = 16 << 10;
const KEY_BYTES: usize = 8;

/// The time by the clock of the machine.
pub(crate) fn now() -> Timestamp {
    #[expect(
        clippy::disallowed_methods,
        reason = "records of a benchmark have real times"
    )]
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let millis = since.map_or(0, |since| since.as_millis());
    Timestamp::from_millis(i64::try_from(millis).unwrap_or(i64::MAX))
}

/// Errors of the engine among those of the system.
pub(crate) fn engine(error: Error) -> io::Error {
    io::Error::other(error)
}

/// The one log of a benchmark's data directory.
pub(crate) fn partition() -> TopicPartition {
    TopicPartition::new("bench", 0)
}

/// Makes a data directory with an empty log.
pub(crate) fn create_log(path: &Path, config: &LogConfig) -> io::Result<(LogDir, Arc<Log>)> {
    #[expect(
        clippy::disallowed_methods,
        reason = "the data directory is the caller's to make"
    )]
    std::fs::create_dir(path)?;
    let dir = open_dir(path, config)?;
    let log = dir
        .create_log(&partition(), config.clone(), None, now())
        .map_err(engine)?;
    Ok((dir, log))
}

/// Opens a data directory that [`create_log`] made.
pub(crate) fn open_dir(path: &Path, config: &LogConfig) -> io::Result<LogDir> {
    let options = DirOptions::new(now()).config(config.clone());
    let (dir, _report) = LogDir::open(path, options).map_err(engine)?;
    Ok(dir)
}

/// Batches as a client sends them, over and over.
pub(crate) struct Ready {
    batches: Vec<Vec<u8>>,
    next: usize,
    now: Timestamp,
}

impl Ready {
    /// Batches of exactly `bytes` bytes, with `records` records each that have keys of 8 bytes.
    pub(crate) fn of(bytes: usize, records: usize) -> io::Result<Self> {
        // One mebibyte: as much as stays in a cache of the second level.
        let count = 1_048_576_usize.div_euclid(bytes.max(1)).clamp(1, 256);
        let now = now();
        let batches = (0..count).map(|seed| batch(bytes, records, seed, now));
        Ok(Self {
            batches: batches.collect::<io::Result<_>>()?,
            next: 0,
            now,
        })
    }

    /// The size of each batch.
    pub(crate) fn batch_bytes(&self) -> u64 {
        let bytes = self.batches.first().map_or(0, Vec::len);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// The bytes of the next batch, at offset 0 as a client sends it.
    pub(crate) fn next(&mut self) -> &mut [u8] {
        self.next = self.next.saturating_add(1);
        if self.next >= self.batches.len() {
            self.next = 0;
        }
        let batch = self.batches.get_mut(self.next);
        let batch = batch.map(Vec::as_mut_slice).unwrap_or_default();
        if let Some(base_offset) = batch.first_chunk_mut::<8>() {
            *base_offset = [0; 8];
        }
        batch
    }

    /// Appends the next batch through the leader's path.
    pub(crate) fn append(&mut self, log: &Log, durability: Durability) -> io::Result<()> {
        let now = self.now;
        log.append_as_leader(self.next(), LeaderEpoch::ZERO, now, durability)
            .map_err(engine)?;
        Ok(())
    }
}

fn batch(bytes: usize, records: usize, seed: usize, now: Timestamp) -> io::Result<Vec<u8>> {
    let body = bytes.saturating_sub(61).checked_div(records).unwrap_or(0);
    // Length, attributes, deltas, lengths of key and value, number of headers: 9 bytes or so.
    let value_bytes = body.saturating_sub(KEY_BYTES).saturating_sub(9);
    let mut last_bytes = value_bytes;
    // Lengths take one byte or two, so that the first guess may be off by a few.
    for _ in 0..8 {
        let made = build(records, value_bytes, last_bytes, seed, now)?;
        if made.len() == bytes {
            return Ok(made);
        }
        last_bytes = last_bytes.saturating_add(bytes).saturating_sub(made.len());
    }
    Err(io::Error::other(format!(
        "no batch has exactly {bytes} bytes"
    )))
}

fn build(
    records: usize,
    value_bytes: usize,
    last_bytes: usize,
    seed: usize,
    now: Timestamp,
) -> io::Result<Vec<u8>> {
    let mut noise = Noise::new(seed);
    let mut builder = BatchBuilder::new(Codec::None);
    for record in 1..=records {
        let bytes = if record == records {
            last_bytes
        } else {
            value_bytes
        };
        let key = noise.next().to_be_bytes();
        let value: Vec<u8> = (0..bytes).map(|_| noise.byte()).collect();
        builder
            .push(now.millis(), Some(&key), Some(&value), &[])
            .map_err(io::Error::other)?;
    }
    builder.finish().map_err(io::Error::other)
}

/// A batch of `records` records with values of 140 bytes as a producer sends it; id -1 for none.
pub(crate) fn produced_batch(id: i64, sequence: i32, records: usize) -> io::Result<Vec<u8>> {
    let epoch = if id < 0 { -1 } else { 0 };
    let mut builder = BatchBuilder::new(Codec::None).producer(id, epoch, sequence);
    let now = now();
    for _ in 0..records {
        builder
            .push(now.millis(), None, Some(&[b'v'; 140]), &[])
            .map_err(io::Error::other)?;
    }
    builder.finish().map_err(io::Error::other)
}

/// Numbers without order (xorshift64), the same in every run.
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: usize) -> Self {
        let seed = u64::try_from(seed).unwrap_or(0);
        Self(seed.wrapping_mul(2).wrapping_add(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// A number below `end`, which is above 0.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next().checked_rem(end).unwrap_or(0)
    }

    fn byte(&mut self) -> u8 {
        let [first, ..] = self.next().to_be_bytes();
        first
    }
}
