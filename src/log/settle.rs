//! Puts the values of an opened log together: start, end, watermarks and epochs, each clamped to
//! what the batches say.

use crate::checkpoint::text::print_leader_epochs;
use crate::epoch::EpochCache;
use crate::error::Result;
use crate::log::layout::Layout;
use crate::log::plan::{Damage, KnownEpochs, Note, Plan, PlannedSegment, Planner, Source, Walked};
use crate::log::scan::{Depth, Scanner, Step};
use crate::log::walk::learn;
use crate::log::witness;
use crate::record::crc32_ieee;
use crate::storage::Dir;
use crate::types::{Offset, Position};

/// Start and end of a log.
struct Bounds {
    log_start: Offset,
    log_end: Offset,
    batches_end: Offset,
    /// The log start row, if it is believed.
    start_row: Option<Offset>,
    /// The log holds no byte and starts at a row above its last segment.
    restart_at: Option<Offset>,
}

impl<D: Dir> Planner<'_, D> {
    /// Puts the plan together from what was found.
    pub(crate) fn settle(
        &self,
        layout: Layout,
        walked: Walked,
        known: &KnownEpochs,
        damage: Vec<Damage>,
        mut notes: Vec<Note>,
        trusted: bool,
    ) -> Result<Plan> {
        let mut segments = walked.segments;
        let mut removed = Vec::new();
        if let Some((at, _)) = &walked.cut {
            let gone = segments.split_off(at.saturating_add(1).min(segments.len()));
            removed = gone
                .iter()
                .map(|gone| (gone.base, gone.stored_bytes))
                .collect();
        }
        let found_end = segments.last().map(|last| walked.walk.end(last.base));
        let bounds = self.bounds(&segments, found_end, damage.is_empty(), &mut notes);
        let row = if trusted {
            Some(bounds.log_end)
        } else {
            self.state.recovery_point
        };
        let watermark_row = self.state.high_watermark;
        let (epochs, epochs_source) =
            self.settle_epochs(walked.walk.epochs, known, &segments, &bounds, trusted)?;
        Ok(Plan {
            trusted,
            log_start_offset: bounds.log_start,
            log_end_offset: bounds.log_end,
            recovery_point: row
                .unwrap_or_default()
                .clamp(bounds.log_start, bounds.log_end),
            high_watermark: watermark_row
                .unwrap_or_default()
                .clamp(bounds.log_start, bounds.log_end),
            cut: walked.cut.map(|(_, cut)| cut),
            damage,
            notes,
            scanned_bytes: walked.scanned_bytes,
            epochs_source,
            high_watermark_source: watermark_row.map_or(Source::Default, |_| Source::Checkpoint),
            // An empty file is how Kafka makes it: no epochs.
            epochs_changed: print_leader_epochs(epochs.entries()).as_bytes() != known.bytes
                && !(epochs.is_empty() && known.bytes.is_empty()),
            epochs,
            layout,
            segments,
            removed,
            active: walked.active,
            batches_end: bounds.batches_end,
            restart_at: bounds.restart_at,
        })
    }

    /// The epochs of the opened log, cut at both its ends.
    fn settle_epochs(
        &self,
        walked: EpochCache,
        known: &KnownEpochs,
        segments: &[PlannedSegment],
        bounds: &Bounds,
        trusted: bool,
    ) -> Result<(EpochCache, Source)> {
        if bounds.restart_at.is_some() {
            return Ok((EpochCache::new(), Source::Default));
        }
        let (mut epochs, source) = match &known.file {
            // After a clean stop the file is the whole truth: a truncation may have taken an epoch
            // out of it whose batches stand below the log start.
            Some(file) if trusted => (file.clone(), Source::Checkpoint),
            Some(_) => (walked, Source::Checkpoint),
            None => self.epochs_of_batches(segments)?,
        };
        // Only where the file is not the one that our line was written with: a file that Kafka left
        // is believed as it is.
        let changed = self
            .state
            .witness
            .is_some_and(|facts| facts.epoch_file_crc != Some(crc32_ieee(&known.bytes)));
        if !trusted && changed {
            self.cover_first(segments, bounds.log_start, &mut epochs)?;
        }
        // After a clean stop the epoch of deleted records stands at the start of an empty log.
        let is_deleted = trusted && bounds.start_row == Some(bounds.log_end);
        let end = if is_deleted {
            bounds.log_end.next()
        } else {
            bounds.log_end
        };
        epochs.truncate_from_end(end);
        if let Some(start) = bounds.start_row {
            epochs.truncate_from_start(start);
        }
        Ok((epochs, source))
    }

    /// Where the log starts and ends. A log start row above the end is believed only where no
    /// segment holds a byte, or where our own line says that the last batch ends below the start:
    /// the log is empty there.
    fn bounds(
        &self,
        segments: &[PlannedSegment],
        found_end: Option<Offset>,
        undamaged: bool,
        notes: &mut Vec<Note>,
    ) -> Bounds {
        let row = self.state.log_start;
        let batches_end = found_end.or(row).unwrap_or_default();
        let above = row.filter(|row| *row > batches_end);
        let known = self.state.witness.is_some_and(|facts| {
            undamaged && facts.log_start == row && facts.log_start > Some(facts.log_end)
        });
        let empty = known || segments.iter().all(|segment| segment.bytes == 0);
        if let Some(row) = above.filter(|_| !empty) {
            let detail = format!("log start {row} is above the log end, not believed");
            notes.push(Note { file: None, detail });
        }
        let start_row = if above.is_some() && !empty { None } else { row };
        let restart_at = above.filter(|_| empty && found_end.is_some());
        let log_end = restart_at.unwrap_or(batches_end);
        let first = segments.first().map(|segment| segment.base);
        let first = restart_at.or(first).unwrap_or(log_end);
        Bounds {
            log_start: start_row.unwrap_or_default().max(first),
            log_end,
            batches_end: log_end,
            start_row,
            restart_at,
        }
    }

    /// Learns the epochs below the first that is known, if the first batch that can be read stands
    /// there: an interrupted truncation cut the epochs at a log start, or forgot them all, and took
    /// it back.
    fn cover_first(
        &self,
        kept: &[PlannedSegment],
        log_start: Offset,
        epochs: &mut EpochCache,
    ) -> Result<()> {
        let known = epochs.entries().first().map(|entry| entry.start_offset);
        if known.is_some_and(|start| start <= log_start)
            || !self.first_has_epoch(kept, log_start, known)?
        {
            return Ok(());
        }
        let (batches, _) = self.epochs_of_batches(kept)?;
        let first = epochs.entries().first().copied();
        let missing = batches.entries().iter().copied().filter(|entry| {
            first.is_none_or(|first| {
                entry.start_offset < first.start_offset && entry.epoch < first.epoch
            })
        });
        let covered = EpochCache::from_entries(missing.chain(epochs.entries().iter().copied()));
        *epochs = covered;
        Ok(())
    }

    /// Whether the first batch at or above the log start begins below `known` and has an epoch.
    fn first_has_epoch(
        &self,
        kept: &[PlannedSegment],
        log_start: Offset,
        known: Option<Offset>,
    ) -> Result<bool> {
        let at = kept
            .partition_point(|segment| segment.base <= log_start)
            .saturating_sub(1);
        for ((base, files), planned) in self.segments.iter().zip(kept).skip(at) {
            let Some((file, _)) = self.open(files)? else {
                continue;
            };
            let index = witness::sound_index(self.dir, *base, files, planned.bytes, self.config)?;
            let from = index.lookup(log_start).1;
            let mut scan = Scanner::new(&file, from, planned.bytes, Depth::Headers);
            while let Step::Batch(_, header) = scan.step().map_err(|e| self.failed(e))? {
                if header.last_offset >= log_start.get() {
                    return Ok(header.leader_epoch >= 0
                        && known.is_none_or(|known| header.base_offset < known.get()));
                }
            }
        }
        Ok(false)
    }

    /// The epochs as the batches of all segments have them, for a log whose file is lost.
    fn epochs_of_batches(&self, kept: &[PlannedSegment]) -> Result<(EpochCache, Source)> {
        let mut epochs = EpochCache::new();
        for ((base, files), planned) in self.segments.iter().zip(kept) {
            let Some((file, _)) = self.open(files)? else {
                continue;
            };
            let mut scan = Scanner::new(&file, Position::ZERO, planned.bytes, Depth::Headers);
            while let Step::Batch(_, header) = scan.step().map_err(|e| self.failed(e))? {
                learn(&mut epochs, &header, *base);
            }
        }
        let source = if epochs.is_empty() {
            Source::Default
        } else {
            Source::Batches
        };
        Ok((epochs, source))
    }
}
