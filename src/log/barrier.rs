//! The durability barriers of a log, each a function of its own: what stands before one in the code
//! is on the device when it returns. The orders they make are listed in `DURABILITY.md`.

use crate::error::{Error, Result};
use crate::storage::{Barrier, Dir, File};

/// Batches are durable before their append is acknowledged as synced, and before the flushed offset
/// moves.
pub(crate) fn batches_before_acknowledgement<D: Dir>(dir: &D, log: &D::File) -> Result<()> {
    log.sync_for(Barrier::BatchesBeforeAcknowledgement)
        .map_err(|e| Error::io("sync batches", dir.path(), e))
}

/// A full segment is durable before a next one exists: a power cut never leaves a hole between the
/// two.
pub(crate) fn segment_before_roll<D: Dir>(dir: &D, log: &D::File) -> Result<()> {
    log.sync_for(Barrier::SegmentBeforeRoll)
        .map_err(|e| Error::io("sync segment before roll", dir.path(), e))
}

/// The indexes of a sealed segment are durable before the segment counts as flushed: recovery does
/// not look at it again.
pub(crate) fn indexes_before_seal<D: Dir>(dir: &D, index: &D::File) -> Result<()> {
    index
        .sync_for(Barrier::IndexesBeforeSeal)
        .map_err(|e| Error::io("sync index", dir.path(), e))
}

/// Index entries are durable before a recovery point above them is: recovery starts at one of them.
pub(crate) fn indexes_before_recovery_point<D: Dir>(dir: &D, index: &D::File) -> Result<()> {
    index
        .sync_for(Barrier::IndexesBeforeRecoveryPoint)
        .map_err(|e| Error::io("sync index", dir.path(), e))
}

/// The names of a new segment are durable before a batch in it is acknowledged.
pub(crate) fn names_before_first_append<D: Dir>(dir: &D) -> Result<()> {
    dir.sync_for(Barrier::NamesBeforeFirstAppend)
        .map_err(|e| Error::io("sync directory of new segment", dir.path(), e))
}

/// The length of a cut segment is durable before a batch is appended behind the cut.
pub(crate) fn cut_before_next_append<D: Dir>(dir: &D, log: &D::File) -> Result<()> {
    log.sync_for(Barrier::CutBeforeNextAppend)
        .map_err(|e| Error::io("sync truncated segment", dir.path(), e))
}

/// Removed segments stay removed before a new one may take their place.
pub(crate) fn removals_before_reuse<D: Dir>(dir: &D) -> Result<()> {
    dir.sync_for(Barrier::RemovalsBeforeReuse)
        .map_err(|e| Error::io("sync directory of removed segments", dir.path(), e))
}

/// Saved bytes are durable before what they were saved from is cut.
pub(crate) fn saved_before_cut<D: Dir>(dir: &D, saved: &D::File) -> Result<()> {
    saved
        .sync_for(Barrier::SavedBeforeCut)
        .map_err(|e| Error::io("sync saved bytes", dir.path(), e))?;
    dir.sync_for(Barrier::SavedNameBeforeCut)
        .map_err(|e| Error::io("sync directory of saved bytes", dir.path(), e))
}

/// Bytes that recovery accepted are durable before anybody reads them.
pub(crate) fn recovered_before_open<D: Dir>(dir: &D, log: &D::File) -> Result<()> {
    log.sync_for(Barrier::RecoveredBeforeOpen)
        .map_err(|e| Error::io("sync recovered segment", dir.path(), e))
}
