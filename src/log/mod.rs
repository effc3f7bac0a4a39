//! One log: segments, append, read, roll, flush, high watermark, truncation, recovery, retention.
//!
//! One writer at a time holds the lock of [`Log`]; readers take an immutable view that is swapped
//! atomically, so that no bound is read twice and no reader waits behind a write or a sync.
//!
//! 1. `log_start_offset <= high_watermark <= log_end_offset` and `recovery_point <=
//!    log_end_offset`.
//! 2. Every offset below `recovery_point` has been synced in this process or before.
//! 3. A refused operation has no effect on the files or on any of these values.
//! 4. No thread is started and no clock is read: time is an argument.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use arc_swap::ArcSwap;

use crate::epoch::{EpochCache, EpochEntry};
use crate::error::{Error, ErrorKind, Result};
use crate::producer::Transactions;
use crate::storage::{Dir, Fenced, OsDir};
use crate::types::{LeaderEpoch, Offset};

pub(crate) mod aborted;
mod append;
mod barrier;
mod checkpoints;
mod config;
mod decision;
mod filter;
mod find_time;
mod flush;
mod handles;
mod layout;
mod open;
mod plan;
pub(crate) mod producers;
mod read;
mod recovery;
pub(crate) mod replay;
mod retention;
mod roll;
pub(crate) mod scan;
mod segment;
mod settle;
mod truncate;
mod turns;
mod view;
mod walk;
mod watch;
mod watermark;
mod witness;
mod writer;

pub use append::{Appended, Durability, EndTransaction};
pub use checkpoints::{Change, Checkpoints};
pub use config::{LogConfig, WatermarkPolicy};
pub use decision::{Decision, Row, Situation, Stop, decide};
pub use filter::AbortedFilter;
pub use find_time::{Found, TimeQuery};
pub(crate) use open::OpenOptions;
pub use open::OpenReport;
pub(crate) use plan::OpenState;
pub use plan::{Cut, Damage, Note, Plan, RecoveryScope, Source};
pub use read::{Fetched, Isolation};
pub use retention::Retained;
pub use truncate::{TruncateOptions, Truncated};
pub use watch::{Watched, Watcher};

use handles::HandleCache;
use turns::Turns;
use view::View;
use watch::Watch;
use writer::Writer;

/// A log: the records of one partition, in one directory.
///
/// All methods take `&self`; appends, truncations and retention wait for one another, reads wait
/// for nobody. Dropping a log writes nothing: what was not synced is in the hands of the operating
/// system, as after a killed process. [`Log::close`] ends it cleanly.
pub struct Log<D: Dir = OsDir> {
    dir: Fenced<D>,
    config: LogConfig,
    checkpoints: Arc<dyn Checkpoints>,
    handles: HandleCache<Fenced<D>>,
    view: ArcSwap<View<Fenced<D>>>,
    /// Held while the view is replaced by one that was made from it. What bounds the last stable
    /// offset is in it: each change of the high watermark looks at it.
    publish: Mutex<Transactions>,
    /// Taken by the one that syncs for all who wait, and by a truncation.
    turns: Turns,
    writer: Mutex<Writer<Fenced<D>>>,
    watch: Watch,
}

/// What becomes of the last stable offset when a view is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stable {
    /// It stays, unless the high watermark moves.
    Stays,
    /// It follows the transactions.
    Follows,
}

impl<D: Dir> Log<D> {
    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// The settings that the log was opened with.
    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// The first offset that may be read.
    pub fn log_start_offset(&self) -> Offset {
        self.view.load().log_start
    }

    /// The offset of the next record; exclusive end of the log.
    pub fn log_end_offset(&self) -> Offset {
        self.view.load().log_end
    }

    /// The offset below which all in-sync replicas have the records; exclusive.
    pub fn high_watermark(&self) -> Offset {
        self.view.load().high_watermark
    }

    /// The offset below which every transaction has ended and the high watermark has passed its
    /// marker; exclusive. Between the log start and the high watermark, which it is without
    /// transactions. Kafka: `UnifiedLog.lastStableOffset`.
    pub fn last_stable_offset(&self) -> Offset {
        self.view.load().last_stable_offset()
    }

    /// The offset below which everything is synced; exclusive.
    pub fn recovery_point(&self) -> Offset {
        self.view.load().recovery_point
    }

    /// The leader epochs and where each began, rising.
    pub fn epochs(&self) -> Vec<EpochEntry> {
        self.view.load().epochs.entries().to_vec()
    }

    /// The latest leader epoch.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.view.load().epochs.latest().map(|entry| entry.epoch)
    }

    /// The epoch and end offset (exclusive) that `OffsetsForLeaderEpoch` answers for a requested
    /// epoch.
    ///
    /// `None` where Kafka answers "undefined": an epoch above the latest, or no epochs at all. A
    /// requested epoch below the first known one is echoed with the start of that first one.
    pub fn end_offset_for(&self, requested: LeaderEpoch) -> Option<(LeaderEpoch, Offset)> {
        let view = self.view.load();
        let (epoch, end) = view.epochs.end_offset_for(requested.get(), view.log_end)?;
        Some((LeaderEpoch::new(epoch)?, end))
    }

    /// Base offset and length in bytes of every segment, oldest first. The last one is active.
    pub fn segments(&self) -> Vec<(Offset, u64)> {
        let view = self.view.load();
        view.segments
            .iter()
            .map(|segment| (segment.base, view.bytes_of(segment)))
            .collect()
    }

    /// The length of all `.log` files together. Unit: bytes.
    pub fn bytes(&self) -> u64 {
        let view = self.view.load();
        view.segments
            .iter()
            .fold(0, |sum, segment| sum.saturating_add(view.bytes_of(segment)))
    }

    /// The damage below the recovery point that the log was opened with; it refuses to change then.
    pub fn damage(&self) -> Vec<Damage> {
        self.view.load().damage.to_vec()
    }

    fn writer(&self) -> MutexGuard<'_, Writer<Fenced<D>>> {
        self.writer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The writer, if the log may change: open, sound, and no write failed before.
    fn changing(&self, doing: &str) -> Result<MutexGuard<'_, Writer<Fenced<D>>>> {
        let writer = self.writer();
        let refuse = |kind, why: &str, next_step| {
            Error::new(kind, format!("{doing}: {why}"))
                .at_path(self.path())
                .next_step(next_step)
        };
        if writer.closed {
            return Err(refuse(
                ErrorKind::Closed,
                "the log is closed",
                "open it again",
            ));
        }
        if self.dir.is_fenced() {
            return Err(refuse(
                ErrorKind::Offline,
                "a write or a sync failed before",
                "open the log again, it will be recovered",
            ));
        }
        if let Some(damage) = self.view.load().damage.first() {
            return Err(refuse(
                ErrorKind::Damaged,
                "the log is damaged below its recovery point",
                "repair it from a replica, or with highwater recover --repair",
            )
            .at_path(&self.path().join(&damage.file))
            .at_position(damage.position)
            .at_offset(damage.first_offset));
        }
        Ok(writer)
    }

    /// Replaces the view by one made from it, and tells the watchers. For what leaves the
    /// transactions alone.
    fn publish(&self, change: impl FnOnce(&mut View<Fenced<D>>)) {
        self.replace_view(Stable::Stays, |view, _| change(view));
    }

    /// As [`publish`](Self::publish), with the transactions, which change in the same instant.
    fn publish_with(&self, change: impl FnOnce(&mut View<Fenced<D>>, &mut Transactions)) {
        self.replace_view(Stable::Follows, change);
    }

    fn replace_view(
        &self,
        stable: Stable,
        change: impl FnOnce(&mut View<Fenced<D>>, &mut Transactions),
    ) {
        let mut transactions = self.transactions();
        let mut next = View::clone(&self.view.load());
        let high_watermark = next.high_watermark;
        change(&mut next, &mut transactions);
        let moved = next.high_watermark != high_watermark;
        if moved {
            transactions.replicated_below(next.high_watermark);
        }
        if moved || stable == Stable::Follows {
            next.first_unstable = transactions.first_unstable_offset();
        }
        next.check();
        self.watch.tell(&next);
        self.view.store(Arc::new(next));
        drop(transactions);
    }

    /// Lets go of the ended transactions below the high watermark that a truncation has brought
    /// back since it was set, or they would hold readers of committed records back until it moves.
    fn settle_watermark(&self) {
        if self.view.load().watermark_settled {
            return;
        }
        self.publish_with(|view, transactions| {
            transactions.replicated_below(view.high_watermark);
            view.watermark_settled = true;
        });
    }

    fn transactions(&self) -> MutexGuard<'_, Transactions> {
        self.publish.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn publish_epochs(&self, epochs: &EpochCache) {
        let epochs = Arc::new(epochs.clone());
        self.publish(|view| view.epochs = epochs);
    }
}

impl<D: Dir> fmt::Debug for Log<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let view = self.view.load();
        f.debug_struct("Log")
            .field("path", &self.path())
            .field("log_start_offset", &view.log_start)
            .field("high_watermark", &view.high_watermark)
            .field("recovery_point", &view.recovery_point)
            .field("log_end_offset", &view.log_end)
            .finish_non_exhaustive()
    }
}
