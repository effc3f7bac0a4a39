//! The files of a log beside its segments: epochs, topic id, producer snapshots, aborted
//! transactions.

use super::MAX_INDEX_BYTES;
use super::catalog::LogDirectory;
use super::finding::{Finding, FindingKind};
use crate::checkpoint::{PartitionMetadata, text};
use crate::epoch::{EpochCache, EpochEntry};
use crate::error::{ErrorKind, Result};
use crate::index::{IndexProblem, TRANSACTION_ENTRY_BYTES, TransactionIndex};
use crate::names::{FileName, FileType, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA, Suffix};
use crate::producer::snapshot;
use crate::storage::Dir;
use crate::types::Offset;

/// The rows of the epoch file as they stand.
pub(super) fn epochs<D: Dir>(
    log: &LogDirectory<D>,
    findings: &mut Vec<Finding>,
) -> Result<Vec<EpochEntry>> {
    let Some(bytes) = log.content(LEADER_EPOCH_CHECKPOINT, MAX_INDEX_BYTES)? else {
        return Ok(Vec::new());
    };
    match text::parse_leader_epochs(&bytes) {
        Ok(rows) => Ok(rows.unwrap_or_default()),
        Err(error) => {
            let kind = FindingKind::EpochCheckpoint;
            let finding = Finding::damage(kind, LEADER_EPOCH_CHECKPOINT, error.to_string());
            findings.push(finding.of_log(&log.name));
            Ok(Vec::new())
        }
    }
}

/// Compares the epoch file with the epochs of the batches. Differences are notes: the file is
/// believed.
pub(super) fn compare_epochs<D: Dir>(
    log: &LogDirectory<D>,
    rows: &[EpochEntry],
    in_log: &[(EpochEntry, String, u64)],
    log_end: Offset,
    findings: &mut Vec<Finding>,
) {
    let mut note = |file: &str, position: Option<u64>, offset: Offset, detail: String| {
        let mut finding =
            Finding::note(FindingKind::EpochCheckpoint, file, detail).of_log(&log.name);
        if let Some(position) = position {
            finding = finding.at(position);
        }
        findings.push(finding.at_offset(offset.get()));
    };
    if rows.is_empty() {
        if let Some((first, ..)) = in_log.first() {
            let detail = "absent or empty beside batches that have leader epochs".to_owned();
            note(LEADER_EPOCH_CHECKPOINT, None, first.start_offset, detail);
        }
        return;
    }
    let cache = EpochCache::from_entries(rows.iter().copied());
    if cache.entries() != rows {
        let detail = "its rows do not rise".to_owned();
        note(LEADER_EPOCH_CHECKPOINT, None, Offset::ZERO, detail);
    }
    if let Some(past) = cache
        .entries()
        .iter()
        .find(|entry| entry.start_offset >= log_end)
    {
        let detail = format!("epoch {} begins at or past the log end", past.epoch);
        note(LEADER_EPOCH_CHECKPOINT, None, past.start_offset, detail);
    }
    for (entry, file, position) in in_log {
        let noted = cache.epoch_for_offset(entry.start_offset);
        if noted != Some(entry.epoch) {
            let noted = noted.map_or_else(|| "none".to_owned(), |epoch| epoch.to_string());
            let detail = format!(
                "the batch has leader epoch {}, the epoch file has {noted} at its offset",
                entry.epoch
            );
            note(file, Some(*position), entry.start_offset, detail);
        }
    }
}

/// What is wrong with the topic id, snapshots and transaction indexes.
pub(super) fn check<D: Dir>(
    log: &LogDirectory<D>,
    log_end: Offset,
    has_producers: bool,
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let mut found = Vec::new();
    let mut snapshots = 0_u32;
    for (name, kind, _) in &log.files {
        if *kind == FileName::PartitionMetadata {
            partition_metadata(log, &mut found)?;
        }
        let FileName::Segment {
            base,
            kind,
            suffix: Suffix::None,
            canonical: true,
        } = kind
        else {
            continue;
        };
        match kind {
            FileType::Snapshot => {
                snapshots = snapshots.saturating_add(1);
                producer_snapshot(log, name, *base, log_end, &mut found)?;
            }
            FileType::TxnIndex => transactions(log, name, *base, log_end, &mut found)?,
            FileType::Log | FileType::Index | FileType::TimeIndex => {}
        }
    }
    if has_producers && snapshots == 0 {
        let detail = "none beside batches of idempotent producers: the whole log is read at open";
        found.push(Finding::note(FindingKind::Snapshot, "*.snapshot", detail));
    }
    findings.extend(found.into_iter().map(|finding| finding.of_log(&log.name)));
    Ok(())
}

fn content<D: Dir>(
    log: &LogDirectory<D>,
    name: &str,
    kind: FindingKind,
    found: &mut Vec<Finding>,
) -> Result<Option<Vec<u8>>> {
    match log.content(name, MAX_INDEX_BYTES) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            found.push(Finding::note(kind, name, "too large to be looked at"));
            Ok(None)
        }
        other => other,
    }
}

fn partition_metadata<D: Dir>(log: &LogDirectory<D>, found: &mut Vec<Finding>) -> Result<()> {
    let kind = FindingKind::PartitionMetadata;
    let Some(bytes) = content(log, PARTITION_METADATA, kind, found)? else {
        return Ok(());
    };
    match PartitionMetadata::parse(&bytes) {
        Ok(Some(_)) => {}
        Ok(None) => found.push(Finding::note(kind, PARTITION_METADATA, "empty")),
        Err(error) => found.push(Finding::damage(kind, PARTITION_METADATA, error.to_string())),
    }
    Ok(())
}

fn producer_snapshot<D: Dir>(
    log: &LogDirectory<D>,
    name: &str,
    end: Offset,
    log_end: Offset,
    found: &mut Vec<Finding>,
) -> Result<()> {
    let kind = FindingKind::Snapshot;
    let Some(bytes) = content(log, name, kind, found)? else {
        return Ok(());
    };
    if bytes.is_empty() {
        found.push(Finding::note(kind, name, "empty"));
    } else if let Err(error) = snapshot::parse(&bytes) {
        let position = u64::try_from(error.position(bytes.len())).unwrap_or(0);
        let finding = Finding::damage(kind, name, error.to_string());
        found.push(finding.at(position).at_offset(end.get()));
    } else if end > log_end {
        found.push(Finding::note(kind, name, "above the log end").at_offset(end.get()));
    }
    Ok(())
}

fn transactions<D: Dir>(
    log: &LogDirectory<D>,
    name: &str,
    base: Offset,
    log_end: Offset,
    found: &mut Vec<Finding>,
) -> Result<()> {
    let kind = FindingKind::TransactionIndex;
    let Some(bytes) = content(log, name, kind, found)? else {
        return Ok(());
    };
    let position = |entry: usize| {
        u64::try_from(entry.saturating_mul(TRANSACTION_ENTRY_BYTES)).unwrap_or(u64::MAX)
    };
    let wrong = |problem: &IndexProblem| {
        let entry = problem.entry().unwrap_or(0);
        Finding::damage(kind, name, problem.to_string()).at(position(entry))
    };
    let parsed = match TransactionIndex::parse(&bytes) {
        Ok(parsed) => parsed,
        Err(_) if bytes.iter().all(|byte| *byte == 0) => {
            found.push(Finding::note(
                FindingKind::Padding,
                name,
                "nothing but zeros",
            ));
            return Ok(());
        }
        Err(problem) => {
            found.push(wrong(&problem));
            return Ok(());
        }
    };
    if let Err(problem) = parsed.index.check(base) {
        found.push(wrong(&problem));
    } else if parsed.torn_bytes > 0 {
        let detail = format!("{} bytes behind its last whole entry", parsed.torn_bytes);
        found.push(Finding::damage(kind, name, detail).at(position(parsed.index.len())));
    } else if let Some(past) = parsed
        .index
        .entries()
        .iter()
        .find(|e| e.last_offset >= log_end)
    {
        let detail = "names a marker at or above the log end";
        found.push(Finding::note(kind, name, detail).at_offset(past.last_offset.get()));
    }
    Ok(())
}
