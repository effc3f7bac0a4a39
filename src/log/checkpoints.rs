//! Where a log keeps the values that Kafka keeps beside it: the checkpoint files of the data
//! directory.

use std::fmt::Debug;

use crate::checkpoint::LogFacts;
use crate::error::Result;

/// Which rows of the checkpoint files a change touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// All three: recovery point, high watermark, log start (whose row goes where there is none).
    Checkpoint,
    /// The recovery point as given; high watermark and log start are lowered to it, never raised,
    /// and no row is made.
    Truncate,
    /// The log start alone is raised.
    DeleteRecords,
}

/// The checkpoint files, as a log sees them.
pub trait Checkpoints: Debug + Send + Sync {
    /// Writes the rows of one log. Durable on return.
    ///
    /// # Errors
    /// Those of the system; the old rows stand then.
    fn write(&self, change: Change, facts: &LogFacts) -> Result<()>;
}
