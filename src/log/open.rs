//! Opens a log: carries out what [`plan`](crate::log::plan) decided.
//!
//! Order of durable steps: leftovers finished; cut bytes saved; the cut; indexes; epochs;
//! checkpoint rows that stood above the new end. Each step can be repeated: a crash at any of them
//! is met by the next open.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;

use crate::checkpoint::LogFacts;
use crate::error::{Error, Result};
use crate::index::{OffsetIndex, TimeIndex, TransactionIndex};
use crate::log::aborted::{ActiveAborted, resolve_index, store_index, stored_index};
use crate::log::checkpoints::{Change, Checkpoints};
use crate::log::config::{LogConfig, WatermarkPolicy};
use crate::log::decision::Decision;
use crate::log::handles::HandleCache;
use crate::log::layout::unused_saved_name;
use crate::log::plan::{
    Cut, Damage, Note, OpenState, Plan, PlannedSegment, RecoveryScope, Source, plan,
};
use crate::log::producers::{LogProducers, Rebuild, load_snapshot};
use crate::log::replay::ReplayedSegment;
use crate::log::segment::{Segment, build_indexes, replace_indexes};
use crate::log::turns::Turns;
use crate::log::view::View;
use crate::log::watch::Watch;
use crate::log::witness;
use crate::log::writer::{Active, IndexFiles, Reopened, Writer};
use crate::log::{Log, barrier};
use crate::names::{FileType, LEADER_EPOCH_CHECKPOINT, segment_name};
use crate::producer::Transactions;
use crate::storage::{Access, Dir, Fenced, File, remove_if_there};
use crate::types::{Offset, Position, Timestamp};

/// How a log is opened.
#[derive(Debug)]
pub(crate) struct OpenOptions {
    pub(crate) config: LogConfig,
    pub(crate) state: OpenState,
    pub(crate) scope: RecoveryScope,
    pub(crate) checkpoints: Arc<dyn Checkpoints>,
    pub(crate) now: Timestamp,
}

/// What opening a log found and did.
#[derive(Clone, Debug)]
pub struct OpenReport {
    /// The decision: degraded before cut before sound.
    pub decision: Decision,
    /// Whether the clean-shutdown marker was there and believed.
    pub trusted: bool,
    /// Where the log ends; exclusive.
    pub log_end_offset: Offset,
    /// What was cut, and where it was saved.
    pub cut: Option<Cut>,
    /// What is damaged below the recovery point: such a log takes no changes.
    pub damage: Vec<Damage>,
    /// What else was seen or done.
    pub notes: Vec<Note>,
    /// Bytes whose checksums were computed.
    pub scanned_bytes: u64,
    /// Base offsets of the segments whose indexes were made anew.
    pub indexes_rebuilt: Vec<Offset>,
    /// Where the leader epochs came from.
    pub epochs_source: Source,
    /// Where the high watermark came from.
    pub high_watermark_source: Source,
}

impl<D: Dir> Log<D> {
    /// What opening the log would find and do. Reads only.
    pub(crate) fn plan(
        dir: &D,
        config: &LogConfig,
        state: OpenState,
        scope: RecoveryScope,
    ) -> Result<Plan> {
        plan(dir, config, state, scope)
    }

    /// Opens the log of a directory that is there, recovering it if need be.
    pub(crate) fn open(dir: D, options: OpenOptions) -> Result<(Self, OpenReport)> {
        let OpenOptions {
            config,
            state,
            scope,
            checkpoints,
            now,
        } = options;
        let dir = Fenced::new(dir);
        let mut plan = plan(&dir, &config, state, scope)?;
        let rebuilt = plan.indexes_rebuilt();
        let decision = plan.decision();
        plan.layout.finish(&dir)?;
        let opening = Opening {
            dir: &dir,
            config: &config,
            now,
        };
        opening.save_and_cut(&mut plan)?;
        if plan.restart_at.is_some() {
            opening.restart(&mut plan, state.recovery_point, checkpoints.as_ref())?;
        }
        opening.rebuild_indexes(&plan)?;
        let Recovered {
            mut producers,
            transactions,
            aborted,
        } = opening.producers(&plan, state.log_start)?;
        plan.notes.append(&mut producers.take_notes());
        let active = opening.active(&mut plan, aborted)?;
        let view = first_view(&plan, &active);
        let log = Self {
            handles: HandleCache::new(dir.clone(), config.index_interval_bytes),
            dir: dir.clone(),
            config,
            checkpoints,
            publish: Mutex::new(transactions),
            turns: Turns::default(),
            watch: Watch::default(),
            writer: Mutex::new(Writer {
                active,
                epochs: plan.epochs.clone(),
                producers,
                closed: false,
            }),
            view: ArcSwap::from_pointee(view),
        };
        log.finish_open(&plan, &state)?;
        let report = OpenReport {
            decision,
            trusted: plan.trusted,
            log_end_offset: plan.log_end_offset,
            cut: plan.cut,
            damage: plan.damage,
            notes: plan.notes,
            scanned_bytes: plan.scanned_bytes,
            indexes_rebuilt: rebuilt,
            epochs_source: plan.epochs_source,
            high_watermark_source: plan.high_watermark_source,
        };
        Ok((log, report))
    }

    fn finish_open(&self, plan: &Plan, state: &OpenState) -> Result<()> {
        if plan.damage.is_empty() {
            if plan.epochs_changed {
                self.write_epoch_file(&plan.epochs)?;
            } else if plan.epochs.is_empty() {
                self.make_epoch_file()?;
            }
        }
        let above = |row: Option<Offset>| row.is_some_and(|row| row > plan.log_end_offset);
        // Rows of records that a crash took would be believed again once the log has grown past
        // them.
        if plan.damage.is_empty() && (above(state.high_watermark) || above(state.log_start)) {
            let facts = LogFacts {
                recovery_point: plan.recovery_point,
                log_start: Some(plan.log_start_offset),
                ..self.facts()
            };
            self.checkpoints.write(Change::Truncate, &facts)?;
        }
        // The first values, for those who watch from the start.
        self.publish_with(|view, transactions| {
            transactions.replicated_below(view.high_watermark);
            let follows = match self.config.watermark_policy {
                WatermarkPolicy::Manual => view.high_watermark,
                WatermarkPolicy::LogEnd => view.log_end,
                WatermarkPolicy::Flushed => view.recovery_point,
            };
            view.high_watermark = view.high_watermark.max(follows);
        });
        Ok(())
    }
}

impl<D: Dir> Log<D> {
    /// Makes the epoch file if it is missing; empty, as Kafka does.
    fn make_epoch_file(&self) -> Result<()> {
        match self.dir.create_new(LEADER_EPOCH_CHECKPOINT) {
            Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
                let path = self.path().join(LEADER_EPOCH_CHECKPOINT);
                Err(Error::io("make leader epoch file", &path, error))
            }
            _ => Ok(()),
        }
    }
}

struct Opening<'a, D: Dir> {
    dir: &'a D,
    config: &'a LogConfig,
    now: Timestamp,
}

impl<D: Dir> Opening<'_, D> {
    fn failed(&self, doing: &str, name: &str, error: std::io::Error) -> Error {
        Error::io(doing, &self.dir.path().join(name), error)
    }

    /// Copies what is cut beside the log, then cuts it; durable on return.
    fn save_and_cut(&self, plan: &mut Plan) -> Result<()> {
        let Some(cut) = &mut plan.cut else {
            return Ok(());
        };
        let Some(last) = plan.segments.last() else {
            return Ok(());
        };
        let name = segment_name(last.base, FileType::Log);
        if cut.row.decision() == Decision::SaveAndCut {
            if last.stored_bytes > last.bytes {
                let from = Position::new(last.bytes);
                let saved = self.save(&name, from, last.stored_bytes, cut.offset)?;
                cut.saved_to.push(saved);
            }
            for (base, bytes) in &plan.removed {
                if *bytes > 0 {
                    let name = segment_name(*base, FileType::Log);
                    let saved = self.save(&name, Position::ZERO, *bytes, *base)?;
                    cut.saved_to.push(saved);
                }
            }
        }
        witness::forget_sealed(self.dir, last.base)?;
        for (base, _) in plan.removed.iter().rev() {
            for kind in FileType::ALL {
                if kind != FileType::Snapshot {
                    let name = segment_name(*base, kind);
                    remove_if_there(self.dir, &name)
                        .map_err(|e| self.failed("remove segment", &name, e))?;
                }
            }
            barrier::removals_before_reuse(self.dir)?;
        }
        let log = self
            .dir
            .open(&name, Access::Write)
            .map_err(|e| self.failed("cut segment", &name, e))?;
        log.set_len(last.bytes)
            .map_err(|e| self.failed("cut segment", &name, e))?;
        barrier::cut_before_next_append(self.dir, &log)?;
        crate::log::truncate::cut_transaction_index(self.dir, last.base, cut.offset)
    }

    fn save(&self, name: &str, from: Position, end: u64, offset: Offset) -> Result<String> {
        const PIECE: u64 = 1 << 20;
        let saved_name = unused_saved_name(self.dir, offset)
            .map_err(|e| self.failed("save bytes before they are cut", name, e))?;
        let fail = |e| self.failed("save bytes before they are cut", &saved_name, e);
        let log = self.dir.open(name, Access::Read).map_err(fail)?;
        let saved = self.dir.create_new(&saved_name).map_err(fail)?;
        let mut position = from.get();
        let mut buffer = Vec::new();
        while position < end {
            let piece = end.saturating_sub(position).min(PIECE);
            buffer.resize(usize::try_from(piece).unwrap_or(usize::MAX), 0);
            log.read_exact_at(&mut buffer, position).map_err(fail)?;
            saved
                .write_all_at(&buffer, position.saturating_sub(from.get()))
                .map_err(fail)?;
            position = position.saturating_add(piece);
        }
        barrier::saved_before_cut(self.dir, &saved)?;
        Ok(saved_name)
    }

    /// A log that starts above its last batch: an empty segment there takes the place of all
    /// others.
    fn restart(
        &self,
        plan: &mut Plan,
        recovery_point: Option<Offset>,
        checkpoints: &dyn Checkpoints,
    ) -> Result<()> {
        if let Some(row) = recovery_point.filter(|_| plan.segments.iter().any(|s| s.bytes > 0)) {
            // A crash may leave any of the segments: what they hold is no record, and what they
            // lack is no damage. The row stays: our line is believed only with it.
            let facts = LogFacts {
                recovery_point: row,
                high_watermark: None,
                log_start: None,
                log_end: Offset::ZERO,
                last_epoch: None,
                epoch_file_crc: None,
            };
            checkpoints.write(Change::Truncate, &facts)?;
        }
        for segment in std::mem::take(&mut plan.segments) {
            for kind in FileType::ALL {
                let name = segment_name(segment.base, kind);
                remove_if_there(self.dir, &name)
                    .map_err(|e| self.failed("remove empty segment", &name, e))?;
            }
        }
        plan.active = None;
        barrier::removals_before_reuse(self.dir)
    }

    fn rebuild_indexes(&self, plan: &Plan) -> Result<()> {
        let sealed = plan.segments.len().saturating_sub(1);
        for (at, segment) in plan.segments.iter().enumerate() {
            let name = segment_name(segment.base, FileType::Log);
            let fail = |e| self.failed("recover segment", &name, e);
            if !(segment.scanned || (segment.rebuild && at < sealed)) {
                continue;
            }
            let log = self.dir.open(&name, Access::Write).map_err(fail)?;
            if segment.scanned {
                barrier::recovered_before_open(self.dir, &log)?;
            }
            if !segment.rebuild || at >= sealed {
                continue;
            }
            let interval = self.config.index_interval_bytes;
            let built = build_indexes(&log, segment.base, segment.bytes, u32::MAX, interval)
                .map_err(fail)?;
            let (mut index, mut time) = (Vec::new(), Vec::new());
            built.index.encode_from(0, &mut index);
            built.time.encode_from(0, &mut time);
            replace_indexes(self.dir, segment.base, &index, &time)
                .map_err(|e| self.failed("write indexes", &name, e))?;
        }
        Ok(())
    }

    /// The producers at the log end, with snapshots where Kafka leaves them: at the bases and ends
    /// of recovered segments, strays removed. The transaction indexes of recovered segments are
    /// made anew.
    fn producers(&self, plan: &Plan, log_start_row: Option<Offset>) -> Result<Recovered> {
        let files = plan.layout.snapshots.keys().copied().collect();
        let frozen = !plan.damage.is_empty();
        let mut producers = LogProducers::new(files, self.config.producer_expiration_ms, frozen);
        let start = plan.log_start_offset;
        if plan.restart_at.is_some() {
            producers.reset(self.dir, start)?;
        }
        let segments: Vec<ReplayedSegment> = plan.segments.iter().map(replayed).collect();
        let mut from = Rebuild {
            dir: self.dir,
            segments: &segments,
            // Before a log is open its start is what the checkpoint says, where it says more than
            // the first segment does.
            log_start: log_start_row
                .filter(|row| segments.first().is_some_and(|first| *row > first.base))
                .unwrap_or_default()
                .min(start),
            end: plan.log_end_offset,
            now: self.now,
        };
        let mut aborted = None;
        if !frozen {
            if let Some(first) = plan.segments.iter().find(|segment| segment.scanned)
                && !self.config.follow_kafka
            {
                producers.set_damaged_aside(self.dir, first.base)?;
            }
            for at in self.recovered(plan) {
                if self.is_kept(plan, at)? {
                    self.complete_index(plan, at, &from, &mut producers)?;
                    continue;
                }
                aborted = self.recover_producers(plan, at, &mut producers, &mut from)?;
            }
        }
        let bases: BTreeSet<Offset> = segments.iter().map(|segment| segment.base).collect();
        producers.remove_strays(self.dir, &bases)?;
        producers.forget_position();
        (from.log_start, from.end) = (start, plan.log_end_offset);
        let lost = plan.layout.snapshots.is_empty() || !self.config.follow_kafka;
        let transactions = match plan.trusted && producers.has_no_files() {
            true if lost => producers.rebuild_lost(&from)?,
            true => producers.forget_all(&from)?,
            false => producers.rebuild(&from, false)?.unwrap_or_default(),
        };
        let aborted = match (aborted, plan.segments.last()) {
            (Some(index), _) => ActiveAborted::derived(index),
            (None, Some(segment)) => {
                ActiveAborted::stored(stored_index(self.dir, segment.base)?, plan.log_end_offset)
            }
            (None, None) => ActiveAborted::none(),
        };
        Ok(Recovered {
            producers,
            transactions,
            aborted,
        })
    }

    /// The segments whose producers are read again, in Kafka's order: those that have lost their
    /// offset index only where Kafka is followed, then those that were scanned.
    fn recovered<'p>(&self, plan: &'p Plan) -> impl Iterator<Item = usize> + use<'p, D> {
        let follows = self.config.follow_kafka;
        let lost = move |segment: &PlannedSegment| {
            let files = plan.layout.segments.get(&segment.base);
            follows && files.is_some_and(|files| files.index.is_none())
        };
        let of = |which: bool| move |(at, wanted): (usize, bool)| (wanted == which).then_some(at);
        let first = plan
            .segments
            .iter()
            .map(lost)
            .enumerate()
            .filter_map(of(true));
        let scanned = plan.segments.iter().map(|segment| segment.scanned);
        first.chain(scanned.enumerate().filter_map(of(true)))
    }

    /// Whether the producers behind a segment come from the snapshot there: it was read only
    /// because everything is, and its batches may say less than they did, after compaction.
    fn is_kept(&self, plan: &Plan, at: usize) -> Result<bool> {
        let settled = plan.segments.get(at).is_some_and(|segment| segment.settled);
        match plan.segments.get(at.saturating_add(1)) {
            Some(next) if settled => Ok(load_snapshot(self.dir, next.base)?.is_ok()),
            _ => Ok(false),
        }
    }

    /// Adds to the transaction index of a segment what its batches say besides.
    fn complete_index(
        &self,
        plan: &Plan,
        at: usize,
        from: &Rebuild<'_, D>,
        producers: &mut LogProducers,
    ) -> Result<()> {
        let Some(segment) = from.segments.get(at) else {
            return Ok(());
        };
        let snapshots: Vec<Offset> = plan.layout.snapshots.keys().copied().collect();
        let all = (from.log_start, Offset::MAX);
        let index = resolve_index(self.dir, from.segments, at, all, &snapshots)?.file;
        self.store_transactions(plan, segment.base, &index, producers)
    }

    fn store_transactions(
        &self,
        plan: &Plan,
        base: Offset,
        index: &TransactionIndex,
        producers: &mut LogProducers,
    ) -> Result<()> {
        let files = plan.layout.segments.get(&base);
        let stored = files.is_some_and(|files| files.transactions.is_some());
        if (stored || !index.is_empty())
            && let Some(position) = store_index(self.dir, base, index)?
        {
            producers.note(Note {
                file: Some(segment_name(base, FileType::TxnIndex)),
                detail: format!("position {position}: not what the batches say; made anew"),
            });
        }
        Ok(())
    }

    /// Reads the producers of a segment again, from the newest snapshot at or below its base, and
    /// takes a snapshot behind it. Kafka: `LogLoader.recoverSegment`. Returns the aborted
    /// transactions of the last segment.
    fn recover_producers(
        &self,
        plan: &Plan,
        at: usize,
        producers: &mut LogProducers,
        from: &mut Rebuild<'_, D>,
    ) -> Result<Option<TransactionIndex>> {
        let Some(segment) = from.segments.get(at) else {
            return Ok(None);
        };
        let next = from.segments.get(at.saturating_add(1));
        producers.forget_position();
        from.end = segment.base;
        let mut transactions = producers.rebuild(from, false)?.unwrap_or_default();
        let mut index = TransactionIndex::new();
        producers.recover(self.dir, segment, &mut transactions, |ended| {
            // Markers rise as the batches do.
            let _pushed = index.push(ended);
        })?;
        self.store_transactions(plan, segment.base, &index, producers)?;
        Ok(next.is_none().then_some(index))
    }

    fn active(&self, plan: &mut Plan, aborted: ActiveAborted) -> Result<Active<D>> {
        let Some(last) = plan.segments.last() else {
            return Active::create(self.dir, plan.log_end_offset, self.config, self.now);
        };
        let max = self.config.segment_index_bytes;
        let (indexes, largest) = match plan.active.take() {
            Some(active) => ((active.index, active.time), active.largest),
            None => (
                (
                    OffsetIndex::new(last.base, max),
                    TimeIndex::new(last.base, max),
                ),
                (Timestamp::NONE, last.base),
            ),
        };
        let keep = (plan.trusted && !last.rebuild) || !plan.damage.is_empty();
        let stored = Reopened {
            base: last.base,
            bytes: last.bytes,
            indexes,
            largest,
            batches_end: plan.batches_end,
            files: if keep {
                IndexFiles::Keep
            } else {
                IndexFiles::Replace
            },
            aborted,
        };
        Active::open(self.dir, stored, self.now)
    }
}

/// What the batches of an opened log say of its producers.
struct Recovered {
    producers: LogProducers,
    transactions: Transactions,
    /// The aborted transactions of the last segment.
    aborted: ActiveAborted,
}

fn replayed(segment: &PlannedSegment) -> ReplayedSegment {
    ReplayedSegment {
        base: segment.base,
        bytes: segment.bytes,
        without_producers: segment.without_producers,
    }
}

/// The view that an opened log starts with.
fn first_view<D: Dir>(plan: &Plan, active: &Active<D>) -> View<D> {
    let sealed = plan.segments.len().saturating_sub(1);
    let segments = plan
        .segments
        .iter()
        .take(sealed)
        .map(|segment| Arc::new(Segment::sealed(segment.base, segment.bytes)))
        .chain([Arc::new(Segment::active(
            active.base,
            Arc::clone(&active.live),
        ))])
        .collect();
    View {
        segments: Arc::new(segments),
        log_start: plan.log_start_offset,
        log_end: plan.log_end_offset,
        active_bytes: active.bytes,
        active_largest: active.tally.largest,
        batches_end: plan.batches_end,
        high_watermark: plan.high_watermark,
        recovery_point: plan.recovery_point,
        synced_batches: plan.recovery_point.min(plan.batches_end),
        epochs: Arc::new(plan.epochs.clone()),
        generation: 0,
        damage: plan.damage.clone().into(),
        watermark_settled: false,
        first_unstable: None,
    }
}
