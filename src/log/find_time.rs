//! Offsets by timestamp, as `ListOffsets` answers them. Kafka: `UnifiedLog.fetchOffsetByTimestamp`.
//!
//! Kafka looks in the first segment whose largest timestamp is high enough; where that one holds no
//! record at or above the log start, this search goes on to later segments.

use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::log::scan::{Depth, Scanner, Step};
use crate::log::segment::{Opened, Segment};
use crate::log::view::View;
use crate::names::FileType;
use crate::record::{Batch, BatchHeader, Scratch};
use crate::storage::{Dir, Fenced, File};
use crate::types::{LeaderEpoch, Offset, Position, Timestamp};

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeQuery {
    /// The log end offset. `ListOffsets`: -1.
    Latest,
    /// The log start offset. `ListOffsets`: -2.
    Earliest,
    /// The first record with the largest timestamp. `ListOffsets`: -3.
    MaxTimestamp,
    /// The first record at or after a point in time.
    AtOrAfter(Timestamp),
}

/// An answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// The offset.
    pub offset: Offset,
    /// The timestamp of the record there; [`Timestamp::NONE`] for log start and log end.
    pub timestamp: Timestamp,
    /// The leader epoch of the record there.
    pub epoch: Option<LeaderEpoch>,
}

impl<D: Dir> Log<D> {
    /// Finds an offset by time; `None` if no record answers.
    ///
    /// Cost: one look at the last time index entry of each segment the first time, then one index
    /// lookup and a scan of the batches between two index entries.
    ///
    /// # Errors
    /// Those of the system, and `Damaged` where a batch that must be looked into cannot be read.
    pub fn find_time(&self, query: TimeQuery) -> Result<Option<Found>> {
        self.unchanged(|view| self.find_in(view, query))
    }

    fn find_in(&self, view: &View<Fenced<D>>, query: TimeQuery) -> Result<Option<Found>> {
        match query {
            TimeQuery::Latest => Ok(Some(Found {
                offset: view.log_end,
                timestamp: Timestamp::NONE,
                epoch: view.epochs.latest().map(|entry| entry.epoch),
            })),
            TimeQuery::Earliest => {
                let first = view.epochs.entries().first();
                Ok(Some(Found {
                    offset: view.log_start,
                    timestamp: Timestamp::NONE,
                    epoch: first
                        .filter(|entry| entry.start_offset <= view.log_start)
                        .map(|entry| entry.epoch),
                }))
            }
            TimeQuery::MaxTimestamp => self.find_largest(view),
            TimeQuery::AtOrAfter(target) => self.find_at_or_after(view, target),
        }
    }

    fn largest_of(
        &self,
        view: &View<Fenced<D>>,
        segment: &Segment<Fenced<D>>,
    ) -> Result<(Timestamp, Offset)> {
        // The time index of the active segment may lack the latest batches.
        if View::is_active(segment) {
            return Ok(view.active_largest);
        }
        self.handles.largest_timestamp(segment)
    }

    fn find_largest(&self, view: &View<Fenced<D>>) -> Result<Option<Found>> {
        let mut best: Option<(&Segment<Fenced<D>>, Timestamp, Offset)> = None;
        for segment in view.segments.iter() {
            let (timestamp, offset) = self.largest_of(view, segment)?;
            let better = best.is_none_or(|(_, largest, _)| timestamp > largest);
            if timestamp.millis() >= 0 && better {
                best = Some((segment, timestamp, offset));
            }
        }
        let Some((segment, timestamp, offset)) = best else {
            return Ok(None);
        };
        let opened = self.handles.open(segment)?;
        let search = Search {
            segment,
            opened,
            least: segment.base,
            timestamp,
        };
        self.search(view, &search, offset)
    }

    fn find_at_or_after(&self, view: &View<Fenced<D>>, target: Timestamp) -> Result<Option<Found>> {
        for segment in view.segments.iter() {
            if self.largest_of(view, segment)?.0 < target {
                continue;
            }
            let opened = self.handles.open(segment)?;
            let from = opened.lookup_time(target).max(view.log_start);
            let search = Search {
                segment,
                opened,
                least: view.log_start,
                timestamp: target,
            };
            if let Some(found) = self.search(view, &search, from)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The first record at or after a time and an offset, from the index entry below `from` on.
    fn search(
        &self,
        view: &View<Fenced<D>>,
        search: &Search<'_, Fenced<D>>,
        from: Offset,
    ) -> Result<Option<Found>> {
        let log = search.opened.log();
        let start = search.opened.lookup(from);
        let mut scan = Scanner::new(log, start, view.bytes_of(search.segment), Depth::Headers);
        let mut scratch = Scratch::default();
        loop {
            let step = scan
                .step()
                .map_err(|e| self.search_failed(search, start, e))?;
            let (position, header) = match step {
                Step::Batch(position, header) => (position, header),
                Step::End(_) | Step::Bad(..) => return Ok(None),
            };
            if header.max_timestamp < search.timestamp.millis() {
                continue;
            }
            if let Some(found) = self.search_batch(search, position, &header, &mut scratch)? {
                return Ok(Some(found));
            }
        }
    }

    fn search_batch(
        &self,
        search: &Search<'_, Fenced<D>>,
        position: Position,
        header: &BatchHeader,
        scratch: &mut Scratch,
    ) -> Result<Option<Found>> {
        let damaged = |e| {
            Error::new(ErrorKind::Damaged, "look into a batch for a timestamp")
                .at_path(&self.path().join(search.segment.file_name(FileType::Log)))
                .at_position(position)
                .caused_by(e)
                .next_step("run highwater verify")
        };
        let mut bytes = vec![0; usize::try_from(header.bytes).unwrap_or(usize::MAX)];
        search
            .opened
            .log()
            .read_exact_at(&mut bytes, position.get())
            .map_err(|e| self.search_failed(search, position, e))?;
        let batch = Batch::parse(&bytes).map_err(damaged)?;
        for record in batch.records(scratch).map_err(damaged)? {
            let record = record.map_err(damaged)?;
            if record.timestamp >= search.timestamp.millis() && record.offset >= search.least.get()
            {
                return Ok(Offset::new(record.offset).map(|offset| Found {
                    offset,
                    timestamp: Timestamp::from_millis(record.timestamp),
                    epoch: LeaderEpoch::new(header.leader_epoch),
                }));
            }
        }
        Ok(None)
    }

    fn search_failed(
        &self,
        search: &Search<'_, Fenced<D>>,
        position: Position,
        error: std::io::Error,
    ) -> Error {
        let path = self.path().join(search.segment.file_name(FileType::Log));
        Error::io("look for a timestamp", &path, error).at_position(position)
    }
}

/// What is looked for, and where.
struct Search<'v, D: Dir> {
    segment: &'v Segment<D>,
    opened: Opened<D>,
    /// The lowest offset that answers.
    least: Offset,
    /// The lowest timestamp that answers.
    timestamp: Timestamp,
}
