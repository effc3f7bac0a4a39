//! Turns at the device: one syncs, all others wait for the outcome.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Whose turn it is to sync.
///
/// Who waits is woken after every turn and looks for itself whether anything is left to do: the
/// bytes may have been synced, the sync may have failed, or a truncation may have taken them.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    taken: Mutex<bool>,
    given_back: Condvar,
}

/// A turn. Given back when it is dropped, after a panic too.
#[derive(Debug)]
pub(crate) struct Turn<'a>(&'a Turns);

impl Turns {
    /// Waits for a turn.
    pub(crate) fn take(&self) -> Turn<'_> {
        let taken = self
            .given_back
            .wait_while(self.lock(), |taken| *taken)
            .unwrap_or_else(PoisonError::into_inner);
        self.begin(taken)
    }

    /// Waits for a turn or for `done`, which is asked before each wait; `None` if it is done.
    pub(crate) fn take_unless(&self, done: impl Fn() -> bool) -> Option<Turn<'_>> {
        let mut taken = self.lock();
        loop {
            if done() {
                return None;
            }
            if !*taken {
                return Some(self.begin(taken));
            }
            taken = self
                .given_back
                .wait(taken)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn begin(&self, mut taken: MutexGuard<'_, bool>) -> Turn<'_> {
        *taken = true;
        Turn(self)
    }

    fn lock(&self) -> MutexGuard<'_, bool> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        *self.0.lock() = false;
        self.0.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn one_turn_serves_all_who_wait() {
        let turns = Turns::default();
        let (synced, syncs) = (AtomicUsize::new(0), AtomicUsize::new(0));

        thread::scope(|scope| {
            let first = turns.take();
            for _ in 0..8 {
                scope.spawn(|| {
                    let done = || synced.load(Ordering::SeqCst) > 0;
                    if let Some(_turn) = turns.take_unless(done) {
                        syncs.fetch_add(1, Ordering::SeqCst);
                        synced.store(1, Ordering::SeqCst);
                    }
                });
            }
            drop(first);
        });

        assert_eq!(syncs.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_panic_gives_the_turn_back() {
        let turns = Turns::default();

        let panicked = thread::scope(|scope| {
            let worker = scope.spawn(|| {
                let _turn = turns.take();
                panic!("in the middle of a sync");
            });
            worker.join()
        });

        assert!(panicked.is_err());
        drop(turns.take());
    }
}
