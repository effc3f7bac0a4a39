//! Kafka's text checkpoints (`CheckpointFile`): the version 0, the number of rows, the rows.
//!
//! `None` stands for a file that is empty or ends behind its version: Kafka reads it as no rows,
//! but it says no more than a missing file does.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{CheckpointError, Reason, lines, number, partition, split, utf8};
use crate::types::{EpochEntry, Offset, TopicPartition};

const VERSION: i32 = 0;

/// An offset a log: recovery points, high watermarks, log starts or cleaner offsets. Rows are
/// `topic partition offset`; of two of one log the last counts, as in Kafka.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OffsetCheckpoint {
    /// The rows.
    pub offsets: BTreeMap<TopicPartition, Offset>,
}

impl OffsetCheckpoint {
    /// Makes a checkpoint without rows.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a file; `None` if it says nothing.
    ///
    /// # Errors
    ///
    /// What Kafka refuses, and negative offsets and partitions.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, CheckpointError> {
        let rows = parse_rows(bytes, |line, row| {
            let [topic, number_text, offset] = split(line, row)?;
            let log = TopicPartition::new(topic, partition(line, number_text)?);
            Ok((log, number(line, "offset", offset)?))
        })?;
        Ok(rows.map(|rows| Self {
            offsets: rows.into_iter().collect(),
        }))
    }

    /// Makes the text of the file, rows in the order of their names. A topic with white space in
    /// its name cannot be read back; [`TopicPartition::parse`] makes none.
    #[must_use]
    pub fn print(&self) -> String {
        let mut out = header(self.offsets.len());
        for (log, offset) in &self.offsets {
            append(
                &mut out,
                format_args!("{} {} {offset}\n", log.topic, log.partition),
            );
        }
        out
    }
}

/// Reads the rows of a leader epoch checkpoint, `epoch start_offset`, in the order of the file.
/// Rows that do not rise are not refused:
/// [`EpochCache::from_entries`](crate::epoch::EpochCache::from_entries) repairs them.
///
/// # Errors
///
/// What Kafka refuses, negative numbers among it.
pub fn parse_leader_epochs(bytes: &[u8]) -> Result<Option<Vec<EpochEntry>>, CheckpointError> {
    parse_rows(bytes, |line, row| {
        let [epoch, start_offset] = split(line, row)?;
        Ok(EpochEntry {
            epoch: number(line, "epoch", epoch)?,
            start_offset: number(line, "start offset", start_offset)?,
        })
    })
}

/// Makes the text of a leader epoch checkpoint.
#[must_use]
pub fn print_leader_epochs(entries: &[EpochEntry]) -> String {
    let mut out = header(entries.len());
    for entry in entries {
        append(
            &mut out,
            format_args!("{} {}\n", entry.epoch, entry.start_offset),
        );
    }
    out
}

fn header(rows: usize) -> String {
    format!("{VERSION}\n{rows}\n")
}

#[expect(
    clippy::let_underscore_must_use,
    reason = "writing to a String cannot fail"
)]
fn append(out: &mut String, row: std::fmt::Arguments<'_>) {
    let _ = out.write_fmt(row);
}

/// The count is only ever compared, never used to reserve.
fn parse_rows<T>(
    bytes: &[u8],
    parse_row: impl Fn(usize, &str) -> Result<T, CheckpointError>,
) -> Result<Option<Vec<T>>, CheckpointError> {
    let mut lines = lines(utf8(bytes)?);
    let Some((line, version)) = lines.next() else {
        return Ok(None);
    };
    if version.parse() != Ok(VERSION) {
        return Err(CheckpointError::new(
            line,
            Reason::Version(version.to_owned()),
        ));
    }
    let Some((count_line, count)) = lines.next() else {
        return Ok(None);
    };
    let expected = count
        .parse()
        .ok()
        .filter(|&expected: &i32| expected >= 0)
        .ok_or_else(|| CheckpointError::new(count_line, Reason::Count(count.to_owned())))?;
    let rows = lines
        .map(|(line, row)| parse_row(line, row))
        .collect::<Result<Vec<_>, _>>()?;
    if usize::try_from(expected) == Ok(rows.len()) {
        Ok(Some(rows))
    } else {
        let reason = Reason::CountMismatch {
            expected,
            found: rows.len(),
        };
        Err(CheckpointError::new(count_line, reason))
    }
}
