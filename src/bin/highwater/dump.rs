//! `dump`: files as they stand.

use std::ops::ControlFlow;
use std::path::Path;

use highwater::checkpoint::{
    CleanShutdown, MetaProperties, OffsetCheckpoint, PartitionMetadata, SegmentsFile, StateFile,
    text,
};
use highwater::index::{OffsetIndexView, TimeIndexView, TransactionIndex};
use highwater::inspect::{DumpedBatch, Target, dump_log, read_file};
use highwater::names::{DataFileName, FileName, FileType, OurFile};
use highwater::producer::snapshot;
use highwater::record::{Record, Scratch};
use highwater::types::{LeaderEpoch, Offset};
use serde_json::{Value, json};

use crate::args::DumpArgs;
use crate::output::{Failure, Out, Status};

/// The largest payload that is decompressed. Unit: bytes.
const SCRATCH_BYTES: usize = 64 << 20;

pub(crate) fn run(args: &DumpArgs) -> Result<Status, Failure> {
    let mut dump = Dump {
        out: Out::new(),
        args,
        scratch: Scratch::new(SCRATCH_BYTES),
    };
    let status = if args.path.is_dir() {
        dump.directory(&args.path)?
    } else {
        dump.file(&args.path)?
    };
    dump.out.flush()?;
    Ok(status)
}

struct Dump<'a> {
    out: Out,
    args: &'a DumpArgs,
    scratch: Scratch,
}

impl Dump<'_> {
    /// The segments of a log, or of all logs of a data directory.
    fn directory(&mut self, path: &Path) -> Result<Status, Failure> {
        let target = Target::open(path)?;
        let mut status = Status::Fine;
        for name in target.logs() {
            let Some(log) = target.log(name)? else {
                continue;
            };
            for segment in log.segments() {
                status = status.and(self.log(&log.path().join(segment.log_name()))?);
            }
        }
        Ok(status)
    }

    fn file(&mut self, path: &Path) -> Result<Status, Failure> {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let name = name.unwrap_or_default();
        // A leftover is shown as what it was or was to become.
        let plain = [".deleted", ".swap", ".cleaned", ".tmp"]
            .into_iter()
            .find_map(|suffix| name.strip_suffix(suffix))
            .unwrap_or(&name);
        match FileName::parse(plain) {
            FileName::KraftCheckpoint { .. } | FileName::Ours(OurFile::Saved { .. }) => {
                self.log(path)
            }
            FileName::Segment { base, kind, .. } => self.side(path, base, kind),
            FileName::LeaderEpochCheckpoint => {
                let bytes = read_file(path)?;
                let rows = sound(path, text::parse_leader_epochs(&bytes))?.unwrap_or_default();
                for row in rows {
                    self.show(&json!({
                        "epoch": row.epoch.get(), "start_offset": row.start_offset.get(),
                    }))?;
                }
                Ok(Status::Fine)
            }
            FileName::PartitionMetadata => {
                let bytes = read_file(path)?;
                if let Some(found) = sound(path, PartitionMetadata::parse(&bytes))? {
                    self.show(&json!({ "version": found.version, "topic_id": found.topic_id() }))?;
                }
                Ok(Status::Fine)
            }
            FileName::Ours(OurFile::Segments) => self.segments(path),
            FileName::QuorumState => output_raw(&mut self.out, &read_file(path)?),
            FileName::Ours(OurFile::State) | FileName::Tmp(_) | FileName::Unknown => {
                self.data_file(path, plain)
            }
        }
    }

    fn data_file(&mut self, path: &Path, name: &str) -> Result<Status, Failure> {
        let kind = DataFileName::parse(name);
        if kind == DataFileName::BootstrapCheckpoint {
            return self.log(path);
        }
        let bytes = read_file(path)?;
        match kind {
            DataFileName::RecoveryPoints
            | DataFileName::LogStarts
            | DataFileName::HighWatermarks
            | DataFileName::CleanerOffsets => {
                let rows = sound(path, OffsetCheckpoint::parse(&bytes))?.unwrap_or_default();
                for (log, offset) in &rows.offsets {
                    self.show(&json!({
                        "topic": log.topic, "partition": log.partition, "offset": offset.get(),
                    }))?;
                }
            }
            DataFileName::State => {
                for (log, facts) in sound(path, StateFile::parse(&bytes))?
                    .unwrap_or_default()
                    .logs
                {
                    self.show(&json!({
                        "topic": log.topic, "partition": log.partition,
                        "recovery_point": facts.recovery_point.get(),
                        "high_watermark": facts.high_watermark.map(Offset::get),
                        "log_start_offset": facts.log_start.map(Offset::get),
                        "log_end_offset": facts.log_end.get(),
                        "last_epoch": facts.last_epoch.map(LeaderEpoch::get),
                        "epoch_file_crc": hex(facts.epoch_file_crc),
                    }))?;
                }
            }
            DataFileName::MetaProperties => {
                let found = sound(path, MetaProperties::parse(&bytes))?;
                self.show(&json!({
                    "version": found.version, "node_id": found.node_id,
                    "cluster_id": found.cluster_id, "directory_id": found.directory_id,
                }))?;
            }
            DataFileName::CleanShutdown => {
                let found = CleanShutdown::parse(&bytes);
                self.show(&json!({
                    "broker_epoch": found.broker_epoch, "generation": found.generation,
                }))?;
            }
            DataFileName::Lock
            | DataFileName::BootstrapCheckpoint
            | DataFileName::Tmp
            | DataFileName::Unknown => {
                return Err(Failure::usage(format!(
                    "{}: neither a segment, an index, a snapshot nor a checkpoint file; name \
                     one, or a directory",
                    path.display()
                )));
            }
        }
        Ok(Status::Fine)
    }

    fn segments(&mut self, path: &Path) -> Result<Status, Failure> {
        let bytes = read_file(path)?;
        for facts in sound(path, SegmentsFile::parse(&bytes))?
            .unwrap_or_default()
            .segments
        {
            self.show(&json!({
                "base_offset": facts.base.get(), "bytes": facts.bytes,
                "last_offset": facts.last_offset.map(Offset::get),
                "index_crc": hex(facts.index_crc), "timeindex_crc": hex(facts.timeindex_crc),
                "txnindex_crc": hex(facts.txnindex_crc), "snapshot_crc": hex(facts.snapshot_crc),
            }))?;
        }
        Ok(Status::Fine)
    }

    fn side(&mut self, path: &Path, base: Offset, kind: FileType) -> Result<Status, Failure> {
        let bytes = read_file(path)?;
        match kind {
            FileType::Index => {
                for (offset, position) in OffsetIndexView::new(base, &bytes).iter() {
                    self.show(&json!({
                        "relative_offset": offset.distance_from(base),
                        "offset": offset.get(), "position": position.get(),
                    }))?;
                }
            }
            FileType::TimeIndex => {
                for (timestamp, offset) in TimeIndexView::new(base, &bytes).iter() {
                    self.show(&json!({ "timestamp": timestamp.millis(), "offset": offset.get() }))?;
                }
            }
            FileType::TxnIndex => {
                let parsed = sound(path, TransactionIndex::parse(&bytes))?;
                for entry in parsed.index.entries() {
                    self.show(&json!({
                        "version": 0, "producer_id": entry.producer_id,
                        "first_offset": entry.first_offset.get(),
                        "last_offset": entry.last_offset.get(),
                        "last_stable_offset": entry.last_stable_offset.get(),
                    }))?;
                }
            }
            FileType::Snapshot => {
                for entry in sound(path, snapshot::parse(&bytes))? {
                    self.show(&json!({
                        "producer_id": entry.producer_id, "producer_epoch": entry.producer_epoch,
                        "last_sequence": entry.last_sequence,
                        "last_offset": entry.last_offset.map_or(-1, Offset::get),
                        "offset_delta": entry.offset_delta,
                        "timestamp": entry.timestamp.millis(),
                        "coordinator_epoch": entry.coordinator_epoch,
                        "current_txn_first_offset":
                            entry.current_txn_first_offset.map_or(-1, Offset::get),
                    }))?;
                }
            }
            FileType::Log => return self.log(path),
        }
        Ok(Status::Fine)
    }

    fn log(&mut self, path: &Path) -> Result<Status, Failure> {
        let file = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let file = file.unwrap_or_default();
        let mut failure = None;
        let mut status = Status::Fine;
        let finding = dump_log(path, &mut |batch| {
            if !batch.crc_ok {
                status = Status::Damage;
            }
            match self.batch(&file, batch) {
                Ok(shown) => status = status.and(shown),
                Err(error) => {
                    failure = Some(error);
                    return Ok(ControlFlow::Break(()));
                }
            }
            Ok(ControlFlow::Continue(()))
        })?;
        if let Some(failure) = failure {
            return Err(failure);
        }
        if let Some(finding) = finding {
            self.out.flush()?;
            eprintln!("highwater: {finding}");
            if finding.is_damage() {
                status = Status::Damage;
            }
        }
        Ok(status)
    }

    fn batch(&mut self, file: &str, batch: &DumpedBatch<'_>) -> Result<Status, Failure> {
        let header = &batch.header;
        let codec = header.codec().map_or("unknown", |codec| codec.name());
        let horizon = header.has_delete_horizon().then_some(header.base_timestamp);
        self.show(&json!({
            "file": file,
            "position": batch.position.get(),
            "bytes": header.bytes,
            "base_offset": batch.base_offset,
            "last_offset": header.last_offset,
            "records": batch.records,
            "magic": header.magic.get(),
            "codec": codec,
            "timestamp_type": header.timestamp_type().name(),
            "base_timestamp": header.base_timestamp,
            "max_timestamp": header.max_timestamp,
            "leader_epoch": header.leader_epoch,
            "producer_id": header.producer_id,
            "producer_epoch": header.producer_epoch,
            "base_sequence": header.base_sequence,
            "transactional": header.is_transactional(),
            "control": header.is_control(),
            "delete_horizon": horizon,
            "crc": header.crc,
            "crc_ok": batch.crc_ok,
        }))?;
        if !self.args.records || !batch.crc_ok {
            return Ok(Status::Fine);
        }
        let Some(bytes) = &batch.bytes else {
            self.unreadable(file, batch, "too large to look into")?;
            return Ok(Status::Damage);
        };
        let mut scratch = std::mem::replace(&mut self.scratch, Scratch::new(SCRATCH_BYTES));
        let shown = bytes.records(&mut scratch).map(|records| {
            for record in records {
                match record {
                    Ok(record) => self.record(&record)?,
                    Err(error) => return Ok(Some(error)),
                }
            }
            Ok::<_, Failure>(None)
        });
        self.scratch = scratch;
        match shown.unwrap_or_else(|error| Ok(Some(error)))? {
            None => Ok(Status::Fine),
            Some(error) => {
                self.unreadable(file, batch, &error.to_string())?;
                Ok(Status::Damage)
            }
        }
    }

    fn unreadable(
        &mut self,
        file: &str,
        batch: &DumpedBatch<'_>,
        why: &str,
    ) -> Result<(), Failure> {
        self.out.flush()?;
        eprintln!(
            "highwater: damage record_body: {file}, position {}, offset {}: {why}; fetch the log \
             from a replica, or go on without the batch",
            batch.position, batch.base_offset
        );
        Ok(())
    }

    fn record(&mut self, record: &Record<'_>) -> Result<(), Failure> {
        let (offset, timestamp) = (record.offset, record.timestamp);
        if self.args.json {
            let numbers = [("offset", offset), ("timestamp", timestamp)];
            return self.out.json_record(&numbers, record);
        }
        self.out
            .text(format_args!("offset {offset}, timestamp {timestamp}, key "))?;
        self.out.plain(record.key)?;
        self.out.raw(b", value ")?;
        self.out.plain(record.value)?;
        self.out.raw(b", headers ")?;
        self.out.headers(record.headers())?;
        self.out.raw(b"\n")
    }

    /// JSON, or the same fields as `name value` for people.
    fn show(&mut self, value: &Value) -> Result<(), Failure> {
        if self.args.json {
            return self.out.json(value);
        }
        let words: Vec<String> = value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(name, value)| match value.as_str() {
                Some(text) => format!("{name} {text}"),
                None => format!("{name} {value}"),
            })
            .collect();
        self.out.line(format_args!("{}", words.join(", ")))
    }
}

fn output_raw(out: &mut Out, bytes: &[u8]) -> Result<Status, Failure> {
    out.raw(bytes)?;
    out.raw(b"\n")?;
    Ok(Status::Fine)
}

fn hex(crc: Option<u32>) -> Option<String> {
    crc.map(|crc| format!("{crc:08x}"))
}

/// What a file says, or where it is wrong.
fn sound<T, E: std::fmt::Display>(path: &Path, parsed: Result<T, E>) -> Result<T, Failure> {
    parsed.map_err(|error| {
        Failure::damage(format!(
            "{}: {error}; compare with `highwater verify` of its directory",
            path.display()
        ))
    })
}
