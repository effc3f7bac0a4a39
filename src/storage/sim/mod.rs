//! A disk in memory that loses what was not synced, and fails when it is told to.
//!
//! It keeps two views. Reads see the *cache*. A power cut ([`SimDisk::crash`]) leaves the *device*
//! and any part of the operations that are pending between the two: each sector of a write, each
//! length, each name.
//!
//! 1. [`File::sync_data`] makes the content and length of that file durable, never its name:
//!    stricter than Linux, on purpose.
//! 2. [`Dir::sync`] makes the names in that directory durable, never the content of the files.
//! 3. A file or directory whose name is not durable vanishes in a power cut; a rename carries the
//!    file.
//! 4. Everything follows from the calls and the seeds; no clock, no thread, no address reaches a
//!    result.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Access, Barrier, Dir, DirEntry, File, Map, single_name, transfer};

mod content;
mod crash;
mod faults;
mod hash;
mod record;
mod state;

pub use crash::{CrashPlan, Fate, PendingKind, PendingOp};
pub use faults::{Fault, FaultKind, FaultOn};
pub use record::Recording;

use faults::Random;
use state::{NodeId, ROOT, State};

/// The longest file that [`File::map`] copies. Unit: bytes.
const MAX_MAP_BYTES: u64 = 1 << 31;

/// A simulated disk. Clones are handles on the same one.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

/// A directory of a [`SimDisk`], by its path as [`super::OsDir`] is.
#[derive(Clone, Debug)]
pub struct SimDir {
    disk: SimDisk,
    node: NodeId,
    parts: Arc<[String]>,
    path: Arc<Path>,
}

/// A file of a [`SimDisk`].
#[derive(Debug)]
pub struct SimFile {
    disk: SimDisk,
    node: NodeId,
    name: String,
    access: Access,
}

/// A lock of a [`SimDisk`], held until it is dropped. The disk that [`SimDisk::crash`] gives has
/// none.
#[derive(Debug)]
pub struct SimLock {
    disk: SimDisk,
    node: NodeId,
}

impl SimDisk {
    /// An empty disk without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::from(State::new())
    }

    /// Its root, which is always there.
    pub fn root(&self) -> SimDir {
        let path = PathBuf::from("/sim");
        SimDir {
            disk: self.clone(),
            node: ROOT,
            parts: Arc::new([]),
            path: path.into(),
        }
    }

    /// The disk after a power cut now and the power back. This one stays as it is, so that many
    /// plans can be tried on one state. Capacity, short transfers and the ignored barrier are kept;
    /// faults, locks and the call count are not.
    #[must_use]
    pub fn crash(&self, plan: &CrashPlan) -> Self {
        let state = self.state();
        Self::from(state.crashed(&state.fates(*plan)))
    }

    /// As [`SimDisk::crash`], with the fate of each pending operation; one without a fate is lost.
    #[must_use]
    pub fn crash_with(&self, fates: &[Fate]) -> Self {
        Self::from(self.state().crashed(fates))
    }

    /// What [`SimDisk::crash`] does to each pending operation.
    pub fn fates(&self, plan: &CrashPlan) -> Vec<Fate> {
        self.state().fates(*plan)
    }

    /// A hash of all names, lengths and bytes as they are read. Equal disks have equal hashes, in
    /// every run.
    pub fn image_hash(&self) -> u64 {
        self.state().hash(false)
    }

    /// As [`SimDisk::image_hash`], of what the device has and what is pending too.
    pub fn whole_hash(&self) -> u64 {
        self.state().hash(true)
    }

    /// Makes the syncs of one barrier do nothing and succeed; `None`: all work. Outlives a crash.
    pub fn ignore(&self, barrier: Option<Barrier>) {
        self.state().ignored = barrier;
    }

    /// The disk as another process finds it after this one was killed: nothing is lost, locks are
    /// free, faults are disarmed.
    #[must_use]
    pub fn after_kill(&self) -> Self {
        Self::from(self.state().after_kill())
    }

    /// The operations that a power cut may lose, in the order in which they were made.
    pub fn pending_ops(&self) -> Vec<PendingOp> {
        self.state().pending_ops()
    }

    /// How many they are.
    pub fn pending(&self) -> usize {
        self.state().pending.len()
    }

    /// How many calls of [`Dir`] and [`File`] the disk got, failed ones and reads too.
    pub fn calls(&self) -> u64 {
        self.state().calls
    }

    /// Turns the disk off at a call: that one (1 is the first of the disk) and all later ones fail.
    pub fn power_cut_at(&self, call: u64) {
        self.state().cut_at = Some(call);
    }

    /// Arms a fault.
    pub fn fail(&self, fault: Fault) {
        self.state().faults.push(fault);
    }

    /// Disarms all faults.
    pub fn clear_faults(&self) {
        self.state().faults.clear();
    }

    /// Makes the system calls behind reads and writes short or interrupted at random, or not
    /// (`None`).
    pub fn short_transfers(&self, seed: Option<u64>) {
        self.state().shorts = seed.map(Random::new);
    }

    /// Bounds the bytes that files can take, in sectors of 512; `None`: no bound.
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.state().capacity = bytes;
    }

    /// A panic of another thread inside a call leaves the state as it was before or after a step.
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl From<State> for SimDisk {
    fn from(state: State) -> Self {
        Self(Arc::new(Mutex::new(state)))
    }
}

impl Default for SimDisk {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for SimDisk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.state();
        let (calls, pending) = (state.calls, state.pending.len());
        write!(f, "SimDisk({calls} calls, {pending} pending)")
    }
}

impl SimDir {
    /// The disk that it is on.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    fn own_name(&self) -> &str {
        self.parts.last().map_or("", String::as_str)
    }

    fn inner_dir(&self, name: &str, node: NodeId) -> Self {
        let parts = self
            .parts
            .iter()
            .cloned()
            .chain([name.to_owned()])
            .collect();
        Self {
            disk: self.disk.clone(),
            node,
            parts,
            path: self.path.join(name).into(),
        }
    }

    fn file(&self, name: &str, node: NodeId, access: Access) -> SimFile {
        SimFile {
            disk: self.disk.clone(),
            node,
            name: name.to_owned(),
            access,
        }
    }

    /// Counts the call, then finds this directory by its path.
    fn enter(&self, on: FaultOn, name: &str) -> io::Result<(MutexGuard<'_, State>, NodeId)> {
        single_name(name)?;
        let mut state = self.disk.state();
        state.enter(on, name)?;
        let dir = state.resolve(&self.parts)?;
        Ok((state, dir))
    }
}

impl Dir for SimDir {
    type File = SimFile;
    type Lock = SimLock;

    fn path(&self) -> &Path {
        &self.path
    }

    fn subdir(&self, name: &str) -> io::Result<Self> {
        let (state, dir) = self.enter(FaultOn::Open, name)?;
        let node = state.child(dir, name)?;
        if !state.is_dir(node) {
            return Err(io::ErrorKind::NotADirectory.into());
        }
        Ok(self.inner_dir(name, node))
    }

    fn create_subdir(&self, name: &str) -> io::Result<Self> {
        let (mut state, dir) = self.enter(FaultOn::Create, name)?;
        let node = state.create(dir, name, true)?;
        Ok(self.inner_dir(name, node))
    }

    fn remove_subdir(&self, name: &str) -> io::Result<()> {
        let (mut state, dir) = self.enter(FaultOn::Remove, name)?;
        state.remove_tree(dir, name)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        let mut state = self.disk.state();
        state.enter(FaultOn::Read, self.own_name())?;
        state.list(state.resolve(&self.parts)?)
    }

    fn create_new(&self, name: &str) -> io::Result<SimFile> {
        let (mut state, dir) = self.enter(FaultOn::Create, name)?;
        let node = state.create(dir, name, false)?;
        Ok(self.file(name, node, Access::Write))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<SimFile> {
        let (state, dir) = self.enter(FaultOn::Open, name)?;
        let node = state.child(dir, name)?;
        if state.is_dir(node) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        Ok(self.file(name, node, access))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        single_name(to)?;
        let (mut state, dir) = self.enter(FaultOn::Rename, from)?;
        state.rename(dir, from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let (mut state, dir) = self.enter(FaultOn::Remove, name)?;
        state.remove_file(dir, name)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        state.enter(FaultOn::DirSync, self.own_name())?;
        state.sync(self.node);
        Ok(())
    }

    fn sync_for(&self, barrier: Barrier) -> io::Result<()> {
        if self.disk.state().ignored == Some(barrier) {
            return Ok(());
        }
        self.sync()
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<SimLock>> {
        let (mut state, dir) = self.enter(FaultOn::Create, name)?;
        let node = match state.child(dir, name) {
            Ok(node) if state.is_dir(node) => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(node) => node,
            Err(_) => state.create(dir, name, false)?,
        };
        let is_free = state.locked.insert(node);
        Ok(is_free.then(|| SimLock {
            disk: self.disk.clone(),
            node,
        }))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.disk.state();
        state.enter(FaultOn::Read, self.own_name())?;
        Ok(state.free_bytes())
    }
}

impl SimFile {
    fn enter(&self, on: FaultOn) -> io::Result<MutexGuard<'_, State>> {
        let mut state = self.disk.state();
        state.enter(on, &self.name)?;
        Ok(state)
    }

    fn check_writable(&self) -> io::Result<()> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.disk.state();
        match state.begin(FaultOn::Sync, &self.name)? {
            None => {
                state.sync(self.node);
                Ok(())
            }
            Some(kind) => {
                if kind == FaultKind::LostPages {
                    state.lose_pages(self.node);
                }
                Err(kind.error())
            }
        }
    }
}

impl File for SimFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.enter(FaultOn::Read)?.content(self.node)?.bytes)
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        let mut state = self.enter(FaultOn::Read)?;
        transfer::read_exact(buffer, position, |rest, at| {
            state.read_some(self.node, rest, at)
        })
    }

    fn read_at_most(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        let mut state = self.enter(FaultOn::Read)?;
        transfer::read_at_most(buffer, position, |rest, at| {
            state.read_some(self.node, rest, at)
        })
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.disk.state();
        let fault = state.begin(FaultOn::Write, &self.name)?;
        let length = if fault.is_some() {
            bytes.len() / 2
        } else {
            bytes.len()
        };
        let part = bytes.get(..length).unwrap_or_default();
        transfer::write_all(part, position, |rest, at| {
            state.write_some(self.node, rest, at)
        })?;
        fault.map_or(Ok(()), |kind| Err(kind.error()))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        self.enter(FaultOn::SetLen)?.set_len(self.node, bytes)
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        self.enter(FaultOn::Allocate)?.allocate(self.node, bytes)
    }

    fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        self.check_writable()?;
        let end = from.saturating_add(bytes);
        self.enter(FaultOn::Allocate)?.reserve(self.node, end)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.sync()
    }

    fn sync_for(&self, barrier: Barrier) -> io::Result<()> {
        if self.disk.state().ignored == Some(barrier) {
            return Ok(());
        }
        self.sync()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.sync()
    }

    fn map(&self) -> io::Result<Map> {
        let state = self.enter(FaultOn::Read)?;
        let content = state.content(self.node)?;
        if content.bytes > MAX_MAP_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let length = usize::try_from(content.bytes).map_err(io::Error::other)?;
        let mut bytes = vec![0; length];
        content.read(&mut bytes, 0);
        Ok(Map::from(bytes))
    }

    fn evict(&self) -> io::Result<()> {
        self.enter(FaultOn::Read)?.evict(self.node);
        Ok(())
    }
}

impl Drop for SimLock {
    fn drop(&mut self) {
        self.disk.state().locked.remove(&self.node);
    }
}
