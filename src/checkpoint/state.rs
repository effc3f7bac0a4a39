//! `highwater.state` in a data directory: what this crate knew of each log when it last wrote the
//! checkpoints.
//!
//! Behind the frame's first line: `generation N`, then for each log in the order of their names
//! `topic partition recovery_point high_watermark log_start log_end last_epoch epoch_file_crc`, `-`
//! for what is not known.

use std::collections::BTreeMap;

use super::sealed::{self, Writer};
use super::{CheckpointError, CrcOrDash, OrDash, Reason, number, optional, optional_crc, split};
use crate::types::TopicPartition;
use crate::types::{LeaderEpoch, Offset};

/// The word that the file begins with: its name.
const HEADER: &str = "highwater.state";
const VERSION: u32 = 1;

/// The facts of a data directory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateFile {
    /// Counts the writes of the file; a clean-shutdown marker names the one it was written with.
    pub generation: u64,
    /// The facts on each log.
    pub logs: BTreeMap<TopicPartition, LogFacts>,
}

/// What was known of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogFacts {
    /// Its recovery point row, as written with this line.
    pub recovery_point: Offset,
    /// Its high watermark row; `None` if there was none.
    pub high_watermark: Option<Offset>,
    /// Its log start row; `None` if there was none.
    pub log_start: Option<Offset>,
    /// The end of its last batch (exclusive); of an empty last segment its base offset.
    pub log_end: Offset,
    /// The leader epoch of its last batch.
    pub last_epoch: Option<LeaderEpoch>,
    /// The CRC-32 (IEEE) of its leader epoch file; `None` if there was none.
    pub epoch_file_crc: Option<u32>,
}

impl StateFile {
    /// Reads a file; `None` if it is empty.
    ///
    /// # Errors
    ///
    /// Anything but a whole file of version 1. Do without it.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, CheckpointError> {
        let Some(mut lines) = sealed::open(bytes, HEADER, VERSION)? else {
            return Ok(None);
        };
        let (at, line) = lines.next().ok_or(CheckpointError {
            line: 2,
            reason: Reason::Missing("generation"),
        })?;
        let generation = match split(at, line)? {
            ["generation", text] => number(at, "generation", text)?,
            [word, _] => {
                let reason = Reason::Word {
                    field: "generation",
                    text: word.to_owned(),
                };
                return Err(CheckpointError::new(at, reason));
            }
        };
        let mut state = Self {
            generation,
            logs: BTreeMap::new(),
        };
        for (at, line) in lines {
            let (log, facts) = parse_log(at, line)?;
            if state.logs.insert(log, facts).is_some() {
                return Err(CheckpointError::new(at, Reason::Duplicate));
            }
        }
        Ok(Some(state))
    }

    /// Makes the text of the file.
    #[must_use]
    pub fn print(&self) -> String {
        let mut out = Writer::new(HEADER, VERSION);
        out.line(format_args!("generation {}", self.generation));
        for (log, facts) in &self.logs {
            out.line(format_args!(
                "{} {} {} {} {} {} {} {}",
                log.topic,
                log.partition,
                facts.recovery_point,
                OrDash(facts.high_watermark),
                OrDash(facts.log_start),
                facts.log_end,
                OrDash(facts.last_epoch),
                CrcOrDash(facts.epoch_file_crc),
            ));
        }
        out.finish()
    }
}

fn parse_log(at: usize, line: &str) -> Result<(TopicPartition, LogFacts), CheckpointError> {
    let [
        topic,
        partition,
        recovery,
        watermark,
        start,
        end,
        epoch,
        crc,
    ] = split(at, line)?;
    let facts = LogFacts {
        recovery_point: number(at, "recovery point", recovery)?,
        high_watermark: optional(at, "high watermark", watermark)?,
        log_start: optional(at, "log start", start)?,
        log_end: number(at, "log end", end)?,
        last_epoch: optional(at, "last epoch", epoch)?,
        epoch_file_crc: optional_crc(at, "epoch file crc", crc)?,
    };
    Ok((
        TopicPartition::new(topic, super::partition(at, partition)?),
        facts,
    ))
}
