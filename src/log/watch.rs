//! Watching log end, flushed offset, high watermark and last stable offset, by blocking or from
//! asynchronous code.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::log::Log;
use crate::log::view::View;
use crate::storage::Dir;
use crate::types::Offset;

/// Which value is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watched {
    /// The log end offset: records that were appended.
    LogEnd,
    /// The flushed offset (recovery point): records that survive a power cut.
    Flushed,
    /// The high watermark: records that consumers may see.
    HighWatermark,
    /// The last stable offset: records that readers of committed records may see.
    LastStable,
}

#[derive(Debug, Default)]
struct Values {
    log_end: Offset,
    flushed: Offset,
    high_watermark: Offset,
    last_stable: Offset,
    /// Blocked waiters: without any a change wakes nobody and costs no system call.
    waiting: usize,
    ended: bool,
}

impl Values {
    fn of(&self, watched: Watched) -> Offset {
        match watched {
            Watched::LogEnd => self.log_end,
            Watched::Flushed => self.flushed,
            Watched::HighWatermark => self.high_watermark,
            Watched::LastStable => self.last_stable,
        }
    }
}

#[derive(Default)]
struct Shared {
    values: Mutex<Values>,
    changed: Condvar,
    #[cfg(feature = "async")]
    event: event_listener::Event,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Values> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wake(&self, waiting: usize) {
        if waiting > 0 {
            self.changed.notify_all();
        }
        #[cfg(feature = "async")]
        self.event.notify(usize::MAX);
    }
}

/// The watched values of one log.
#[derive(Default)]
pub(crate) struct Watch(Arc<Shared>);

impl Watch {
    pub(crate) fn tell<D: Dir>(&self, view: &View<D>) {
        let mut values = self.0.lock();
        values.log_end = view.log_end;
        values.flushed = view.recovery_point;
        values.high_watermark = view.high_watermark;
        values.last_stable = view.last_stable_offset();
        let waiting = values.waiting;
        drop(values);
        self.0.wake(waiting);
    }

    pub(crate) fn end(&self) {
        let mut values = self.0.lock();
        values.ended = true;
        let waiting = values.waiting;
        drop(values);
        self.0.wake(waiting);
    }
}

/// Waits for one value of a log to pass an offset. Clones watch the same value.
#[derive(Clone)]
pub struct Watcher {
    shared: Arc<Shared>,
    watched: Watched,
}

impl<D: Dir> Log<D> {
    /// A watcher of one of the four values.
    pub fn watch(&self, watched: Watched) -> Watcher {
        Watcher {
            shared: Arc::clone(&self.watch.0),
            watched,
        }
    }
}

impl Watcher {
    /// The value as it stands.
    pub fn current(&self) -> Offset {
        self.shared.lock().of(self.watched)
    }

    /// Blocks until the value is above `seen`, then returns it; `None` when `timeout` has passed or
    /// the log was closed and the value stays at or below `seen`.
    ///
    /// A value that a truncation lowers counts only once it is above `seen` again.
    pub fn wait_above(&self, seen: Offset, timeout: Duration) -> Option<Offset> {
        let mut values = self.shared.lock();
        values.waiting = values.waiting.saturating_add(1);
        let watched = self.watched;
        let (mut values, _) = self
            .shared
            .changed
            .wait_timeout_while(values, timeout, |v| !v.ended && v.of(watched) <= seen)
            .unwrap_or_else(PoisonError::into_inner);
        values.waiting = values.waiting.saturating_sub(1);
        let value = values.of(watched);
        (value > seen).then_some(value)
    }

    /// Waits until the value is above `seen`, then returns it; `None` when the log was closed and
    /// the value stays at or below `seen`. Works with any runtime; cancelled by dropping.
    #[cfg(feature = "async")]
    pub async fn above(&self, seen: Offset) -> Option<Offset> {
        loop {
            let listener = self.shared.event.listen();
            {
                let values = self.shared.lock();
                let value = values.of(self.watched);
                if value > seen {
                    return Some(value);
                }
                if values.ended {
                    return None;
                }
            }
            listener.await;
        }
    }
}

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Watcher")
            .field("watched", &self.watched)
            .field("current", &self.current())
            .finish_non_exhaustive()
    }
}
