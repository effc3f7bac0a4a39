//! Appends: as the leader, who validates and stamps, and as a follower, who takes what the leader
//! wrote.
//!
//! Everything is validated before anything changes: a refused append leaves no epoch, no roll and
//! no byte. Kafka: `UnifiedLog.append`, where the order of effects differs (see `ARCHITECTURE.md`).

use crate::checkpoint::text::print_leader_epochs;
use crate::epoch::EpochCache;
use crate::error::{Error, ErrorKind, Result};
use crate::index::AbortedTransaction;
use crate::log::Log;
use crate::log::config::WatermarkPolicy;
use crate::log::replay::of_producer;
use crate::log::roll::Incoming;
use crate::log::segment::write_lock;
use crate::log::writer::Writer;
use crate::names::{FileType, LEADER_EPOCH_CHECKPOINT, segment_name};
use crate::producer::{Origin, ProducerBatch, ProducerError, ProducerUpdate};
use crate::record::{
    BatchHeader, Batches, DecodeError, EndTransactionMarker, InvalidAppend, Magic, Scratch,
    TimestampType, ValidatedAppend, stamp_append, validate_append,
};
use crate::storage::{Dir, Fenced, File, replace_file};
use crate::types::{LeaderEpoch, Offset, Position, Timestamp};

/// When an append returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// The bytes are with the operating system: they outlive the process, not a power cut.
    #[default]
    Written,
    /// The bytes are on the device. Appenders that wait at the same time share one sync.
    Synced,
}

/// What an append did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// The offset of the first record; `None` if nothing was taken.
    pub first_offset: Option<Offset>,
    /// The offset of the last record, inclusive; `None` if nothing was taken.
    pub last_offset: Option<Offset>,
    /// The largest timestamp of the records.
    pub max_timestamp: Timestamp,
    /// The log end behind them.
    pub log_end_offset: Offset,
    /// The batch is one of its producer's last five, and was not written again: the offsets are
    /// those of the first time, the timestamp is the one that it would have now.
    pub duplicate: bool,
}

/// The end of a producer's transaction, as its coordinator decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransaction {
    /// The producer.
    pub producer_id: i64,
    /// Its epoch. A higher one than is known fences what the producer sends with the known one.
    pub producer_epoch: i16,
    /// Commit or abort, and the epoch of the coordinator.
    pub marker: EndTransactionMarker,
}

impl<D: Dir> Log<D> {
    /// Appends the record batch of a client, as the leader of `epoch`.
    ///
    /// The batch is validated as Kafka validates a produce request, then offsets and epoch (and the
    /// timestamps, with `LogAppendTime`) are stamped into `batch` in place. `now` bounds the
    /// timestamps. Without one whole batch in `batch` nothing happens. A batch that its producer
    /// sent before and sends again is not written: see [`Appended::duplicate`]. On return the bytes
    /// are as durable as `durability` says; a new epoch is in its checkpoint, synced, before the
    /// first batch of it is written.
    ///
    /// # Errors
    /// `CorruptRecord`, `InvalidRecord`, `InvalidTimestamp`, `RecordTooLarge`,
    /// `RecordBatchTooLarge`, `UnsupportedCompression`, `Unsupported` (a batch of version 0 or 1),
    /// `FencedLeaderEpoch`, `OutOfOrderSequence`, `InvalidProducerEpoch` and `InvalidTxnState` (a
    /// batch outside of the transaction that its producer has open) have no effect. `NoSpace`
    /// neither: the log goes on when there is room. Any other failure to write or sync leaves the
    /// log `Offline` until it is opened again.
    pub fn append_as_leader(
        &self,
        batch: &mut [u8],
        epoch: LeaderEpoch,
        now: Timestamp,
        durability: Durability,
    ) -> Result<Appended> {
        let mut scratch = Scratch::default();
        let valid = validate_append(batch, &self.config.append_rules(), now, &mut scratch)
            .map_err(|error| self.refused(error))?;
        let mut writer = self.changing("append")?;
        let Some(valid) = valid else {
            return Ok(Appended::nothing(self.log_end_offset()));
        };
        let batch = batch.get_mut(..valid.bytes).unwrap_or_default();
        let leader = Leader {
            origin: Origin::Client,
            marker: None,
            epoch,
            now,
        };
        let appended = self.append_validated(&mut writer, batch, &valid, leader)?;
        drop(writer);
        self.finish_append(appended, durability)
    }

    /// Appends the marker that ends a transaction, as the leader of `epoch` on behalf of the
    /// transaction coordinator. Kafka: `WriteTxnMarkers`, transaction versions 0 and 1.
    ///
    /// The batch gets `now` as its timestamp. Without an open transaction the marker is written all
    /// the same, and takes the producer to its epoch. The records of an aborted transaction stay in
    /// the log; [`Log::aborted_transactions`] names them. On return the bytes are as durable as
    /// `durability` says.
    ///
    /// # Errors
    /// `InvalidProducerEpoch` for an epoch below the producer's, `TransactionCoordinatorFenced` for
    /// a coordinator epoch below the one that wrote last, and `FencedLeaderEpoch`,
    /// `RecordTooLarge`, `RecordBatchTooLarge` have no effect. Failures to write or sync are those
    /// of [`Log::append_as_leader`].
    pub fn append_end_transaction(
        &self,
        end: EndTransaction,
        epoch: LeaderEpoch,
        now: Timestamp,
        durability: Durability,
    ) -> Result<Appended> {
        let built = end.marker.to_batch(
            Offset::ZERO,
            Some(epoch),
            now.millis(),
            end.producer_id,
            end.producer_epoch,
        );
        let mut batch = built.map_err(|error| self.invalid("append a marker").caused_by(error))?;
        let valid = self.valid_marker(&batch)?;
        let mut writer = self.changing("append")?;
        let leader = Leader {
            origin: Origin::Coordinator,
            marker: Some(end.marker),
            epoch,
            now,
        };
        let appended = self.append_validated(&mut writer, &mut batch, &valid, leader)?;
        drop(writer);
        self.finish_append(appended, durability)
    }

    /// What [`validate_append`] would say of a marker, were it a client's to bring.
    fn valid_marker(&self, batch: &[u8]) -> Result<ValidatedAppend> {
        let header = BatchHeader::parse(batch).map_err(|error| self.corrupt(error))?;
        let rules = self.config.append_rules();
        if header.bytes > rules.max_message_bytes {
            let (bytes, limit) = (header.bytes.into(), rules.max_message_bytes.into());
            return Err(self.refused(InvalidAppend::RecordTooLarge { bytes, limit }));
        }
        Ok(ValidatedAppend {
            bytes: batch.len(),
            record_count: 1,
            last_offset_delta: 0,
            max_timestamp: header.max_timestamp,
            timestamp_type: rules.timestamp_type,
            needs_timestamp_restamp: rules.timestamp_type == TimestampType::LogAppendTime,
            header,
        })
    }

    /// Appends one batch that was found valid, as a leader; nothing changes if it is refused or a
    /// duplicate.
    fn append_validated(
        &self,
        writer: &mut Writer<Fenced<D>>,
        batch: &mut [u8],
        valid: &ValidatedAppend,
        leader: Leader,
    ) -> Result<Appended> {
        let log_end = self.log_end_offset();
        let Leader { epoch, now, .. } = leader;
        let epochs = self.epochs_after(writer, [(Some(epoch), log_end)])?;
        self.check_append_size(valid.bytes)?;
        let last_offset = log_end
            .checked_add(i64::from(valid.last_offset_delta))
            .filter(|last| *last < Offset::MAX)
            .ok_or_else(|| self.invalid("append past the largest offset"))?;
        let header = BatchHeader {
            base_offset: log_end.get(),
            last_offset: last_offset.get(),
            leader_epoch: epoch.get(),
            max_timestamp: valid.max_timestamp,
            ..valid.header
        };
        let mut update = ProducerUpdate::default();
        if let Some(produced) = of_producer(&header, leader.marker) {
            let producers = &writer.producers.state;
            if leader.origin == Origin::Client
                && let Some(known) = producers.duplicate(&produced)
            {
                return Ok(Appended {
                    first_offset: Some(known.first_offset()),
                    last_offset: Some(known.last_offset),
                    max_timestamp: Timestamp::from_millis(header.max_timestamp),
                    log_end_offset: known.last_offset.next(),
                    duplicate: true,
                });
            }
            update = producers
                .check(leader.origin, [produced])
                .map_err(|error| self.fenced_producer(error))?;
        }
        stamp_append(batch, valid, log_end, epoch, now);
        let incoming = Incoming {
            bytes: u64::from(header.bytes),
            first_offset: Some(log_end),
            last_offset,
            max_timestamp: header.max_timestamp,
        };
        let changes = Changes { epochs, update };
        self.write_batches(writer, batch, &[header], incoming, changes, now)?;
        Ok(Appended {
            first_offset: Some(log_end),
            last_offset: Some(last_offset),
            max_timestamp: Timestamp::from_millis(header.max_timestamp),
            log_end_offset: last_offset.next(),
            duplicate: false,
        })
    }

    /// Appends batches that a leader sent, with the offsets and epochs that they have.
    ///
    /// `fetch_epoch` is the leader epoch of the fetch: from the first batch of a newer epoch on
    /// nothing is taken. Gaps are accepted, offsets below the log end are not. A torn batch at the
    /// end is left out.
    ///
    /// # Errors
    /// As for [`Log::append_as_leader`], and `OffsetsOutOfOrder`, `UnexpectedAppendOffset`, and
    /// `InvalidRecord` for a batch without a leader epoch; none of them has an effect. Sequence
    /// numbers and epochs of producers are not checked: the state follows what the leader took.
    pub fn append_as_follower(
        &self,
        batches: &[u8],
        fetch_epoch: LeaderEpoch,
        now: Timestamp,
        durability: Durability,
    ) -> Result<Appended> {
        let fetched = self.check_fetched(batches, fetch_epoch)?;
        let mut writer = self.changing("append")?;
        let log_end = self.log_end_offset();
        let (Some(first), Some(last)) = (fetched.headers.first(), fetched.headers.last()) else {
            return Ok(Appended::nothing(log_end));
        };
        let first_offset = offset_of(first.base_offset);
        let last_offset = offset_of(last.last_offset);
        if first_offset < log_end {
            return Err(Error::new(
                ErrorKind::UnexpectedAppendOffset,
                format!(
                    "append batch [{first_offset}, {}] below the log end",
                    first.last_offset
                ),
            )
            .at_path(self.path())
            .at_offset(log_end)
            .next_step("fetch from the log end, or truncate first"));
        }
        let mut assigned = Vec::with_capacity(fetched.headers.len());
        for header in &fetched.headers {
            let epoch = LeaderEpoch::new(header.leader_epoch);
            if epoch.is_none() && header.magic == Magic::V2 {
                return Err(self.invalid("append a batch without a leader epoch"));
            }
            assigned.push((epoch, offset_of(header.base_offset)));
        }
        let epochs = self.epochs_after(&writer, assigned)?;
        self.check_append_size(fetched.bytes)?;
        let update = writer
            .producers
            .state
            .check(Origin::Leader, fetched.of_producers())
            .map_err(|error| self.fenced_producer(error))?;
        let max_timestamp = fetched
            .headers
            .iter()
            .map(|h| h.max_timestamp)
            .max()
            .unwrap_or(-1);
        let incoming = Incoming {
            bytes: u64::try_from(fetched.bytes).unwrap_or(u64::MAX),
            first_offset: (first.magic == Magic::V2).then_some(first_offset),
            last_offset,
            max_timestamp,
        };
        let bytes = batches.get(..fetched.bytes).unwrap_or_default();
        let changes = Changes { epochs, update };
        self.write_batches(&mut writer, bytes, &fetched.headers, incoming, changes, now)?;
        drop(writer);
        let appended = Appended {
            first_offset: Some(first_offset),
            last_offset: Some(last_offset),
            max_timestamp: Timestamp::from_millis(max_timestamp),
            log_end_offset: last_offset.next(),
            duplicate: false,
        };
        self.finish_append(appended, durability)
    }

    /// Records that a leader of `epoch` starts at the log end, before it appends anything. Durable
    /// on return.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` if the log knows a later epoch.
    pub fn assign_epoch(&self, epoch: LeaderEpoch) -> Result<()> {
        let mut writer = self.changing("assign leader epoch")?;
        let assigned = [(Some(epoch), self.log_end_offset())];
        if let Some(epochs) = self.epochs_after(&writer, assigned)? {
            self.store_epochs(&mut writer, epochs)?;
        }
        Ok(())
    }

    fn finish_append(&self, appended: Appended, durability: Durability) -> Result<Appended> {
        if durability == Durability::Synced {
            self.sync_to(appended.log_end_offset)?;
        }
        Ok(appended)
    }

    /// The batches of a fetch that may be taken, checked one by one.
    fn check_fetched(&self, batches: &[u8], fetch_epoch: LeaderEpoch) -> Result<Fetched> {
        let mut fetched = Fetched::default();
        let mut scratch = Scratch::default();
        let mut previous: Option<i64> = None;
        for batch in Batches::new(batches) {
            let batch = match batch {
                Ok(batch) => batch,
                Err(DecodeError::TooShort { .. }) => break,
                Err(error) => return Err(self.corrupt(error)),
            };
            let header = *batch.header();
            if header.leader_epoch > fetch_epoch.get() {
                break;
            }
            if previous.is_some_and(|last| header.base_offset <= last) {
                return Err(Error::new(ErrorKind::OffsetsOutOfOrder, "append batches")
                    .at_path(self.path())
                    .at_offset(offset_of(header.base_offset))
                    .next_step("fetch them again"));
            }
            batch.verify().map_err(|error| self.corrupt(error))?;
            if header.has_producer_id() && header.is_control() {
                let marker = batch.end_transaction_marker(&mut scratch);
                let marker = marker.map_err(|error| self.corrupt(error))?;
                fetched.markers.push((fetched.headers.len(), marker));
            }
            previous = Some(header.last_offset);
            fetched.headers.push(header);
            fetched.bytes = fetched.bytes.saturating_add(batch.bytes().len());
        }
        Ok(fetched)
    }

    /// The epochs after these batches, `None` if they stay as they are. An epoch never goes back.
    fn epochs_after(
        &self,
        writer: &Writer<Fenced<D>>,
        assigned: impl IntoIterator<Item = (Option<LeaderEpoch>, Offset)>,
    ) -> Result<Option<EpochCache>> {
        let mut next: Option<EpochCache> = None;
        for (epoch, start) in assigned {
            let current = next.as_ref().unwrap_or(&writer.epochs);
            let Some(epoch) = epoch else {
                // A batch of an old format has no epoch: what was known before says nothing about
                // it.
                if !current.is_empty() {
                    next = Some(EpochCache::new());
                }
                continue;
            };
            match current.latest() {
                Some(latest) if epoch < latest.epoch => {
                    return Err(Error::new(
                        ErrorKind::FencedLeaderEpoch,
                        format!("leader epoch {epoch} is below the latest, {}", latest.epoch),
                    )
                    .at_path(self.path())
                    .next_step("find out who leads the partition"));
                }
                Some(latest) if epoch == latest.epoch => {}
                _ => {
                    next.get_or_insert_with(|| writer.epochs.clone())
                        .assign(epoch, start);
                }
            }
        }
        Ok(next)
    }

    fn store_epochs(&self, writer: &mut Writer<Fenced<D>>, epochs: EpochCache) -> Result<()> {
        self.write_epoch_file(&epochs)?;
        self.publish_epochs(&epochs);
        writer.epochs = epochs;
        Ok(())
    }

    pub(crate) fn write_epoch_file(&self, epochs: &EpochCache) -> Result<()> {
        let text = print_leader_epochs(epochs.entries());
        replace_file(&self.dir, LEADER_EPOCH_CHECKPOINT, text.as_bytes()).map_err(|e| {
            Error::io(
                "write leader epochs",
                &self.path().join(LEADER_EPOCH_CHECKPOINT),
                e,
            )
        })
    }

    fn write_batches(
        &self,
        writer: &mut Writer<Fenced<D>>,
        bytes: &[u8],
        headers: &[BatchHeader],
        incoming: Incoming,
        changes: Changes,
        now: Timestamp,
    ) -> Result<()> {
        if let Some(base) = self.roll_due(writer, &incoming, now) {
            self.roll_to(writer, base, now)?;
        }
        let Changes { epochs, update } = changes;
        if let Some(epochs) = epochs {
            self.store_epochs(writer, epochs)?;
        }
        let active = &mut writer.active;
        active.reserve_for(incoming.bytes, self.config.segment_bytes);
        let position = active.bytes;
        if let Err(error) = active.live.log.write_all_at(bytes, position) {
            self.take_back(&active.live.log, position);
            active.reserved = position;
            let name = segment_name(active.base, FileType::Log);
            return Err(Error::io("append", &self.path().join(name), error)
                .at_position(Position::new(position))
                .at_offset(self.log_end_offset())
                .next_step("make room, or open the log again if it is offline"));
        }
        active.note(headers, self.config.index_interval_bytes);
        let log_end = incoming.last_offset.next();
        writer.producers.state.apply(&update);
        writer.producers.advance(log_end);
        let active = &writer.active;
        let (active_bytes, active_largest) = (active.bytes, active.tally.largest);
        self.publish_with(|view, transactions| {
            for (first, producer) in update.started() {
                transactions.start(*first, *producer);
            }
            for completed in update.completed() {
                let last_stable_offset = transactions.end(completed);
                if completed.aborted {
                    write_lock(&active.live.aborted).push(AbortedTransaction {
                        producer_id: completed.producer_id,
                        first_offset: completed.first_offset,
                        last_offset: completed.last_offset,
                        last_stable_offset,
                    });
                }
            }
            view.log_end = log_end;
            view.batches_end = log_end;
            view.active_bytes = active_bytes;
            view.active_largest = active_largest;
            if self.config.watermark_policy == WatermarkPolicy::LogEnd {
                view.high_watermark = log_end;
            }
        });
        Ok(())
    }

    /// Cuts off what a failed write may have left behind the log end; the log is fenced if it
    /// can't.
    fn take_back(&self, log: &<Fenced<D> as Dir>::File, position: u64) {
        if self.dir.is_fenced() {
            return;
        }
        if self.config.preallocate || log.set_len(position).is_err() {
            self.dir
                .fence("bytes of a failed append could not be taken back");
        }
    }

    fn check_append_size(&self, bytes: usize) -> Result<()> {
        if u64::try_from(bytes).unwrap_or(u64::MAX) > u64::from(self.config.segment_bytes) {
            return Err(Error::new(
                ErrorKind::RecordBatchTooLarge,
                format!(
                    "append {bytes} bytes to segments of {}",
                    self.config.segment_bytes
                ),
            )
            .at_path(self.path())
            .next_step("append less at once, or raise segment.bytes"));
        }
        Ok(())
    }

    fn refused(&self, error: InvalidAppend) -> Error {
        let (kind, next_step) = match error {
            InvalidAppend::CorruptRecord(_) => (ErrorKind::CorruptRecord, "send it again"),
            InvalidAppend::InvalidRecord(_) | InvalidAppend::UndecodableRecord(_) => {
                (ErrorKind::InvalidRecord, "mend the producer")
            }
            InvalidAppend::InvalidTimestamp { .. } => (
                ErrorKind::InvalidTimestamp,
                "mend the clock, or widen message.timestamp.*.max.ms",
            ),
            InvalidAppend::RecordTooLarge { .. } => (
                ErrorKind::RecordTooLarge,
                "make smaller batches, or raise max.message.bytes",
            ),
            InvalidAppend::UnsupportedCompression(_) => (
                ErrorKind::UnsupportedCompression,
                "use none, gzip, snappy, lz4 or zstd",
            ),
            InvalidAppend::UnsupportedMagic(_) => {
                (ErrorKind::Unsupported, "produce batches of version 2")
            }
        };
        Error::new(kind, "append")
            .at_path(self.path())
            .caused_by(error)
            .next_step(next_step)
    }

    fn fenced_producer(&self, error: ProducerError) -> Error {
        let (kind, next_step) = match error {
            ProducerError::OutOfOrderSequence { .. } => (
                ErrorKind::OutOfOrderSequence,
                "send the batches of a producer in order, without a gap",
            ),
            ProducerError::InvalidProducerEpoch { .. } => (
                ErrorKind::InvalidProducerEpoch,
                "a later instance of the producer took over: stop this one",
            ),
            ProducerError::InvalidTransactionState { .. } => (
                ErrorKind::InvalidTxnState,
                "end the transaction first, or mark the batch as part of it",
            ),
            ProducerError::CoordinatorFenced { .. } => (
                ErrorKind::TransactionCoordinatorFenced,
                "a later coordinator took over: ask it",
            ),
        };
        Error::new(kind, "append")
            .at_path(self.path())
            .caused_by(error)
            .next_step(next_step)
    }

    fn corrupt(&self, error: DecodeError) -> Error {
        Error::new(ErrorKind::CorruptRecord, "append")
            .at_path(self.path())
            .caused_by(error)
    }

    fn invalid(&self, doing: &str) -> Error {
        Error::new(ErrorKind::InvalidRecord, doing).at_path(self.path())
    }
}

impl Appended {
    fn nothing(log_end_offset: Offset) -> Self {
        Self {
            first_offset: None,
            last_offset: None,
            max_timestamp: Timestamp::NONE,
            log_end_offset,
            duplicate: false,
        }
    }
}

/// Who appends as a leader, and when.
#[derive(Clone, Copy, Debug)]
struct Leader {
    origin: Origin,
    marker: Option<EndTransactionMarker>,
    epoch: LeaderEpoch,
    now: Timestamp,
}

/// What an append changes beside the batches.
struct Changes {
    /// `None` if they stay as they are.
    epochs: Option<EpochCache>,
    update: ProducerUpdate,
}

/// The batches of a fetch that may be taken.
#[derive(Default)]
struct Fetched {
    headers: Vec<BatchHeader>,
    /// The markers of control batches by their number, rising.
    markers: Vec<(usize, Option<EndTransactionMarker>)>,
    bytes: usize,
}

impl Fetched {
    fn of_producers(&self) -> impl Iterator<Item = ProducerBatch> {
        let mut markers = self.markers.iter().peekable();
        let batches = self.headers.iter().enumerate();
        batches.filter_map(move |(at, header)| {
            let marker = markers.next_if(|(of, _)| *of == at);
            of_producer(header, marker.and_then(|(_, marker)| *marker))
        })
    }
}

/// The offset of a parsed header; the parser lets no negative one through.
fn offset_of(raw: i64) -> Offset {
    Offset::new(raw).unwrap_or(Offset::ZERO)
}
