//! The storage seam: every call to a file system goes through [`Dir`] and [`File`].
//!
//! [`OsDir`] is the real file system, `sim::SimDir` (feature `sim`) a disk in memory that can
//! lose what was not synced, and [`Fenced`] wraps either so that one failed write or sync stops a
//! log for good.
//!
//! 1. Nothing above this floor names `std::fs`, `fs2` or `memmap2`.
//! 2. A method that returns `Ok` has done the whole of it: short transfers and EINTR end here.
//! 3. Nobody retries a sync: after one that failed, the kernel may call lost pages clean.
//! 4. A file that is mapped is never made shorter.

use std::fmt::Debug;
use std::io;
use std::path::Path;

mod atomic;
mod barrier;
mod buffer;
mod fence;
mod lock;
mod mmap;
mod os;
#[cfg(feature = "sim")]
pub mod sim;
mod transfer;

pub use atomic::{read_file, remove_if_there, replace_file};
pub use barrier::Barrier;
pub(crate) use buffer::ReadBuffer;
pub use fence::{Fenced, FencedFile, is_fenced};
pub use mmap::Map;
pub(crate) use os::descriptor_limit;
pub use os::{OsDir, OsFile, OsLock};

/// What may be done with a file that is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only; the file is never changed through this handle.
    Read,
    /// Reads and writes.
    Write,
}

/// What a directory entry is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// Anything else: a socket, a device, a link that leads nowhere.
    Other,
}

/// A line of [`Dir::list`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// The name; bytes that are not UTF-8 are replaced, such a file cannot be opened by this name.
    pub name: String,
    /// What it is; a link is what it leads to, and [`EntryKind::Other`] if that is missing.
    pub kind: EntryKind,
    /// The length of a regular file in bytes, else 0.
    pub bytes: u64,
}

/// A directory. Clones are handles on the same one.
///
/// Names are single path components, else a call fails with `InvalidInput`. Nothing but
/// [`Dir::sync`] makes a change of names durable.
pub trait Dir: Clone + Debug + Send + Sync + 'static {
    /// The files in it.
    type File: File;
    /// Held for as long as the lock lasts.
    type Lock: Debug + Send + Sync;

    /// The path for messages; for [`OsDir`] the real one.
    fn path(&self) -> &Path;

    /// Opens a directory inside this one.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `NotADirectory` if it is a file.
    fn subdir(&self, name: &str) -> io::Result<Self>;

    /// Makes a directory inside this one and opens it. Its name is durable after [`Dir::sync`] of
    /// this one.
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken.
    fn create_subdir(&self, name: &str) -> io::Result<Self>;

    /// Removes a directory inside this one with all that is in it. Not durable before
    /// [`Dir::sync`].
    ///
    /// # Errors
    /// Those of the system; part of the content may be gone then.
    fn remove_subdir(&self, name: &str) -> io::Result<()>;

    /// All entries, sorted by name.
    ///
    /// # Errors
    /// Those of the system.
    fn list(&self) -> io::Result<Vec<DirEntry>>;

    /// Makes a new, empty file, readable and writable. Its name is durable after [`Dir::sync`].
    ///
    /// # Errors
    /// `AlreadyExists` if the name is taken.
    fn create_new(&self, name: &str) -> io::Result<Self::File>;

    /// Opens a file that is there.
    ///
    /// # Errors
    /// `NotFound` if it is missing, `IsADirectory` if it is a directory.
    fn open(&self, name: &str, access: Access) -> io::Result<Self::File>;

    /// Gives a file or directory in here another name, replacing a file that has it. Atomic for
    /// other processes; durable after [`Dir::sync`], and until then either name may be found after
    /// a power cut.
    ///
    /// # Errors
    /// `NotFound` if `from` is missing.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file. Handles and maps of it stay usable. Durable after [`Dir::sync`].
    ///
    /// # Errors
    /// `NotFound` if it is missing.
    fn remove(&self, name: &str) -> io::Result<()>;

    /// Makes the names in this directory durable, not the content of the files.
    ///
    /// # Errors
    /// A failed sync is final: see the module page.
    fn sync(&self) -> io::Result<()>;

    /// As [`Dir::sync`], for a barrier that a simulated disk may be told to ignore.
    ///
    /// # Errors
    /// A failed sync is final: see the module page.
    fn sync_for(&self, _barrier: Barrier) -> io::Result<()> {
        self.sync()
    }

    /// Locks the named file, making it if it is missing; `None` if another process or another
    /// handle has it. The lock excludes other processes of this crate and a JVM broker, and ends
    /// with the process.
    ///
    /// # Errors
    /// Those of the system.
    fn try_lock(&self, name: &str) -> io::Result<Option<Self::Lock>>;

    /// Bytes free for this process on the file system.
    ///
    /// # Errors
    /// Those of the system.
    fn free_bytes(&self) -> io::Result<u64>;
}

/// An open file. Every method takes `&self`; positions are explicit. Unit of positions and lengths:
/// bytes.
pub trait File: Debug + Send + Sync + 'static {
    /// The length.
    ///
    /// # Errors
    /// Those of the system.
    fn bytes(&self) -> io::Result<u64>;

    /// Fills `buffer` from `position` on.
    ///
    /// # Errors
    /// `UnexpectedEof` if the file ends before the buffer is full.
    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> io::Result<()>;

    /// Reads at most `buffer.len()` bytes, fewer only at the end of the file; returns how many.
    ///
    /// # Errors
    /// Those of the system.
    fn read_at_most(&self, buffer: &mut [u8], position: u64) -> io::Result<usize>;

    /// Writes all of `bytes` at `position`. Not durable before [`File::sync_data`].
    ///
    /// # Errors
    /// Those of the system; a part of the bytes may have been written.
    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()>;

    /// Makes the file shorter, or longer with zeros. Not durable before [`File::sync_data`].
    ///
    /// # Errors
    /// Those of the system.
    fn set_len(&self, bytes: u64) -> io::Result<()>;

    /// Makes the file at least `bytes` long with blocks allocated for all of it, so that later
    /// writes below that length cannot fail for lack of room. Where the file system cannot, only
    /// the length.
    ///
    /// # Errors
    /// `StorageFull` if there is no room.
    fn preallocate(&self, bytes: u64) -> io::Result<()>;

    /// Sets blocks aside for the bytes [`from`, `from + bytes`), the length stays as it is: later
    /// writes there find their room, and are cheaper. [`File::set_len`] gives back what lies behind
    /// the length. A hint: without it everything works the same.
    ///
    /// # Errors
    /// Those of the system; nothing has changed then.
    fn reserve(&self, _from: u64, _bytes: u64) -> io::Result<()> {
        Ok(())
    }

    /// Makes content and length durable, not the name.
    ///
    /// # Errors
    /// A failed sync is final: see the module page.
    fn sync_data(&self) -> io::Result<()>;

    /// As [`File::sync_data`], for a barrier that a simulated disk may be told to ignore.
    ///
    /// # Errors
    /// A failed sync is final: see the module page.
    fn sync_for(&self, _barrier: Barrier) -> io::Result<()> {
        self.sync_data()
    }

    /// Makes content, length and all other attributes durable, not the name.
    ///
    /// # Errors
    /// A failed sync is final: see the module page.
    fn sync_all(&self) -> io::Result<()>;

    /// Maps the whole file for reading. The caller promises that nobody makes it shorter meanwhile.
    ///
    /// # Errors
    /// Those of the system.
    fn map(&self) -> io::Result<Map>;

    /// Asks the system to drop the file from its cache, so that the next read comes from the
    /// device.
    ///
    /// # Errors
    /// Those of the system.
    fn evict(&self) -> io::Result<()>;
}

/// A path of more than one component would leave the directory.
fn single_name(name: &str) -> io::Result<&str> {
    if matches!(name, "" | "." | "..") || name.bytes().any(|byte| matches!(byte, b'/' | 0)) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not the name of a directory entry"),
        ));
    }
    Ok(name)
}
