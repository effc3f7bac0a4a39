//! Carries out the commands of a scenario on one log.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files;
use super::parse::{Command, OnFiles};
use crate::epoch::EpochEntry;
use crate::error::{Error, ErrorKind};
use crate::log::{
    Appended, Durability, EndTransaction, Fetched, Isolation, Log, LogConfig, TimeQuery,
    TruncateOptions,
};
use crate::log_dir::{DirOptions, LogDir};
use crate::names::{CLEAN_SHUTDOWN, FileType, TopicPartition, segment_name};
use crate::record::{Batch, Batches, Codec, Scratch, crc32_ieee};
use crate::storage::{Access, Dir, File, OsDir};
use crate::types::{LeaderEpoch, Offset, Timestamp};

/// The kind of an answer `error KIND`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal(pub(super) &'static str);

impl Refusal {
    pub(super) const INVALID_OFFSET: Self = Self("InvalidOffset");
    pub(super) const NO_SUCH_FILE: Self = Self("NoSuchFile");
    const CLOSED: Self = Self("Closed");
    const OPEN: Self = Self("Open");
    const INVALID_RECORD: Self = Self("InvalidRecord");
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        Self(match error.kind() {
            ErrorKind::OffsetOutOfRange => "OffsetOutOfRange",
            ErrorKind::CorruptRecord => "CorruptRecord",
            ErrorKind::InvalidRecord => "InvalidRecord",
            ErrorKind::InvalidTimestamp => "InvalidTimestamp",
            ErrorKind::RecordTooLarge => "RecordTooLarge",
            ErrorKind::RecordBatchTooLarge => "RecordBatchTooLarge",
            ErrorKind::UnsupportedCompression => "UnsupportedCompression",
            ErrorKind::OffsetsOutOfOrder => "OffsetsOutOfOrder",
            ErrorKind::UnexpectedAppendOffset => "UnexpectedAppendOffset",
            ErrorKind::OutOfOrderSequence => "OutOfOrderSequence",
            ErrorKind::InvalidProducerEpoch => "InvalidProducerEpoch",
            ErrorKind::InvalidTxnState => "InvalidTxnState",
            ErrorKind::TransactionCoordinatorFenced => "TransactionCoordinatorFenced",
            ErrorKind::FencedLeaderEpoch => "FencedLeaderEpoch",
            ErrorKind::InvalidArgument => "InvalidOffset",
            ErrorKind::Closed => "Closed",
            ErrorKind::Damaged => "Damaged",
            ErrorKind::Unsupported => "Unsupported",
            // What no scenario can bring about on a healthy machine.
            ErrorKind::Locked
            | ErrorKind::Offline
            | ErrorKind::NotFound
            | ErrorKind::Corrupt
            | ErrorKind::NoSpace
            | ErrorKind::Io => "Unknown",
        })
    }
}

pub(super) type Answer = Result<String, Refusal>;

/// An answer as its line ends: `ok ...` or `error KIND`.
pub(super) fn print_answer(answer: Answer) -> String {
    match answer {
        Ok(result) if result.is_empty() => "ok".to_owned(),
        Ok(result) => format!("ok {result}"),
        Err(Refusal(kind)) => format!("error {kind}"),
    }
}

/// An open log with its data directory.
struct Opened {
    dir: LogDir<OsDir>,
    log: Arc<Log<OsDir>>,
}

/// The state of a scenario between two commands.
pub(super) struct Engine {
    data: PathBuf,
    now: Timestamp,
    config: LogConfig,
    /// Whether the log was opened once: before, every command but a few opens it.
    begun: bool,
    opened: Option<Opened>,
}

impl Engine {
    pub(super) fn new(data: &Path) -> Self {
        Self {
            data: data.to_path_buf(),
            now: super::START,
            config: LogConfig::default(),
            begun: false,
            opened: None,
        }
    }

    /// The result of one command: `ok ...` or `error KIND`.
    pub(super) fn execute(&mut self, command: Command) -> String {
        print_answer(self.dispatch(command))
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what is not about the clock, the files or the life of the log goes on to the log"
    )]
    fn dispatch(&mut self, command: Command) -> Answer {
        match command {
            Command::Time(now) => {
                self.now = now;
                return Ok(String::new());
            }
            Command::Config(settings) => return self.configure(&settings),
            Command::Open => return self.open(),
            _ => {}
        }
        if !self.begun {
            self.open()?;
        }
        match command {
            Command::OnFiles(command) => self.on_files(&command),
            Command::Close => {
                let opened = self.opened.take().ok_or(Refusal::CLOSED)?;
                opened.dir.close()?;
                Ok(String::new())
            }
            Command::Kill => match self.opened.take() {
                Some(opened) => {
                    drop(opened);
                    Ok(String::new())
                }
                None => Err(Refusal::CLOSED),
            },
            command => {
                let opened = self.opened.as_ref().ok_or(Refusal::CLOSED)?;
                OnLog {
                    log: &opened.log,
                    now: self.now,
                }
                .run(command)
            }
        }
    }

    fn configure(&mut self, settings: &[(String, String)]) -> Answer {
        if self.opened.is_some() {
            return Err(Refusal::OPEN);
        }
        for (key, value) in settings {
            self.config.set(key, value)?;
        }
        Ok(String::new())
    }

    fn open(&mut self) -> Answer {
        if self.opened.is_some() {
            return Err(Refusal::OPEN);
        }
        self.begun = true;
        let failed = |e| Error::io("open data directory", &self.data, e);
        let data = OsDir::open(&self.data)
            .or_else(|_| OsDir::create(&self.data))
            .map_err(failed)?;
        let partition = partition();
        let fresh = data.subdir(&partition.to_string()).is_err();
        let clean = fresh || data.open(CLEAN_SHUTDOWN, Access::Read).is_ok();
        let options = DirOptions::new(self.now)
            .config(self.config.clone().following_kafka())
            .only(partition.clone());
        let (dir, _) = LogDir::open_in(data, options)?;
        let log = if let Some(log) = dir.log(&partition) {
            log
        } else {
            let config = self.config.clone().following_kafka();
            dir.create_log(&partition, config, None, self.now)?
        };
        let leo = log.log_end_offset();
        self.opened = Some(Opened { dir, log });
        Ok(format!("clean={clean} leo={leo}"))
    }

    fn on_files(&self, command: &OnFiles) -> Answer {
        if self.opened.is_some() {
            return Err(Refusal::OPEN);
        }
        let path = self.data.join(partition().to_string());
        let dir = OsDir::open(&path).map_err(|_| Refusal::NO_SUCH_FILE)?;
        files::run(&dir, command)
    }
}

fn partition() -> TopicPartition {
    TopicPartition::new("scenario", 0)
}

/// A scenario may truncate below the high watermark.
const ALLOWED: TruncateOptions = TruncateOptions {
    below_high_watermark: true,
};

/// Commands on an open log.
struct OnLog<'l> {
    log: &'l Log<OsDir>,
    now: Timestamp,
}

impl OnLog<'_> {
    fn run(&self, command: Command) -> Answer {
        match command {
            Command::Append { epoch, batch } => self.append(epoch, batch),
            Command::Marker { epoch, end } => self.marker(epoch, end),
            Command::Follow { batch, epoch } => self.follow(&batch, epoch),
            Command::AssignEpoch(epoch) => {
                let epoch = LeaderEpoch::new(epoch).ok_or(Refusal::INVALID_OFFSET)?;
                self.log.assign_epoch(epoch)?;
                Ok(format!("epochs={}", self.epochs()))
            }
            Command::EpochEnd(epoch) => Ok(match self.end_offset_for(epoch) {
                Some((epoch, end)) => format!("epoch={epoch} end={end}"),
                None => "epoch=- end=-".to_owned(),
            }),
            Command::HighWatermark(offset) => Ok(format!(
                "hw={}",
                self.log.update_high_watermark(clamped(offset))
            )),
            Command::IncrementHighWatermark(offset) => {
                let old = self.log.maybe_increment_high_watermark(clamped(offset))?;
                Ok(format!(
                    "old={} hw={}",
                    or_dash(old),
                    self.log.high_watermark()
                ))
            }
            Command::Truncate(target) => self.truncate(target),
            Command::TruncateFull(start) => self.truncate_full(start),
            Command::StartOffset(start) => {
                let start = self.log.delete_records(clamped(start))?;
                Ok(format!("start={start}"))
            }
            Command::Roll => Ok(format!("base={}", self.log.roll(self.now)?)),
            Command::Flush => Ok(format!("recovery={}", self.log.flush()?)),
            Command::Retain => {
                let retained = self.log.retain(self.now)?;
                Ok(format!(
                    "deleted={} start={}",
                    retained.deleted_segments, retained.log_start_offset
                ))
            }
            Command::Read {
                from,
                max,
                isolation,
                min_one,
            } => self.read(from, max, isolation, min_one),
            Command::Aborted { from, to } => self.aborted(from, to),
            Command::FindTime(time) => self.find_time(time),
            Command::State => Ok(self.state()),
            Command::Batches => self.batches(),
            Command::Checkpoint => {
                self.log.checkpoint()?;
                Ok(format!(
                    "recovery={} hw={} start={}",
                    self.log.recovery_point(),
                    self.log.high_watermark(),
                    self.log.log_start_offset()
                ))
            }
            Command::Config(_)
            | Command::Time(_)
            | Command::Open
            | Command::Close
            | Command::Kill
            | Command::OnFiles(_) => unreachable!("the engine carries these out itself"),
        }
    }

    fn append(&self, epoch: i32, mut batch: Vec<u8>) -> Answer {
        let epoch = LeaderEpoch::new(epoch).ok_or(Refusal::INVALID_RECORD)?;
        let appended =
            self.log
                .append_as_leader(&mut batch, epoch, self.now, Durability::Written)?;
        Ok(self.appended(&appended))
    }

    fn marker(&self, epoch: i32, end: EndTransaction) -> Answer {
        let epoch = LeaderEpoch::new(epoch).ok_or(Refusal::INVALID_RECORD)?;
        let appended =
            self.log
                .append_end_transaction(end, epoch, self.now, Durability::Written)?;
        Ok(self.appended(&appended))
    }

    fn appended(&self, appended: &Appended) -> String {
        let (first, last) = bounds(appended);
        format!(
            "first={first} last={last} max_ts={} leo={}",
            appended.max_timestamp,
            self.log.log_end_offset()
        )
    }

    fn aborted(&self, from: i64, to: i64) -> Answer {
        let found = self.log.aborted_transactions(clamped(from), clamped(to))?;
        let list: Vec<String> = found
            .iter()
            .map(|aborted| format!("{}:{}", aborted.producer_id, aborted.first_offset))
            .collect();
        Ok(format!("list={}", join(&list)))
    }

    /// An epoch of -1, which no fetch has, takes batches without an epoch only; those are refused.
    fn follow(&self, batches: &[u8], epoch: Option<i32>) -> Answer {
        let headers = || Batches::new(batches).map_while(Result::ok);
        let highest = headers().map(|batch| batch.header().leader_epoch).max();
        let epoch = epoch.or(highest).unwrap_or(-1);
        let takes = |batch: &Batch<'_>| batch.header().leader_epoch <= epoch;
        let batches = match headers().next() {
            Some(first) if !takes(&first) => &[],
            _ => batches,
        };
        let epoch = LeaderEpoch::new(epoch).unwrap_or_default();
        let appended =
            self.log
                .append_as_follower(batches, epoch, self.now, Durability::Written)?;
        let (first, last) = bounds(&appended);
        Ok(format!(
            "first={first} last={last} leo={}",
            self.log.log_end_offset()
        ))
    }

    fn end_offset_for(&self, epoch: i32) -> Option<(i32, Offset)> {
        if let Some(epoch) = LeaderEpoch::new(epoch) {
            let (epoch, end) = self.log.end_offset_for(epoch)?;
            return Some((epoch.get(), end));
        }
        // -1 is the epoch that nobody has; what lies below it Kafka takes for an old one.
        let first = self.log.epochs().first().copied()?;
        (epoch < -1).then_some((epoch, first.start_offset))
    }

    fn truncate(&self, target: i64) -> Answer {
        let target = Offset::new(target).ok_or(Refusal::INVALID_OFFSET)?;
        let done = self.log.truncate_to(target, ALLOWED, self.now)?;
        Ok(format!(
            "leo={} truncated={}",
            done.log_end_offset, done.truncated
        ))
    }

    fn truncate_full(&self, start: i64) -> Answer {
        let start = Offset::new(start).ok_or(Refusal::INVALID_OFFSET)?;
        self.log.truncate_fully(start, ALLOWED, self.now)?;
        let (start, leo) = (self.log.log_start_offset(), self.log.log_end_offset());
        Ok(format!("start={start} leo={leo}"))
    }

    fn read(&self, from: i64, max: i32, isolation: Isolation, min_one: bool) -> Answer {
        let max = usize::try_from(max).map_err(|_| Refusal::INVALID_OFFSET)?;
        let from = Offset::new(from).ok_or(Refusal("OffsetOutOfRange"))?;
        let mut fetched = Fetched::default();
        self.log
            .read_into(from, max, min_one, isolation, &mut fetched)?;
        let mut scratch = Scratch::default();
        let list: Vec<String> = fetched
            .batches()
            .map_while(Result::ok)
            .map(|batch| range(&batch, &mut scratch))
            .collect();
        let bytes = fetched.bytes();
        Ok(format!(
            "batches={} bytes={} crc={:08x}",
            join(&list),
            bytes.len(),
            crc32_ieee(bytes)
        ))
    }

    fn find_time(&self, time: i64) -> Answer {
        let query = match time {
            -1 => TimeQuery::Latest,
            -2 => TimeQuery::Earliest,
            -3 => TimeQuery::MaxTimestamp,
            _ => TimeQuery::AtOrAfter(Timestamp::from_millis(time)),
        };
        Ok(match self.log.find_time(query)? {
            Some(found) => format!(
                "offset={} ts={} epoch={}",
                found.offset,
                found.timestamp,
                or_dash(found.epoch)
            ),
            None => "offset=- ts=- epoch=-".to_owned(),
        })
    }

    fn epochs(&self) -> String {
        let entries = self.log.epochs();
        join(&entries.iter().map(print_epoch).collect::<Vec<_>>())
    }

    fn state(&self) -> String {
        let log = self.log;
        let segments: Vec<String> = log
            .segments()
            .iter()
            .map(|(base, bytes)| format!("{base}:{bytes}"))
            .collect();
        format!(
            "start={} leo={} hw={} lso={} recovery={} epochs={} segments={} producers={}",
            log.log_start_offset(),
            log.log_end_offset(),
            log.high_watermark(),
            log.last_stable_offset(),
            log.recovery_point(),
            self.epochs(),
            join(&segments),
            self.producers()
        )
    }

    fn producers(&self) -> String {
        self.log.with_producers(|producers| {
            let each = producers.iter().map(|(id, state)| {
                format!("{id}:{}:{}", state.producer_epoch(), state.last_sequence())
            });
            join(&each.collect::<Vec<_>>())
        })
    }

    fn batches(&self) -> Answer {
        let dir = OsDir::open(self.log.path())
            .map_err(|e| Error::io("open log directory", self.log.path(), e))?;
        let mut scratch = Scratch::default();
        let mut list = Vec::new();
        let mut all = Vec::new();
        for (base, length) in self.log.segments() {
            let name = segment_name(base, FileType::Log);
            let mut bytes = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
            dir.open(&name, Access::Read)
                .and_then(|file| file.read_exact_at(&mut bytes, 0))
                .map_err(|e| Error::io("read segment", &dir.path().join(&name), e))?;
            for batch in Batches::new(&bytes).map_while(Result::ok) {
                list.push(print_batch(&batch, &mut scratch));
            }
            all.append(&mut bytes);
        }
        Ok(format!("list={} crc={:08x}", join(&list), crc32_ieee(&all)))
    }
}

fn print_epoch(entry: &EpochEntry) -> String {
    format!("{}:{}", entry.epoch, entry.start_offset)
}

/// The offsets of a batch; both inclusive.
fn range(batch: &Batch<'_>, scratch: &mut Scratch) -> String {
    let first = batch
        .base_offset(scratch)
        .unwrap_or(batch.header().base_offset);
    format!("{first}-{}", batch.header().last_offset)
}

fn print_batch(batch: &Batch<'_>, scratch: &mut Scratch) -> String {
    let header = batch.header();
    let offsets = range(batch, scratch);
    let codec = header.codec().map_or("unknown", Codec::name);
    let records = or_dash(batch.record_count(scratch).ok());
    let (epoch, bytes) = (header.leader_epoch, header.bytes);
    format!("{offsets}:{epoch}:{codec}:{records}:{bytes}")
}

fn bounds(appended: &Appended) -> (String, String) {
    (
        or_dash(appended.first_offset),
        or_dash(appended.last_offset),
    )
}

/// A negative offset is below every log: the lowest offset means the same.
fn clamped(raw: i64) -> Offset {
    Offset::new(raw).unwrap_or_default()
}

pub(super) fn or_dash<T: Display>(value: Option<T>) -> String {
    value.map_or_else(|| "-".to_owned(), |value| value.to_string())
}

/// A list as scenarios print it.
pub(super) fn join(list: &[String]) -> String {
    if list.is_empty() {
        "-".to_owned()
    } else {
        list.join(",")
    }
}
