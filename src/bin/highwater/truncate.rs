//! `truncate`: cuts a log back.

use std::ops::ControlFlow;
use std::path::Path;

use highwater::epoch::EpochCache;
use highwater::inspect::{Depth, Options, PartitionInfo, SegmentFiles, dump_log, examine};
use highwater::log::{Log, TruncateOptions, Truncated};
use highwater::log_dir::DirOptions;
use highwater::types::Offset;
use serde_json::json;

use crate::args::{Setting, TruncateArgs, segment_bytes};
use crate::engine::{Place, log_config};
use crate::output::{Failure, Out, Status};
use crate::read::open_log;

pub(crate) fn run(config: &[Setting], args: &TruncateArgs) -> Result<Status, Failure> {
    // Before anything is locked or made: the log must be there.
    let place = Place::of(&args.log)?;
    let log = open_log(&args.log)?;
    let truncated = if args.dry_run {
        let options = Options {
            segment_bytes: segment_bytes(config)?,
            ..Options::default()
        };
        let info = examine(&log, Depth::Batches, &options)?;
        foresee(args, log.path(), &info, log.segments())?
    } else {
        let options = DirOptions::new(args.clock.now()).config(log_config(config)?);
        let (dir, _) = place.open(options)?;
        let outcome = match dir.log(&place.log) {
            Some(log) => truncate(args, &log),
            None => Err(Failure::usage(format!("{}: no log", args.log.display()))),
        };
        let closed = dir.close();
        let truncated = outcome?;
        closed?;
        truncated
    };
    show(args, &truncated)?;
    Ok(Status::Fine)
}

fn truncate(args: &TruncateArgs, log: &Log) -> Result<Truncated, Failure> {
    let options = TruncateOptions {
        below_high_watermark: args.below_high_watermark,
    };
    Ok(match (args.to, args.to_epoch) {
        (Some(to), _) => log.truncate_to(to, options, args.clock.now())?,
        (None, Some(epoch)) => log.truncate_to_epoch(epoch, options, args.clock.now())?,
        (None, None) => return Err(Failure::usage("--to or --to-epoch is wanted")),
    })
}

/// What a truncation would do, from a walk that changes nothing.
fn foresee(
    args: &TruncateArgs,
    path: &Path,
    info: &PartitionInfo,
    segments: &[SegmentFiles],
) -> Result<Truncated, Failure> {
    let requested = match (args.to, args.to_epoch) {
        (Some(to), _) => to,
        (None, Some(epoch)) => {
            let known = if info.epochs.is_empty() {
                &info.epochs_in_log
            } else {
                &info.epochs
            };
            let cache = EpochCache::from_entries(known.iter().copied());
            let found = cache.end_offset_for(epoch.get(), info.log_end_offset);
            let unknown = || Failure::usage(format!("the log knows no leader epoch {epoch}"));
            found.map(|(_, end)| end).ok_or_else(unknown)?
        }
        (None, None) => return Err(Failure::usage("--to or --to-epoch is wanted")),
    };
    let high_watermark = info.high_watermark.unwrap_or_default();
    let high_watermark = high_watermark.clamp(info.log_start_offset, info.log_end_offset);
    let (end, cut_bytes) = if requested < info.log_end_offset {
        cut(path, requested, info.log_start_offset, segments)?
    } else {
        (info.log_end_offset, 0)
    };
    Ok(Truncated {
        requested,
        log_end_offset: end,
        truncated: requested < info.log_end_offset,
        below_high_watermark: end < high_watermark,
        cut_bytes,
    })
}

/// Where the log would end, and the bytes that would go.
fn cut(
    path: &Path,
    target: Offset,
    log_start: Offset,
    segments: &[SegmentFiles],
) -> Result<(Offset, u64), Failure> {
    let behind = |base: Offset| {
        let later = segments.iter().filter(|segment| segment.base > base);
        later.map(|segment| segment.log_bytes).sum::<u64>()
    };
    let Some(segment) = segments.iter().rev().find(|segment| segment.base <= target) else {
        return Ok((
            target,
            segments.iter().map(|segment| segment.log_bytes).sum(),
        ));
    };
    let (mut end, mut kept) = (target, segment.log_bytes);
    dump_log(&path.join(segment.log_name()), &mut |batch| {
        if batch.header.last_offset < target.get() {
            return Ok(ControlFlow::Continue(()));
        }
        kept = batch.position.get();
        let base = Offset::new(batch.base_offset).unwrap_or_default();
        if base < target {
            end = base.max(target.min(log_start));
        }
        Ok(ControlFlow::Break(()))
    })?;
    let cut_bytes = segment
        .log_bytes
        .saturating_sub(kept)
        .saturating_add(behind(segment.base));
    Ok((end, cut_bytes))
}

fn show(args: &TruncateArgs, truncated: &Truncated) -> Result<(), Failure> {
    let mut out = Out::new();
    if args.json {
        out.json(&json!({
            "requested": truncated.requested.get(),
            "log_end_offset": truncated.log_end_offset.get(),
            "below_high_watermark": truncated.below_high_watermark,
            "cut_bytes": truncated.cut_bytes,
        }))?;
    } else {
        let verb = if args.dry_run { "would end" } else { "ends" };
        let end = truncated.log_end_offset;
        out.line(format_args!(
            "the log {verb} at {end}, {} bytes cut",
            truncated.cut_bytes
        ))?;
    }
    if args.dry_run && truncated.below_high_watermark && !args.below_high_watermark {
        eprintln!("highwater: below the high watermark: it takes --below-high-watermark to do it");
    }
    out.flush()
}
