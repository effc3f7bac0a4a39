//! `append`: lines of standard input as records.

use std::io::{self, BufRead, Read};
use std::path::Path;

use highwater::checkpoint::PartitionMetadata;
use highwater::log::{Appended, Durability, Log};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::PARTITION_METADATA;
use highwater::record::{BatchBuilder, Codec};
use highwater::storage::{OsDir, read_file, replace_file};
use highwater::types::{LeaderEpoch, Offset, Timestamp};
use serde_json::json;

use crate::args::{AppendArgs, Follow, Setting, Sync};
use crate::engine::{Place, log_config, now};
use crate::output::{Failure, Out, Status};

/// Longer lines are refused before they are read to their end. Unit: bytes.
const MAX_LINE_BYTES: u64 = 32 << 20;
/// How far the checkpoint files may lie behind what was told. Unit: milliseconds.
const CHECKPOINT_EVERY_MS: u64 = 1000;
/// What a record takes beside its value, and a batch beside its records, at most. Unit: bytes.
const OVERHEAD_BYTES: usize = 128;

pub(crate) fn run(config: &[Setting], args: &AppendArgs) -> Result<Status, Failure> {
    let place = Place::of(&args.log)?;
    if args.batch_records == 0 {
        return Err(Failure::usage("--batch-records: at least 1 is wanted"));
    }
    if !place.log.is_legal() {
        return Err(Failure::usage(format!(
            "{}: no legal topic name; use a-z A-Z 0-9 . _ - only",
            place.log
        )));
    }
    let topic_id = args.topic_id.as_deref();
    let metadata = topic_id.map(|id| {
        PartitionMetadata::new(id)
            .ok_or_else(|| Failure::usage(format!("--topic-id: {id:?} is no topic id")))
    });
    let metadata = metadata.transpose()?;
    let settings = log_config(config)?;
    let options = DirOptions::new(args.clock.now())
        .config(settings.clone())
        .create(true);
    let (dir, report) = place.open(options)?;
    let outcome = (|| {
        let log = match (report, dir.log(&place.log)) {
            (Some(_), Some(log)) => {
                if let Some(metadata) = &metadata {
                    keep_topic_id(&args.log, metadata)?;
                }
                log
            }
            _ => dir.create_log(&place.log, settings, topic_id, args.clock.now())?,
        };
        let batch_bytes = size_limit(config)?;
        Appender {
            dir: &dir,
            log: &log,
            args,
            batch_bytes,
            out: Some(Out::new()),
            waiting: Vec::new(),
            checkpointed: now(),
        }
        .run()
    })();
    let closed = dir.close();
    outcome?;
    closed?;
    Ok(Status::Fine)
}

/// The largest batch, before compression, that no setting refuses.
fn size_limit(config: &[Setting]) -> Result<usize, Failure> {
    let of = |key: &str, default: usize| {
        let setting = config.iter().rev().find(|setting| setting.key == key);
        setting.map_or(Ok(default), |setting| {
            let bad =
                |_| Failure::usage(format!("{key}: {:?} is no number of bytes", setting.value));
            setting.value.parse().map_err(bad)
        })
    };
    Ok(of("max.message.bytes", (1 << 20) + 12)?.min(of("segment.bytes", 1 << 30)?))
}

/// A broker sets a log aside whose topic id is another one than its metadata says.
fn keep_topic_id(log: &Path, wanted: &PartitionMetadata) -> Result<(), Failure> {
    let fail = |e: io::Error| {
        Failure::Io(format!(
            "{}: cannot use the topic id: {e}",
            log.join(PARTITION_METADATA).display()
        ))
    };
    let dir = OsDir::open(log).map_err(fail)?;
    let bytes = read_file(&dir, PARTITION_METADATA, 1 << 16).map_err(fail)?;
    match PartitionMetadata::parse(&bytes.unwrap_or_default()) {
        Ok(Some(found)) if found.topic_id() == wanted.topic_id() => Ok(()),
        Ok(Some(found)) => Err(Failure::usage(format!(
            "{}: the log belongs to topic id {}, not {}",
            log.display(),
            found.topic_id(),
            wanted.topic_id()
        ))),
        Ok(None) => replace_file(&dir, PARTITION_METADATA, wanted.print().as_bytes()).map_err(fail),
        Err(error) => Err(Failure::damage(format!(
            "{}: {error}; remove it, or restore it from another replica",
            log.join(PARTITION_METADATA).display()
        ))),
    }
}

struct Appender<'a> {
    dir: &'a LogDir,
    log: &'a Log,
    args: &'a AppendArgs,
    batch_bytes: usize,
    /// `None` once nobody reads it: the lines that are left are appended all the same.
    out: Option<Out>,
    /// Appended, not told yet: `--sync end` tells once all of it is durable.
    waiting: Vec<Appended>,
    checkpointed: Timestamp,
}

impl Appender<'_> {
    fn run(mut self) -> Result<(), Failure> {
        let epoch = self
            .args
            .epoch
            .or(self.log.latest_epoch())
            .unwrap_or(LeaderEpoch::ZERO);
        let first = self.log.log_end_offset();
        let outcome = self.lines(epoch);
        // What was appended before a failure is made durable and told all the same.
        let synced = self
            .log
            .flush()
            .map_err(Failure::from)
            .and_then(|_| self.raise_high_watermark())
            .and_then(|()| self.tell())
            .and_then(|()| Ok(self.dir.checkpoint()?));
        outcome?;
        synced?;
        if self.args.json {
            return Ok(());
        }
        let end = self.log.log_end_offset();
        let count = end.distance_from(first);
        self.say(|out| {
            out.line(format_args!(
                "{count} records appended; the log ends at {end}"
            ))
        })
    }

    fn lines(&mut self, epoch: LeaderEpoch) -> Result<(), Failure> {
        let mut input = io::stdin().lock();
        let mut line = Vec::new();
        let mut batch = self.batch();
        loop {
            line.clear();
            let mut bounded = (&mut input).take(MAX_LINE_BYTES);
            let bytes = bounded
                .read_until(b'\n', &mut line)
                .map_err(|e| Failure::Io(format!("cannot read standard input: {e}")))?;
            if bytes == 0 {
                break;
            }
            if line.last() == Some(&b'\n') {
                line.pop();
            } else if bounded.limit() == 0 {
                return Err(Failure::usage(format!(
                    "standard input: the line at offset {} is longer than {MAX_LINE_BYTES} bytes; \
                     split it",
                    self.log
                        .log_end_offset()
                        .get()
                        .saturating_add(batch.record_count().into())
                )));
            }
            let with_line = batch.len_estimate().saturating_add(line.len());
            if batch.record_count() > 0
                && with_line.saturating_add(OVERHEAD_BYTES) > self.batch_bytes
            {
                self.append(std::mem::replace(&mut batch, self.batch()), epoch)?;
            }
            push(&mut batch, self.args.clock.now(), &line)?;
            if batch.record_count() >= self.args.batch_records {
                self.append(std::mem::replace(&mut batch, self.batch()), epoch)?;
            }
        }
        if batch.record_count() > 0 {
            self.append(batch, epoch)
        } else {
            Ok(())
        }
    }

    fn batch(&self) -> BatchBuilder {
        let codec: Codec = self.args.codec;
        BatchBuilder::new(codec)
    }

    fn append(&mut self, batch: BatchBuilder, epoch: LeaderEpoch) -> Result<(), Failure> {
        let mut bytes = batch
            .finish()
            .map_err(|e| Failure::usage(format!("build batch: {e}")))?;
        let by_batch = self.args.sync == Sync::Batch;
        let durability = if by_batch {
            Durability::Synced
        } else {
            Durability::Written
        };
        let appended =
            self.log
                .append_as_leader(&mut bytes, epoch, self.args.clock.now(), durability)?;
        self.waiting.push(appended);
        if !by_batch {
            return Ok(());
        }
        self.raise_high_watermark()?;
        self.tell()?;
        // A recovery finds what was synced without it: it only has less to read.
        let time = now();
        let passed = time.millis().abs_diff(self.checkpointed.millis());
        if passed >= CHECKPOINT_EVERY_MS {
            self.dir.checkpoint()?;
            self.checkpointed = time;
        }
        Ok(())
    }

    fn raise_high_watermark(&self) -> Result<(), Failure> {
        if self.args.high_watermark == Follow::Synced {
            self.log
                .maybe_increment_high_watermark(self.log.recovery_point())?;
        }
        Ok(())
    }

    /// Says what is durable by then.
    fn tell(&mut self) -> Result<(), Failure> {
        let waiting = std::mem::take(&mut self.waiting);
        if !self.args.json || waiting.is_empty() {
            return Ok(());
        }
        self.say(|out| {
            for appended in waiting {
                out.json(&json!({
                    "base_offset": appended.first_offset.map(Offset::get),
                    "last_offset": appended.last_offset.map(Offset::get),
                    "log_end_offset": appended.log_end_offset.get(),
                    "synced": true,
                }))?;
            }
            Ok(())
        })
    }

    fn say(&mut self, lines: impl FnOnce(&mut Out) -> Result<(), Failure>) -> Result<(), Failure> {
        let Some(out) = &mut self.out else {
            return Ok(());
        };
        match lines(out).and_then(|()| out.flush()) {
            Err(failure) if failure.is_broken_pipe() => {
                self.out = None;
                Ok(())
            }
            other => other,
        }
    }
}

fn push(batch: &mut BatchBuilder, time: Timestamp, line: &[u8]) -> Result<(), Failure> {
    batch
        .push(time.millis(), None, Some(line), &[])
        .map_err(|e| Failure::usage(format!("build batch: {e}")))
}
