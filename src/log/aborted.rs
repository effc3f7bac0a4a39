//! Which transactions were aborted, for readers of committed records.
//!
//! Kafka believes a `.txnindex` file, and takes a missing one for "none was aborted". Here it is a
//! copy of what the batches say: before the first reader of committed records gets anything of a
//! segment, its markers are looked at, and an index that lacks one of them is completed.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::index::{AbortedTransaction, TRANSACTION_ENTRY_BYTES, TransactionIndex};
use crate::log::Log;
use crate::log::producers::load_snapshot;
use crate::log::replay::{Replay, ReplayedSegment, State};
use crate::log::segment::{Body, Segment, read_lock, write_lock};
use crate::log::view::View;
use crate::names::{FileType, segment_name};
use crate::producer::Producers;
use crate::storage::{Access, Dir, Fenced, File, read_file, replace_file};
use crate::types::{Offset, Timestamp};

/// The aborted transactions of a segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resolved {
    /// What the batches say: readers go by it.
    pub(crate) aborted: TransactionIndex,
    /// The same, and what the file says besides that no batch contradicts: compaction removes
    /// batches and leaves their transactions in the index. This is what the file should hold.
    pub(crate) file: TransactionIndex,
}

impl Resolved {
    fn push(&mut self, entry: AbortedTransaction) {
        for index in [&mut self.aborted, &mut self.file] {
            // Refused only if a marker stands at or below an entry that nobody wrote: the marker
            // counts.
            if index.push(entry).is_err() {
                index.truncate_to(entry.last_offset);
                let _pushed = index.push(entry);
            }
        }
    }

    fn truncate_to(&mut self, end: Offset) {
        self.aborted.truncate_to(end);
        self.file.truncate_to(end);
    }
}

/// The aborted transactions of the active segment.
#[derive(Clone, Debug, Default)]
pub(crate) struct ActiveAborted {
    pub(crate) known: Resolved,
    /// Markers from here on were noted when they were appended; what stands below is from the file.
    noted_from: Offset,
    /// The batches of the segment say the same.
    pub(crate) verified: bool,
    /// The file does not hold all of it.
    pub(crate) unsaved: bool,
}

impl ActiveAborted {
    /// Of a segment without batches.
    pub(crate) fn none() -> Self {
        Self::resolved(Resolved::default(), false)
    }

    /// Of a segment whose batches were looked at.
    pub(crate) fn resolved(known: Resolved, unsaved: bool) -> Self {
        Self {
            known,
            noted_from: Offset::ZERO,
            verified: true,
            unsaved,
        }
    }

    /// Of a segment whose batches were just read.
    pub(crate) fn derived(index: TransactionIndex) -> Self {
        let known = Resolved {
            file: index.clone(),
            aborted: index,
        };
        Self::resolved(known, false)
    }

    /// Of a segment that ends at `end`, as its file has them.
    pub(crate) fn stored(index: TransactionIndex, end: Offset) -> Self {
        Self {
            noted_from: end,
            verified: false,
            ..Self::derived(index)
        }
    }

    pub(crate) fn push(&mut self, aborted: AbortedTransaction) {
        self.known.push(aborted);
        self.unsaved = true;
    }

    /// Drops the transactions that ended at or above `end`.
    pub(crate) fn truncate_to(&mut self, end: Offset) {
        self.known.truncate_to(end);
        self.noted_from = self.noted_from.min(end);
    }
}

/// The bytes of a transaction index file, `None` if there is none. One that is larger than its log
/// holds no index, since each entry stands for a marker there that is larger: it counts as empty,
/// and is not read.
fn read_index<D: Dir>(dir: &D, base: Offset) -> io::Result<Option<Vec<u8>>> {
    let log = dir.open(&segment_name(base, FileType::Log), Access::Read)?;
    match read_file(dir, &segment_name(base, FileType::TxnIndex), log.bytes()?) {
        Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(Some(Vec::new())),
        read => read,
    }
}

/// What a transaction index file holds, as far as it can be believed: an empty one if it is missing
/// or wrong.
pub(crate) fn stored_index<D: Dir>(dir: &D, base: Offset) -> Result<TransactionIndex> {
    let name = segment_name(base, FileType::TxnIndex);
    let bytes = read_index(dir, base)
        .map_err(|e| Error::io("read transaction index", &dir.path().join(&name), e))?;
    Ok(TransactionIndex::parse(&bytes.unwrap_or_default())
        .ok()
        .map(|parsed| parsed.index)
        .filter(|index| index.check(base).is_ok())
        .unwrap_or_default())
}

/// Makes the index file hold these entries. Durable on return. Where a file that held something
/// else differed first; unit: bytes from the front, of an entry.
pub(crate) fn store_index<D: Dir>(
    dir: &D,
    base: Offset,
    index: &TransactionIndex,
) -> Result<Option<usize>> {
    let name = segment_name(base, FileType::TxnIndex);
    let fail = |e| Error::io("write transaction index", &dir.path().join(&name), e);
    let mut bytes = Vec::new();
    index.encode_from(0, &mut bytes);
    let stored = read_index(dir, base).map_err(fail)?;
    if stored.as_ref().is_some_and(|stored| *stored == bytes) {
        return Ok(None);
    }
    replace_file(dir, &name, &bytes).map_err(fail)?;
    Ok(stored.map(|stored| {
        let same = stored.iter().zip(&bytes).take_while(|(a, b)| a == b);
        let same = same.count();
        same.saturating_sub(same.checked_rem(TRANSACTION_ENTRY_BYTES).unwrap_or(0))
    }))
}

/// Looks at the markers of a segment.
pub(crate) fn resolve_index<D: Dir>(
    dir: &D,
    segments: &[ReplayedSegment],
    at: usize,
    (log_start, to): (Offset, Offset),
    snapshots: &[Offset],
) -> Result<Resolved> {
    let Some(segment) = segments.get(at) else {
        return Ok(Resolved::default());
    };
    let mut state = state_at(dir, segments, (log_start, segment.base), snapshots)?;
    resolve_segment(dir, segment, (log_start, to), &mut state.replay())
}

/// As [`resolve_index`], with the state at the base offset of the segment, which follows. Batches
/// below `from` do not count.
pub(crate) fn resolve_segment<D: Dir>(
    dir: &D,
    segment: &ReplayedSegment,
    (from, to): (Offset, Offset),
    replay: &mut Replay<'_>,
) -> Result<Resolved> {
    let stored = stored_index(dir, segment.base)?;
    let mut claims = stored.entries().iter().copied().peekable();
    let mut resolved = Resolved::default();
    // Refused are claims that go back: they say nothing.
    let add = |index: &mut TransactionIndex, entry| index.push(entry).is_ok();
    replay.segment(dir, segment, from, to, |header, marker, derived| {
        if let Some(derived) = derived {
            let _added = add(&mut resolved.aborted, derived);
        }
        // Claims of markers that compaction took.
        while let Some(claim) = claims.next_if(|c| c.last_offset.get() < header.base_offset) {
            let _added = add(&mut resolved.file, claim);
        }
        let abort = marker.is_some_and(|marker| !marker.commit);
        let mut kept = derived;
        while let Some(claim) = claims.next_if(|c| c.last_offset.get() <= header.last_offset) {
            let stands = abort && claim.producer_id == header.producer_id;
            let wider = derived.is_none_or(|derived| {
                claim.first_offset <= derived.first_offset
                    // Too early a stable offset makes a search longer, too late ends it early.
                    && claim.last_stable_offset <= derived.last_stable_offset
            });
            if stands && wider {
                kept = Some(claim);
            }
        }
        if let Some(kept) = kept {
            let _added = add(&mut resolved.file, kept);
        }
    })?;
    for claim in claims.filter(|claim| claim.last_offset < to) {
        let _added = add(&mut resolved.file, claim);
    }
    Ok(resolved)
}

/// The producers and transactions at `end`: the newest sound snapshot at or below it, and the
/// batches from there, or from the log start, on.
pub(crate) fn state_at<D: Dir>(
    dir: &D,
    segments: &[ReplayedSegment],
    (log_start, end): (Offset, Offset),
    snapshots: &[Offset],
) -> Result<State> {
    let mut state = State::default();
    let mut from = log_start;
    for offset in snapshots.iter().rev().filter(|offset| **offset <= end) {
        if let Ok(entries) = load_snapshot(dir, *offset)? {
            // Nothing expires here: an old transaction counts like any other.
            state = State::of(Producers::of_snapshot(&entries, Timestamp::NONE, i64::MAX));
            from = from.max(*offset);
            break;
        }
    }
    let first = segments
        .partition_point(|segment| segment.base <= from)
        .saturating_sub(1);
    for segment in segments.iter().skip(first).take_while(|s| s.base < end) {
        let mut replay = state.replay();
        replay.segment(dir, segment, from, end, |_, _, _| {})?;
    }
    Ok(state)
}

impl<D: Dir> Log<D> {
    /// The aborted transactions whose records overlap `from` (inclusive) to `to` (exclusive), by
    /// rising markers. Kafka: `UnifiedLog.collectAbortedTransactions` as a fetch calls it.
    ///
    /// Looks at the segment of `from` and later ones until no further one can hold any. The first
    /// look at a segment reads its headers.
    ///
    /// # Errors
    /// Those of the system.
    pub fn aborted_transactions(
        &self,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<AbortedTransaction>> {
        self.unchanged(|view| self.aborted_in(view, (from, to), |known| &known.file))
    }

    /// Those of them that readers go by.
    pub(crate) fn aborted_for_readers(
        &self,
        view: &View<Fenced<D>>,
        from: Offset,
        to: Offset,
    ) -> Result<Vec<AbortedTransaction>> {
        self.aborted_in(view, (from, to), |known| &known.aborted)
    }

    fn aborted_in(
        &self,
        view: &View<Fenced<D>>,
        (from, to): (Offset, Offset),
        of: impl Fn(&Resolved) -> &TransactionIndex,
    ) -> Result<Vec<AbortedTransaction>> {
        let mut found = Vec::new();
        let first = view.floor(from).unwrap_or(0);
        for (at, segment) in view.segments.iter().enumerate().skip(first) {
            let complete = match &segment.body {
                Body::Active(live) => {
                    self.verify_active(view, at)?;
                    of(&read_lock(&live.aborted).known).collect(from, to, &mut found)
                }
                Body::Sealed { aborted, .. } => {
                    let known = match aborted.get() {
                        Some(known) => Arc::clone(known),
                        None => self.resolve_sealed(view, at, segment)?,
                    };
                    of(&known).collect(from, to, &mut found)
                }
            };
            if complete {
                break;
            }
        }
        Ok(found)
    }

    /// Looks at the batches of the active segment that were there when the log was opened.
    fn verify_active(&self, view: &View<Fenced<D>>, at: usize) -> Result<()> {
        let Some(Body::Active(live)) = view.segments.get(at).map(|segment| &segment.body) else {
            return Ok(());
        };
        let noted_from = {
            let aborted = read_lock(&live.aborted);
            if aborted.verified {
                return Ok(());
            }
            aborted.noted_from
        };
        let mut known = self.resolve(view, at, noted_from)?;
        let mut aborted = write_lock(&live.aborted);
        if aborted.verified {
            return Ok(());
        }
        let noted = aborted.known.file.entries().iter();
        for entry in noted.filter(|entry| entry.last_offset >= noted_from) {
            known.push(*entry);
        }
        aborted.unsaved |= known.file != aborted.known.file;
        aborted.known = known;
        aborted.verified = true;
        Ok(())
    }

    fn resolve_sealed(
        &self,
        view: &View<Fenced<D>>,
        at: usize,
        segment: &Segment<Fenced<D>>,
    ) -> Result<Arc<Resolved>> {
        let known = Arc::new(self.resolve(view, at, Offset::MAX)?);
        let Body::Sealed {
            aborted, unsaved, ..
        } = &segment.body
        else {
            return Ok(known);
        };
        if known.file != stored_index(&self.dir, segment.base)? {
            unsaved.store(true, Ordering::Release);
        }
        Ok(Arc::clone(aborted.get_or_init(|| known)))
    }

    fn resolve(&self, view: &View<Fenced<D>>, at: usize, to: Offset) -> Result<Resolved> {
        let segments = replayed(view);
        // A segment that was begun has a snapshot at its base.
        let bases: Vec<Offset> = segments.iter().map(|segment| segment.base).collect();
        resolve_index(&self.dir, &segments, at, (view.log_start, to), &bases)
    }

    /// Writes the transaction indexes of sealed segments that a reader found incomplete.
    pub(crate) fn save_completed_indexes(&self) -> Result<()> {
        for segment in self.view.load().segments.iter() {
            if let Body::Sealed {
                aborted, unsaved, ..
            } = &segment.body
                && unsaved.load(Ordering::Acquire)
                && let Some(known) = aborted.get()
            {
                store_index(&self.dir, segment.base, &known.file)?;
                unsaved.store(false, Ordering::Release);
            }
        }
        Ok(())
    }
}

/// The segments of a view, to be read again.
pub(crate) fn replayed<D: Dir>(view: &View<D>) -> Vec<ReplayedSegment> {
    view.segments
        .iter()
        .map(|segment| ReplayedSegment {
            base: segment.base,
            bytes: view.bytes_of(segment),
            without_producers: None,
        })
        .collect()
}
