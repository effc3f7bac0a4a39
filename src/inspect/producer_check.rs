//! Compares producer snapshots and transaction indexes with the batches, while a walk goes over
//! them.
//!
//! Side files know what happened below the log start and in batches that compaction took out, so
//! only what the batches contradict is wrong. Once a batch is missing, batches say no more than
//! what a side file must know at least.

use std::collections::BTreeSet;

use super::MAX_INDEX_BYTES;
use super::catalog::{LogDirectory, SegmentFiles};
use super::finding::{Finding, FindingKind, Severity};
use super::producers::{EXPIRATION_MS, snapshots};
use super::walk::Seen;
use crate::error::{ErrorKind, Result};
use crate::index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES, TransactionIndex};
use crate::log::replay::{State, read_marker};
use crate::names::{FileType, segment_name};
use crate::producer::snapshot::{self, ProducerSnapshotEntry};
use crate::producer::{ProducerState, Producers};
use crate::record::{BatchHeader, EndTransactionMarker};
use crate::storage::Dir;
use crate::types::{Offset, Position, Timestamp};

/// The side files of a log beside a state that follows its batches.
pub(super) struct ProducerCheck<'a, D: Dir> {
    log: &'a LogDirectory<D>,
    /// When producers expire.
    now: Option<Timestamp>,
    state: State,
    /// The batches below do not count.
    start: Offset,
    /// Where the batches so far end; `None` before the first.
    end: Option<i64>,
    /// No batch is missing between the first one and here.
    is_whole: bool,
    /// The offsets of the snapshots to come, descending.
    snapshots: Vec<Offset>,
    /// Producers that were silent for so long that they may have been forgotten in between.
    forgotten: BTreeSet<i64>,
    /// Producers whose open transaction has records.
    with_records: BTreeSet<i64>,
    index: Index,
    findings: Vec<Finding>,
}

/// The transaction index of the segment that is walked.
#[derive(Debug, Default)]
struct Index {
    name: String,
    severity: Option<Severity>,
    /// What it holds; `None` if that cannot be compared.
    entries: Option<Vec<AbortedTransaction>>,
    is_absent: bool,
    /// The next entry to compare.
    next: usize,
    is_wrong: bool,
}

impl<'a, D: Dir> ProducerCheck<'a, D> {
    pub(super) fn new(log: &'a LogDirectory<D>, now: Option<Timestamp>) -> Self {
        let first = log
            .segments
            .first()
            .map_or(Offset::ZERO, |first| first.base);
        let mut snapshots = snapshots(log);
        snapshots.reverse();
        Self {
            log,
            now,
            state: State::default(),
            start: log.log_start.unwrap_or(first).max(first),
            end: None,
            is_whole: true,
            snapshots,
            forgotten: BTreeSet::new(),
            with_records: BTreeSet::new(),
            index: Index::default(),
            findings: Vec::new(),
        }
    }

    pub(super) fn segment_start(&mut self, segment: &SegmentFiles) -> Result<()> {
        let name = segment_name(segment.base, FileType::TxnIndex);
        let is_open = segment.is_active && !self.log.is_clean;
        let bytes = match self.log.content(&name, MAX_INDEX_BYTES) {
            Err(error) if error.kind() == ErrorKind::Unsupported => Some(None),
            content => content?.map(Some),
        };
        let sound = |bytes: &Vec<u8>| {
            let parsed = TransactionIndex::parse(bytes).ok()?;
            let is_sound = parsed.index.check(segment.base).is_ok();
            is_sound.then(|| parsed.index.entries().to_vec())
        };
        self.index = Index {
            severity: Some(if is_open {
                Severity::Note
            } else {
                Severity::Damage
            }),
            is_absent: bytes.is_none(),
            entries: bytes.flatten().as_ref().and_then(sound),
            name,
            next: 0,
            is_wrong: false,
        };
        Ok(())
    }

    /// Bytes that are no batch lie here.
    pub(super) fn damaged(&mut self) {
        self.is_whole = false;
    }

    pub(super) fn batch(&mut self, file: &D::File, seen: &Seen) -> Result<()> {
        let header = &seen.header;
        self.is_whole &= self.end.is_none_or(|end| end == seen.base_offset);
        self.snapshots_up_to(seen.base_offset, header.last_offset)?;
        self.end = Some(seen.end());
        let failed = |source| {
            self.log
                .failed("cannot read a marker", &self.index.name, source)
        };
        let position = Position::new(seen.position);
        let marker = read_marker(file, position, header).map_err(failed)?;
        let id = header.producer_id;
        let mut aborted = None;
        if header.last_offset >= self.start.get() && header.has_producer_id() {
            if let Some(known) = self.state.producers.get(id)
                && header
                    .max_timestamp
                    .saturating_sub(known.last_timestamp().millis())
                    >= EXPIRATION_MS
            {
                self.forgotten.insert(id);
            }
            aborted = self.state.replay().batch(header, marker);
            // What waits for a high watermark is of no interest here.
            self.state.transactions.replicated_below(Offset::MAX);
        }
        self.index_up_to(header, marker, aborted);
        if marker.is_some() {
            self.with_records.remove(&id);
        } else if header.is_transactional() && !header.is_control() && seen.records > 0 {
            self.with_records.insert(id);
        }
        Ok(())
    }

    pub(super) fn segment_end(&mut self, segment: &SegmentFiles) -> Result<()> {
        // Those past the end of the log are told by others.
        if self.is_whole && !segment.is_active && self.next_claim().is_some() {
            let entry = self.index.next;
            self.wrong_entry(entry, None, "its marker lies past the end of the segment");
        }
        if segment.is_active
            && let Some(end) = self.end
        {
            self.snapshots_up_to(end, end)?;
        }
        Ok(())
    }

    pub(super) fn finish(self) -> Vec<Finding> {
        self.findings
    }

    fn next_claim(&self) -> Option<AbortedTransaction> {
        let entries = self.index.entries.as_ref()?;
        entries.get(self.index.next).copied()
    }

    fn wrong_entry(&mut self, entry: usize, offset: Option<Offset>, detail: &str) {
        if std::mem::replace(&mut self.index.is_wrong, true) {
            return;
        }
        let kind = FindingKind::TransactionIndex;
        let severity = self.index.severity.unwrap_or(Severity::Note);
        let detail = format!("entry {entry}: {detail}");
        let mut finding = Finding::new(severity, kind, self.index.name.as_str(), detail);
        let position = entry.saturating_mul(TRANSACTION_ENTRY_BYTES);
        finding = finding.at(u64::try_from(position).unwrap_or(0));
        finding.offset = offset;
        self.findings.push(finding);
    }

    /// Compares the entries of the index up to the end of a batch, and what the batch says itself.
    fn index_up_to(
        &mut self,
        header: &BatchHeader,
        marker: Option<EndTransactionMarker>,
        aborted: Option<AbortedTransaction>,
    ) {
        let mut is_missing = aborted.is_some() && self.with_records.contains(&header.producer_id);
        if self.index.is_absent {
            if is_missing && !std::mem::replace(&mut self.index.is_wrong, true) {
                let kind = FindingKind::TransactionIndex;
                let detail = "absent beside an aborted transaction";
                let finding = Finding::note(kind, self.index.name.as_str(), detail);
                self.findings.push(finding.at_offset(header.base_offset));
            }
            return;
        }
        while let Some(claim) = self.next_claim() {
            let at = claim.last_offset.get();
            if at > header.last_offset {
                break;
            }
            let entry = self.index.next;
            self.index.next = entry.saturating_add(1);
            // A control batch that says nothing has lost its marker to compaction.
            let is_marker = at >= header.base_offset
                && header.is_control()
                && header.producer_id == claim.producer_id
                && marker.is_none_or(|marker| !marker.commit);
            let problem = if is_marker {
                is_missing = false;
                aborted.and_then(|aborted| self.differs(&claim, &aborted))
            } else if at >= header.base_offset || self.is_whole {
                Some(format!(
                    "no abort marker of producer {} stands at its last offset",
                    claim.producer_id
                ))
            } else {
                None
            };
            if let Some(problem) = problem {
                self.wrong_entry(entry, Some(claim.last_offset), &problem);
            }
        }
        if is_missing && self.index.entries.is_some() {
            let detail = format!(
                "missing: producer {} aborted a transaction that the batches hold",
                header.producer_id
            );
            let entry = self.index.next;
            self.wrong_entry(entry, Offset::new(header.base_offset), &detail);
        }
    }

    /// What is wrong with an entry whose marker is there.
    fn differs(&self, claim: &AbortedTransaction, found: &AbortedTransaction) -> Option<String> {
        // The log may have begun in the middle of the transaction, or of another that was open.
        let is_known = |offset: Offset| self.is_whole && offset >= self.start;
        if claim.first_offset > found.first_offset
            || claim.first_offset < found.first_offset && is_known(claim.first_offset)
        {
            return Some(format!(
                "first offset {}, where the transaction begins at {}",
                claim.first_offset, found.first_offset
            ));
        }
        let (claimed, stable) = (claim.last_stable_offset, found.last_stable_offset);
        if self.is_whole && claimed > stable || claimed < stable && is_known(claimed) {
            return Some(format!(
                "last stable offset {claimed}, where the batches give {stable}"
            ));
        }
        None
    }

    /// Compares the snapshots at or below the base offset of a batch that is not followed yet.
    fn snapshots_up_to(&mut self, base: i64, last: i64) -> Result<()> {
        while let Some(offset) = self.snapshots.last().copied() {
            if offset.get() > last {
                break;
            }
            self.snapshots.pop();
            // A snapshot inside a batch cannot be compared, nor one that no batch reaches back to.
            if offset.get() > base || offset <= self.start || self.end.is_none() {
                continue;
            }
            let name = segment_name(offset, FileType::Snapshot);
            let Some(bytes) = self.log.content(&name, MAX_INDEX_BYTES)? else {
                continue;
            };
            let Ok(entries) = snapshot::parse(&bytes) else {
                continue;
            };
            if let Some((entry, detail)) = self.compare(&entries) {
                let at = u64::try_from(snapshot::entry_position(entry)).unwrap_or(0);
                let finding = Finding::damage(FindingKind::Snapshot, name, detail);
                self.findings.push(finding.at(at).at_offset(offset.get()));
            }
        }
        Ok(())
    }

    /// The first entry that the batches contradict.
    fn compare(&self, entries: &[ProducerSnapshotEntry]) -> Option<(usize, String)> {
        let mut listed = BTreeSet::new();
        for (number, entry) in entries.iter().enumerate() {
            let id = entry.producer_id;
            if !listed.insert(id) {
                return Some((number, format!("entry {number}: producer {id} comes again")));
            }
            if let Some(problem) = self.contradicts(entry, self.state.producers.get(id)) {
                return Some((number, format!("entry {number}: producer {id}: {problem}")));
            }
        }
        let lost = self.lost(&listed)?;
        Some((entries.len(), format!("producer {lost} is missing")))
    }

    /// A producer that a snapshot lacks though it cannot have expired.
    fn lost(&self, listed: &BTreeSet<i64>) -> Option<i64> {
        let producers: &Producers = &self.state.producers;
        let is_fresh = |state: &ProducerState| {
            let age = self.now.map(|now| now.millis_since(state.last_timestamp()));
            age.is_some_and(|age| age < EXPIRATION_MS)
                || self.is_whole && state.open_since().is_some()
        };
        let mut lost = producers
            .iter()
            .filter(|(id, state)| !listed.contains(id) && is_fresh(state));
        lost.next().map(|(id, _)| id)
    }

    fn contradicts(
        &self,
        entry: &ProducerSnapshotEntry,
        state: Option<&ProducerState>,
    ) -> Option<String> {
        let is_known = |offset: Offset| self.is_whole && offset >= self.start;
        let reaches_back = self.is_whole && self.start == Offset::ZERO;
        let Some(state) = state else {
            let is_invented = reaches_back || entry.last_offset.is_some_and(is_known);
            return is_invented.then(|| "no batch before is of this producer".to_owned());
        };
        let (epoch, found) = (entry.producer_epoch, state.producer_epoch());
        if epoch < found || self.is_whole && epoch > found {
            return Some(format!("epoch {epoch}, where the batches give {found}"));
        }
        let last = state.batches().last().filter(|_| epoch == found);
        let is_older = last.is_some_and(|last| entry.last_offset < Some(last.last_offset));
        let is_other = match last {
            Some(last) => {
                entry.last_offset != Some(last.last_offset)
                    || entry.last_sequence != last.last_sequence
            }
            None => reaches_back && entry.last_offset.is_some(),
        };
        if is_older || self.is_whole && is_other {
            let (sequence, offset) = last.map_or((-1, -1), |last| {
                (last.last_sequence, last.last_offset.get())
            });
            return Some(format!(
                "last sequence {} at offset {}, where the batches give {sequence} at {offset}",
                entry.last_sequence,
                entry.last_offset.map_or(-1, Offset::get),
            ));
        }
        if !self.is_whole {
            return None;
        }
        let (epoch, found) = (entry.coordinator_epoch, state.coordinator_epoch());
        let is_forgotten = self.forgotten.contains(&entry.producer_id);
        if epoch != found && !is_forgotten && (found >= 0 || reaches_back) {
            return Some(format!(
                "coordinator epoch {epoch}, where the batches give {found}"
            ));
        }
        let (open, found) = (entry.current_txn_first_offset, state.open_since());
        if open != found && open.is_none_or(is_known) {
            let words = |open: Option<Offset>| {
                open.map_or("no open transaction".to_owned(), |first| {
                    format!("a transaction open since {first}")
                })
            };
            return Some(format!(
                "{}, where the batches give {}",
                words(open),
                words(found)
            ));
        }
        None
    }
}
