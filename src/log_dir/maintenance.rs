//! A thread that the embedder may start: checkpoints and retention at intervals.

use std::fmt;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use crate::error::{Error, ErrorKind};
use crate::log_dir::LogDir;
use crate::storage::Dir;
use crate::types::Timestamp;

/// Applies retention to every log of a data directory and writes its checkpoints, at intervals,
/// until it is dropped.
///
/// A failure on one log stops neither the others nor the thread; the latest one is kept for
/// [`Maintenance::take_error`]. Dropping waits for a run that is under way.
pub struct Maintenance {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    stops: bool,
    runs: u64,
    error: Option<Error>,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Maintenance {
    /// Starts the thread. `clock` says what time it is when a run begins; the first one begins
    /// after `interval`. Kafka: `log.flush.offset.checkpoint.interval.ms` (one minute).
    ///
    /// # Errors
    /// Those of the system when it makes a thread.
    pub fn start<D: Dir>(
        logs: Arc<LogDir<D>>,
        interval: Duration,
        clock: impl Fn() -> Timestamp + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let mine = Arc::clone(&shared);
        let thread = Builder::new()
            .name("highwater-maintenance".into())
            .spawn(move || {
                while waits(&mine, interval) {
                    let outcome = run(&logs, clock());
                    let mut state = mine.state();
                    state.runs = state.runs.saturating_add(1);
                    if let Err(error) = outcome {
                        state.error = Some(error);
                    }
                    mine.wake.notify_all();
                }
            })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// How many runs have ended.
    pub fn runs(&self) -> u64 {
        self.shared.state().runs
    }

    /// The latest failure since the last call.
    pub fn take_error(&self) -> Option<Error> {
        self.shared.state().error.take()
    }

    /// Waits until at least `runs` runs have ended, at most `timeout`; says whether they have.
    pub fn wait_for_runs(&self, runs: u64, timeout: Duration) -> bool {
        let state = self.shared.state();
        let waited = self
            .shared
            .wake
            .wait_timeout_while(state, timeout, |state| state.runs < runs);
        waited.unwrap_or_else(PoisonError::into_inner).0.runs >= runs
    }
}

/// Sleeps for the interval; `false` if it is over.
fn waits(shared: &Shared, interval: Duration) -> bool {
    let state = shared.state();
    let waited = shared
        .wake
        .wait_timeout_while(state, interval, |state| !state.stops);
    !waited.unwrap_or_else(PoisonError::into_inner).0.stops
}

fn run<D: Dir>(logs: &LogDir<D>, now: Timestamp) -> Result<(), Error> {
    let mut outcome = Ok(());
    for (_, log) in logs.logs() {
        match log.retain(now) {
            Ok(_) => {}
            // Closed by its user meanwhile, or degraded and left as it stands.
            Err(error) if matches!(error.kind(), ErrorKind::Closed | ErrorKind::Damaged) => {}
            Err(error) => outcome = Err(error),
        }
    }
    outcome.and(logs.checkpoint())
}

impl Drop for Maintenance {
    fn drop(&mut self) {
        self.shared.state().stops = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            // The panic was printed by its own thread; the logs are whole without it.
        }
    }
}

impl fmt::Debug for Maintenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maintenance")
            .field("runs", &self.runs())
            .finish_non_exhaustive()
    }
}
