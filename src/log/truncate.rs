//! Truncation: to an offset, to the end of an epoch, or fully with a new start. Durable on return.
//!
//! Order of durable steps, so that a crash at any of them leaves a prefix of what stood there:
//! recovery point, high watermark and log start rows lowered; whole segments removed from the end,
//! each before the next; the boundary segment cut; the epochs cut. Kafka: `UnifiedLog.truncateTo`,
//! `truncateFullyAndStartAt`, which sync none of it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::error::{Error, ErrorKind, Result};
use crate::index::{OffsetIndex, TimeIndex, TransactionIndex};
use crate::log::aborted::{ActiveAborted, replayed, stored_index};
use crate::log::checkpoints::Change;
use crate::log::producers::Rebuild;
use crate::log::scan::{Depth, Fault, Scanner, Step};
use crate::log::segment::{Body, IndexTally, Located, Opened, Segment, read_lock};
use crate::log::view::View;
use crate::log::writer::{Active, IndexFiles, Reopened, Writer};
use crate::log::{Log, Stable, barrier};
use crate::names::{FileType, segment_name};
use crate::producer::Transactions;
use crate::record::{Batch, Scratch};
use crate::storage::{Access, Dir, Fenced, File, read_file, remove_if_there, replace_file};
use crate::types::{LeaderEpoch, Offset, Position, Timestamp};

/// What a truncation may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TruncateOptions {
    /// Whether records below the high watermark may go: consumers may have seen them.
    pub below_high_watermark: bool,
}

/// What a truncation did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Truncated {
    /// The offset that was asked for.
    pub requested: Offset,
    /// Where the log ends (exclusive): at the base offset of the batch that held the requested
    /// offset.
    pub log_end_offset: Offset,
    /// Whether anything was cut.
    pub truncated: bool,
    /// Whether the end came below the high watermark that stood before.
    pub below_high_watermark: bool,
    /// Bytes of `.log` files that were cut.
    pub cut_bytes: u64,
}

/// Where a truncation cuts.
struct CutPoint {
    /// The new end of the log.
    end: Offset,
    /// The index of the segment that becomes the last one.
    segment: usize,
    /// The bytes that stay of it.
    bytes: u64,
}

/// What the checkpoint files are lowered to before a cut.
struct Rows {
    /// The new end of the log.
    end: Offset,
    /// The end of the last batch that stays.
    batches_end: Offset,
    /// The highest log start that may stay.
    log_start: Offset,
}

impl<D: Dir> Log<D> {
    /// Cuts the log so that it ends at `target` or, if that lies inside a batch, at the base offset
    /// of that batch: a batch is never cut in two. Read the real end from the result.
    ///
    /// At or past the log end nothing is cut, but an epoch that began there is forgotten. Below the
    /// first segment everything goes and the log starts at `target`. Epochs, indexes, recovery
    /// point, high watermark and log start follow. All of it is durable on return.
    ///
    /// # Errors
    /// `InvalidArgument` if the end would come below the high watermark and `options` do not allow
    /// it; nothing has changed then.
    pub fn truncate_to(
        &self,
        target: Offset,
        options: TruncateOptions,
        now: Timestamp,
    ) -> Result<Truncated> {
        let mut writer = self.changing("truncate")?;
        let turn = self.turns.take();
        let view = self.view.load_full();
        if target >= view.log_end {
            self.cut_epochs(&mut writer, view.log_end)?;
            return Ok(Truncated {
                requested: target,
                log_end_offset: view.log_end,
                truncated: false,
                below_high_watermark: false,
                cut_bytes: 0,
            });
        }
        let end = self.align(&view, target)?;
        self.check_watermark(&view, end, options)?;
        let cut_bytes = if end < view.first_base() {
            self.restart_at(&mut writer, &view, end, now)?
        } else {
            let cut = self.cut_point(&view, end)?;
            self.cut_at(&mut writer, &view, &cut, now)?
        };
        drop(turn);
        Ok(Truncated {
            requested: target,
            log_end_offset: end,
            truncated: true,
            below_high_watermark: end < view.high_watermark,
            cut_bytes,
        })
    }

    /// Where [`Log::truncate_to`] would cut, without cutting.
    ///
    /// # Errors
    /// Those of the system.
    pub fn truncation_end(&self, target: Offset) -> Result<Offset> {
        self.unchanged(|view| {
            if target >= view.log_end {
                Ok(view.log_end)
            } else {
                self.align(view, target)
            }
        })
    }

    /// Cuts the log at the end of `epoch`, as [`Log::end_offset_for`] names it.
    ///
    /// # Errors
    /// `InvalidArgument` for an epoch above the latest one, or if no epochs are known; else as for
    /// [`Log::truncate_to`].
    pub fn truncate_to_epoch(
        &self,
        epoch: LeaderEpoch,
        options: TruncateOptions,
        now: Timestamp,
    ) -> Result<Truncated> {
        let Some((_, end)) = self.end_offset_for(epoch) else {
            return Err(Error::new(
                ErrorKind::InvalidArgument,
                format!("truncate to the end of leader epoch {epoch}: the log knows none such"),
            )
            .at_path(self.path())
            .next_step("take an epoch that `highwater epochs` lists"));
        };
        self.truncate_to(end, options, now)
    }

    /// Removes everything; the log is empty and starts at `start`, as a follower does whose leader
    /// has nothing older. Durable on return.
    ///
    /// # Errors
    /// As for [`Log::truncate_to`].
    pub fn truncate_fully(
        &self,
        start: Offset,
        options: TruncateOptions,
        now: Timestamp,
    ) -> Result<Truncated> {
        let mut writer = self.changing("truncate")?;
        let turn = self.turns.take();
        let view = self.view.load_full();
        let lowest = if view.log_end > view.log_start {
            view.log_start
        } else {
            view.log_end
        };
        self.check_watermark(&view, lowest, options)?;
        let cut_bytes = self.restart_at(&mut writer, &view, start, now)?;
        drop(turn);
        Ok(Truncated {
            requested: start,
            log_end_offset: start,
            truncated: true,
            below_high_watermark: lowest < view.high_watermark,
            cut_bytes,
        })
    }

    fn check_watermark(
        &self,
        view: &View<Fenced<D>>,
        end: Offset,
        options: TruncateOptions,
    ) -> Result<()> {
        if end >= view.high_watermark || options.below_high_watermark {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::InvalidArgument,
            format!("truncate below the high watermark {}", view.high_watermark),
        )
        .at_path(self.path())
        .at_offset(end)
        .next_step("allow it (--below-high-watermark) if consumers may lose these records"))
    }

    /// The base offset of the batch that holds `target` inside it, but not below the log start;
    /// else `target` itself.
    fn align(&self, view: &View<Fenced<D>>, target: Offset) -> Result<Offset> {
        let Some(at) = view.floor(target) else {
            return Ok(target);
        };
        let Some(segment) = view.segments.get(at) else {
            return Ok(target);
        };
        let opened = self.handles.open(segment)?;
        let located = opened
            .locate(target, view.bytes_of(segment))
            .map_err(|e| Error::io("look for the batch to cut", self.path(), e))?;
        let (position, header) = match located {
            Located::At(position, header) => (position, header),
            // A target in a gap, or behind the last batch: taken as it is.
            Located::Absent => return Ok(target),
            Located::Bad(position, fault) => return Err(self.cut_blocked(segment, position, fault)),
        };
        let mut base = Offset::new(header.base_offset).unwrap_or(target);
        if header.is_compressed_wrapper() {
            base = self.wrapper_base(&opened, position, header.bytes)?;
        }
        if base >= target {
            return Ok(target);
        }
        Ok(base.max(target.min(view.log_start)))
    }

    /// The base offset of an old wrapper message, which only its inner messages tell.
    fn wrapper_base(
        &self,
        opened: &Opened<Fenced<D>>,
        position: Position,
        bytes: u32,
    ) -> Result<Offset> {
        let corrupt = |e| {
            Error::new(ErrorKind::CorruptRecord, "read the wrapper message to cut")
                .at_path(self.path())
                .at_position(position)
                .caused_by(e)
        };
        let mut buffer = vec![0; usize::try_from(bytes).unwrap_or(usize::MAX)];
        opened
            .log()
            .read_exact_at(&mut buffer, position.get())
            .map_err(|e| Error::io("read the batch to cut", self.path(), e))?;
        let mut scratch = Scratch::default();
        let batch = Batch::parse(&buffer).map_err(corrupt)?;
        let base = batch.base_offset(&mut scratch).map_err(corrupt)?;
        Ok(Offset::new(base).unwrap_or(Offset::ZERO))
    }

    fn cut_point(&self, view: &View<Fenced<D>>, end: Offset) -> Result<CutPoint> {
        let at = view.floor(end).unwrap_or(0);
        let Some(segment) = view.segments.get(at) else {
            return Ok(CutPoint {
                end,
                segment: 0,
                bytes: 0,
            });
        };
        let bytes = view.bytes_of(segment);
        let located = self
            .handles
            .open(segment)?
            .locate(end, bytes)
            .map_err(|e| Error::io("look for the batch to cut", self.path(), e))?;
        let bytes = match located {
            Located::At(position, _) => position.get(),
            Located::Absent => bytes,
            Located::Bad(position, fault) => return Err(self.cut_blocked(segment, position, fault)),
        };
        Ok(CutPoint {
            end,
            segment: at,
            bytes,
        })
    }

    fn cut_blocked(&self, segment: &Segment<Fenced<D>>, position: Position, fault: Fault) -> Error {
        Error::new(
            ErrorKind::Damaged,
            "look for the batch to cut behind damaged bytes",
        )
        .at_path(&self.path().join(segment.file_name(FileType::Log)))
        .at_position(position)
        .caused_by(fault.to_string())
        .next_step("truncate below the damage, or repair it first")
    }

    /// Cuts the log at an aligned point; returns the bytes that went.
    fn cut_at(
        &self,
        writer: &mut Writer<Fenced<D>>,
        view: &View<Fenced<D>>,
        cut: &CutPoint,
        now: Timestamp,
    ) -> Result<u64> {
        let (kept, removed) = view
            .segments
            .split_at(cut.segment.saturating_add(1).min(view.segments.len()));
        let Some((last, before)) = kept.split_last() else {
            return Ok(0);
        };
        let mut cut_bytes = view.bytes_of(last).saturating_sub(cut.bytes);
        // The recovery point is written down next.
        writer.active.sync_indexes(&self.dir)?;
        let (index, time) = self.indexes_of(last, cut.end)?;
        let (largest, batches_end) =
            last_of(self.handles.open(last)?.log(), &index, &time, cut.bytes)
                .map_err(|e| Error::io("read segment to truncate", self.path(), e))?;
        let rows = Rows {
            end: cut.end,
            batches_end,
            log_start: cut.end,
        };
        self.lower_rows(view, &rows, before)?;
        self.handles.clear();
        for segment in removed.iter().rev() {
            cut_bytes = cut_bytes.saturating_add(view.bytes_of(segment));
            self.remove_files(writer, segment)?;
            barrier::removals_before_reuse(&self.dir)?;
        }
        let aborted = self.aborted_below(last, cut.end)?;
        self.cut_log(last.base, cut.bytes)?;
        cut_transaction_index(&self.dir, last.base, cut.end)?;
        let dir = &self.dir;
        let stored = Reopened {
            base: last.base,
            bytes: cut.bytes,
            indexes: (index, time),
            largest,
            batches_end,
            files: IndexFiles::Replace,
            aborted,
        };
        let mut active = Active::open(dir, stored, now)?;
        if view.segments.len() == kept.len() && cut.bytes > 0 {
            active.created = writer.active.created;
        }
        barrier::removals_before_reuse(dir)?;
        let segment = Segment::active(last.base, Arc::clone(&active.live));
        writer.active = active;
        writer.epochs.truncate_from_end(cut.end);
        self.write_epoch_file(&writer.epochs)?;
        let log_start = view.log_start.min(cut.end);
        let rebuilt = self.rebuild_producers(writer, view, cut, log_start, now);
        self.publish_cut(writer, before, segment, cut.end, |view, transactions| {
            view.log_start = log_start;
            if let Ok(Some(rebuilt)) = &rebuilt {
                transactions.clone_from(rebuilt);
            }
            if view.high_watermark >= cut.end {
                view.high_watermark = cut.end;
                transactions.replicated_below(cut.end);
                view.watermark_settled = true;
            }
        });
        if let Err(error) = rebuilt {
            self.dir
                .fence("the producers of a truncated log could not be read again");
            return Err(error);
        }
        Ok(cut_bytes)
    }

    /// Removes all segments and starts anew; returns the bytes that went.
    fn restart_at(
        &self,
        writer: &mut Writer<Fenced<D>>,
        view: &View<Fenced<D>>,
        start: Offset,
        now: Timestamp,
    ) -> Result<u64> {
        let cut_bytes = self.bytes();
        // Until the new segment stands a crash may leave none: a log that ends at its start row, or
        // at 0.
        let end = start.min(view.first_base());
        let rows = Rows {
            end,
            batches_end: Offset::ZERO,
            log_start: start,
        };
        self.lower_rows(view, &rows, &[])?;
        self.handles.clear();
        // Those below the log start go first: were they left alone, deleted records would be the
        // log.
        let dead = view
            .segments
            .partition_point(|segment| segment.base <= view.log_start);
        let (dead, alive) = view.segments.split_at(dead.saturating_sub(1));
        for segment in dead.iter().chain(alive.iter().rev()) {
            self.remove_files(writer, segment)?;
            barrier::removals_before_reuse(&self.dir)?;
        }
        writer.epochs.clear();
        self.write_epoch_file(&writer.epochs)?;
        writer.producers.reset(&self.dir, start)?;
        writer.active = Active::create(&self.dir, start, &self.config, now)?;
        let segment = Segment::active(start, Arc::clone(&writer.active.live));
        self.publish_cut(writer, &[], segment, start, |view, transactions| {
            view.log_start = start;
            view.high_watermark = start;
            *transactions = Transactions::new();
            view.watermark_settled = true;
        });
        self.checkpoints.write(Change::Truncate, &self.facts())?;
        Ok(cut_bytes)
    }

    fn publish_cut(
        &self,
        writer: &Writer<Fenced<D>>,
        before: &[Arc<Segment<Fenced<D>>>],
        segment: Segment<Fenced<D>>,
        end: Offset,
        change: impl FnOnce(&mut View<Fenced<D>>, &mut Transactions),
    ) {
        let epochs = Arc::new(writer.epochs.clone());
        let active = &writer.active;
        let (active_bytes, active_largest) = (active.bytes, active.tally.largest);
        let batches_end = active.batches_end;
        // Above the high watermark nothing that readers may see has changed: as in Kafka, the last
        // stable offset stays until the next append or move of the watermark.
        let stable = if self.high_watermark() >= end {
            Stable::Follows
        } else {
            Stable::Stays
        };
        self.replace_view(stable, |view, transactions| {
            let segments = before.iter().cloned().chain([Arc::new(segment)]);
            view.segments = Arc::new(segments.collect());
            view.log_end = end;
            view.active_bytes = active_bytes;
            view.active_largest = active_largest;
            view.batches_end = batches_end;
            view.recovery_point = view.recovery_point.min(end);
            view.synced_batches = view.synced_batches.min(batches_end);
            view.epochs = epochs;
            view.generation = view.generation.wrapping_add(1);
            change(view, transactions);
        });
    }

    /// Lowers what the checkpoint files say before anything is cut: a row that stood above the new
    /// end would take later records for damage, or bring a deleted start back.
    fn lower_rows(
        &self,
        view: &View<Fenced<D>>,
        rows: &Rows,
        sealed: &[Arc<Segment<Fenced<D>>>],
    ) -> Result<()> {
        self.write_segments_file_of(sealed)?;
        let mut facts = self.facts();
        // A recovery point in a gap at the end would take the end of the file for damage.
        facts.recovery_point = view.recovery_point.min(rows.batches_end);
        facts.high_watermark = Some(view.high_watermark.min(rows.end));
        facts.log_start = Some(view.log_start.min(rows.log_start));
        facts.log_end = rows.batches_end;
        self.checkpoints.write(Change::Truncate, &facts)
    }

    /// Removes the files of a segment; not durable before the directory is synced.
    pub(crate) fn remove_files(
        &self,
        writer: &mut Writer<Fenced<D>>,
        segment: &Segment<Fenced<D>>,
    ) -> Result<()> {
        for file in FileType::ALL {
            if file == FileType::Snapshot {
                writer.producers.remove(&self.dir, segment.base)?;
                continue;
            }
            let name = segment.file_name(file);
            remove_if_there(&self.dir, &name)
                .map_err(|e| Error::io("remove segment", &self.path().join(&name), e))?;
        }
        Ok(())
    }

    /// The indexes of a segment, cut before `end`, on the heap.
    fn indexes_of(
        &self,
        segment: &Segment<Fenced<D>>,
        end: Offset,
    ) -> Result<(OffsetIndex, TimeIndex)> {
        let max_bytes = self.config.segment_index_bytes;
        let (mut index, mut time) = match self.handles.open(segment)? {
            Opened::Active(live) => (
                read_lock(&live.index).clone(),
                read_lock(&live.time).clone(),
            ),
            Opened::Sealed(_, maps, base) => maps.to_heap(base, max_bytes),
        };
        index.truncate_to(end);
        time.truncate_to(end);
        Ok((index, time))
    }

    /// The aborted transactions of a segment that ended below `end`.
    fn aborted_below(&self, segment: &Segment<Fenced<D>>, end: Offset) -> Result<ActiveAborted> {
        let mut aborted = match &segment.body {
            Body::Active(live) => read_lock(&live.aborted).clone(),
            Body::Sealed {
                aborted, unsaved, ..
            } => match aborted.get() {
                Some(known) => {
                    ActiveAborted::resolved(known.as_ref().clone(), unsaved.load(Ordering::Acquire))
                }
                None => ActiveAborted::stored(stored_index(&self.dir, segment.base)?, end),
            },
        };
        aborted.truncate_to(end);
        Ok(aborted)
    }

    /// The producers as of the new end, from the batches that are left. The transactions, if they
    /// had to be rebuilt too.
    fn rebuild_producers(
        &self,
        writer: &mut Writer<Fenced<D>>,
        view: &View<Fenced<D>>,
        cut: &CutPoint,
        log_start: Offset,
        now: Timestamp,
    ) -> Result<Option<Transactions>> {
        let mut segments = replayed(view);
        segments.truncate(cut.segment.saturating_add(1));
        if let Some(last) = segments.last_mut() {
            last.bytes = cut.bytes;
        }
        let from = Rebuild {
            dir: &self.dir,
            segments: &segments,
            log_start,
            end: cut.end,
            now,
        };
        let had_ended = self.transactions().has_ended();
        writer.producers.rebuild(&from, had_ended)
    }

    fn cut_log(&self, base: Offset, bytes: u64) -> Result<()> {
        let name = segment_name(base, FileType::Log);
        let fail = |e| Error::io("truncate segment", &self.path().join(&name), e);
        let log = self.dir.open(&name, Access::Write).map_err(fail)?;
        log.set_len(bytes).map_err(fail)?;
        barrier::cut_before_next_append(&self.dir, &log)
    }

    fn cut_epochs(&self, writer: &mut Writer<Fenced<D>>, end: Offset) -> Result<()> {
        if writer.epochs.truncate_from_end(end) {
            self.write_epoch_file(&writer.epochs)?;
            self.publish_epochs(&writer.epochs);
        }
        Ok(())
    }
}

impl<D: Dir> View<D> {
    /// Whether a segment is the active one.
    pub(crate) fn is_active(segment: &Segment<D>) -> bool {
        matches!(segment.body, Body::Active(_))
    }
}

/// Drops the entries of transactions that ended at or above `end` from a segment's transaction
/// index. An index that cannot be read is left for `verify` to name.
pub(crate) fn cut_transaction_index<D: Dir>(dir: &D, base: Offset, end: Offset) -> Result<()> {
    let name = segment_name(base, FileType::TxnIndex);
    let fail = |e| Error::io("truncate transaction index", &dir.path().join(&name), e);
    let Some(bytes) = read_file(dir, &name, u64::from(u32::MAX)).map_err(fail)? else {
        return Ok(());
    };
    let Ok(parsed) = TransactionIndex::parse(&bytes) else {
        return Ok(());
    };
    let mut index = parsed.index;
    let entries = index.len();
    index.truncate_to(end);
    if index.len() < entries {
        let mut kept = Vec::new();
        index.encode_from(0, &mut kept);
        replace_file(dir, &name, &kept).map_err(fail)?;
    }
    Ok(())
}

/// The largest timestamp of a cut segment, and the end of its last batch. The time index has the
/// former up to its last entry, the batches behind it the rest.
fn last_of<F: File>(
    log: &F,
    index: &OffsetIndex,
    time: &TimeIndex,
    bytes: u64,
) -> std::io::Result<((Timestamp, Offset), Offset)> {
    let mut tally = IndexTally {
        bytes_since_entry: 0,
        largest: time.last_entry(),
    };
    let mut batches_end = index.base_offset();
    let from = index.lookup(tally.largest.1).1;
    let mut scan = Scanner::new(log, from, bytes, Depth::Headers);
    while let Step::Batch(_, header) = scan.step()? {
        tally.largest = tally.larger(&header);
        batches_end = Offset::new(header.last_offset)
            .unwrap_or(Offset::MAX)
            .next();
    }
    Ok((tally.largest, batches_end))
}
