//! What each command does, and its result.

use std::sync::Arc;

use super::parse::{Accepted, Consume, OffsetFor, Records, Reply};
use super::{Engine, LEADER, NOTHING_IN_FLIGHT, UNKNOWN, print};
use crate::log::{Durability, Fetched, Isolation, Log, TimeQuery, TruncateOptions};
use crate::record::{BatchBuilder, Codec};
use crate::replication::alter_partition::{AlterPartitionAnswer, Proposal};
use crate::replication::isr::ReplicaState;
use crate::replication::leader::{
    Acks, Applied, FetchAnswer, FetchOutcome, FetchRequest, Input, ListOffsets, Marked, OffsetSpec,
    Output, Partition, Progress, Registration,
};
use crate::replication::message::{ErrorCode, PartitionEpoch};
use crate::scenario::log::{Answer, Refusal, join, or_dash};
use crate::storage::OsDir;
use crate::types::{LeaderEpoch, Offset, Timestamp};

impl Engine {
    pub(super) fn high_watermark(&self) -> String {
        or_dash(self.log().ok().map(|log| log.high_watermark()))
    }

    pub(super) fn epoch_start(&self) -> Result<String, Refusal> {
        Ok(or_dash(self.machine()?.epoch_start()))
    }

    pub(super) fn metadata(&mut self, registration: Registration) -> Answer {
        let outputs = self.step(Input::Metadata(registration))?;
        let applied = outputs.iter().find_map(|output| {
            let Output::Applied(applied) = output else {
                return None;
            };
            Some(*applied)
        });
        // Kafka says of a leader whether it is one anew, of a follower whether its fetcher starts.
        let (applied, result, new_epoch) = match applied.ok_or(UNKNOWN)? {
            Applied::Ignored => (false, false, false),
            Applied::BeginsToLead { new_epoch } => (true, true, new_epoch),
            Applied::LeadsOn { new_epoch } => (true, false, new_epoch),
            Applied::Follows { new_epoch } => (true, new_epoch, new_epoch),
        };
        Ok(format!(
            "applied={applied} result={result} new_epoch={new_epoch} epoch_start={} {} hw={}",
            self.epoch_start()?,
            self.controller.proposed(),
            self.high_watermark()
        ))
    }

    pub(super) fn append(&mut self, records: Records, acks: Acks) -> Answer {
        let batch = batch(records, Offset::ZERO, self.now)?;
        let mut batch = batch.finish().map_err(|_| UNKNOWN)?;
        let (result, _) = self
            .with_replica(|replica, context, out| replica.append(context, &mut batch, acks, out))?;
        let produced = result?;
        Ok(format!(
            "first={} last={} hw_moved={} hw={}",
            produced.offsets.first_offset,
            produced.offsets.last_offset,
            produced.high_watermark_moved,
            self.high_watermark()
        ))
    }

    pub(super) fn fetch(&mut self, request: FetchRequest, max: usize) -> Answer {
        let mut fetched = Fetched::default();
        let (result, _) = self.with_replica(|replica, context, out| {
            replica.fetch(context, request, max, &mut fetched, out)
        })?;
        let answer = result?;
        Ok(format!(
            "{} leo={} log_start={} {} hw_after={}",
            print::fetched(&answer, bounds(&fetched)),
            answer.log_end_offset,
            answer.log_start_offset,
            self.controller.proposed(),
            self.high_watermark()
        ))
    }

    pub(super) fn consume(&self, consume: Consume, max: usize) -> Answer {
        let Consume {
            offset,
            committed,
            leader_epoch,
            last_epoch,
            leader_only,
        } = consume;
        let answer = self.ask(|machine, env| {
            machine.consumer_read(env, offset, leader_epoch, last_epoch, leader_only)
        })??;
        let mut fetched = Fetched::default();
        if let FetchOutcome::Records(from) = answer.outcome {
            let isolation = if committed {
                Isolation::Committed
            } else {
                Isolation::HighWatermark
            };
            self.log()?
                .read_into(from, max, true, isolation, &mut fetched)?;
        }
        let FetchAnswer {
            last_stable_offset,
            log_start_offset,
            ..
        } = answer;
        let records = print::fetched(&answer, bounds(&fetched));
        Ok(format!(
            "{records} lso={last_stable_offset} log_start={log_start_offset}"
        ))
    }

    pub(super) fn tick(&mut self) -> Answer {
        self.step(Input::Tick)?;
        Ok(format!(
            "{} hw={}",
            self.controller.proposed(),
            self.high_watermark()
        ))
    }

    pub(super) fn reply(&mut self, oldest: bool, reply: Reply) -> Answer {
        let proposal = self.controller.next(oldest).cloned();
        let proposal = proposal.ok_or(NOTHING_IN_FLIGHT)?;
        let result = match reply {
            Reply::Accepted(told) => Ok(accepted(&proposal, told)),
            Reply::Refused(error) => Err(error),
            Reply::RequestRefused(error) => {
                self.controller.refuse_request(self.now, error);
                return self.replied(&[]);
            }
        };
        let mut outputs = Vec::new();
        for input in self.controller.answer(self.now, &proposal, result) {
            outputs.extend(self.step(input)?);
        }
        self.controller.send(self.now);
        self.replied(&outputs)
    }

    fn replied(&self, outputs: &[Output]) -> Answer {
        let marked = |output: &Output| {
            let Output::Marked(marked) = output else {
                return None;
            };
            let name = match marked {
                Marked::IsrExpand => "expand",
                Marked::IsrShrink => "shrink",
                Marked::Failed => "failed",
            };
            Some(name.to_owned())
        };
        let marked: Vec<String> = outputs.iter().filter_map(marked).collect();
        let machine = self.machine()?;
        Ok(format!(
            "marked={} {} partition_epoch={} {} hw={}",
            join(&marked),
            print::members(machine.isr()),
            machine.partition_epoch().map_or(-1, |epoch| epoch.0),
            self.controller.proposed(),
            self.high_watermark()
        ))
    }

    pub(super) fn end_offset(&self, epoch: i32, current: Option<i32>) -> Answer {
        let found = self.ask(|machine, env| machine.end_offset_for(env, epoch, current))??;
        let end = found.map(|found| found.end_offset);
        let epoch = found.map(|found| found.epoch).filter(|epoch| *epoch >= 0);
        Ok(format!("epoch={} end={}", or_dash(epoch), or_dash(end)))
    }

    pub(super) fn offset_for(&self, question: OffsetFor) -> Answer {
        let OffsetFor {
            time,
            committed,
            leader_epoch,
            leader_only,
        } = question;
        let (spec, query) = match time {
            -1 => (OffsetSpec::Latest, TimeQuery::Latest),
            -2 => (OffsetSpec::Earliest, TimeQuery::Earliest),
            -3 => (OffsetSpec::ByTime, TimeQuery::MaxTimestamp),
            _ => {
                let at = Timestamp::from_millis(time);
                (OffsetSpec::ByTime, TimeQuery::AtOrAfter(at))
            }
        };
        let listed = self.ask(|machine, env| {
            let readable = committed.map(|committed| {
                if committed {
                    env.log.last_stable_offset
                } else {
                    env.log.high_watermark
                }
            });
            machine.list_offsets(env, spec, readable, leader_epoch, leader_only)
        })??;
        let offset = match listed {
            ListOffsets::Known(offset) => Some(offset),
            ListOffsets::Search { below, otherwise } => {
                let found = self.log()?.find_time(query)?.map(|found| found.offset);
                match (found.filter(|offset| *offset < below), otherwise) {
                    (None, Some(error)) => return Err(error.into()),
                    (found, _) => found,
                }
            }
        };
        Ok(format!("offset={}", or_dash(offset)))
    }

    pub(super) fn check_acks(&self, required: i64) -> Answer {
        // Below every high watermark zero means the same.
        let required = Offset::new(required).unwrap_or_default();
        let progress = self.ask(|machine, env| machine.check_acks(env, required))?;
        Ok(match progress {
            Progress::Waits => "done=false error=-".to_owned(),
            Progress::Done(Ok(())) => "done=true error=-".to_owned(),
            Progress::Done(Err(error)) => {
                let done = error == ErrorCode::NotEnoughReplicasAfterAppend;
                format!("done={done} error={error}")
            }
        })
    }

    pub(super) fn delete_records(&mut self, offset: i64) -> Answer {
        let (result, _) = self
            .with_replica(|replica, context, out| replica.delete_records(context, offset, out))?;
        result?;
        let low = self.ask(Partition::low_watermark)??;
        Ok(format!(
            "log_start={} low_watermark={} hw={}",
            self.log()?.log_start_offset(),
            low.map_or(-1, Offset::get),
            self.high_watermark()
        ))
    }

    /// One batch of the leader of that epoch comes to the log end, as a fetcher brings it.
    pub(super) fn follow(
        &self,
        records: Records,
        epoch: LeaderEpoch,
        high_watermark: Option<i64>,
    ) -> Answer {
        let log = self.follower_log()?;
        let batch = batch(records, log.log_end_offset(), self.now)?;
        let batch = batch.leader_epoch(epoch).finish().map_err(|_| UNKNOWN)?;
        log.append_as_follower(&batch, epoch, self.now, Durability::Written)?;
        if let Some(offset) = high_watermark {
            log.update_high_watermark(Offset::new(offset).unwrap_or_default());
        }
        Ok(ends(log))
    }

    pub(super) fn truncate(&self, target: i64) -> Answer {
        let log = self.follower_log()?;
        let target = Offset::new(target).ok_or(Refusal::INVALID_OFFSET)?;
        let options = TruncateOptions {
            below_high_watermark: true,
        };
        log.truncate_to(target, options, self.now)?;
        Ok(ends(log))
    }

    fn follower_log(&self) -> Result<&Arc<Log<OsDir>>, Refusal> {
        let log = self.log()?;
        if self.machine()?.is_leader() {
            return Err(LEADER);
        }
        Ok(log)
    }

    pub(super) fn state(&self) -> Answer {
        let machine = self.machine()?;
        let log = self.log().ok();
        let role = match log {
            None => "none",
            Some(_) if machine.is_leader() => "leader",
            Some(_) => "follower",
        };
        let low = self.ask(Partition::low_watermark)?.ok();
        let (under, at) =
            self.ask(|machine, env| (machine.is_under_min_isr(env), machine.is_at_min_isr(env)))?;
        Ok(format!(
            "role={role} leader={} leader_epoch={} partition_epoch={} epoch_start={} leo={} hw={} \
             log_start={} {} unanswered={} under_min_isr={under} at_min_isr={at} \
             low_watermark={} epochs={} replicas={}",
            or_dash(log.map(|_| print::leader(machine.leader()))),
            machine.leader_epoch().map_or(-1, LeaderEpoch::get),
            // Kafka's partition begins with epoch 0, before any registration.
            machine.partition_epoch().unwrap_or_default(),
            self.epoch_start()?,
            or_dash(log.map(|log| log.log_end_offset())),
            self.high_watermark(),
            or_dash(log.map(|log| log.log_start_offset())),
            print::members(machine.isr()),
            self.controller.unanswered(),
            or_dash(low.map(|low| low.map_or(-1, Offset::get))),
            log.map_or_else(|| "-".to_owned(), |log| print::epochs(&log.epochs())),
            self.replicas(print::in_short)?
        ))
    }

    pub(super) fn replicas(&self, print: fn(&ReplicaState) -> String) -> Answer {
        Ok(print::replicas(self.machine()?.replicas(), print))
    }
}

/// The controller's answer: what was sent, one partition epoch on, unless told otherwise.
fn accepted(proposal: &Proposal, told: Accepted) -> AlterPartitionAnswer {
    let sent = || proposal.isr.iter().map(|(id, _)| *id).collect();
    let next = proposal.partition_epoch.0.saturating_add(1);
    AlterPartitionAnswer {
        isr: told.isr.unwrap_or_else(sent),
        leader_epoch: told.leader_epoch.unwrap_or(proposal.leader_epoch.get()),
        partition_epoch: PartitionEpoch(told.partition_epoch.unwrap_or(next)),
        recovery: told.recovery,
    }
}

/// A batch of null keys, no headers, values of one letter each and one timestamp.
fn batch(records: Records, base: Offset, now: Timestamp) -> Result<BatchBuilder, Refusal> {
    let mut builder = BatchBuilder::new(Codec::None).base_offset(base);
    let size = usize::try_from(records.size).unwrap_or(usize::MAX);
    let mut value = vec![0; size];
    for (_, letter) in (0..records.count).zip((b'a'..=b'z').cycle()) {
        value.fill(letter);
        let pushed = builder.push(now.millis(), None, Some(&value), &[]);
        pushed.map_err(|_| UNKNOWN)?;
    }
    Ok(builder)
}

/// The first and the last offset of what was read, both inclusive.
fn bounds(fetched: &Fetched) -> Option<(i64, i64)> {
    let mut headers = fetched
        .batches()
        .map_while(Result::ok)
        .map(|batch| *batch.header());
    let first = headers.next()?;
    let last = headers.last().unwrap_or(first);
    Some((first.base_offset, last.last_offset))
}

fn ends(log: &Log<OsDir>) -> String {
    format!("leo={} hw={}", log.log_end_offset(), log.high_watermark())
}
