//! A progress bar on a terminal, for anything over a second.

use std::cell::Cell;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// Counts bytes; shows a bar once a second has passed.
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    started: Instant,
    unseen: Cell<u64>,
}

impl Progress {
    /// Of `total` bytes.
    #[expect(clippy::disallowed_methods, reason = "a bar shows real time")]
    pub(crate) fn new(total: u64) -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let bar = ProgressBar::hidden();
            bar.set_length(total);
            if let Ok(style) =
                ProgressStyle::with_template("{bar:40} {bytes}/{total_bytes} {bytes_per_sec} {eta}")
            {
                bar.set_style(style);
            }
            bar
        });
        Self {
            bar,
            started: Instant::now(),
            unseen: Cell::new(0),
        }
    }

    pub(crate) fn advance(&self, bytes: u64) {
        const STEP: u64 = 1 << 20;
        let Some(bar) = &self.bar else { return };
        let unseen = self.unseen.get().saturating_add(bytes);
        if unseen < STEP {
            return self.unseen.set(unseen);
        }
        self.unseen.set(0);
        if bar.is_hidden() && self.started.elapsed() > Duration::from_secs(1) {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        bar.inc(unseen);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
