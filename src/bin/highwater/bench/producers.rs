//! A log that knows many producers, beside one that knows none.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use highwater::log::{Durability, Log, LogConfig};
use highwater::log_dir::LogDir;
use highwater::types::LeaderEpoch;

use super::material::{Noise, RECORDS, create_log, engine, now, produced_batch};
use super::measure::{Figure, Lap, Scratch, measure, median, race, time};
use super::plan::Settings;

/// How many producers there are.
const PRODUCERS: i64 = 100_000;
/// Batches that are appended in a round by either side.
const COUNT: u64 = 2_000;
/// Batches in a turn.
const SLICE: u64 = 50;

/// Batches that are appended in their order.
struct Queue(std::vec::IntoIter<Vec<u8>>);

impl Queue {
    fn append(&mut self, log: &Log) -> io::Result<()> {
        let Some(mut batch) = self.0.next() else {
            return Ok(());
        };
        log.append_as_leader(&mut batch, LeaderEpoch::ZERO, now(), Durability::Written)
            .map_err(engine)?;
        Ok(())
    }
}

/// Two logs: one that knows the producers, and one that knows none.
fn two_logs(place: &Scratch, over: Settings<'_>) -> io::Result<[(LogDir, Arc<Log>); 2]> {
    let config = over.over(LogConfig::default())?;
    let many = create_log(&place.path().join("many"), &config)?;
    let none = create_log(&place.path().join("none"), &config)?;
    introduce(&many.1)?;
    Ok([many, none])
}

/// One small batch of each producer.
fn introduce(log: &Log) -> io::Result<()> {
    for id in 0..PRODUCERS {
        let mut batch = produced_batch(id, 0, 1)?;
        log.append_as_leader(&mut batch, LeaderEpoch::ZERO, now(), Durability::Written)
            .map_err(engine)?;
    }
    Ok(())
}

/// Batches of 100 records, of producers at random or of none.
fn batches(producers: bool) -> io::Result<Queue> {
    let mut random = Noise::new(7);
    let mut sequences = std::collections::BTreeMap::new();
    let batches = (0..COUNT).map(|_| {
        if !producers {
            return produced_batch(-1, -1, RECORDS);
        }
        let id = i64::try_from(random.below(PRODUCERS.unsigned_abs())).unwrap_or(0);
        let next = sequences.entry(id).or_insert(1_i32);
        let batch = produced_batch(id, *next, RECORDS);
        *next = next.saturating_add(i32::try_from(RECORDS).unwrap_or(i32::MAX));
        batch
    });
    Ok(Queue(batches.collect::<io::Result<Vec<_>>>()?.into_iter()))
}

/// `append_100000_producers`: batches of 100 records by producers at random of a log that knows
/// 100,000 of them, beside plain batches of a log that knows none.
pub(crate) fn appends(scratch: &Scratch, over: Settings<'_>) -> io::Result<Figure> {
    let lap = median(|_| {
        let place = scratch.inner("producers")?;
        let [(_many, ours), (_none, reference)] = two_logs(&place, over)?;
        let (mut produced, mut plain) = (batches(true)?, batches(false)?);
        race(
            COUNT.div_euclid(SLICE),
            || (0..SLICE).try_for_each(|_| produced.append(&ours)),
            || (0..SLICE).try_for_each(|_| plain.append(&reference)),
        )
    })?;
    let what = "append to a log that knows 100,000 producers, beside one that knows none";
    Ok(lap.throughput("append_100000_producers", measure(COUNT), "appends/s", what))
}

/// `snapshot_100000_producers`: a roll of a log that knows 100,000 producers, which writes and
/// syncs their snapshot, beside one of a log that knows none.
pub(crate) fn snapshot(scratch: &Scratch, over: Settings<'_>) -> io::Result<Figure> {
    let lap = median(|_| {
        let place = scratch.inner("producers")?;
        let [(_many, ours), (_none, reference)] = two_logs(&place, over)?;
        batches(false)?.append(&reference)?;
        ours.flush().map_err(engine)?;
        let roll = |log: &Log| log.roll(now()).map(drop).map_err(engine);
        Ok(Lap {
            ours: time(|| roll(&ours))?,
            reference: time(|| roll(&reference))?,
        })
    })?;
    Ok(Figure {
        name: "snapshot_100000_producers",
        highwater: milliseconds(lap.ours),
        reference: milliseconds(lap.reference),
        unit: "ms",
        ratio: lap.reference.as_secs_f64() / lap.ours.as_secs_f64(),
        what: "roll with a snapshot of 100,000 producers, beside a roll without any".into(),
    })
}

fn milliseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}
