//! How fetches are answered, and what a follower's fetch tells the leader. Kafka:
//! `Partition.fetchRecords`, `updateFollowerFetchState`.

use super::{Env, Output, Partition, Wake};
use crate::replication::isr::FetchSeen;
use crate::replication::message::{BrokerEpoch, BrokerId, Compatibility, ErrorCode, RequestId};
use crate::types::{Offset, Timestamp};

/// A follower's fetch. Numbers are those of the wire: what a negative one means is a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchRequest {
    /// Names the request.
    pub request: RequestId,
    /// Who fetches.
    pub replica: BrokerId,
    /// The epoch of its broker; [`BrokerEpoch::UNVERIFIED`] from before Kafka 3.5.
    pub broker_epoch: BrokerEpoch,
    /// Where it wants to go on: it has everything below.
    pub offset: i64,
    /// The leader epoch that it knows; `None` is not compared.
    pub leader_epoch: Option<i32>,
    /// The epoch of its last record (KIP-595); `None` if it does not look for divergence.
    pub last_epoch: Option<i32>,
    /// Where its log starts.
    pub log_start_offset: i64,
    /// The base offset of the batch that holds `offset`, if one does. Kafka 4.4 counts it instead
    /// of `offset`; otherwise it is not looked at, and need not be found out.
    pub batch_base: Option<Offset>,
}

/// The answer to a fetch, without its records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FetchAnswer {
    /// What to send.
    pub outcome: FetchOutcome,
    /// The high watermark to send.
    pub high_watermark: Offset,
    /// The log start to send.
    pub log_start_offset: Offset,
    /// The last stable offset to send.
    pub last_stable_offset: Offset,
    /// Where the log ended.
    pub log_end_offset: Offset,
}

/// What a fetch brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FetchOutcome {
    /// Records from here on.
    Records(Offset),
    /// The logs went different ways: this one has nothing of the asker's last epoch at its end, but
    /// epoch `epoch`, which ends at `end_offset`. KIP-595.
    Diverging {
        /// The largest epoch here that is not above the asker's.
        epoch: i32,
        /// Where it ends (exclusive).
        end_offset: Offset,
    },
}

impl Partition {
    pub(super) fn fetch(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        request: &FetchRequest,
        out: &mut Vec<Output>,
    ) {
        let result = self
            .follower_read(env, request)
            .and_then(|answer| self.count_fetch(now, env, request, answer, out));
        out.push(Output::Fetched {
            request: request.request,
            result,
        });
    }

    /// What a follower's fetch would be answered, without counting it: for one that was parked.
    ///
    /// The checks in their order: leader epoch, leadership, membership, epoch of the last record,
    /// log start, divergence, log end.
    ///
    /// # Errors
    /// Those of the checks.
    pub fn follower_read(
        &self,
        env: &Env<'_>,
        request: &FetchRequest,
    ) -> Result<FetchAnswer, ErrorCode> {
        self.check_asked(request.leader_epoch, true)?;
        if self.lead()?.replica(request.replica).is_none() {
            // A follower that was told its epoch knows more than this leader: it may ask again.
            return Err(match request.leader_epoch {
                Some(_) => ErrorCode::UnknownLeaderEpoch,
                None => ErrorCode::NotLeaderOrFollower,
            });
        }
        read(env, request.offset, request.last_epoch)
    }

    /// What a consumer's fetch is answered. A follower answers too, unless the asker wants the
    /// leader, as those from before KIP-392 do.
    ///
    /// # Errors
    /// As for a follower's fetch, without membership.
    pub fn consumer_read(
        &self,
        env: &Env<'_>,
        offset: i64,
        leader_epoch: Option<i32>,
        last_epoch: Option<i32>,
        only_leader: bool,
    ) -> Result<FetchAnswer, ErrorCode> {
        self.check_asked(leader_epoch, only_leader)?;
        read(env, offset, last_epoch)
    }

    /// Takes in what the fetch tells. The answer is the one from before.
    fn count_fetch(
        &mut self,
        now: Timestamp,
        env: &Env<'_>,
        request: &FetchRequest,
        answer: FetchAnswer,
        out: &mut Vec<Output>,
    ) -> Result<FetchAnswer, ErrorCode> {
        let FetchOutcome::Records(offset) = answer.outcome else {
            return Ok(answer);
        };
        let registered = env.brokers.alive_epoch(request.replica);
        let is_stale = registered.is_some_and(|epoch| epoch > request.broker_epoch);
        if is_stale && request.broker_epoch != BrokerEpoch::UNVERIFIED {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let counted = match env.config.compatibility {
            Compatibility::Kafka => request.batch_base.unwrap_or(offset),
            Compatibility::Highwater => offset,
        };
        let lead = self.lead_mut()?;
        let Some(replica) = lead.replica_mut(request.replica) else {
            return Ok(answer);
        };
        let before = (replica.log_end_offset, replica.log_start_offset);
        replica.fetched(&FetchSeen {
            now,
            log_end_offset: counted,
            log_start_offset: Offset::new(request.log_start_offset),
            broker_epoch: request.broker_epoch,
            leader_log_end: answer.log_end_offset,
        });
        let (end_before, start_before) = before;
        let end_moved = replica.log_end_offset != end_before;
        let start_moved = replica.log_start_offset != start_before;
        self.maybe_expand(env, request.replica, out);
        if end_moved {
            self.raise_high_watermark(now, env, out);
        }
        if start_moved {
            out.push(Output::Wake(Wake::LowWatermark));
        }
        Ok(answer)
    }
}

/// Where a fetch stands in the log. Kafka: `Partition.readRecords`.
fn read(env: &Env<'_>, offset: i64, last_epoch: Option<i32>) -> Result<FetchAnswer, ErrorCode> {
    let log = env.log;
    let answer = |outcome| FetchAnswer {
        outcome,
        high_watermark: log.high_watermark,
        log_start_offset: log.log_start_offset,
        last_stable_offset: log.last_stable_offset,
        log_end_offset: log.log_end_offset,
    };
    let out_of_range = ErrorCode::OffsetOutOfRange;
    let at = Offset::new(offset).filter(|offset| *offset >= log.log_start_offset);
    if let Some(last_epoch) = last_epoch {
        let found = log.epochs.end_offset_for(last_epoch, log.log_end_offset);
        let (epoch, end_offset) = found.ok_or(out_of_range)?;
        // Below the log start there is nothing to compare (KAFKA-12996).
        let at = at.ok_or(out_of_range)?;
        if epoch < last_epoch || end_offset < at {
            return Ok(answer(FetchOutcome::Diverging { epoch, end_offset }));
        }
    }
    let at = at.filter(|offset| *offset <= log.log_end_offset);
    Ok(answer(FetchOutcome::Records(at.ok_or(out_of_range)?)))
}
