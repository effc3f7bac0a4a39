//! The scan of recovery: from the recovery point on, batch by batch, and what is decided where it
//! stops.

use crate::epoch::EpochCache;
use crate::error::Result;
use crate::log::decision::{Decision, Row, Situation, Stop, decide};
use crate::log::plan::{
    ActivePlan, Cut, Damage, KnownEpochs, Note, Planner, RecoveryScope, Walked,
};
use crate::log::scan::{Depth, Fault, Scanner, Step};
use crate::log::walk::{SegmentWalk, Walk};
use crate::log::witness;
use crate::record::BatchHeader;
use crate::storage::Dir;
use crate::types::{Offset, Position};

/// The recovery point is past the end or inside a batch, and nobody vouches for it.
struct NotBelieved(&'static str);

impl<D: Dir> Planner<'_, D> {
    /// Scans from the recovery point, or everything where that is not believed.
    pub(crate) fn scan(
        &self,
        scope: RecoveryScope,
        known: &KnownEpochs,
        notes: &mut Vec<Note>,
    ) -> Result<Walked> {
        let epochs = known.file.clone().unwrap_or_default();
        // A truncation or a roll in a gap leaves a recovery point above the last batch.
        let last_batch = self
            .state
            .witness
            .map_or(Offset::MAX, |facts| facts.log_end);
        if let Some(watermark) = self
            .state
            .recovery_point
            .map(|point| point.min(last_batch))
            .filter(|point| *point > Offset::ZERO)
        {
            let (first, from) = match scope {
                RecoveryScope::Everything => (0, Position::ZERO),
                RecoveryScope::FromRecoveryPoint => self.start_of(watermark)?,
            };
            match self.scan_from(first, from, Some(watermark), epochs.clone())? {
                Ok(walked) => return Ok(walked),
                Err(NotBelieved(why)) => notes.push(Note {
                    file: None,
                    detail: format!("recovery point {watermark} is {why}, everything is scanned"),
                }),
            }
        }
        match self.scan_from(0, Position::ZERO, None, epochs)? {
            Ok(walked) => Ok(walked),
            Err(NotBelieved(why)) => unreachable!("no recovery point to disbelieve: {why}"),
        }
    }

    /// The segment that holds the recovery point, and a batch at or below it that an index entry
    /// names.
    fn start_of(&self, watermark: Offset) -> Result<(usize, Position)> {
        let at = self
            .segments
            .partition_point(|(base, _)| *base <= watermark)
            .saturating_sub(1);
        let Some((base, files)) = self.segments.get(at) else {
            return Ok((0, Position::ZERO));
        };
        let Some((file, bytes)) = self.open(files)? else {
            return Ok((at, Position::ZERO));
        };
        let index = witness::sound_index(self.dir, *base, files, bytes, self.config)?;
        let Some(below) = watermark.previous() else {
            return Ok((at, Position::ZERO));
        };
        let (offset, position) = index.lookup(below);
        let mut probe = Scanner::new(&file, position, bytes, Depth::Headers);
        let sound = match probe.step().map_err(|e| self.failed(e))? {
            Step::Batch(_, header) => {
                header.base_offset <= offset.get() && header.base_offset >= base.get()
            }
            Step::End(_) | Step::Bad(..) => false,
        };
        Ok((at, if sound { position } else { Position::ZERO }))
    }

    fn scan_from(
        &self,
        first: usize,
        from: Position,
        watermark: Option<Offset>,
        epochs: EpochCache,
    ) -> Result<Result<Walked, NotBelieved>> {
        let mut walked = Walked::new(Walk::new(epochs), self.planned(), None);
        walked.watermark = watermark;
        let mut from = from;
        for at in first..self.segments.len() {
            let Some((base, files)) = self.segments.get(at) else {
                break;
            };
            let Some((file, bytes)) = self.open(files)? else {
                continue;
            };
            let mut segment =
                witness::start_walk(self.dir, *base, files, bytes, self.config, from)?;
            let mut scan = Scanner::new(&file, segment.from, bytes, Depth::Checksums);
            from = Position::ZERO;
            let outcome = self.scan_segment(at, &mut scan, &mut segment, &mut walked)?;
            walked.scanned_bytes = walked
                .scanned_bytes
                .saturating_add(scan.position().get().saturating_sub(segment.from.get()));
            match outcome {
                Outcome::NotBelieved(why) => return Ok(Err(NotBelieved(why))),
                Outcome::Done => {}
                Outcome::Cut => {
                    self.finish_segment(at, segment, &mut walked)?;
                    break;
                }
            }
            self.finish_segment(at, segment, &mut walked)?;
        }
        Ok(Ok(walked))
    }

    /// Whether the recovery point lies inside the batch. Deleting records raises it to the log
    /// start, which may: that one counts as a boundary.
    fn straddles(&self, header: &BatchHeader, watermark: Option<Offset>) -> bool {
        watermark.is_some_and(|watermark| {
            header.base_offset < watermark.get()
                && watermark.get() <= header.last_offset
                && self.state.log_start != Some(watermark)
        })
    }

    /// Notes what the scan of a segment says of its index files; the last one's become the active
    /// indexes.
    fn finish_segment(&self, at: usize, segment: SegmentWalk, walked: &mut Walked) -> Result<()> {
        let Some((base, files)) = self.segments.get(at) else {
            return Ok(());
        };
        let cut = walked
            .cut
            .as_ref()
            .filter(|(cut_at, _)| *cut_at == at)
            .map(|(_, cut)| cut);
        let cut_position = cut.map(|cut| cut.position.get());
        let next = self.segments.get(at.saturating_add(1));
        let settled = next.is_some_and(|(next, _)| Some(*next) <= walked.watermark);
        let Some(planned) = walked.segments.get_mut(at) else {
            return Ok(());
        };
        planned.scanned = true;
        planned.settled = settled;
        let all = segment.from == Position::ZERO && !segment.producers;
        planned.without_producers = all.then(|| walked.walk.end(*base));
        if let Some(position) = cut_position {
            planned.bytes = position;
        }
        let largest = segment.tally.largest;
        let last = cut_position.is_some() || at.saturating_add(1) == self.segments.len();
        planned.rebuild = if last {
            !witness::active_indexes_fit(self.dir, *base, files, planned.bytes)?
        } else {
            !witness::indexes_fit(self.dir, *base, files, planned.bytes, largest)?
        };
        if last {
            walked.active = Some(ActivePlan {
                index: segment.index,
                time: segment.time,
                largest,
            });
        }
        Ok(())
    }

    fn scan_segment(
        &self,
        at: usize,
        scan: &mut Scanner<'_, D::File>,
        segment: &mut SegmentWalk,
        walked: &mut Walked,
    ) -> Result<Outcome> {
        let interval = self.config.index_interval_bytes;
        loop {
            let (position, named, stop, detail) = match scan.step().map_err(|e| self.failed(e))? {
                Step::Batch(position, header) => {
                    match walked.walk.accept(segment.base, position, &header) {
                        Ok(()) => {
                            if self.straddles(&header, walked.watermark) {
                                return Ok(Outcome::NotBelieved("inside a batch"));
                            }
                            segment.note(&header, position, interval);
                            continue;
                        }
                        Err(refused) => {
                            let at_previous = refused.at_previous
                                && (refused.stop != Stop::EpochBack || below(walked, segment));
                            let (stop, detail) = (refused.stop, refused.detail);
                            let behind = position.plus(u64::from(header.bytes));
                            if at_previous {
                                segment.forget(walked.walk.take_back());
                                let place = walked.walk.previous_position();
                                (place, Some((header, position)), stop, detail)
                            } else {
                                (position, Some((header, behind)), stop, detail)
                            }
                        }
                    }
                }
                Step::End(position) => (position, None, Stop::End, String::new()),
                Step::Bad(position, header, fault) => {
                    let named = header.map(|h| (h, position.plus(u64::from(h.bytes))));
                    (position, named, stop_of(fault), fault.to_string())
                }
            };
            let place = Place {
                at,
                position,
                header: named.map(|(header, _)| header),
                behind: named.map(|(_, behind)| behind),
                stop,
                detail,
            };
            // Without an outcome damage was noted, and the scan stands behind it.
            if let Some(outcome) = self.judge(&place, scan, segment, walked)? {
                return Ok(outcome);
            }
        }
    }

    /// Decides on the place where a scan stopped; `None` if it can go on behind damage.
    fn judge(
        &self,
        place: &Place,
        scan: &mut Scanner<'_, D::File>,
        segment: &mut SegmentWalk,
        walked: &mut Walked,
    ) -> Result<Option<Outcome>> {
        let expected = walked.walk.end(segment.base);
        let below = below(walked, segment);
        let last_segment = place.at.saturating_add(1) == self.segments.len();
        let witnessed = self.state.witness.is_some();
        if below && last_segment && !witnessed && !self.chain_reaches(place, scan, walked)? {
            return Ok(Some(Outcome::NotBelieved("past the end of the log")));
        }
        let row = decide(Situation {
            stop: place.stop,
            below_recovery_point: below,
            last_segment,
            more_behind: self.more_behind(place, scan)?,
            witness_says_more: last_segment && witnessed,
        });
        match row.decision() {
            Decision::GoOn | Decision::Trust => Ok(Some(Outcome::Done)),
            Decision::Cut | Decision::SaveAndCut => {
                let cut = self.cut(place, expected, row, scan)?;
                walked.cut = Some((place.at, cut));
                Ok(Some(Outcome::Cut))
            }
            Decision::Degrade => self.degrade(place, expected, row, scan, segment, walked),
        }
    }

    fn cut(
        &self,
        place: &Place,
        expected: Offset,
        row: Row,
        scan: &mut Scanner<'_, D::File>,
    ) -> Result<Cut> {
        let mut bytes = scan.end().saturating_sub(place.position.get());
        let mut lost_end = expected.get();
        if let Some(header) = place.header {
            lost_end = lost_end.max(header.last_offset.saturating_add(1));
            scan.seek(place.position.plus(header.bytes.into()));
            self.headers_behind(scan, &mut lost_end)?;
        }
        for (base, files) in self.segments.iter().skip(place.at.saturating_add(1)) {
            let Some((file, stored)) = self.open(files)? else {
                continue;
            };
            bytes = bytes.saturating_add(stored);
            if stored > 0 {
                lost_end = lost_end.max(base.get());
                let mut scan = Scanner::new(&file, Position::ZERO, stored, Depth::Headers);
                self.headers_behind(&mut scan, &mut lost_end)?;
            }
        }
        Ok(Cut {
            file: self.name_of(place.at),
            position: place.position,
            bytes,
            offset: expected,
            lost_offsets: u64::try_from(lost_end.saturating_sub(expected.get())).unwrap_or(0),
            row,
            detail: place.detail.clone(),
            saved_to: Vec::new(),
        })
    }

    /// Follows the batches behind a cut as far as they continue one another.
    fn headers_behind(&self, scan: &mut Scanner<'_, D::File>, lost_end: &mut i64) -> Result<()> {
        while let Step::Batch(_, header) = scan.step().map_err(|e| self.failed(e))? {
            if header.base_offset < *lost_end {
                break;
            }
            *lost_end = header.last_offset.saturating_add(1);
        }
        Ok(())
    }

    fn name_of(&self, at: usize) -> String {
        let files = self
            .segments
            .get(at)
            .and_then(|(_, files)| files.log.as_ref());
        files.map_or_else(String::new, |stored| stored.name.clone())
    }

    /// Notes damage below the recovery point, and goes on behind it where a sound batch is sure to
    /// begin.
    fn degrade(
        &self,
        place: &Place,
        expected: Offset,
        row: Row,
        scan: &mut Scanner<'_, D::File>,
        segment: &SegmentWalk,
        walked: &mut Walked,
    ) -> Result<Option<Outcome>> {
        let next = self.resume_behind(place, expected, scan, segment)?;
        let end_of_segment = match self.segments.get(place.at.saturating_add(1)) {
            Some((base, _)) => *base,
            None => walked.watermark.unwrap_or(expected),
        };
        let end_offset = next.map_or(end_of_segment, |(_, offset)| offset);
        let detail = if place.stop == Stop::End {
            format!("the log ends here, its records reached to {end_of_segment}")
        } else {
            place.detail.clone()
        };
        walked.damage.push(Damage {
            file: self.name_of(place.at),
            position: place.position,
            first_offset: expected,
            end_offset,
            row,
            detail,
        });
        walked.walk.skip_to(end_offset);
        if let Some(header) = place.header.filter(|_| place.stop == Stop::EpochBack) {
            walked.walk.fall_back_to(header.leader_epoch);
        }
        match next {
            Some((position, _)) => {
                scan.seek(position);
                Ok(None)
            }
            None => Ok(Some(Outcome::Done)),
        }
    }

    /// The place behind a damaged batch where a sound one begins: where its length ends, or where
    /// an index entry points. Bytes are never searched: a batch may lie inside a record's value.
    fn resume_behind(
        &self,
        place: &Place,
        expected: Offset,
        scan: &mut Scanner<'_, D::File>,
        segment: &SegmentWalk,
    ) -> Result<Option<(Position, Offset)>> {
        let indexed = segment.stored_positions_behind(place.position);
        for candidate in place.behind.into_iter().chain(indexed) {
            if candidate <= place.position || candidate.get() >= scan.end() {
                continue;
            }
            scan.seek(candidate);
            if let Step::Batch(position, header) = scan.step().map_err(|e| self.failed(e))?
                && header.base_offset >= expected.get()
            {
                scan.seek(place.position);
                return Ok(Offset::new(header.base_offset).map(|offset| (position, offset)));
            }
        }
        scan.seek(place.position);
        Ok(None)
    }

    /// Whether the headers of the last segment continue up to the recovery point, torn and bad
    /// bodies included: then it is believed, and what is wrong below it is damage.
    fn chain_reaches(
        &self,
        place: &Place,
        scan: &Scanner<'_, D::File>,
        walked: &Walked,
    ) -> Result<bool> {
        let Some(watermark) = walked.watermark else {
            return Ok(true);
        };
        let mut end = walked.walk.end(Offset::ZERO);
        let Some((_, files)) = self.segments.get(place.at) else {
            return Ok(false);
        };
        let Some((file, bytes)) = self.open(files)? else {
            return Ok(false);
        };
        let mut chain = Scanner::new(&file, place.position, scan.end().min(bytes), Depth::Headers);
        loop {
            let header = match chain.step().map_err(|e| self.failed(e))? {
                Step::Batch(_, header) => header,
                Step::Bad(_, Some(header), Fault::Short) => {
                    let last = Offset::new(header.last_offset).unwrap_or(Offset::ZERO);
                    let continues = header.base_offset >= end.get();
                    return Ok(continues && last.next() >= watermark);
                }
                Step::End(_) | Step::Bad(..) => return Ok(end >= watermark),
            };
            if header.base_offset < end.get() {
                return Ok(end >= watermark);
            }
            end = Offset::new(header.last_offset)
                .unwrap_or(Offset::ZERO)
                .next();
        }
    }

    /// Whether something that looks like records stands behind the place.
    fn more_behind(&self, place: &Place, scan: &mut Scanner<'_, D::File>) -> Result<bool> {
        let later = self.segments.iter().skip(place.at.saturating_add(1));
        if later
            .into_iter()
            .any(|(_, files)| files.log.as_ref().is_some_and(|log| log.bytes > 0))
        {
            return Ok(true);
        }
        let Some(behind) = place.behind else {
            return Ok(false);
        };
        scan.seek(behind);
        let step = scan.step().map_err(|e| self.failed(e))?;
        scan.seek(place.position);
        Ok(matches!(step, Step::Batch(..)))
    }
}

/// How the scan of one segment ended.
enum Outcome {
    Done,
    Cut,
    NotBelieved(&'static str),
}

/// Where a scan stopped.
struct Place {
    at: usize,
    position: Position,
    header: Option<BatchHeader>,
    /// Where the batch of the place ends, by its header.
    behind: Option<Position>,
    stop: Stop,
    detail: String,
}

/// Whether the next batch belongs below the recovery point.
fn below(walked: &Walked, segment: &SegmentWalk) -> bool {
    let watermark = walked.watermark;
    watermark.is_some_and(|watermark| walked.walk.end(segment.base) < watermark)
}

fn stop_of(fault: Fault) -> Stop {
    match fault {
        Fault::Zeros => Stop::Zeros,
        Fault::Short => Stop::Short,
        Fault::Decode(_) => Stop::Bad,
    }
}
