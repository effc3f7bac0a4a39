//! `producers`: who holds the last stable offset back, and what is known of each producer.

use highwater::inspect::{Depth, OpenTransaction, Options, PartitionInfo, examine};
use highwater::producer::ProducerState;
use highwater::types::{Offset, Timestamp};
use serde_json::{Value, json};

use crate::args::{ProducersArgs, Setting, segment_bytes};
use crate::output::{Failure, Out, Status};
use crate::read::open_log;

pub(crate) fn run(config: &[Setting], args: &ProducersArgs) -> Result<Status, Failure> {
    let log = open_log(&args.log)?;
    let now = args.clock.now();
    let options = Options {
        segment_bytes: segment_bytes(config)?,
        now: Some(now),
        ..Options::default()
    };
    let info = examine(&log, Depth::Batches, &options)?;
    let mut out = Out::new();
    // As kafka-transactions.sh find-hanging: a transaction that is written to does not hang.
    let is_wanted = |state: &ProducerState| {
        args.hanging.is_none_or(|age| {
            state.open_since().is_some() && now.millis_since(state.last_timestamp()) > age.0
        })
    };
    let wanted = info.producers.iter().filter(|(_, state)| is_wanted(state));
    if args.json {
        for (id, state) in wanted {
            out.json(&object(id, state))?;
        }
    } else {
        summary(&mut out, &info)?;
        for (id, state) in wanted {
            let mut open = info.open_transactions.iter();
            let open = open.find(|open| open.producer_id == id);
            producer(&mut out, id, state, open, now)?;
        }
    }
    out.flush()?;
    Ok(Status::Fine)
}

fn object(id: i64, state: &ProducerState) -> Value {
    let batches: Vec<Value> = state
        .batches()
        .iter()
        .map(|batch| {
            json!([
                batch.first_sequence(),
                batch.last_sequence,
                batch.first_offset().get(),
                batch.last_offset.get(),
            ])
        })
        .collect();
    json!({
        "producer_id": id,
        "producer_epoch": state.producer_epoch(),
        "coordinator_epoch": state.coordinator_epoch(),
        "open_since": state.open_since().map(Offset::get),
        "last_timestamp": state.last_timestamp().millis(),
        "batches": batches,
    })
}

/// What a consumer of committed records waits for.
fn summary(out: &mut Out, info: &PartitionInfo) -> Result<(), Failure> {
    let stable = info.last_stable_offset;
    let high_watermark = info
        .high_watermark
        .map_or_else(|| "-".to_owned(), |offset| offset.to_string());
    out.line(format_args!(
        "{}: offsets {} to {}, high watermark {high_watermark}, last stable offset {stable}",
        info.partition, info.log_start_offset, info.log_end_offset,
    ))?;
    let waits = info
        .high_watermark
        .is_some_and(|mark| stable < mark.min(info.log_end_offset));
    let oldest = info.open_transactions.first();
    match oldest.filter(|open| open.first_offset <= stable && waits) {
        Some(open) => out.line(format_args!(
            "  held back by producer {}, epoch {}",
            open.producer_id, open.producer_epoch
        )),
        None if waits => out.line(format_args!(
            "  held back by a transaction whose marker the high watermark has not passed"
        )),
        None => Ok(()),
    }
}

fn producer(
    out: &mut Out,
    id: i64,
    state: &ProducerState,
    open: Option<&OpenTransaction>,
    now: Timestamp,
) -> Result<(), Failure> {
    out.text(format_args!(
        "  producer {id}, epoch {}, coordinator epoch {}: ",
        state.producer_epoch(),
        state.coordinator_epoch()
    ))?;
    if let Some(last) = state.batches().last() {
        out.text(format_args!(
            "last sequence {} at offset {}, ",
            last.last_sequence, last.last_offset
        ))?;
    }
    let ago = |time: Timestamp| format!("{} ({} ago)", time.millis(), age(now.millis_since(time)));
    out.line(format_args!("last written {}", ago(state.last_timestamp())))?;
    let Some(open) = open else { return Ok(()) };
    out.text(format_args!(
        "    transaction open: from offset {}",
        open.first_offset
    ))?;
    if let Some(last) = open.last_offset {
        out.text(format_args!(" to {last}"))?;
    }
    let since = open.first_timestamp.map_or_else(
        || ", its first record is not there any more".to_owned(),
        |time| format!(", since {}", ago(time)),
    );
    out.line(format_args!("{since}"))
}

/// An age for people, in its largest unit and the next one.
fn age(millis: i64) -> String {
    let seconds = millis.max(0).checked_div(1000).unwrap_or(0);
    let units = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let mut left = seconds;
    let mut words = Vec::new();
    for (unit, length) in units {
        let count = left.checked_div(length).unwrap_or(0);
        left = left.checked_rem(length).unwrap_or(0);
        if count > 0 || (unit == "s" && words.is_empty()) {
            words.push(format!("{count}{unit}"));
        }
    }
    words.truncate(2);
    words.join(" ")
}
