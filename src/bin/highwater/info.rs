//! `info`: what a data directory or a log holds.

use highwater::inspect::{Depth, Finding, Options, PartitionInfo, Target, examine};
use highwater::types::{Offset, Timestamp};
use serde_json::{Map, Value, json};

use crate::args::{PathArgs, Setting, segment_bytes};
use crate::output::{self, Failure, Out, Status};
use crate::progress::Progress;

/// People are told of so many open transactions of a log.
const SHOWN_TRANSACTIONS: usize = 5;

pub(crate) fn run(config: &[Setting], args: &PathArgs) -> Result<Status, Failure> {
    let mut out = Out::new();
    let mut status = Status::Fine;
    let target = Target::open(&args.path)?;
    for finding in target
        .findings()
        .iter()
        .filter(|finding| finding.is_damage())
    {
        eprintln!("highwater: {finding}");
        status = Status::Damage;
    }
    let found = each(
        config,
        &target,
        Depth::Batches,
        args.clock.now(),
        &mut |info| {
            let damage: Vec<&Finding> = info.findings.iter().filter(|f| f.is_damage()).collect();
            if args.json {
                out.json(&object(info, &damage))?;
            } else {
                people(&mut out, info, &damage)?;
            }
            Ok(if damage.is_empty() {
                Status::Fine
            } else {
                Status::Damage
            })
        },
    )?;
    out.flush()?;
    if target.logs().is_empty() {
        eprintln!("highwater: {}: no log here", target.path().display());
    }
    Ok(status.and(found))
}

/// Examines each log. One that cannot be read does not stop the others.
pub(crate) fn each(
    config: &[Setting],
    target: &Target,
    depth: Depth,
    now: Timestamp,
    show: &mut dyn FnMut(&PartitionInfo) -> Result<Status, Failure>,
) -> Result<Status, Failure> {
    let segment_bytes = segment_bytes(config)?;
    let mut status = Status::Fine;
    for name in target.logs() {
        let examined = target.log(name).and_then(|log| {
            let Some(log) = log else { return Ok(None) };
            let total = log.segments().iter().map(|segment| segment.log_bytes).sum();
            let progress = Progress::new(total);
            let advance = |bytes| progress.advance(bytes);
            let options = Options {
                segment_bytes,
                now: Some(now),
                progress: Some(&advance),
            };
            examine(&log, depth, &options).map(Some)
        });
        match examined {
            Ok(Some(info)) => status = status.and(show(&info)?),
            Ok(None) => {}
            Err(error) if target.is_data_dir() => {
                eprintln!("highwater: {error}");
                status = Status::Io;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(status)
}

fn object(info: &PartitionInfo, damage: &[&Finding]) -> Value {
    let epochs = |entries: &[highwater::epoch::EpochEntry]| -> Value {
        entries
            .iter()
            .map(|entry| json!([entry.epoch.get(), entry.start_offset.get()]))
            .collect()
    };
    let mut magic = Map::new();
    for (version, count) in &info.magic {
        magic.insert(version.to_string(), (*count).into());
    }
    let mut codecs = Map::new();
    for (codec, count) in &info.codecs {
        codecs.insert(codec.to_string(), (*count).into());
    }
    let open: Value = info
        .open_transactions
        .iter()
        .map(|open| {
            json!({
                "producer_id": open.producer_id,
                "producer_epoch": open.producer_epoch,
                "first_offset": open.first_offset.get(),
            })
        })
        .collect();
    let damage: Value = damage
        .iter()
        .map(|finding| output::finding(finding))
        .collect();
    json!({
        "partition": info.partition,
        "segments": info.segments,
        "bytes": info.bytes,
        "log_start_offset": info.log_start_offset.get(),
        "log_end_offset": info.log_end_offset.get(),
        "high_watermark": info.high_watermark.map(Offset::get),
        "last_stable_offset": info.last_stable_offset.get(),
        "recovery_point": info.recovery_point.map(Offset::get),
        "epochs": epochs(&info.epochs),
        "epochs_in_log": epochs(&info.epochs_in_log),
        "batches": info.batches,
        "records": info.records,
        "control": info.control,
        "magic": magic,
        "codecs": codecs,
        "producers": info.producers.len(),
        "open_transactions": open,
        "max_timestamp": info.max_timestamp.map_or(-1, Timestamp::millis),
        "damage": damage,
    })
}

fn people(out: &mut Out, info: &PartitionInfo, damage: &[&Finding]) -> Result<(), Failure> {
    let or_dash =
        |offset: Option<Offset>| offset.map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    out.line(format_args!(
        "{}: offsets {} to {}, high watermark {}, recovery point {}",
        info.partition,
        info.log_start_offset,
        info.log_end_offset,
        or_dash(info.high_watermark),
        or_dash(info.recovery_point),
    ))?;
    let list = |counts: Vec<(String, u64)>| {
        let words: Vec<String> = counts
            .into_iter()
            .map(|(name, count)| format!("{name} {count}"))
            .collect();
        if words.is_empty() {
            "-".to_owned()
        } else {
            words.join(", ")
        }
    };
    out.line(format_args!(
        "  segments {}, bytes {}, batches {}, records {}",
        info.segments, info.bytes, info.batches, info.records
    ))?;
    out.line(format_args!(
        "  codecs {}; versions {}; control {}",
        list(
            info.codecs
                .iter()
                .map(|(codec, n)| (codec.to_string(), *n))
                .collect()
        ),
        list(
            info.magic
                .iter()
                .map(|(magic, n)| (magic.to_string(), *n))
                .collect()
        ),
        list(
            info.control
                .iter()
                .map(|(name, n)| ((*name).to_owned(), *n))
                .collect()
        ),
    ))?;
    let epochs: Vec<String> = info
        .epochs
        .iter()
        .map(|e| format!("{}@{}", e.epoch, e.start_offset))
        .collect();
    let timestamp = info
        .max_timestamp
        .map_or_else(|| "-".to_owned(), |time| time.millis().to_string());
    let epochs = if epochs.is_empty() {
        "-".to_owned()
    } else {
        epochs.join(" ")
    };
    out.line(format_args!(
        "  epochs {epochs}; latest timestamp {timestamp}"
    ))?;
    transactions(out, info)?;
    for finding in damage {
        out.line(format_args!("  {finding}"))?;
    }
    Ok(())
}

fn transactions(out: &mut Out, info: &PartitionInfo) -> Result<(), Failure> {
    if !info.producers.is_empty() {
        out.line(format_args!(
            "  producers {}, open transactions {}, last stable offset {}",
            info.producers.len(),
            info.open_transactions.len(),
            info.last_stable_offset
        ))?;
    }
    for open in info.open_transactions.iter().take(SHOWN_TRANSACTIONS) {
        out.line(format_args!(
            "  open since offset {}: producer {}, epoch {}",
            open.first_offset, open.producer_id, open.producer_epoch
        ))?;
    }
    let more = info
        .open_transactions
        .len()
        .saturating_sub(SHOWN_TRANSACTIONS);
    if more > 0 {
        out.line(format_args!("  and {more} more: see `highwater producers`"))?;
    }
    Ok(())
}
