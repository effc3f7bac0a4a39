//! Questions about offsets: where an epoch ends, where the log begins and ends. Kafka:
//! `Partition.lastOffsetForLeaderEpoch`, `fetchOffsetForTimestamp`.

use super::{Env, Partition};
use crate::replication::message::ErrorCode;
use crate::types::Offset;

/// Where the records of an epoch end. KIP-101, KIP-279.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct EndOffset {
    /// The largest epoch that is not above the requested one.
    pub epoch: i32,
    /// Where it ends (exclusive).
    pub end_offset: Offset,
}

/// Which offset is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OffsetSpec {
    /// The end of what the asker may read.
    Latest,
    /// The log start.
    Earliest,
    /// The offset of a record that is searched by its timestamp.
    ByTime,
}

/// The answer to a question for an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListOffsets {
    /// The offset.
    Known(Offset),
    /// To be searched in the log.
    Search {
        /// Only a find below it counts.
        below: Offset,
        /// What it means that there is none: nothing is there, or it may come.
        otherwise: Option<ErrorCode>,
    },
}

impl Partition {
    /// Answers `OffsetsForLeaderEpoch`: `None` where this log cannot tell.
    ///
    /// # Errors
    /// Those of the leader epoch that the asker names, and `NotLeaderOrFollower`.
    pub fn end_offset_for(
        &self,
        env: &Env<'_>,
        epoch: i32,
        leader_epoch: Option<i32>,
    ) -> Result<Option<EndOffset>, ErrorCode> {
        self.check_asked(leader_epoch, true)?;
        let found = env.log.epochs.end_offset_for(epoch, env.log.log_end_offset);
        Ok(found.map(|(epoch, end_offset)| EndOffset { epoch, end_offset }))
    }

    /// Answers `ListOffsets`. `readable` is the end of what the client may read: the high watermark
    /// or the last stable offset; `None` for a replica, which reads to the log end.
    ///
    /// Until the high watermark has reached the start of the epoch, records that clients have seen
    /// may lie above it: then the end is not told, and a search that finds nothing below it says
    /// nothing (KIP-207).
    ///
    /// # Errors
    /// Those of the leader epoch, `NotLeaderOrFollower`, and `OffsetNotAvailable`.
    pub fn list_offsets(
        &self,
        env: &Env<'_>,
        spec: OffsetSpec,
        readable: Option<Offset>,
        leader_epoch: Option<i32>,
        only_leader: bool,
    ) -> Result<ListOffsets, ErrorCode> {
        self.check_asked(leader_epoch, only_leader)?;
        let behind = self
            .epoch_start()
            .is_some_and(|start| start > env.log.high_watermark);
        let behind = (readable.is_some() && behind).then_some(ErrorCode::OffsetNotAvailable);
        let below = readable.unwrap_or(env.log.log_end_offset);
        match (spec, behind) {
            (OffsetSpec::Earliest, _) => Ok(ListOffsets::Known(env.log.log_start_offset)),
            (OffsetSpec::Latest, Some(error)) => Err(error),
            (OffsetSpec::Latest, None) => Ok(ListOffsets::Known(below)),
            (OffsetSpec::ByTime, otherwise) => Ok(ListOffsets::Search { below, otherwise }),
        }
    }
}
