//! Random operations on a log, and on a plain list of records beside it: both must answer alike,
//! before and after the log was closed or killed.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    clippy::wildcard_enum_match_arm,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::type_complexity,
    clippy::too_many_lines,
    clippy::similar_names,
    clippy::needless_pass_by_value,
    clippy::iter_over_hash_type,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "tests stop at the first surprise"
)]

mod common;

use common::*;
use highwater::log::{Durability, Isolation, LogConfig, TimeQuery, TruncateOptions};
use highwater::record::Codec;
use highwater::storage::sim::SimDisk;
use highwater::types::Timestamp;

const CODECS: [Codec; 5] = [
    Codec::None,
    Codec::Gzip,
    Codec::Snappy,
    Codec::Lz4,
    Codec::Zstd,
];

#[derive(Clone, Debug)]
struct Batch {
    base: i64,
    last: i64,
    epoch: i32,
    bytes: Vec<u8>,
    /// By offset from `base`.
    times: Vec<i64>,
}

#[derive(Clone, Debug, Default)]
struct Model {
    batches: Vec<Batch>,
    start: i64,
    end: i64,
    watermark: i64,
    /// (epoch, start)
    epochs: Vec<(i32, i64)>,
}

impl Model {
    fn alive(&self) -> impl Iterator<Item = &Batch> {
        self.batches.iter().filter(|batch| batch.last >= self.start)
    }

    fn note_epoch(&mut self, epoch: i32, start: i64) {
        if self.epochs.last().is_none_or(|(latest, _)| *latest < epoch) {
            self.epochs.retain(|(_, at)| *at < start);
            self.epochs.push((epoch, start));
        }
    }

    fn truncate(&mut self, target: i64) {
        if target < self.end {
            let inside = self
                .batches
                .iter()
                .find(|b| b.base < target && target <= b.last);
            let end = inside.map_or(target, |batch| batch.base.max(target.min(self.start)));
            self.batches
                .retain(|batch| batch.base < end && batch.last < target);
            self.end = end;
        }
        self.epochs.retain(|(_, start)| *start < self.end);
        self.start = self.start.min(self.end);
        self.watermark = self.watermark.min(self.end).max(self.start);
    }

    fn raise_start(&mut self, start: i64) {
        self.start = self.start.max(start);
        self.watermark = self.watermark.max(self.start);
        if let Some(last_below) = self.epochs.iter().rposition(|(_, at)| *at <= self.start) {
            let (epoch, _) = self.epochs[last_below];
            self.epochs.drain(..=last_below);
            self.epochs.insert(0, (epoch, self.start));
        }
    }

    fn end_offset_for(&self, requested: i32) -> Option<(i32, i64)> {
        let (latest, _) = *self.epochs.last()?;
        if requested == latest {
            return Some((latest, self.end));
        }
        if requested > latest {
            return None;
        }
        let above = self
            .epochs
            .iter()
            .position(|(epoch, _)| *epoch > requested)?;
        let next = self.epochs[above].1;
        if above == 0 {
            return Some((requested, next));
        }
        Some((self.epochs[above - 1].0, next))
    }

    fn at_or_after(&self, time: i64) -> Option<(i64, i64)> {
        self.alive().find_map(|batch| {
            let records = (batch.base..).zip(&batch.times);
            let mut found = records.filter(|(at, t)| *at >= self.start && **t >= time);
            found.next().map(|(at, t)| (at, *t))
        })
    }
}

struct Run {
    rng: Rng,
    disk: SimDisk,
    config: LogConfig,
    store: Option<Store>,
    model: Model,
    trace: Vec<String>,
}

impl Run {
    fn new(seed: u64) -> Self {
        let mut rng = Rng(seed);
        let config = LogConfig::default()
            .segment_bytes(u32::try_from(400 + rng.below(1_500)).unwrap())
            .index_interval_bytes(u32::try_from(rng.below(400)).unwrap())
            .retention(None)
            .retention_bytes(Some(4_000));
        let disk = SimDisk::new();
        let store = Some(Store::create(&disk, &config).unwrap());
        Self {
            rng,
            disk,
            config,
            store,
            model: Model::default(),
            trace: Vec::new(),
        }
    }

    fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    /// An offset from below the start to above the end.
    fn any_offset(&mut self) -> i64 {
        let low = (self.model.start - 2).max(0);
        low + self.rng.below(self.model.end - low + 3)
    }

    fn new_batch(&mut self, base: i64, epoch: i32) -> Batch {
        let records = 1 + self.rng.below(5);
        let codec = CODECS[usize::try_from(self.rng.below(5)).unwrap()];
        let times: Vec<i64> = (0..records)
            .map(|_| 1_000 + self.rng.below(2_000))
            .collect();
        let time = |at: i64| times[usize::try_from(at - base).unwrap()];
        let bytes = timed_batch(codec, base, epoch, records, time);
        Batch {
            base,
            last: base + records - 1,
            epoch,
            bytes,
            times,
        }
    }

    fn latest_epoch(&self) -> i32 {
        let of_batches = self.model.batches.last().map_or(0, |batch| batch.epoch);
        self.model
            .epochs
            .last()
            .map_or(of_batches, |(epoch, _)| *epoch)
    }

    fn append(&mut self) {
        let epoch_now = self.latest_epoch() + i32::from(self.rng.below(6) == 0);
        let follow = self.rng.below(2) == 0;
        let gap = if follow && self.rng.below(3) == 0 {
            self.rng.below(4)
        } else {
            0
        };
        let batch = self.new_batch(self.model.end + gap, epoch_now);
        self.trace.push(format!(
            "append {}..={} follow {follow}",
            batch.base, batch.last
        ));
        let log = &self.store().log;
        if follow {
            let written = Durability::Written;
            log.append_as_follower(&batch.bytes, epoch(epoch_now), NOW, written)
                .unwrap();
        } else {
            let mut bytes = batch.bytes.clone();
            bytes[..8].fill(7);
            bytes[..1].fill(0);
            bytes[12..16].fill(0xff);
            bytes[..8].fill(0);
            log.append_as_leader(&mut bytes, epoch(epoch_now), NOW, Durability::Synced)
                .unwrap();
        }
        self.model.note_epoch(epoch_now, batch.base);
        self.model.end = batch.last + 1;
        self.model.batches.push(batch);
    }

    fn change(&mut self) {
        match self.rng.below(16) {
            0..=6 => self.append(),
            7 => {
                self.trace.push("roll".into());
                self.store().log.roll(NOW).unwrap();
            }
            8 => {
                let to = self.any_offset();
                self.trace.push(format!("watermark {to}"));
                let found = self.store().log.update_high_watermark(offset(to)).get();
                self.model.watermark = to.clamp(self.model.start, self.model.end);
                assert_eq!(found, self.model.watermark);
            }
            9 => {
                let to =
                    self.model.start + self.rng.below(1 + self.model.watermark - self.model.start);
                self.trace.push(format!("delete records {to}"));
                self.store().log.delete_records(offset(to)).unwrap();
                if to > self.model.start {
                    self.model.raise_start(to);
                }
            }
            10 => {
                self.trace.push("retain".into());
                let retained = self.store().log.retain(NOW).unwrap();
                let start = retained.log_start_offset.get();
                assert!(start <= self.model.watermark.max(self.model.start));
                if start > self.model.start {
                    self.model.raise_start(start);
                }
            }
            11 => {
                let to = self.any_offset().max(self.model.end / 2);
                self.trace.push(format!("truncate {to}"));
                let options = TruncateOptions {
                    below_high_watermark: true,
                };
                let first = self.store().log.segments()[0].0.get();
                let cut = self
                    .store()
                    .log
                    .truncate_to(offset(to), options, NOW)
                    .unwrap();
                self.model.truncate(to);
                if self.model.end < first {
                    self.model.epochs.clear();
                }
                assert_eq!(cut.log_end_offset.get(), self.model.end);
            }
            12 => {
                let next = self.latest_epoch() + 1;
                self.trace.push(format!("assign epoch {next}"));
                self.store().log.assign_epoch(epoch(next)).unwrap();
                self.model
                    .epochs
                    .retain(|(_, start)| *start < self.model.end);
                self.model.epochs.push((next, self.model.end));
            }
            13 => self.store().dir.checkpoint().unwrap(),
            14 => {
                self.store().log.flush().unwrap();
            }
            _ => self.reopen(),
        }
    }

    fn reopen(&mut self) {
        let close = self.rng.below(2) == 0;
        self.trace.push(format!("reopen, close {close}"));
        let store = self.store.take().unwrap();
        if close {
            store.dir.close().unwrap();
        } else {
            drop(store.dir);
        }
        drop(store.log);
        let store = Store::open(&self.disk, &self.config).unwrap();
        let report = store.report.as_ref().unwrap();
        assert!(
            report.cut.is_none() && report.damage.is_empty(),
            "{:?}",
            self.trace
        );
        let log = &store.log;
        // Between checkpoints the watermark is in memory, and a gap at the end is nowhere.
        self.model.end = log.log_end_offset().get();
        let last = self.model.batches.last().map_or(0, |batch| batch.last + 1);
        assert!(self.model.end >= last, "{:?}", self.trace);
        self.model.start = self.model.start.min(self.model.end);
        self.model.watermark = log.high_watermark().get();
        let end = self.model.end;
        self.model.epochs.retain(|(_, at)| *at < end);
        // As in Kafka, a rescan learns the epochs of batches below the start.
        if self.model.alive().next().is_none() {
            self.model.epochs = log
                .epochs()
                .iter()
                .map(|e| (e.epoch.get(), e.start_offset.get()))
                .collect();
        }
        self.store = Some(store);
    }

    fn compare(&mut self) {
        let log = std::sync::Arc::clone(&self.store().log);
        let model = self.model.clone();
        let values = (
            log.log_start_offset().get(),
            log.high_watermark().get(),
            log.log_end_offset().get(),
        );
        assert_eq!(
            values,
            (model.start, model.watermark, model.end),
            "{:?}",
            self.trace
        );
        let epochs: Vec<(i32, i64)> = log
            .epochs()
            .iter()
            .map(|e| (e.epoch.get(), e.start_offset.get()))
            .collect();
        assert_eq!(epochs, model.epochs, "{:?}", self.trace);
        for _ in 0..3 {
            let requested = i32::try_from(self.rng.below(12)).unwrap();
            let found = log
                .end_offset_for(epoch(requested))
                .map(|(e, end)| (e.get(), end.get()));
            assert_eq!(
                found,
                model.end_offset_for(requested),
                "epoch {requested} {:?}",
                self.trace
            );
        }
        for _ in 0..4 {
            self.compare_read(&log, &model);
        }
        for _ in 0..2 {
            let time = 900 + self.rng.below(2_300);
            let found = log
                .find_time(TimeQuery::AtOrAfter(Timestamp::from_millis(time)))
                .unwrap();
            let found = found.map(|found| (found.offset.get(), found.timestamp.millis()));
            assert_eq!(
                found,
                model.at_or_after(time),
                "time {time} {:?}",
                self.trace
            );
        }
    }

    fn compare_read(
        &mut self,
        log: &highwater::log::Log<highwater::storage::sim::SimDir>,
        model: &Model,
    ) {
        let from = self.any_offset();
        let max_bytes = usize::try_from(self.rng.below(600)).unwrap();
        let min_one = self.rng.below(3) > 0;
        let (isolation, bound) = match self.rng.below(3) {
            0 => (Isolation::LogEnd, model.end),
            1 => (Isolation::HighWatermark, model.watermark),
            _ => (Isolation::Committed, model.watermark),
        };
        let mut fetched = highwater::log::Fetched::default();
        let outcome = log.read_into(offset(from), max_bytes, min_one, isolation, &mut fetched);
        let context = format!(
            "read {from} {max_bytes} {min_one} {isolation:?} {:?}",
            self.trace
        );
        if from < model.start || from > model.end {
            assert!(outcome.is_err(), "{context}");
            return;
        }
        outcome.unwrap_or_else(|e| panic!("{context}: {e}"));
        let bases: Vec<i64> = log.segments().iter().map(|(base, _)| base.get()).collect();
        let segment_of = |at: i64| bases.iter().filter(|base| **base <= at).count();
        let mut wanted: Vec<u8> = Vec::new();
        let mut segment = None;
        for batch in model.batches.iter().filter(|batch| batch.last >= from) {
            let same = *segment.get_or_insert(segment_of(batch.base)) == segment_of(batch.base);
            let first = wanted.is_empty() && min_one;
            if batch.last >= bound
                || !same
                || (wanted.len() + batch.bytes.len() > max_bytes && !first)
            {
                break;
            }
            wanted.extend(&batch.bytes);
        }
        assert!(
            fetched.bytes() == wanted,
            "{context}: {} bytes, not {}",
            fetched.bytes().len(),
            wanted.len()
        );
    }
}

fn runs(count: u64, steps: u64) {
    let first = Rng::seeded(1).0;
    for seed in first..first + count {
        let mut run = Run::new(seed);
        for step in 0..steps {
            if step % 50 == 0 {
                println!("HIGHWATER_SEED={seed} step {step}");
            }
            run.change();
            run.compare();
        }
    }
}

#[test]
fn a_log_answers_as_a_plain_list_does() {
    runs(60, 150);
}

#[test]
#[ignore = "a longer run of the test above"]
fn a_log_answers_as_a_plain_list_does_for_long() {
    runs(2_000, 400);
}
