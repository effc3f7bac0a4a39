//! Compares the offset and time index of a segment with its batches, while a walk goes over them.
//!
//! Kafka has placed offset index entries in two ways: before 0.11 an entry held the first offset of
//! the append that begins at its position, since then the last. Both are right.

use super::MAX_INDEX_BYTES;
use super::catalog::{LogDirectory, SegmentFiles};
use super::finding::{Finding, FindingKind, Severity};
use super::walk::Seen;
use crate::error::{ErrorKind, Result};
use crate::index::{
    OFFSET_ENTRY_BYTES, OffsetIndexView, SoundPrefix, TIME_ENTRY_BYTES, TimeIndexView, offset, time,
};
use crate::names::{FileType, segment_name};
use crate::storage::Dir;
use crate::types::Offset;

/// The indexes of one segment.
#[derive(Debug)]
pub(super) struct IndexCheck {
    base: Offset,
    offsets: Side,
    times: Side,
    /// An offset entry whose append is not at its end yet.
    waiting: Option<(usize, i64)>,
    /// The largest timestamp of the batches so far.
    max_timestamp: i64,
    is_damaged: bool,
}

#[derive(Debug)]
struct Side {
    kind: FindingKind,
    name: String,
    bytes: Vec<u8>,
    /// How many entries are compared.
    entries: usize,
    /// The next one to compare.
    next: usize,
    /// How bad a wrong entry is: the rest of an index that was not closed may be anything.
    severity: Severity,
    findings: Vec<Finding>,
}

impl Side {
    fn read<D: Dir>(log: &LogDirectory<D>, segment: &SegmentFiles, file: FileType) -> Result<Self> {
        let kind = if file == FileType::Index {
            FindingKind::OffsetIndex
        } else {
            FindingKind::TimeIndex
        };
        let name = segment_name(segment.base, file);
        let is_open = segment.is_active && !log.is_clean;
        let severity = if is_open {
            Severity::Note
        } else {
            Severity::Damage
        };
        let mut side = Self {
            kind,
            name,
            bytes: Vec::new(),
            entries: 0,
            next: 0,
            severity,
            findings: Vec::new(),
        };
        match log.content(&side.name, MAX_INDEX_BYTES) {
            Ok(Some(bytes)) => side.bytes = bytes,
            Ok(None) => {
                if segment.log_bytes > 0 {
                    side.say(
                        Severity::Note,
                        None,
                        "absent: it is made when the log is opened".into(),
                    );
                }
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                side.say(Severity::Note, None, "too large to be looked at".into());
            }
            Err(error) => return Err(error),
        }
        Ok(side)
    }

    fn say(&mut self, severity: Severity, entry: Option<usize>, detail: String) {
        if self
            .findings
            .iter()
            .any(|finding| finding.severity >= severity)
        {
            return;
        }
        let entry_bytes = if self.kind == FindingKind::OffsetIndex {
            OFFSET_ENTRY_BYTES
        } else {
            TIME_ENTRY_BYTES
        };
        let mut finding = Finding::new(severity, self.kind, self.name.as_str(), detail);
        if let Some(entry) = entry {
            finding = finding.at(u64::try_from(entry.saturating_mul(entry_bytes)).unwrap_or(0));
        }
        self.findings.push(finding);
    }

    /// Decides from the entries alone how many of them are compared.
    fn take(&mut self, sound: SoundPrefix, whole: usize, problem: Option<String>) {
        self.entries = sound.entries;
        if sound.rest_is_zero {
            if whole > sound.entries {
                let finding = Finding::note(
                    FindingKind::Padding,
                    self.name.as_str(),
                    format!("zeros behind entry {}", sound.entries),
                );
                self.findings.push(finding);
            }
        } else if self.severity == Severity::Note {
            let detail = format!(
                "left over behind entry {}: the log was not closed",
                sound.entries
            );
            self.say(Severity::Note, Some(sound.entries), detail);
        } else {
            let detail = problem.unwrap_or_else(|| "its entries do not fit one another".into());
            self.say(Severity::Damage, Some(sound.entries), detail);
        }
    }

    fn wrong(&mut self, entry: usize, detail: &str) {
        let severity = self.severity;
        self.say(severity, Some(entry), format!("entry {entry}: {detail}"));
    }
}

impl IndexCheck {
    pub(super) fn read<D: Dir>(log: &LogDirectory<D>, segment: &SegmentFiles) -> Result<Self> {
        let base = segment.base;
        let mut offsets = Side::read(log, segment, FileType::Index)?;
        let sound = offset::sound_prefix(&offsets.bytes, base, segment.log_bytes);
        let view = OffsetIndexView::new(base, &offsets.bytes);
        let problem = view
            .check(segment.log_bytes)
            .err()
            .map(|problem| problem.to_string());
        let whole = offsets
            .bytes
            .len()
            .checked_div(OFFSET_ENTRY_BYTES)
            .unwrap_or(0);
        offsets.take(sound, whole, problem);

        let mut times = Side::read(log, segment, FileType::TimeIndex)?;
        let sound = time::sound_prefix(&times.bytes, base);
        let problem = TimeIndexView::new(base, &times.bytes).check().err();
        let whole = times.bytes.len().checked_div(TIME_ENTRY_BYTES).unwrap_or(0);
        times.take(sound, whole, problem.map(|problem| problem.to_string()));
        Ok(Self {
            base,
            offsets,
            times,
            waiting: None,
            max_timestamp: -1,
            is_damaged: false,
        })
    }

    /// The segment has a damaged batch: what points behind it cannot be compared.
    pub(super) fn damaged(&mut self) {
        self.is_damaged = true;
    }

    pub(super) fn batch(&mut self, seen: &Seen) {
        if self.is_damaged {
            return;
        }
        self.offsets_of(seen);
        self.times_of(seen);
        self.max_timestamp = self.max_timestamp.max(seen.header.max_timestamp);
    }

    fn offsets_of(&mut self, seen: &Seen) {
        let view = OffsetIndexView::new(self.base, &self.offsets.bytes);
        let mut wrong = None;
        while let Some((entry_offset, position)) = view
            .entry(self.offsets.next)
            .filter(|_| self.offsets.next < self.offsets.entries)
        {
            if position.get() > seen.position {
                break;
            }
            let entry = self.offsets.next;
            self.offsets.next = entry.saturating_add(1);
            let entry_offset = entry_offset.get();
            if position.get() < seen.position {
                wrong = Some((entry, "points to no batch"));
            } else if entry_offset < seen.base_offset {
                wrong = Some((entry, "its offset lies below the batch it points to"));
            } else if entry_offset > seen.base_offset {
                self.waiting = Some((entry, entry_offset));
            }
        }
        if let Some((entry, waiting)) = self.waiting
            && waiting <= seen.header.last_offset
        {
            self.waiting = None;
            if waiting < seen.header.last_offset {
                wrong = Some((entry, "its offset is not the last of a batch"));
            }
        }
        if let Some((entry, detail)) = wrong {
            self.offsets.wrong(entry, detail);
        }
    }

    fn times_of(&mut self, seen: &Seen) {
        let view = TimeIndexView::new(self.base, &self.times.bytes);
        let below = self.max_timestamp;
        let upto = below.max(seen.header.max_timestamp);
        let mut wrong = None;
        while let Some((timestamp, entry_offset)) = view
            .entry(self.times.next)
            .filter(|_| self.times.next < self.times.entries)
        {
            if entry_offset.get() > seen.header.last_offset {
                break;
            }
            let entry = self.times.next;
            self.times.next = entry.saturating_add(1);
            if timestamp.millis() > upto {
                wrong = Some((entry, "no record up to its offset has so late a timestamp"));
            } else if timestamp.millis() < below {
                wrong = Some((entry, "a record before its offset has a later timestamp"));
            }
        }
        if let Some((entry, detail)) = wrong {
            self.times.wrong(entry, detail);
        }
    }

    /// What was found, once all batches were shown.
    pub(super) fn finish(mut self) -> Vec<Finding> {
        if !self.is_damaged {
            if self.offsets.next < self.offsets.entries {
                let entry = self.offsets.next;
                self.offsets.wrong(entry, "points to no batch");
            }
            if let Some((entry, _)) = self.waiting {
                self.offsets
                    .wrong(entry, "its offset lies past the end of the segment");
            }
            if self.times.next < self.times.entries {
                let entry = self.times.next;
                self.times
                    .wrong(entry, "its offset lies past the end of the segment");
            }
        }
        self.offsets.findings.append(&mut self.times.findings);
        self.offsets.findings
    }
}
