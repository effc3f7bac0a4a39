//! One segment: a `.log` file with its two indexes.
//!
//! The active segment keeps its indexes on the heap and its file open. A sealed one never changes;
//! what is open of it is in [`handles`](crate::log::handles).

use std::io;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use crate::index::{OffsetIndex, TimeIndex};
use crate::log::aborted::{ActiveAborted, Resolved};
use crate::log::handles::{IndexMaps, Kept, LogFile};
use crate::log::scan::{Depth, Fault, Scanner, Step};
use crate::names::{FileType, segment_name};
use crate::record::BatchHeader;
use crate::storage::{Access, Dir, File, replace_file};
use crate::types::{Offset, Position, Timestamp};

/// A segment as readers see it.
#[derive(Debug)]
pub(crate) struct Segment<D: Dir> {
    pub(crate) base: Offset,
    pub(crate) body: Body<D>,
}

#[derive(Debug)]
pub(crate) enum Body<D: Dir> {
    Sealed {
        /// The length of the `.log` file.
        bytes: u64,
        /// The largest timestamp and the last offset of its batch, once looked up.
        largest: OnceLock<(Timestamp, Offset)>,
        /// What is open of it.
        kept: Arc<Kept<D>>,
        /// Its aborted transactions, once its markers were looked at.
        aborted: OnceLock<Arc<Resolved>>,
        /// Its transaction index file holds something else.
        unsaved: AtomicBool,
    },
    Active(Arc<Live<D>>),
}

/// The open files and indexes of the active segment.
#[derive(Debug)]
pub(crate) struct Live<D: Dir> {
    pub(crate) log: D::File,
    pub(crate) index: RwLock<OffsetIndex>,
    pub(crate) time: RwLock<TimeIndex>,
    pub(crate) aborted: RwLock<ActiveAborted>,
}

impl<D: Dir> Segment<D> {
    pub(crate) fn sealed(base: Offset, bytes: u64) -> Self {
        Self {
            base,
            body: Body::Sealed {
                bytes,
                largest: OnceLock::new(),
                kept: Arc::default(),
                aborted: OnceLock::new(),
                unsaved: AtomicBool::new(false),
            },
        }
    }

    pub(crate) fn active(base: Offset, live: Arc<Live<D>>) -> Self {
        Self {
            base,
            body: Body::Active(live),
        }
    }

    pub(crate) fn file_name(&self, file: FileType) -> String {
        segment_name(self.base, file)
    }
}

/// An opened segment, sealed or active, for one reader.
#[derive(Debug)]
pub(crate) enum Opened<D: Dir> {
    Sealed(Arc<LogFile<D>>, Arc<IndexMaps>, Offset),
    Active(Arc<Live<D>>),
}

impl<D: Dir> Opened<D> {
    pub(crate) fn log(&self) -> &D::File {
        match self {
            Self::Sealed(log, ..) => log.file(),
            Self::Active(live) => &live.log,
        }
    }

    /// The place of the greatest index entry at or below `target`, or the front.
    pub(crate) fn lookup(&self, target: Offset) -> Position {
        match self {
            Self::Sealed(_, maps, base) => maps.index(*base).lookup(target).1,
            Self::Active(live) => read_lock(&live.index).lookup(target).1,
        }
    }

    /// The offset of the greatest time index entry at or below `timestamp`, or the base offset.
    pub(crate) fn lookup_time(&self, timestamp: Timestamp) -> Offset {
        match self {
            Self::Sealed(_, maps, base) => maps.time(*base).lookup(timestamp).1,
            Self::Active(live) => read_lock(&live.time).lookup(timestamp).1,
        }
    }

    /// The last entry of the time index: the largest timestamp and where it is.
    pub(crate) fn last_time(&self) -> (Timestamp, Offset) {
        match self {
            Self::Sealed(_, maps, base) => maps.time(*base).last_entry(),
            Self::Active(live) => read_lock(&live.time).last_entry(),
        }
    }

    /// The first batch whose last offset is `target` or above and that ends below `end`.
    pub(crate) fn locate(&self, target: Offset, end: u64) -> io::Result<Located> {
        self.locate_from(self.lookup(target), target, end)
    }

    /// As [`Opened::locate`], from a place where a batch begins.
    pub(crate) fn locate_from(
        &self,
        start: Position,
        target: Offset,
        end: u64,
    ) -> io::Result<Located> {
        let mut scan = Scanner::new(self.log(), start, end, Depth::Headers);
        loop {
            match scan.step()? {
                Step::Batch(position, header) if header.last_offset >= target.get() => {
                    return Ok(Located::At(position, header));
                }
                Step::Batch(..) => {}
                Step::End(_) => return Ok(Located::Absent),
                Step::Bad(position, _, fault) => return Ok(Located::Bad(position, fault)),
            }
        }
    }
}

/// Where the batch that holds an offset stands.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Located {
    /// At this position.
    At(Position, BatchHeader),
    /// In no batch of the segment: it is behind all of them.
    Absent,
    /// Nobody knows: damaged bytes stand in the way.
    Bad(Position, Fault),
}

/// Indexes made from the batches of a segment, and what else the walk learned.
#[derive(Debug)]
pub(crate) struct BuiltIndexes {
    pub(crate) index: OffsetIndex,
    pub(crate) time: TimeIndex,
    pub(crate) tally: IndexTally,
}

/// Puts both indexes of a segment in place of those that stand there. Durable on return.
///
/// Recovery starts at an entry of the offset index, and believes the time index below it. So until
/// both are new, the offset index is empty: then recovery starts at the front.
pub(crate) fn replace_indexes<D: Dir>(
    dir: &D,
    base: Offset,
    index: &[u8],
    time: &[u8],
) -> io::Result<()> {
    let name = segment_name(base, FileType::Index);
    let stored = match dir.open(&name, Access::Read) {
        Ok(file) => file.bytes()?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(error),
    };
    if stored > 0 {
        replace_file(dir, &name, &[])?;
    }
    replace_file(dir, &segment_name(base, FileType::TimeIndex), time)?;
    replace_file(dir, &name, index)
}

/// The running values that decide where index entries go, as in Kafka's `LogSegment`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IndexTally {
    /// Bytes of batches since the last index entry.
    pub(crate) bytes_since_entry: u64,
    /// The largest timestamp so far, and the last offset of the earliest batch that has it.
    pub(crate) largest: (Timestamp, Offset),
}

impl IndexTally {
    pub(crate) fn new(base: Offset) -> Self {
        Self {
            bytes_since_entry: 0,
            largest: (Timestamp::NONE, base),
        }
    }

    /// The largest timestamp with this batch: the earliest batch that has it counts.
    pub(crate) fn larger(&self, header: &BatchHeader) -> (Timestamp, Offset) {
        if header.max_timestamp <= self.largest.0.millis() {
            return self.largest;
        }
        let last = Offset::new(header.last_offset).unwrap_or(Offset::MAX);
        (Timestamp::from_millis(header.max_timestamp), last)
    }

    /// Notes one batch at `position`: entries are made before it when enough bytes lie since the
    /// last. A full index takes no entry: it only makes lookups walk further.
    pub(crate) fn note(
        &mut self,
        header: &BatchHeader,
        position: Position,
        interval: u32,
        index: &mut OffsetIndex,
        time: &mut TimeIndex,
    ) {
        if self.count(header, interval) {
            self.enter(header, position, index, time);
        }
    }

    /// Counts one batch; tells whether entries are due before it.
    pub(crate) fn count(&mut self, header: &BatchHeader, interval: u32) -> bool {
        self.largest = self.larger(header);
        let due = self.bytes_since_entry > u64::from(interval);
        if due {
            self.bytes_since_entry = 0;
        }
        self.bytes_since_entry = self
            .bytes_since_entry
            .saturating_add(u64::from(header.bytes));
        due
    }

    /// Makes the entries of a batch that was counted last.
    pub(crate) fn enter(
        &self,
        header: &BatchHeader,
        position: Position,
        index: &mut OffsetIndex,
        time: &mut TimeIndex,
    ) {
        let last = Offset::new(header.last_offset).unwrap_or(Offset::MAX);
        if !index.is_full() && index.push(last, position).is_ok() {
            // Refused where the index is full or has the timestamp: both are as they should be.
            let _added = time.push(self.largest.0, self.largest.1);
        }
    }
}

/// Walks the headers of a segment and makes its indexes anew, the last time entry included. Stops
/// at the first bytes that are no batch.
pub(crate) fn build_indexes<F: File>(
    log: &F,
    base: Offset,
    end: u64,
    max_bytes: u32,
    interval: u32,
) -> io::Result<BuiltIndexes> {
    let mut built = BuiltIndexes {
        index: OffsetIndex::new(base, max_bytes),
        time: TimeIndex::new(base, max_bytes),
        tally: IndexTally::new(base),
    };
    let mut scan = Scanner::new(log, Position::ZERO, end, Depth::Headers);
    while let Step::Batch(position, header) = scan.step()? {
        built.tally.note(
            &header,
            position,
            interval,
            &mut built.index,
            &mut built.time,
        );
    }
    let _added = built
        .time
        .push_final(built.tally.largest.0, built.tally.largest.1);
    Ok(built)
}

pub(crate) fn read_lock<T>(lock: &RwLock<T>) -> std::sync::RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

pub(crate) fn write_lock<T>(lock: &RwLock<T>) -> std::sync::RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
