//! What is open of sealed segments: opened when it is first needed, closed again where there is too
//! much.
//!
//! 1. A log that is opened holds nothing of a sealed segment, however many there are.
//! 2. An index is checked once for each map, when it is made; a bad or missing one is made anew.
//! 3. A descriptor is dear (a process usually has 1024), a map is cheap: a lookup in a segment
//!    whose `.log` was closed opens that file again and nothing else.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use crate::error::{Error, Result};
use crate::index::{OffsetIndex, OffsetIndexView, TimeIndex, TimeIndexView};
use crate::log::segment::{Body, Opened, Segment, build_indexes, read_lock, replace_indexes};
use crate::names::FileType;
use crate::storage::{Access, Dir, File, Map, descriptor_limit};
use crate::types::{Offset, Timestamp};

/// The `.log` files of sealed segments that all logs of the process hold open.
static OPEN_FILES: AtomicUsize = AtomicUsize::new(0);
/// The sealed segments whose indexes all logs of the process hold mapped.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// One of a process-wide number.
#[derive(Debug)]
struct Counted(&'static AtomicUsize);

impl Counted {
    fn of(number: &'static AtomicUsize) -> Self {
        number.fetch_add(1, Ordering::Relaxed);
        Self(number)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The open `.log` file of a sealed segment.
#[derive(Debug)]
pub(crate) struct LogFile<D: Dir> {
    file: D::File,
    _counted: Counted,
}

impl<D: Dir> LogFile<D> {
    fn of(file: D::File) -> Self {
        Self {
            file,
            _counted: Counted::of(&OPEN_FILES),
        }
    }

    pub(crate) fn file(&self) -> &D::File {
        &self.file
    }
}

/// The indexes of a sealed segment, checked.
#[derive(Debug)]
pub(crate) struct IndexMaps {
    index: Map,
    time: Map,
    _counted: Counted,
}

impl IndexMaps {
    fn of(index: Map, time: Map) -> Self {
        Self {
            index,
            time,
            _counted: Counted::of(&MAPPED),
        }
    }

    pub(crate) fn index(&self, base: Offset) -> OffsetIndexView<'_> {
        OffsetIndexView::new(base, &self.index)
    }

    pub(crate) fn time(&self, base: Offset) -> TimeIndexView<'_> {
        TimeIndexView::new(base, &self.time)
    }

    /// The indexes as they are kept for an active segment.
    pub(crate) fn to_heap(&self, base: Offset, max_bytes: u32) -> (OffsetIndex, TimeIndex) {
        (
            OffsetIndex::from_bytes(base, max_bytes, &self.index, usize::MAX),
            TimeIndex::from_bytes(base, max_bytes, &self.time, usize::MAX),
        )
    }
}

/// What is open of one sealed segment. Goes with its segment, whatever the cache says.
#[derive(Debug)]
pub(crate) struct Kept<D: Dir> {
    log: Mutex<Option<Arc<LogFile<D>>>>,
    maps: Mutex<Option<Arc<IndexMaps>>>,
}

impl<D: Dir> Default for Kept<D> {
    fn default() -> Self {
        Self {
            log: Mutex::new(None),
            maps: Mutex::new(None),
        }
    }
}

/// Opens what is needed of sealed segments and closes what was opened longest ago.
///
/// All logs of the process together hold a quarter of the descriptors that the process may have,
/// 2048 at most, and [`MAPS`](Self::MAPS) segments mapped. Beyond that each log keeps to
/// [`LEAST`](Self::LEAST), however many segments it has.
#[derive(Debug)]
pub(crate) struct HandleCache<D: Dir> {
    dir: D,
    index_interval_bytes: u32,
    /// In the order of opening.
    files: Mutex<VecDeque<Weak<Kept<D>>>>,
    /// In the order of mapping.
    maps: Mutex<VecDeque<Weak<Kept<D>>>>,
}

impl<D: Dir> HandleCache<D> {
    const LEAST: usize = 16;
    const MAPS: usize = 4096;

    pub(crate) fn new(dir: D, index_interval_bytes: u32) -> Self {
        Self {
            dir,
            index_interval_bytes,
            files: Mutex::default(),
            maps: Mutex::default(),
        }
    }

    /// Opens a segment for reading, or takes what is open of it.
    pub(crate) fn open(&self, segment: &Segment<D>) -> Result<Opened<D>> {
        let (bytes, kept) = match &segment.body {
            Body::Active(live) => return Ok(Opened::Active(Arc::clone(live))),
            Body::Sealed { bytes, kept, .. } => (*bytes, kept),
        };
        let log = self.log_of(segment, kept)?;
        let maps = self.maps_of(segment, kept, &log, bytes)?;
        Ok(Opened::Sealed(log, maps, segment.base))
    }

    /// The largest timestamp of a segment and the last offset of the batch that has it.
    pub(crate) fn largest_timestamp(&self, segment: &Segment<D>) -> Result<(Timestamp, Offset)> {
        match &segment.body {
            Body::Active(live) => Ok(read_lock(&live.time).last_entry()),
            Body::Sealed { largest, .. } => {
                if let Some(known) = largest.get() {
                    return Ok(*known);
                }
                let found = self.open(segment)?.last_time();
                Ok(*largest.get_or_init(|| found))
            }
        }
    }

    /// Lets go of everything, so that files that are about to change are not held.
    pub(crate) fn clear(&self) {
        for kept in lock(&self.files)
            .drain(..)
            .filter_map(|kept| kept.upgrade())
        {
            lock(&kept.log).take();
        }
        for kept in lock(&self.maps).drain(..).filter_map(|kept| kept.upgrade()) {
            lock(&kept.maps).take();
        }
    }

    fn log_of(&self, segment: &Segment<D>, kept: &Arc<Kept<D>>) -> Result<Arc<LogFile<D>>> {
        if let Some(log) = &*lock(&kept.log) {
            return Ok(Arc::clone(log));
        }
        let name = segment.file_name(FileType::Log);
        let file = self
            .dir
            .open(&name, Access::Read)
            .map_err(|e| Error::io("open segment", &self.dir.path().join(&name), e))?;
        let opened = Arc::new(LogFile::of(file));
        if let Some(sooner) = put_first(&kept.log, &opened) {
            return Ok(sooner);
        }
        let too_many = || OPEN_FILES.load(Ordering::Relaxed) > most_files();
        enqueue(&self.files, kept, too_many, |old| {
            drop(lock(&old.log).take());
        });
        Ok(opened)
    }

    fn maps_of(
        &self,
        segment: &Segment<D>,
        kept: &Arc<Kept<D>>,
        log: &LogFile<D>,
        bytes: u64,
    ) -> Result<Arc<IndexMaps>> {
        if let Some(maps) = &*lock(&kept.maps) {
            return Ok(Arc::clone(maps));
        }
        let mapped = Arc::new(self.load(segment, log, bytes)?);
        if let Some(sooner) = put_first(&kept.maps, &mapped) {
            return Ok(sooner);
        }
        let too_many = || MAPPED.load(Ordering::Relaxed) > Self::MAPS;
        enqueue(&self.maps, kept, too_many, |old| {
            drop(lock(&old.maps).take());
        });
        Ok(mapped)
    }

    fn load(&self, segment: &Segment<D>, log: &LogFile<D>, bytes: u64) -> Result<IndexMaps> {
        let index = self.map(segment, FileType::Index)?.filter(|map| {
            let view = OffsetIndexView::new(segment.base, map);
            view.check(bytes).is_ok() && (bytes > 0 || view.is_empty())
        });
        let time = self
            .map(segment, FileType::TimeIndex)?
            .filter(|map| TimeIndexView::new(segment.base, map).check().is_ok());
        match (index, time) {
            (Some(index), Some(time)) if !time.is_empty() || bytes == 0 => {
                Ok(IndexMaps::of(index, time))
            }
            _ => self.rebuild(segment, log, bytes),
        }
    }

    fn map(&self, segment: &Segment<D>, file: FileType) -> Result<Option<Map>> {
        let name = segment.file_name(file);
        let mapped = self
            .dir
            .open(&name, Access::Read)
            .and_then(|file| file.map());
        match mapped {
            Ok(map) => Ok(Some(map)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("map index", &self.dir.path().join(&name), error)),
        }
    }

    /// Makes both indexes of a sealed segment anew from its batches and puts the files in place.
    /// Records of version 0 have no timestamps: their time index is empty, and is left as it
    /// stands.
    fn rebuild(&self, segment: &Segment<D>, log: &LogFile<D>, bytes: u64) -> Result<IndexMaps> {
        let interval = self.index_interval_bytes;
        let built = build_indexes(log.file(), segment.base, bytes, u32::MAX, interval)
            .map_err(|e| Error::io("rebuild index", self.dir.path(), e))?;
        let (mut index, mut time) = (Vec::new(), Vec::new());
        built.index.encode_from(0, &mut index);
        built.time.encode_from(0, &mut time);
        let has = |file, content: &[u8]| -> Result<bool> {
            Ok(self.map(segment, file)?.is_some_and(|map| *map == *content))
        };
        if !has(FileType::Index, &index)? || !has(FileType::TimeIndex, &time)? {
            replace_indexes(&self.dir, segment.base, &index, &time)
                .map_err(|e| Error::io("write indexes", self.dir.path(), e))?;
        }
        Ok(IndexMaps::of(Map::from(index), Map::from(time)))
    }
}

/// How many `.log` files of sealed segments the process may hold open.
fn most_files() -> usize {
    static MOST: OnceLock<usize> = OnceLock::new();
    *MOST.get_or_init(|| descriptor_limit().div_euclid(4).min(2048))
}

/// Keeps what was opened, unless another reader was sooner: then that is the answer.
fn put_first<T>(slot: &Mutex<Option<Arc<T>>>, opened: &Arc<T>) -> Option<Arc<T>> {
    let mut slot = lock(slot);
    if slot.is_none() {
        *slot = Some(Arc::clone(opened));
        return None;
    }
    slot.clone()
}

/// Notes what was opened of a segment, and lets go of what was opened first while there is too
/// much.
fn enqueue<D: Dir>(
    queue: &Mutex<VecDeque<Weak<Kept<D>>>>,
    kept: &Arc<Kept<D>>,
    too_many: impl Fn() -> bool,
    close: impl Fn(&Kept<D>),
) {
    let mut queue = lock(queue);
    queue.push_back(Arc::downgrade(kept));
    // Bounded: each turn takes one out.
    while let Some(first) = queue.front() {
        match first.upgrade() {
            // Removed with its segment: the oldest go first.
            None => {}
            Some(old) if queue.len() > HandleCache::<D>::LEAST && too_many() => {
                close(&old);
            }
            Some(_) => return,
        }
        queue.pop_front();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
