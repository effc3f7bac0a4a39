//! `epochs`: which leader epoch began where.

use highwater::epoch::EpochCache;
use highwater::inspect::{Depth, Options, examine};
use serde_json::json;

use crate::args::{EpochsArgs, Setting, segment_bytes};
use crate::output::{Failure, Out, Status};
use crate::read::open_log;

pub(crate) fn run(config: &[Setting], args: &EpochsArgs) -> Result<Status, Failure> {
    let log = open_log(&args.log)?;
    let options = Options {
        segment_bytes: segment_bytes(config)?,
        ..Options::default()
    };
    let info = examine(&log, Depth::Batches, &options)?;
    let entries = if info.epochs.is_empty() && !info.epochs_in_log.is_empty() {
        eprintln!(
            "highwater: {}: no epoch file that says anything: these are of the batches",
            info.partition
        );
        &info.epochs_in_log
    } else {
        &info.epochs
    };
    let mut out = Out::new();
    if let Some(requested) = args.end_offset_for {
        let cache = EpochCache::from_entries(entries.iter().copied());
        let answer = cache.end_offset_for(requested, info.log_end_offset);
        let (epoch, end) = answer.map_or((-1, -1), |(epoch, end)| (epoch, end.get()));
        if args.json {
            out.json(&json!({ "requested": requested, "epoch": epoch, "end_offset": end }))?;
        } else {
            out.line(format_args!("epoch {epoch} ends at {end}"))?;
        }
    } else {
        for entry in entries {
            let (epoch, start) = (entry.epoch.get(), entry.start_offset.get());
            if args.json {
                out.json(&json!({ "epoch": epoch, "start_offset": start }))?;
            } else {
                out.line(format_args!("{epoch} {start}"))?;
            }
        }
    }
    out.flush()?;
    Ok(Status::Fine)
}
