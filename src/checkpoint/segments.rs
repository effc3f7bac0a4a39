//! `highwater.segments` in a log: what stood there when each segment was sealed.
//!
//! A line a sealed segment, base offsets rising: `base bytes last_offset index_crc timeindex_crc
//! txnindex_crc snapshot_crc`, `-` for what is not there. CRCs are CRC-32 (IEEE) of whole files.

use super::sealed::{self, Writer};
use super::{CheckpointError, CrcOrDash, OrDash, Reason, number, optional, optional_crc, split};
use crate::types::Offset;

/// The word that the file begins with: its name.
const HEADER: &str = "highwater.segments";
const VERSION: u32 = 1;

/// The facts of a log's sealed segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SegmentsFile {
    /// One a segment, base offsets strictly rising.
    pub segments: Vec<SegmentFacts>,
}

/// What was known of a sealed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFacts {
    /// Its base offset.
    pub base: Offset,
    /// The length of its `.log` file. Unit: bytes.
    pub bytes: u64,
    /// Its last offset (inclusive); `None` without batches.
    pub last_offset: Option<Offset>,
    /// The CRC of its offset index.
    pub index_crc: Option<u32>,
    /// The CRC of its time index.
    pub timeindex_crc: Option<u32>,
    /// The CRC of its transaction index.
    pub txnindex_crc: Option<u32>,
    /// The CRC of the producer snapshot at its base offset.
    pub snapshot_crc: Option<u32>,
}

impl SegmentsFile {
    /// Reads a file; `None` if it is empty.
    ///
    /// # Errors
    ///
    /// Anything but a whole file of version 1 with rising base offsets. Do without it.
    pub fn parse(bytes: &[u8]) -> Result<Option<Self>, CheckpointError> {
        let Some(lines) = sealed::open(bytes, HEADER, VERSION)? else {
            return Ok(None);
        };
        let mut segments: Vec<SegmentFacts> = Vec::new();
        for (at, line) in lines {
            let facts = parse_segment(at, line)?;
            if segments.last().is_some_and(|last| facts.base <= last.base) {
                return Err(CheckpointError::new(at, Reason::Duplicate));
            }
            segments.push(facts);
        }
        Ok(Some(Self { segments }))
    }

    /// Makes the text of the file.
    #[must_use]
    pub fn print(&self) -> String {
        let mut out = Writer::new(HEADER, VERSION);
        for facts in &self.segments {
            out.line(format_args!(
                "{} {} {} {} {} {} {}",
                facts.base,
                facts.bytes,
                OrDash(facts.last_offset),
                CrcOrDash(facts.index_crc),
                CrcOrDash(facts.timeindex_crc),
                CrcOrDash(facts.txnindex_crc),
                CrcOrDash(facts.snapshot_crc),
            ));
        }
        out.finish()
    }

    /// The facts on the segment of this base offset.
    pub fn segment(&self, base: Offset) -> Option<&SegmentFacts> {
        let at = self
            .segments
            .binary_search_by_key(&base, |facts| facts.base)
            .ok()?;
        self.segments.get(at)
    }
}

fn parse_segment(at: usize, line: &str) -> Result<SegmentFacts, CheckpointError> {
    let [
        base,
        bytes,
        last_offset,
        index,
        timeindex,
        txnindex,
        snapshot,
    ] = split(at, line)?;
    Ok(SegmentFacts {
        base: number(at, "base", base)?,
        bytes: number(at, "bytes", bytes)?,
        last_offset: optional(at, "last offset", last_offset)?,
        index_crc: optional_crc(at, "index crc", index)?,
        timeindex_crc: optional_crc(at, "timeindex crc", timeindex)?,
        txnindex_crc: optional_crc(at, "txnindex crc", txnindex)?,
        snapshot_crc: optional_crc(at, "snapshot crc", snapshot)?,
    })
}
