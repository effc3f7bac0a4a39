//! Appends and deletions: what is checked before, and what is told after. Kafka:
//! `Partition.appendRecordsToLeader`, `deleteRecordsOnLeader`.

use super::{DeleteWaiter, Env, Output, Partition, ProduceWaiter, Wake};
use crate::replication::message::{ErrorCode, RequestId};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// When a producer is answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Acks {
    /// Never; 0 on the wire.
    None,
    /// When the leader has the records; 1 on the wire. They may be lost with it.
    Leader,
    /// When they are committed; -1 on the wire.
    #[default]
    All,
}

impl Acks {
    /// The meaning of a number on the wire.
    ///
    /// # Errors
    /// `InvalidRequiredAcks` for any but -1, 0 and 1.
    pub const fn from_wire(acks: i16) -> Result<Self, ErrorCode> {
        match acks {
            -1 => Ok(Self::All),
            0 => Ok(Self::None),
            1 => Ok(Self::Leader),
            _ => Err(ErrorCode::InvalidRequiredAcks),
        }
    }
}

/// The offsets of an append, both inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AppendedRange {
    /// Of the first record.
    pub first_offset: Offset,
    /// Of the last record.
    pub last_offset: Offset,
}

/// An append that is in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Produced {
    /// Where.
    pub offsets: AppendedRange,
    /// Whether it raised the high watermark at once.
    pub high_watermark_moved: bool,
    /// What its producer waits for; `None` with other acks than [`Acks::All`].
    pub waiter: Option<ProduceWaiter>,
}

/// An append that the log is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Appending {
    acks: Acks,
    epoch: LeaderEpoch,
}

/// A deletion that the log is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deleting {
    to: Offset,
}

impl Partition {
    /// With acks all nothing is appended while the committed ISR is under its minimum; other
    /// producers have not asked for copies.
    pub(super) fn append(
        &mut self,
        env: &Env<'_>,
        request: RequestId,
        acks: Acks,
        out: &mut Vec<Output>,
    ) {
        let checked = self.lead().and_then(|lead| {
            if acks == Acks::All && lead.is_under_min_isr(env) {
                return Err(ErrorCode::NotEnoughReplicas);
            }
            self.leader_epoch.ok_or(ErrorCode::NotLeaderOrFollower)
        });
        match checked {
            Ok(epoch) => {
                self.appends.insert(request, Appending { acks, epoch });
                out.push(Output::Append { request, epoch });
            }
            Err(error) => {
                let result = Err(error);
                out.push(Output::Produced { request, result });
            }
        }
    }

    pub(super) fn appended(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        request: RequestId,
        result: Result<AppendedRange, ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let Some(appending) = self.appends.remove(&request) else {
            self.drop_answer();
            return;
        };
        let result = result.and_then(|offsets| {
            if !self.reigns_since(appending.epoch) {
                return Err(ErrorCode::NotLeaderOrFollower);
            }
            out.push(Output::Wake(Wake::LogEnd));
            let waiter = ProduceWaiter {
                required: offsets.last_offset.next(),
                leader_epoch: appending.epoch,
            };
            Ok(Produced {
                offsets,
                high_watermark_moved: self.raise_high_watermark(now, env, out),
                waiter: (appending.acks == Acks::All).then_some(waiter),
            })
        });
        out.push(Output::Produced { request, result });
    }

    pub(super) fn delete_records(
        &mut self,
        env: &Env<'_>,
        request: RequestId,
        offset: i64,
        out: &mut Vec<Output>,
    ) {
        /// On the wire: up to the high watermark.
        const HIGH_WATERMARK: i64 = -1;
        let target = if offset == HIGH_WATERMARK {
            Some(env.log.high_watermark)
        } else {
            Offset::new(offset)
        };
        let target = target.filter(|to| *to <= env.log.high_watermark);
        let checked = self
            .lead()
            .and_then(|_| target.ok_or(ErrorCode::OffsetOutOfRange));
        match checked {
            Ok(to) => {
                self.deletions.insert(request, Deleting { to });
                out.push(Output::RaiseLogStart { request, to });
            }
            Err(error) => {
                let result = Err(error);
                out.push(Output::Deleted { request, result });
            }
        }
    }

    pub(super) fn log_start_raised(
        &mut self,
        request: RequestId,
        result: Result<(), ErrorCode>,
        out: &mut Vec<Output>,
    ) {
        let Some(Deleting { to }) = self.deletions.remove(&request) else {
            self.drop_answer();
            return;
        };
        let result = result.map(|()| DeleteWaiter { required: to });
        out.push(Output::Deleted { request, result });
    }

    /// Whether this broker has led without a break since `epoch`.
    pub(super) fn reigns_since(&self, epoch: LeaderEpoch) -> bool {
        self.lead().is_ok_and(|lead| lead.reign_start <= epoch)
    }
}
