//! What only the writer has: the active segment, the epochs, the producers.

use std::io;
use std::sync::{Arc, RwLock};

use crate::epoch::EpochCache;
use crate::error::{Error, Result};
use crate::index::{OFFSET_ENTRY_BYTES, OffsetIndex, TIME_ENTRY_BYTES, TimeIndex};
use crate::log::aborted::{ActiveAborted, store_index};
use crate::log::barrier;
use crate::log::config::LogConfig;
use crate::log::producers::LogProducers;
use crate::log::segment::{
    Body, IndexTally, Live, Segment, read_lock, replace_indexes, write_lock,
};
use crate::names::{FileType, segment_name};
use crate::record::BatchHeader;
use crate::storage::{Access, Dir, File, remove_if_there};
use crate::types::{Offset, Position, Timestamp};

/// The writer's part of a log.
#[derive(Debug)]
pub(crate) struct Writer<D: Dir> {
    pub(crate) active: Active<D>,
    pub(crate) epochs: EpochCache,
    pub(crate) producers: LogProducers,
    pub(crate) closed: bool,
}

/// A segment that becomes the active one again.
#[derive(Debug)]
pub(crate) struct Reopened {
    pub(crate) base: Offset,
    /// Bytes of batches in its file.
    pub(crate) bytes: u64,
    pub(crate) indexes: (OffsetIndex, TimeIndex),
    pub(crate) largest: (Timestamp, Offset),
    pub(crate) batches_end: Offset,
    pub(crate) files: IndexFiles,
    pub(crate) aborted: ActiveAborted,
}

/// What becomes of the index files of a reopened segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IndexFiles {
    /// They hold the entries and are appended to.
    Keep,
    /// They are made anew under the same names, so that a map which a reader still holds stays
    /// whole.
    Replace,
}

/// No blocks are set aside before this many bytes were appended.
const LEAST_APPENDED: u64 = 1 << 20;
/// The most that is set aside at once. Unit: bytes.
const MOST_RESERVED: u64 = 16 << 20;

/// The segment that is appended to.
#[derive(Debug)]
pub(crate) struct Active<D: Dir> {
    pub(crate) base: Offset,
    pub(crate) live: Arc<Live<D>>,
    /// Bytes of batches in the file; zeros may follow where it was preallocated.
    pub(crate) bytes: u64,
    pub(crate) tally: IndexTally,
    /// Whether an index has no room for another entry.
    pub(crate) indexes_full: bool,
    /// The end of the last batch; the base of an empty segment.
    pub(crate) batches_end: Offset,
    /// The largest timestamp of the first batch: rolling by time counts from it.
    pub(crate) first_timestamp: Option<i64>,
    /// When the segment was made or opened: rolling by time counts from it where records have no
    /// times.
    pub(crate) created: Timestamp,
    /// Where the blocks end that were set aside. Bytes from the front of the file.
    pub(crate) reserved: u64,
    /// Bytes appended since the segment was made or opened.
    appended: u64,
    index_file: D::File,
    time_file: D::File,
    /// Entries that the files hold.
    index_saved: usize,
    time_saved: usize,
}

impl<D: Dir> Active<D> {
    /// Makes the files of a new, empty segment. Leftovers of the same names go.
    pub(crate) fn create(
        dir: &D,
        base: Offset,
        config: &LogConfig,
        now: Timestamp,
    ) -> Result<Self> {
        let fail = |e: io::Error| Error::io("create segment", dir.path(), e);
        for file in FileType::ALL {
            if file != FileType::Snapshot {
                remove_if_there(dir, &segment_name(base, file)).map_err(fail)?;
            }
        }
        let log = dir
            .create_new(&segment_name(base, FileType::Log))
            .map_err(fail)?;
        if config.preallocate {
            log.preallocate(u64::from(config.segment_bytes))
                .map_err(fail)?;
        }
        let index_file = dir
            .create_new(&segment_name(base, FileType::Index))
            .map_err(fail)?;
        let time_file = dir
            .create_new(&segment_name(base, FileType::TimeIndex))
            .map_err(fail)?;
        barrier::names_before_first_append(dir)?;
        let index = OffsetIndex::new(base, config.segment_index_bytes);
        let time = TimeIndex::new(base, config.segment_index_bytes);
        Ok(Self {
            base,
            indexes_full: index.is_full() || time.is_full(),
            live: Arc::new(Live {
                log,
                index: RwLock::new(index),
                time: RwLock::new(time),
                aborted: RwLock::new(ActiveAborted::none()),
            }),
            bytes: 0,
            tally: IndexTally::new(base),
            batches_end: base,
            first_timestamp: None,
            created: now,
            reserved: if config.preallocate { u64::MAX } else { 0 },
            appended: 0,
            index_file,
            time_file,
            index_saved: 0,
            time_saved: 0,
        })
    }

    /// Opens the files of a segment that is there, with these indexes.
    pub(crate) fn open(dir: &D, stored: Reopened, now: Timestamp) -> Result<Self> {
        let fail = |e: io::Error| Error::io("open segment", dir.path(), e);
        let open = |kind| {
            let name = segment_name(stored.base, kind);
            match dir.open(&name, Access::Write) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => dir.create_new(&name),
                opened => opened,
            }
        };
        let log = open(FileType::Log).map_err(fail)?;
        let (index, time) = stored.indexes;
        if stored.files == IndexFiles::Replace {
            let (mut entries, mut times) = (Vec::new(), Vec::new());
            index.encode_from(0, &mut entries);
            time.encode_from(0, &mut times);
            replace_indexes(dir, stored.base, &entries, &times).map_err(fail)?;
        }
        let index_file = open(FileType::Index).map_err(fail)?;
        let time_file = open(FileType::TimeIndex).map_err(fail)?;
        let first_timestamp = first_timestamp(&log, stored.bytes).map_err(fail)?;
        let (index_saved, time_saved) = (index.len(), time.len());
        let indexes_full = index.is_full() || time.is_full();
        Ok(Self {
            base: stored.base,
            live: Arc::new(Live {
                log,
                index: RwLock::new(index),
                time: RwLock::new(time),
                aborted: RwLock::new(stored.aborted),
            }),
            bytes: stored.bytes,
            tally: IndexTally {
                bytes_since_entry: 0,
                largest: stored.largest,
            },
            indexes_full,
            batches_end: stored.batches_end,
            first_timestamp,
            created: now,
            reserved: 0,
            appended: 0,
            index_file,
            time_file,
            index_saved,
            time_saved,
        })
    }

    /// Sets blocks aside for what comes, before `bytes` are written: as much as was appended so
    /// far, so that a log that is hardly used takes no room, and at most [`MOST_RESERVED`].
    pub(crate) fn reserve_for(&mut self, bytes: u64, segment_bytes: u32) {
        let end = self.bytes.saturating_add(bytes);
        if end <= self.reserved || self.appended < LEAST_APPENDED {
            return;
        }
        let left = u64::from(segment_bytes).saturating_sub(end);
        let ahead = self.appended.min(MOST_RESERVED).min(left);
        let reserved = end.saturating_add(ahead);
        // Where the file system refuses, appends go on without: it is not asked again.
        self.reserved = match self
            .live
            .log
            .reserve(self.bytes, reserved.saturating_sub(self.bytes))
        {
            Ok(()) => reserved,
            Err(_) => u64::MAX,
        };
    }

    /// The segment once it is sealed. What is known of its aborted transactions goes with it.
    pub(crate) fn to_sealed(&self) -> Segment<D> {
        let sealed = Segment::sealed(self.base, self.bytes);
        let known = read_lock(&self.live.aborted);
        if let Body::Sealed { aborted, .. } = &sealed.body
            && known.verified
        {
            let _fresh = aborted.set(Arc::new(known.known.clone()));
        }
        sealed
    }

    /// Notes batches that were written at the end.
    pub(crate) fn note(&mut self, headers: &[BatchHeader], interval: u32) {
        for header in headers {
            // Most batches make no entry and need no lock.
            if self.tally.count(header, interval) {
                let mut index = write_lock(&self.live.index);
                let mut time = write_lock(&self.live.time);
                let position = Position::new(self.bytes);
                self.tally.enter(header, position, &mut index, &mut time);
                self.indexes_full = index.is_full() || time.is_full();
            }
            self.first_timestamp.get_or_insert(header.max_timestamp);
            self.bytes = self.bytes.saturating_add(u64::from(header.bytes));
            self.appended = self.appended.saturating_add(u64::from(header.bytes));
            self.batches_end = Offset::new(header.last_offset)
                .unwrap_or(Offset::MAX)
                .next();
        }
    }

    /// Hands the entries that are only on the heap to the files; not synced.
    pub(crate) fn save_indexes(&mut self, dir: &D) -> Result<()> {
        let fail = |e: io::Error| Error::io("write index", dir.path(), e);
        let mut bytes = Vec::new();
        let index = read_lock(&self.live.index);
        if index.len() > self.index_saved {
            index.encode_from(self.index_saved, &mut bytes);
            let at = entry_position(self.index_saved, OFFSET_ENTRY_BYTES);
            self.index_file.write_all_at(&bytes, at).map_err(fail)?;
            self.index_saved = index.len();
        }
        drop(index);
        let time = read_lock(&self.live.time);
        if time.len() > self.time_saved {
            bytes.clear();
            time.encode_from(self.time_saved, &mut bytes);
            let at = entry_position(self.time_saved, TIME_ENTRY_BYTES);
            self.time_file.write_all_at(&bytes, at).map_err(fail)?;
            self.time_saved = time.len();
        }
        Ok(())
    }

    /// Makes the transaction index file hold what the heap has. Durable on return. Only a segment
    /// that ends needs it: that of one that was not closed is made anew from the batches.
    fn save_aborted(&self, dir: &D) -> Result<()> {
        let mut aborted = write_lock(&self.live.aborted);
        if aborted.unsaved {
            store_index(dir, self.base, &aborted.known.file)?;
            aborted.unsaved = false;
        }
        Ok(())
    }

    /// As [`Active::save_indexes`], and syncs the files: recovery believes entries below the
    /// recovery point.
    pub(crate) fn sync_indexes(&mut self, dir: &D) -> Result<()> {
        self.save_indexes(dir)?;
        barrier::indexes_before_recovery_point(dir, &self.index_file)?;
        barrier::indexes_before_recovery_point(dir, &self.time_file)
    }

    /// Adds the last time entry, cuts the files to what they hold and syncs all three.
    pub(crate) fn seal(&mut self, dir: &D) -> Result<()> {
        let fail = |e: io::Error| Error::io("seal segment", dir.path(), e);
        let _added =
            write_lock(&self.live.time).push_final(self.tally.largest.0, self.tally.largest.1);
        self.save_indexes(dir)?;
        self.save_aborted(dir)?;
        // Gives back what was set aside behind the end, too.
        if self.reserved > self.bytes || self.live.log.bytes().map_err(fail)? != self.bytes {
            self.live.log.set_len(self.bytes).map_err(fail)?;
            self.reserved = self.bytes;
        }
        barrier::segment_before_roll(dir, &self.live.log)?;
        barrier::indexes_before_seal(dir, &self.index_file)?;
        barrier::indexes_before_seal(dir, &self.time_file)
    }
}

fn entry_position(entries: usize, entry_bytes: usize) -> u64 {
    u64::try_from(entries.saturating_mul(entry_bytes)).unwrap_or(u64::MAX)
}

/// The largest timestamp of the first batch of a segment.
fn first_timestamp<F: File>(log: &F, bytes: u64) -> io::Result<Option<i64>> {
    use crate::log::scan::{Depth, Scanner, Step};
    let mut scan = Scanner::new(log, Position::ZERO, bytes, Depth::Headers);
    Ok(match scan.step()? {
        Step::Batch(_, header) => Some(header.max_timestamp),
        Step::End(_) | Step::Bad(..) => None,
    })
}
