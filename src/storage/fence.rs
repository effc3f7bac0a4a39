//! A directory that stops changing for good once a change of it has failed.
//!
//! After a failed write or sync nobody knows what the device holds, and after a failed sync the
//! kernel may call lost pages clean, so that the next sync lies. Only opening again, which reads
//! the bytes, heals.
//!
//! 1. Once set, the flag stays set for every handle that came from the same [`Fenced::new`].
//! 2. A fenced call does not reach the inner directory.
//! 3. Reads, maps, lists and locks keep working.

use std::io;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::{Access, Barrier, Dir, DirEntry, File, Map};
use crate::error::FencedError;

/// Whether the error says that an earlier failure fenced the directory.
pub fn is_fenced(failure: &io::Error) -> bool {
    FencedError::is_in(failure)
}

/// A [`Dir`] on which, after one failed change, every later change fails with a [`FencedError`].
///
/// Clones, subdirectories and files share the flag. It is not set by
///
/// - a name that is missing (`NotFound`), taken (`AlreadyExists`) or none (`InvalidInput`): an
///   answer;
/// - no room (`StorageFull`, `QuotaExceeded`, `FileTooLarge`) in `write_all_at`, `preallocate`,
///   `create_new`, `create_subdir` and `rename`: the caller takes the change back, or calls
///   [`Fenced::fence`] if it cannot;
/// - too many open files in `create_new` and `create_subdir`: nothing was changed.
#[derive(Clone, Debug)]
pub struct Fenced<D> {
    inner: D,
    flag: Flag,
}

/// A file of a [`Fenced`] directory.
#[derive(Debug)]
pub struct FencedFile<F> {
    inner: F,
    flag: Flag,
}

#[derive(Clone, Debug, Default)]
struct Flag(Arc<OnceLock<Arc<str>>>);

/// What a call may fail with and leave the flag alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Spares {
    Nothing,
    /// No room.
    Room,
    /// A name that is missing, taken or none.
    Name,
    /// Both of them.
    NameAndRoom,
    /// Both, and too many open files.
    NameRoomAndHandles,
}

impl Flag {
    fn set(&self, why: impl FnOnce() -> String) {
        self.0.get_or_init(|| why().into());
    }

    fn run<T>(
        &self,
        doing: &str,
        spares: Spares,
        change: impl FnOnce() -> io::Result<T>,
    ) -> io::Result<T> {
        if let Some(why) = self.0.get() {
            return Err(FencedError::new(Arc::clone(why)).into());
        }
        let outcome = change();
        if let Err(failure) = &outcome
            && !spares.covers(failure)
        {
            self.set(|| format!("{doing}: {failure}"));
        }
        outcome
    }
}

impl Spares {
    fn covers(self, failure: &io::Error) -> bool {
        let name = matches!(
            failure.kind(),
            io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists | io::ErrorKind::InvalidInput
        );
        let room = matches!(
            failure.kind(),
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded | io::ErrorKind::FileTooLarge
        );
        let handles = matches!(failure.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
        match self {
            Self::Nothing => false,
            Self::Room => room,
            Self::Name => name,
            Self::NameAndRoom => name || room,
            Self::NameRoomAndHandles => name || room || handles,
        }
    }
}

impl<D: Dir> Fenced<D> {
    /// Wraps a directory, with a flag of its own that is not set.
    pub fn new(inner: D) -> Self {
        Self {
            inner,
            flag: Flag::default(),
        }
    }

    /// The directory inside, past the fence.
    pub fn inner(&self) -> &D {
        &self.inner
    }

    /// Sets the flag, for a failure that only the caller can judge. The first reason is kept.
    pub fn fence(&self, why: impl Into<String>) {
        self.flag.set(|| why.into());
    }

    /// Whether the flag is set.
    pub fn is_fenced(&self) -> bool {
        self.why().is_some()
    }

    /// The failure that set the flag.
    pub fn why(&self) -> Option<&str> {
        self.flag.0.get().map(|why| &**why)
    }

    fn wrap_dir(&self, inner: D) -> Self {
        Self {
            inner,
            flag: self.flag.clone(),
        }
    }

    fn wrap_file(&self, inner: D::File) -> FencedFile<D::File> {
        FencedFile {
            inner,
            flag: self.flag.clone(),
        }
    }
}

impl<F: File> FencedFile<F> {
    /// The file inside, past the fence.
    pub fn inner(&self) -> &F {
        &self.inner
    }
}

impl<D: Dir> Dir for Fenced<D> {
    type File = FencedFile<D::File>;
    type Lock = D::Lock;

    fn path(&self) -> &Path {
        self.inner.path()
    }

    fn subdir(&self, name: &str) -> io::Result<Self> {
        self.inner.subdir(name).map(|dir| self.wrap_dir(dir))
    }

    fn create_subdir(&self, name: &str) -> io::Result<Self> {
        let make = || self.inner.create_subdir(name);
        self.flag
            .run("make a directory", Spares::NameRoomAndHandles, make)
            .map(|dir| self.wrap_dir(dir))
    }

    fn remove_subdir(&self, name: &str) -> io::Result<()> {
        self.flag.run("remove a directory", Spares::Name, || {
            self.inner.remove_subdir(name)
        })
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        self.inner.list()
    }

    fn create_new(&self, name: &str) -> io::Result<Self::File> {
        let make = || self.inner.create_new(name);
        self.flag
            .run("make a file", Spares::NameRoomAndHandles, make)
            .map(|file| self.wrap_file(file))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<Self::File> {
        self.inner
            .open(name, access)
            .map(|file| self.wrap_file(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.flag.run("rename a file", Spares::NameAndRoom, || {
            self.inner.rename(from, to)
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.flag
            .run("remove a file", Spares::Name, || self.inner.remove(name))
    }

    fn sync(&self) -> io::Result<()> {
        self.flag
            .run("sync a directory", Spares::Nothing, || self.inner.sync())
    }

    fn sync_for(&self, barrier: Barrier) -> io::Result<()> {
        self.flag.run("sync a directory", Spares::Nothing, || {
            self.inner.sync_for(barrier)
        })
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<Self::Lock>> {
        self.inner.try_lock(name)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.inner.free_bytes()
    }
}

impl<F: File> File for FencedFile<F> {
    fn bytes(&self) -> io::Result<u64> {
        self.inner.bytes()
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        self.inner.read_exact_at(buffer, position)
    }

    fn read_at_most(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.inner.read_at_most(buffer, position)
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        let write = || self.inner.write_all_at(bytes, position);
        self.flag.run("write to a file", Spares::Room, write)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.flag
            .run("set the length of a file", Spares::Nothing, || {
                self.inner.set_len(bytes)
            })
    }

    /// No write depends on it, so that its failure fences nothing.
    fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        self.inner.reserve(from, bytes)
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        self.flag.run("allocate a file", Spares::Room, || {
            self.inner.preallocate(bytes)
        })
    }

    fn sync_data(&self) -> io::Result<()> {
        self.flag
            .run("sync a file", Spares::Nothing, || self.inner.sync_data())
    }

    fn sync_for(&self, barrier: Barrier) -> io::Result<()> {
        self.flag.run("sync a file", Spares::Nothing, || {
            self.inner.sync_for(barrier)
        })
    }

    fn sync_all(&self) -> io::Result<()> {
        self.flag
            .run("sync a file", Spares::Nothing, || self.inner.sync_all())
    }

    fn map(&self) -> io::Result<Map> {
        self.inner.map()
    }

    fn evict(&self) -> io::Result<()> {
        self.inner.evict()
    }
}
