//! The high watermark. Kafka: `UnifiedLog.updateHighWatermark`, `maybeIncrementHighWatermark`.

use crate::error::{Error, ErrorKind, Result};
use crate::log::Log;
use crate::storage::Dir;
use crate::types::Offset;

impl<D: Dir> Log<D> {
    /// Sets the high watermark, clamped to [log start offset, log end offset]; returns what it is
    /// then.
    ///
    /// May lower it: that is for followers and for truncation. Kept in memory; `checkpoint` and
    /// `close` make it durable. A watermark inside a batch hides that whole batch from readers.
    pub fn update_high_watermark(&self, high_watermark: Offset) -> Offset {
        let mut result = high_watermark;
        self.publish_with(|view, transactions| {
            result = high_watermark.clamp(view.log_start, view.log_end);
            view.high_watermark = result;
            transactions.replicated_below(result);
            view.watermark_settled = result == view.log_end;
        });
        result
    }

    /// Raises the high watermark, as a leader does; returns the old value, or `None` if it is not
    /// raised.
    ///
    /// # Errors
    /// `InvalidArgument` for an offset above the log end: the caller has mixed up its replicas.
    pub fn maybe_increment_high_watermark(&self, high_watermark: Offset) -> Result<Option<Offset>> {
        self.settle_watermark();
        let mut outcome = Ok(None);
        self.publish(|view| {
            if high_watermark > view.log_end {
                outcome = Err(view.log_end);
            } else if high_watermark > view.high_watermark {
                outcome = Ok(Some(view.high_watermark));
                view.high_watermark = high_watermark;
                view.watermark_settled = false;
            }
        });
        outcome.map_err(|log_end| {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("raise the high watermark above the log end {log_end}"),
            )
            .at_path(self.path())
            .at_offset(high_watermark)
            .next_step("take the smallest log end of the in-sync replicas")
        })
    }
}
