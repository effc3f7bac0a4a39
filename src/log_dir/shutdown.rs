//! The lock of a data directory and the marker of a clean stop.
//!
//! The marker is gone, durably, before a log is opened: a crash while logs are open is never taken
//! for a clean stop.

use crate::checkpoint::CleanShutdown;
use crate::error::{Error, ErrorKind, Result};
use crate::names::{self, CLEAN_SHUTDOWN, LOCK};
use crate::storage::{Barrier, Dir, read_file, remove_if_there, replace_file};

const MAX_MARKER_BYTES: u64 = 1 << 20;

/// Files that are written here by way of a `.tmp`.
const REPLACED: [&str; 5] = [
    names::RECOVERY_POINT_CHECKPOINT,
    names::LOG_START_CHECKPOINT,
    names::HIGH_WATERMARK_CHECKPOINT,
    names::STATE,
    CLEAN_SHUTDOWN,
];

/// Takes the lock, making its file if need be.
pub(super) fn lock<D: Dir>(dir: &D) -> Result<D::Lock> {
    let path = dir.path().join(LOCK);
    let locked = || {
        Error::new(
            ErrorKind::Locked,
            "lock data directory: another program uses it",
        )
        .at_path(&path)
        .next_step("stop the broker or the other program first")
    };
    let fail = |e| {
        Error::io("lock data directory", &path, e)
            .next_step("it must be writable; info, verify, dump and read need no lock")
    };
    dir.try_lock(LOCK).map_err(fail)?.ok_or_else(locked)
}

/// Removes the file of the lock. Need not be durable: a file that nobody locks stops nobody.
pub(super) fn remove_lock_file<D: Dir>(dir: &D) -> Result<()> {
    remove_if_there(dir, LOCK)
        .map(|_| ())
        .map_err(|e| Error::io("remove lock file", &dir.path().join(LOCK), e))
}

/// The marker, if there is one; any content is one.
pub(super) fn read_marker<D: Dir>(dir: &D) -> Result<Option<CleanShutdown>> {
    let bytes = read_file(dir, CLEAN_SHUTDOWN, MAX_MARKER_BYTES).map_err(|e| {
        Error::io(
            "read clean-shutdown marker",
            &dir.path().join(CLEAN_SHUTDOWN),
            e,
        )
    })?;
    Ok(bytes.map(|bytes| CleanShutdown::parse(&bytes)))
}

/// Removes the marker, and what a killed write of a file left. Durable on return.
pub(super) fn begin_use<D: Dir>(dir: &D) -> Result<()> {
    let remove = |name: &str| {
        remove_if_there(dir, name).map_err(|e| Error::io("remove", &dir.path().join(name), e))
    };
    remove(CLEAN_SHUTDOWN)?;
    for name in REPLACED {
        remove(&names::tmp_name(name))?;
    }
    // Also where no marker was seen: one that a killed process removed may not be gone for good.
    marker_gone_before_first_open(dir)
}

/// Without it the marker can come back after a power cut and vouch for logs that were being
/// written.
fn marker_gone_before_first_open<D: Dir>(dir: &D) -> Result<()> {
    dir.sync_for(Barrier::MarkerGoneBeforeFirstOpen)
        .map_err(|e| Error::io("sync data directory", dir.path(), e))
}

/// Writes the marker. Durable on return.
pub(super) fn write_marker<D: Dir>(dir: &D, marker: &CleanShutdown) -> Result<()> {
    replace_file(dir, CLEAN_SHUTDOWN, marker.print().as_bytes()).map_err(|e| {
        Error::io(
            "write clean-shutdown marker",
            &dir.path().join(CLEAN_SHUTDOWN),
            e,
        )
    })
}
