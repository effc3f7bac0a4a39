//! One partition of a broker: the replication machine and the log that it speaks of.
//!
//! [`Replica`] carries out on a [`Log`] what [`Partition`] says, tells it what came of it, and
//! hands on what is for others: answers, proposals, wake-ups. It knows no network and starts no
//! thread.
//!
//! 1. Outputs for the log are carried out in their order, before the next input.
//! 2. What the log refuses is told to the machine; if it has failed, the machine is told that.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::epoch::EpochCache;
use crate::error::{Error, ErrorKind};
use crate::log::{Appended, Durability, Fetched, Isolation, Log};
use crate::replication::brokers::Brokers;
use crate::replication::leader::{
    Acks, AppendedRange, Config, DeleteWaiter, Env, FetchAnswer, FetchOutcome, FetchRequest, Input,
    LogState, Output, Partition, Produced,
};
use crate::replication::message::{BrokerId, Compatibility, ErrorCode, RequestId};
use crate::storage::{Dir, OsDir};
use crate::types::{Offset, Timestamp};

/// What a broker knows when it drives a replica.
#[derive(Clone, Copy, Debug)]
pub struct Context<'c> {
    /// The time.
    pub now: Timestamp,
    /// The brokers, as its metadata has them.
    pub brokers: &'c Brokers,
    /// The settings of the partition.
    pub config: Config,
}

/// One partition on this broker.
#[derive(Debug)]
pub struct Replica<D: Dir = OsDir> {
    machine: Partition,
    log: Arc<Log<D>>,
    next_request: u64,
    /// Empty between two calls; kept for its memory.
    out: Vec<Output>,
}

impl<D: Dir> Replica<D> {
    /// Puts the machine of a partition of which no metadata has told on top of its log.
    pub const fn new(local: BrokerId, log: Arc<Log<D>>) -> Self {
        Self {
            machine: Partition::new(local),
            log,
            next_request: 0,
            out: Vec::new(),
        }
    }

    /// The machine, for questions.
    pub const fn machine(&self) -> &Partition {
        &self.machine
    }

    /// The log.
    pub const fn log(&self) -> &Arc<Log<D>> {
        &self.log
    }

    /// Asks the machine something that needs to see the log.
    pub fn ask<T>(
        &self,
        context: &Context<'_>,
        question: impl FnOnce(&Partition, &Env<'_>) -> T,
    ) -> T {
        let epochs = EpochCache::from_entries(self.log.epochs());
        question(&self.machine, &self.env(context, &epochs))
    }

    /// Carries out one input with all that follows from it. What is for others is appended to
    /// `done`, in its order.
    ///
    /// # Errors
    /// What the log failed with, where no producer or client is told. The partition is offline
    /// then.
    pub fn handle(
        &mut self,
        context: &Context<'_>,
        input: Input,
        done: &mut Vec<Output>,
    ) -> Result<(), Error> {
        self.drive(context, input, &mut [], done)
    }

    /// Appends the batch of a producer. The first value is what the producer is told, or what it
    /// waits for; what is for others is appended to `done`.
    ///
    /// # Errors
    /// As for [`Replica::handle`].
    pub fn append(
        &mut self,
        context: &Context<'_>,
        batch: &mut [u8],
        acks: Acks,
        done: &mut Vec<Output>,
    ) -> Result<Result<Produced, ErrorCode>, Error> {
        let from = done.len();
        let request = self.request();
        self.drive(context, Input::Append { request, acks }, batch, done)?;
        Ok(take(done, from, |output| {
            let Output::Produced {
                request: of,
                result,
            } = output
            else {
                return None;
            };
            (*of == request).then_some(*result)
        }))
    }

    /// Answers and counts the fetch of a follower, and reads its records into `fetched`: whole
    /// batches, the first one however long it is. The id of the request is replaced.
    ///
    /// # Errors
    /// As for [`Replica::handle`], and what reading failed with.
    pub fn fetch(
        &mut self,
        context: &Context<'_>,
        request: FetchRequest,
        max_bytes: usize,
        fetched: &mut Fetched,
        done: &mut Vec<Output>,
    ) -> Result<Result<FetchAnswer, ErrorCode>, Error> {
        let from = done.len();
        let id = self.request();
        let batch_base = match context.config.compatibility {
            Compatibility::Kafka => self.batch_base(request.offset)?,
            Compatibility::Highwater => None,
        };
        let request = FetchRequest {
            request: id,
            batch_base,
            ..request
        };
        self.drive(context, Input::Fetch(request), &mut [], done)?;
        let result = take(done, from, |output| {
            let Output::Fetched {
                request: of,
                result,
            } = output
            else {
                return None;
            };
            (*of == id).then_some(*result)
        });
        if let Ok(FetchAnswer {
            outcome: FetchOutcome::Records(from),
            ..
        }) = result
        {
            let bound = Isolation::LogEnd;
            self.log.read_into(from, max_bytes, true, bound, fetched)?;
        }
        Ok(result)
    }

    /// Raises the log start for a client; -1 is the high watermark. The first value is what the
    /// client waits for.
    ///
    /// # Errors
    /// As for [`Replica::handle`].
    pub fn delete_records(
        &mut self,
        context: &Context<'_>,
        offset: i64,
        done: &mut Vec<Output>,
    ) -> Result<Result<DeleteWaiter, ErrorCode>, Error> {
        let from = done.len();
        let request = self.request();
        self.drive(
            context,
            Input::DeleteRecords { request, offset },
            &mut [],
            done,
        )?;
        Ok(take(done, from, |output| {
            let Output::Deleted {
                request: of,
                result,
            } = output
            else {
                return None;
            };
            (*of == request).then_some(*result)
        }))
    }

    /// A number for the next request.
    pub const fn request(&mut self) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request = self.next_request.wrapping_add(1);
        id
    }

    fn drive(
        &mut self,
        context: &Context<'_>,
        input: Input,
        batch: &mut [u8],
        done: &mut Vec<Output>,
    ) -> Result<(), Error> {
        let mut waiting = VecDeque::from([input]);
        while let Some(input) = waiting.pop_front() {
            let epochs = EpochCache::from_entries(self.log.epochs());
            let mut out = std::mem::take(&mut self.out);
            let env = self.env(context, &epochs);
            self.machine.handle(context.now, &env, input, &mut out);
            let carried_out = out.drain(..).try_for_each(|output| {
                waiting.extend(self.carry_out(context.now, output, batch, done)?);
                Ok(())
            });
            self.out = out;
            if let Err(error) = carried_out {
                let epochs = EpochCache::from_entries(self.log.epochs());
                let env = self.env(context, &epochs);
                self.machine
                    .handle(context.now, &env, Input::StorageFailed, done);
                return Err(error);
            }
        }
        Ok(())
    }

    /// Does what an output asks of the log; what came of it are the next inputs. All other outputs
    /// are handed on.
    fn carry_out(
        &self,
        now: Timestamp,
        output: Output,
        batch: &mut [u8],
        done: &mut Vec<Output>,
    ) -> Result<Vec<Input>, Error> {
        let log = &self.log;
        match output {
            Output::AssignEpoch(epoch) => log.assign_epoch(epoch)?,
            Output::RaiseHighWatermark(to) => {
                log.maybe_increment_high_watermark(to)?;
            }
            Output::Append { request, epoch } => {
                let appended = log.append_as_leader(batch, epoch, now, Durability::Written);
                let failed = appended.as_ref().is_err_and(is_fatal);
                let result = appended.map_err(|e| error_code(&e)).and_then(range);
                return Ok(inputs(Input::Appended { request, result }, failed));
            }
            Output::RaiseLogStart { request, to } => {
                let raised = log.delete_records(to);
                let failed = raised.as_ref().is_err_and(is_fatal);
                let result = raised.map_err(|e| error_code(&e)).map(drop);
                return Ok(inputs(Input::LogStartRaised { request, result }, failed));
            }
            Output::Propose(_)
            | Output::Withdraw(_)
            | Output::Applied(_)
            | Output::Fetched { .. }
            | Output::Produced { .. }
            | Output::Deleted { .. }
            | Output::TickAt(_)
            | Output::Wake(_)
            | Output::Marked(_) => done.push(output),
        }
        Ok(Vec::new())
    }

    fn env<'e>(&self, context: &Context<'e>, epochs: &'e EpochCache) -> Env<'e> {
        Env {
            log: LogState {
                log_start_offset: self.log.log_start_offset(),
                log_end_offset: self.log.log_end_offset(),
                high_watermark: self.log.high_watermark(),
                last_stable_offset: self.log.last_stable_offset(),
                epochs,
            },
            brokers: context.brokers,
            config: context.config,
        }
    }

    /// The base offset of the batch that holds `offset`.
    fn batch_base(&self, offset: i64) -> Result<Option<Offset>, Error> {
        let inside =
            |at: &Offset| (self.log.log_start_offset()..self.log.log_end_offset()).contains(at);
        let Some(offset) = Offset::new(offset).filter(inside) else {
            return Ok(None);
        };
        let fetched = self.log.read(offset, 1, Isolation::LogEnd)?;
        let first = fetched.batches().next().and_then(Result::ok);
        Ok(first.and_then(|batch| Offset::new(batch.header().base_offset)))
    }
}

fn range(appended: Appended) -> Result<AppendedRange, ErrorCode> {
    let offsets = appended.first_offset.zip(appended.last_offset);
    let (first_offset, last_offset) = offsets.ok_or(ErrorCode::InvalidRecord)?;
    Ok(AppendedRange {
        first_offset,
        last_offset,
    })
}

/// Whether the log answers nothing more until it is opened again. A full disk is none of that.
fn is_fatal(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Offline | ErrorKind::Io)
}

/// The answer, and that the log has failed for good, if it has.
fn inputs(answer: Input, failed: bool) -> Vec<Input> {
    let failed = failed.then_some(Input::StorageFailed);
    [answer].into_iter().chain(failed).collect()
}

/// Takes the answer to a request out of the outputs behind `from`.
fn take<T>(
    done: &mut Vec<Output>,
    from: usize,
    answer: impl Fn(&Output) -> Option<Result<T, ErrorCode>>,
) -> Result<T, ErrorCode> {
    let mut tail = done.iter().enumerate().skip(from);
    let found = tail.find_map(|(at, output)| Some((at, answer(output)?)));
    let Some((at, result)) = found else {
        return Err(ErrorCode::UnknownServerError);
    };
    done.remove(at);
    result
}

/// What a client is told when its log refuses something.
#[must_use]
pub fn error_code(error: &Error) -> ErrorCode {
    match error.kind() {
        ErrorKind::OffsetOutOfRange => ErrorCode::OffsetOutOfRange,
        ErrorKind::CorruptRecord => ErrorCode::CorruptMessage,
        ErrorKind::InvalidRecord => ErrorCode::InvalidRecord,
        ErrorKind::InvalidTimestamp => ErrorCode::InvalidTimestamp,
        ErrorKind::RecordTooLarge => ErrorCode::MessageTooLarge,
        ErrorKind::RecordBatchTooLarge => ErrorCode::RecordListTooLarge,
        ErrorKind::UnsupportedCompression => ErrorCode::UnsupportedCompressionType,
        ErrorKind::OutOfOrderSequence => ErrorCode::OutOfOrderSequenceNumber,
        ErrorKind::InvalidProducerEpoch => ErrorCode::InvalidProducerEpoch,
        ErrorKind::InvalidTxnState => ErrorCode::InvalidTxnState,
        ErrorKind::TransactionCoordinatorFenced => ErrorCode::TransactionCoordinatorFenced,
        ErrorKind::FencedLeaderEpoch => ErrorCode::FencedLeaderEpoch,
        ErrorKind::InvalidArgument => ErrorCode::InvalidRequest,
        ErrorKind::Unsupported => ErrorCode::UnsupportedForMessageFormat,
        ErrorKind::Closed
        | ErrorKind::Damaged
        | ErrorKind::Locked
        | ErrorKind::Offline
        | ErrorKind::NotFound
        | ErrorKind::Corrupt
        | ErrorKind::NoSpace
        | ErrorKind::Io => ErrorCode::KafkaStorageError,
        ErrorKind::OffsetsOutOfOrder | ErrorKind::UnexpectedAppendOffset => {
            ErrorCode::UnknownServerError
        }
    }
}
