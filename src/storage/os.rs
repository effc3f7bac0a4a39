//! The file system of the machine.
#![expect(
    clippy::disallowed_methods,
    reason = "this file is where the other floors are sent to"
)]

use std::fs;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};

use super::{Access, Dir, DirEntry, EntryKind, File, Map, lock, single_name, transfer};

/// A directory of the file system, by its path. A link to a directory is that directory.
///
/// It holds one descriptor for [`Dir::sync`] and [`Dir::open`], shared by its clones. All else goes
/// by the path, so a handle is of no use once somebody has renamed the directory: open it under its
/// other name.
#[derive(Clone, Debug)]
pub struct OsDir {
    path: Arc<Path>,
    handle: Arc<fs::File>,
}

/// A regular file of the file system, or a link to one.
#[derive(Debug)]
pub struct OsFile(fs::File);

/// The lock of [`OsDir`]: both kinds that Linux has, held until it is dropped or the process ends.
#[derive(Debug)]
pub struct OsLock {
    _file: fs::File,
}

impl OsDir {
    /// Opens a directory that is there.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `NotADirectory` if it is a file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        let handle = fs::OpenOptions::new()
            .read(true)
            .custom_flags(libc::O_DIRECTORY)
            .open(path)?;
        Ok(Self {
            path: path.into(),
            handle: Arc::new(handle),
        })
    }

    /// Makes a directory, durable with its name on return, and opens it.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken, `NotFound` if its parent is missing.
    pub fn create(path: impl AsRef<Path>) -> io::Result<Self> {
        let path = path.as_ref();
        fs::create_dir(path)?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        Self::open(parent)?.sync()?;
        Self::open(path)
    }

    fn join(&self, name: &str) -> io::Result<PathBuf> {
        Ok(self.path.join(single_name(name)?))
    }
}

impl Dir for OsDir {
    type File = OsFile;
    type Lock = OsLock;

    fn path(&self) -> &Path {
        &self.path
    }

    fn subdir(&self, name: &str) -> io::Result<Self> {
        Self::open(self.join(name)?)
    }

    fn create_subdir(&self, name: &str) -> io::Result<Self> {
        let path = self.join(name)?;
        fs::create_dir(&path)?;
        Self::open(path)
    }

    fn remove_subdir(&self, name: &str) -> io::Result<()> {
        let path = self.join(name)?;
        if !fs::metadata(&path)?.is_dir() {
            return Err(io::Error::from(io::ErrorKind::NotADirectory));
        }
        fs::remove_dir_all(path)
    }

    fn list(&self) -> io::Result<Vec<DirEntry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(&self.path)? {
            entries.extend(describe(&entry?)?);
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn create_new(&self, name: &str) -> io::Result<OsFile> {
        let mut options = fs::OpenOptions::new();
        options.read(true).write(true).create_new(true);
        Ok(OsFile(options.open(self.join(name)?)?))
    }

    fn open(&self, name: &str, access: Access) -> io::Result<OsFile> {
        let access = match access {
            Access::Read => OFlags::RDONLY,
            Access::Write => OFlags::RDWR,
        };
        // Without O_NONBLOCK a FIFO of that name would block the caller for ever.
        let flags = access | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let name = single_name(name)?;
        let file = loop {
            // From the directory on: a long path takes longer than all the rest of a lookup.
            match rustix::fs::openat(&*self.handle, name, flags, Mode::empty()) {
                Ok(file) => break fs::File::from(file),
                Err(rustix::io::Errno::INTR) => {}
                Err(failure) => return Err(failure.into()),
            }
        };
        let metadata = file.metadata()?;
        if metadata.is_dir() {
            return Err(io::Error::from(io::ErrorKind::IsADirectory));
        }
        if !metadata.is_file() {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "not a regular file",
            ));
        }
        Ok(OsFile(file))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.join(from)?, self.join(to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        fs::remove_file(self.join(name)?)
    }

    fn sync(&self) -> io::Result<()> {
        self.handle.sync_all()
    }

    fn try_lock(&self, name: &str) -> io::Result<Option<OsLock>> {
        let path = self.join(name)?;
        loop {
            let file = fs::OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .open(&path)?;
            match fs2::FileExt::try_lock_exclusive(&file) {
                Ok(()) => {}
                Err(failure) if failure.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(failure) => return Err(failure),
            }
            if !lock::try_lock_whole_file(&file)? {
                return Ok(None);
            }
            // Who ends removes the file while it holds the lock: then this lock is on a file
            // without a name, and the next program would lock another one.
            if is_file_at(&file, &path)? {
                return Ok(Some(OsLock { _file: file }));
            }
        }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        fs2::available_space(&self.path)
    }
}

/// How many descriptors the process may have, as far as the system tells; else what is usual.
pub(crate) fn descriptor_limit() -> usize {
    const USUAL: usize = 1024;
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .and_then(|numbers| numbers.split_whitespace().next())
        .and_then(|soft| soft.parse().ok())
        .unwrap_or(USUAL)
}

/// Whether the path still leads to the open file.
fn is_file_at(file: &fs::File, path: &Path) -> io::Result<bool> {
    let held = file.metadata()?;
    match fs::metadata(path) {
        Ok(named) => Ok(named.dev() == held.dev() && named.ino() == held.ino()),
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

/// `None` if the entry went away after its name was read.
fn describe(entry: &fs::DirEntry) -> io::Result<Option<DirEntry>> {
    let name = entry.file_name().to_string_lossy().into_owned();
    let is_link = match entry.file_type() {
        Ok(kind) => kind.is_symlink(),
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let metadata = if is_link {
        fs::metadata(entry.path())
    } else {
        entry.metadata()
    };
    let (kind, bytes) = match metadata {
        Ok(metadata) if metadata.is_file() => (EntryKind::File, metadata.len()),
        Ok(metadata) if metadata.is_dir() => (EntryKind::Dir, 0),
        Ok(_) => (EntryKind::Other, 0),
        // A link that leads nowhere, or round in a circle.
        Err(_) if is_link => (EntryKind::Other, 0),
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    Ok(Some(DirEntry { name, kind, bytes }))
}

impl File for OsFile {
    fn bytes(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()> {
        transfer::read_exact(buffer, position, |rest, at| self.0.read_at(rest, at))
    }

    fn read_at_most(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        transfer::read_at_most(buffer, position, |rest, at| self.0.read_at(rest, at))
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        transfer::write_all(bytes, position, |rest, at| self.0.write_at(rest, at))
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn reserve(&self, from: u64, bytes: u64) -> io::Result<()> {
        if bytes > 0 {
            let length_stays = rustix::fs::FallocateFlags::KEEP_SIZE;
            rustix::fs::fallocate(&self.0, length_stays, from, bytes)?;
        }
        Ok(())
    }

    fn preallocate(&self, bytes: u64) -> io::Result<()> {
        if bytes == 0 {
            return Ok(());
        }
        #[cfg(any(target_os = "linux", target_os = "android"))]
        loop {
            match rustix::fs::fallocate(&self.0, rustix::fs::FallocateFlags::empty(), 0, bytes) {
                Ok(()) => return Ok(()),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::OPNOTSUPP) => break,
                Err(failure) => return Err(failure.into()),
            }
        }
        if self.bytes()? < bytes {
            self.0.set_len(bytes)
        } else {
            Ok(())
        }
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn sync_all(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn map(&self) -> io::Result<Map> {
        Map::of_file(&self.0)
    }

    fn evict(&self) -> io::Result<()> {
        #[cfg(any(target_os = "linux", target_os = "android"))]
        rustix::fs::fadvise(&self.0, 0, None, rustix::fs::Advice::DontNeed)?;
        Ok(())
    }
}
