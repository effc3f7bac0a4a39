//! Producers and transactions of a log, beside a replay of its batches: random operations with
//! restarts, kills, power cuts and truncations, and the cases that tell a story.
#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::panic_in_result_fn,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    clippy::type_complexity,
    clippy::case_sensitive_file_extension_comparisons,
    reason = "tests stop at the first surprise"
)]

mod common;

use std::collections::BTreeMap;

use common::*;
use highwater::error::ErrorKind;
use highwater::log::{
    Appended, Durability, EndTransaction, Isolation, Log, LogConfig, TruncateOptions, Watched,
};
use highwater::record::{BatchBuilder, Batches, Codec, EndTransactionMarker, Scratch};
use highwater::storage::Dir;
use highwater::storage::sim::{CrashPlan, SimDir, SimDisk};
use highwater::types::Offset;

const ALLOWED: TruncateOptions = TruncateOptions {
    below_high_watermark: true,
};

type SimLog = Log<SimDir>;

/// A batch as a producer sends it: `count` records from sequence `sequence` on.
fn produced(
    (id, producer_epoch): (i64, i16),
    sequence: i32,
    count: i64,
    transactional: bool,
) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None)
        .producer(id, producer_epoch, sequence)
        .transactional(transactional);
    for at in 0..count {
        builder
            .push(1_000 + at, None, Some(b"of a producer"), &[])
            .unwrap();
    }
    builder.finish().unwrap()
}

fn append(log: &SimLog, mut batch: Vec<u8>) -> Result<Appended, ErrorKind> {
    log.append_as_leader(&mut batch, epoch(0), NOW, Durability::Written)
        .map_err(|error| error.kind())
}

fn end(
    log: &SimLog,
    (id, producer_epoch): (i64, i16),
    commit: bool,
) -> Result<Appended, ErrorKind> {
    let end = EndTransaction {
        producer_id: id,
        producer_epoch,
        marker: EndTransactionMarker {
            commit,
            coordinator_epoch: 0,
        },
    };
    log.append_end_transaction(end, epoch(0), NOW, Durability::Written)
        .map_err(|error| error.kind())
}

/// What a replay of batches says of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    epoch: i16,
    coordinator_epoch: i32,
    last_sequence: i32,
    open_since: Option<i64>,
}

/// Follows the batches that end at or above `from`, in the plainest way.
fn replay(bytes: &[u8], from: i64) -> BTreeMap<i64, Known> {
    let mut all: BTreeMap<i64, Known> = BTreeMap::new();
    let mut scratch = Scratch::default();
    for batch in Batches::new(bytes).map(Result::unwrap) {
        let header = batch.header();
        if !header.has_producer_id() || header.last_offset < from {
            continue;
        }
        let known = all.entry(header.producer_id).or_insert(Known {
            epoch: header.producer_epoch,
            coordinator_epoch: -1,
            last_sequence: -1,
            open_since: None,
        });
        if known.epoch != header.producer_epoch {
            known.epoch = header.producer_epoch;
            known.last_sequence = -1;
        }
        if let Some(marker) = batch.end_transaction_marker(&mut scratch).unwrap() {
            known.coordinator_epoch = marker.coordinator_epoch;
            known.open_since = None;
            continue;
        }
        known.last_sequence = header.last_sequence();
        if header.is_transactional() && known.open_since.is_none() {
            known.open_since = Some(header.base_offset);
        }
    }
    all
}

fn known(log: &SimLog) -> BTreeMap<i64, Known> {
    log.with_producers(|producers| {
        let each = producers.iter().map(|(id, state)| {
            let known = Known {
                epoch: state.producer_epoch(),
                coordinator_epoch: state.coordinator_epoch(),
                last_sequence: state.last_sequence(),
                open_since: state.open_since().map(Offset::get),
            };
            (id, known)
        });
        each.collect()
    })
}

/// Whole batches of committed records, as a consumer gets them.
fn committed(log: &SimLog) -> Vec<(i64, i64)> {
    let mut from = log.log_start_offset();
    let mut got = Vec::new();
    loop {
        let fetched = log.read(from, 1 << 20, Isolation::Committed).unwrap();
        let batches = fetched.committed_batches().map(Result::unwrap);
        got.extend(batches.map(|batch| (batch.header().base_offset, batch.header().last_offset)));
        match fetched.next_offset() {
            Some(next) => from = next,
            None => return got,
        }
    }
}

/// What a consumer of committed records must get: no marker, nothing of an aborted transaction,
/// nothing from the first open one on.
fn committed_by_hand(bytes: &[u8], log: &SimLog) -> Vec<(i64, i64)> {
    let (start, bound) = (log.log_start_offset().get(), log.last_stable_offset().get());
    let mut scratch = Scratch::default();
    let mut batches: Vec<((i64, i64), i64, bool)> = Vec::new();
    for batch in Batches::new(bytes).map(Result::unwrap) {
        let header = batch.header();
        let of = (header.base_offset, header.last_offset);
        match batch.end_transaction_marker(&mut scratch).unwrap() {
            Some(marker) if marker.commit => {
                for known in batches.iter_mut().filter(|b| b.1 == header.producer_id) {
                    known.2 = false;
                }
            }
            Some(_) => batches.retain(|b| !(b.2 && b.1 == header.producer_id)),
            None => batches.push((of, header.producer_id, header.is_transactional())),
        }
    }
    let inside = |(_, last): &(i64, i64)| start <= *last && *last < bound;
    batches.into_iter().map(|b| b.0).filter(inside).collect()
}

struct Run {
    disk: SimDisk,
    config: LogConfig,
    store: Option<Store>,
    rng: Rng,
    /// Every batch that was not cut, by base offset.
    history: BTreeMap<i64, Vec<u8>>,
    /// A state was rebuilt of which a part was deleted.
    forgetful: bool,
}

impl Run {
    fn new(seed: u64) -> Self {
        let disk = SimDisk::new();
        let config = LogConfig::default()
            .segment_bytes(700)
            .index_interval_bytes(200)
            .retention(None)
            .retention_bytes(Some(3_000));
        let store = Store::create(&disk, &config).unwrap();
        Self {
            disk,
            config,
            store: Some(store),
            rng: Rng(seed),
            history: BTreeMap::new(),
            forgetful: false,
        }
    }

    fn log(&self) -> &SimLog {
        &self.store.as_ref().unwrap().log
    }

    /// Every operation as often as its place in the table says.
    fn step(&mut self) -> String {
        let producer = (
            self.rng.below(4),
            i16::try_from(self.rng.below(8) / 7).unwrap(),
        );
        let log_end = self.log().log_end_offset();
        match self.rng.below(40) {
            0..16 => self.produce(producer),
            16..24 => {
                let commit = self.rng.below(2) == 0;
                format!(
                    "end {producer:?} {commit} {:?}",
                    end(self.log(), producer, commit)
                )
            }
            24..28 => {
                let to = self.rng.below(log_end.get() + 1);
                let to = self
                    .log()
                    .update_high_watermark(offset(to.max(log_end.get() - 9)));
                format!("high watermark {to}")
            }
            28..30 => format!("roll {}", self.log().roll(NOW).unwrap()),
            30..32 => {
                let to = log_end.get() - self.rng.below(log_end.get().min(25) + 1);
                let done = self.log().truncate_to(offset(to), ALLOWED, NOW).unwrap();
                format!("truncate {done:?}")
            }
            32 if self.rng.below(3) == 0 => {
                let watermark = self.log().high_watermark().get();
                let to = offset((watermark - self.rng.below(12)).max(0));
                format!("delete below {}", self.log().delete_records(to).unwrap())
            }
            32 | 33 => format!("retain {:?}", self.log().retain(NOW).unwrap()),
            34 => format!("flush {}", self.log().flush().unwrap()),
            35 => {
                self.log().checkpoint().unwrap();
                "checkpoint".into()
            }
            36 => {
                self.store.take().unwrap().dir.close().unwrap();
                self.open("close")
            }
            37 => {
                self.store = None;
                self.open("kill")
            }
            38 => {
                self.store = None;
                self.disk = self.disk.crash(&CrashPlan::Random {
                    seed: self.rng.next(),
                });
                self.open("power cut")
            }
            _ => {
                self.store.take().unwrap().dir.close().unwrap();
                let dir = inside(&self.disk);
                let kind = [".snapshot", ".txnindex"][usize::try_from(self.rng.below(2)).unwrap()];
                for name in names_ending(&dir, kind) {
                    dir.remove(&name).unwrap();
                }
                dir.sync().unwrap();
                self.open(&format!("{kind} lost"))
            }
        }
    }

    /// The next batch of a producer, in a transaction or not.
    fn produce(&mut self, producer: (i64, i16)) -> String {
        let transactional = self.rng.below(3) > 0;
        let last = known(self.log()).get(&producer.0).copied();
        let next = last.filter(|known| known.epoch == producer.1);
        let sequence = next.map_or(0, |known| known.last_sequence + 1);
        let count = 1 + self.rng.below(3);
        let batch = produced(producer, sequence, count, transactional);
        format!("{producer:?} {sequence} {:?}", append(self.log(), batch))
    }

    fn open(&mut self, after: &str) -> String {
        self.store = Some(Store::open(&self.disk, &self.config).unwrap());
        format!("open after {after}")
    }

    /// Producers and transactions are those of all batches that were ever there, deleted ones
    /// included, until a state is rebuilt of which a part was deleted: as in Kafka, what only the
    /// deleted part said may be forgotten then.
    fn check(&mut self, rebuilt: bool) {
        let start = self.log().log_start_offset().get();
        let end = self.log().log_end_offset().get();
        let bytes = log_bytes(&self.disk);
        self.history.retain(|base, _| *base < end);
        for batch in Batches::new(&bytes).map(Result::unwrap) {
            self.history
                .insert(batch.header().base_offset, batch.bytes().to_vec());
        }
        self.forgetful |= rebuilt && start > 0;
        let log = self.log();
        let found = known(log);
        if !self.forgetful {
            let all: Vec<u8> = self.history.values().flatten().copied().collect();
            assert_eq!(found, replay(&all, 0));
        }
        for id in replay(&bytes, start).keys() {
            assert!(found.contains_key(id), "producer {id} is forgotten");
        }
        let stable = log.last_stable_offset();
        assert!(log.log_start_offset() <= stable, "below the log start");
        assert!(stable <= log.high_watermark(), "above the high watermark");
        if start == 0 {
            // Nothing was deleted: what consumers get can be told from the batches alone.
            assert_eq!(committed(log), committed_by_hand(&bytes, log));
        }
    }
}

/// A failing run prints its seed; `SEED=n` runs it alone.
#[test]
fn producers_and_transactions_are_those_of_the_batches() {
    let alone = std::env::var("SEED")
        .ok()
        .map(|seed| seed.parse::<u64>().unwrap());
    let seeds = alone.map_or(1..=200, |seed| seed..=seed);
    for seed in seeds {
        let mut run = Run::new(seed);
        let mut story = Vec::new();
        for _ in 0..150 {
            let step = run.step();
            if alone.is_some() {
                println!("{step}");
            }
            let rebuilt = step.starts_with("open") || step.starts_with("truncate");
            story.push(step);
            let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                run.check(rebuilt);
            }));
            if checked.is_err() {
                let tail = story.len().saturating_sub(12);
                panic!("SEED={seed}, the last steps: {:#?}", &story[tail..]);
            }
        }
    }
}

fn log_with(segment_bytes: u32) -> (SimDisk, LogConfig, Store) {
    let disk = SimDisk::new();
    let config = LogConfig::default().segment_bytes(segment_bytes);
    let store = Store::create(&disk, &config).unwrap();
    (disk, config, store)
}

const ONE: (i64, i16) = (1, 0);
const TWO: (i64, i16) = (2, 0);

/// The answer to a retry is that of the first time, and nothing else happens: no roll, no epoch.
#[test]
fn a_duplicate_has_no_effect_at_all() {
    let (disk, _, store) = log_with(200);
    append(&store.log, produced(ONE, 0, 3, false)).unwrap();
    let before = (files(&inside(&disk)), log_bytes(&disk), store.log.epochs());

    let mut again = produced(ONE, 0, 3, false);
    let answer = store
        .log
        .append_as_leader(&mut again, epoch(4), NOW, Durability::Synced)
        .unwrap();

    assert!(answer.duplicate);
    assert_eq!(
        (answer.first_offset, answer.last_offset),
        (Some(offset(0)), Some(offset(2)))
    );
    assert_eq!(
        before,
        (files(&inside(&disk)), log_bytes(&disk), store.log.epochs())
    );
}

#[test]
fn refused_batches_of_producers_have_no_effect() {
    let (disk, _, store) = log_with(1 << 20);
    append(&store.log, produced(ONE, 0, 3, true)).unwrap();
    end(&store.log, (1, 1), true).unwrap();
    append(&store.log, produced(TWO, 5, 1, true)).unwrap();
    let before = (log_bytes(&disk), store.log.epochs(), known(&store.log));

    assert_eq!(
        append(&store.log, produced(ONE, 3, 1, true)),
        Err(ErrorKind::InvalidProducerEpoch)
    );
    assert_eq!(
        append(&store.log, produced((1, 1), 1, 1, true)),
        Err(ErrorKind::OutOfOrderSequence)
    );
    assert_eq!(
        append(&store.log, produced(TWO, 6, 1, false)),
        Err(ErrorKind::InvalidTxnState)
    );
    let old = EndTransaction {
        producer_id: 1,
        producer_epoch: 1,
        marker: EndTransactionMarker {
            commit: true,
            coordinator_epoch: -1,
        },
    };
    let fenced = store
        .log
        .append_end_transaction(old, epoch(9), NOW, Durability::Written)
        .unwrap_err();
    assert_eq!(fenced.kind(), ErrorKind::TransactionCoordinatorFenced);
    assert_eq!(
        before,
        (log_bytes(&disk), store.log.epochs(), known(&store.log))
    );
}

/// Two transactions side by side, one aborted, one committed.
fn interleaved(log: &SimLog) {
    append(log, produced(ONE, 0, 2, true)).unwrap();
    append(log, produced(TWO, 0, 2, true)).unwrap();
    append(log, produced(ONE, 2, 2, true)).unwrap();
    end(log, ONE, false).unwrap();
    append(log, produced((3, 0), 0, 2, false)).unwrap();
    end(log, TWO, true).unwrap();
}

const COMMITTED: [(i64, i64); 2] = [(2, 3), (7, 8)];

#[test]
fn readers_of_committed_records_wait_for_the_oldest_open_transaction() {
    let (_, _, store) = log_with(1 << 20);
    let watcher = store.log.watch(Watched::LastStable);
    append(&store.log, produced((9, 0), 0, 1, false)).unwrap();
    append(&store.log, produced(ONE, 0, 2, true)).unwrap();
    append(&store.log, produced((9, 0), 1, 1, false)).unwrap();
    store.log.update_high_watermark(offset(4));

    assert_eq!(store.log.last_stable_offset(), offset(1));
    assert_eq!(watcher.current(), offset(1));
    assert_eq!(committed(&store.log), [(0, 0)]);
    assert_eq!(store.log.open_transactions(), [(offset(1), 1)]);

    end(&store.log, ONE, false).unwrap();
    assert_eq!(
        store.log.last_stable_offset(),
        offset(1),
        "the marker is not replicated"
    );
    store.log.update_high_watermark(offset(5));
    assert_eq!(watcher.current(), offset(5));
    assert_eq!(committed(&store.log), [(0, 0), (3, 3)]);
}

#[test]
fn aborted_records_are_left_out_across_segments_and_restarts() {
    for segment_bytes in [150, 260, 1 << 20] {
        let (disk, config, store) = log_with(segment_bytes);
        interleaved(&store.log);
        store.log.update_high_watermark(offset(10));
        assert_eq!(committed(&store.log), COMMITTED);

        store.dir.close().unwrap();
        let store = Store::open(&disk, &config).unwrap();
        assert_eq!(committed(&store.log), COMMITTED, "closed");

        drop(store);
        let store = Store::open(&disk, &config).unwrap();
        store.log.update_high_watermark(offset(10));
        assert_eq!(committed(&store.log), COMMITTED, "killed");
    }
}

/// Kafka takes a lost transaction index for "none was aborted" and delivers aborted records.
#[test]
fn a_lost_transaction_index_is_never_believed_empty() {
    for segment_bytes in [150, 260, 1 << 20] {
        for damage in ["removed", "emptied", "torn", "garbage"] {
            let (disk, config, store) = log_with(segment_bytes);
            interleaved(&store.log);
            store.log.update_high_watermark(offset(10));
            store.dir.close().unwrap();
            let dir = inside(&disk);
            let names = names_ending(&dir, ".txnindex");
            assert_eq!(names.len(), 1);
            let sound = read_all(&dir, &names[0]);
            match damage {
                "removed" => dir.remove(&names[0]).unwrap(),
                "emptied" => put(&dir, &names[0], b""),
                "torn" => put(&dir, &names[0], &sound[..30]),
                _ => put(&dir, &names[0], &[0x5a; 68]),
            }

            let store = Store::open(&disk, &config).unwrap();
            assert_eq!(committed(&store.log), COMMITTED, "{damage}");
            store.dir.close().unwrap();
            assert_eq!(read_all(&dir, &names[0]), sound, "{damage}: written again");
        }
    }
}

#[test]
fn lost_snapshots_are_rebuilt_after_a_clean_stop() {
    let (disk, config, store) = log_with(150);
    interleaved(&store.log);
    append(&store.log, produced((4, 2), 0, 1, true)).unwrap();
    let before = known(&store.log);
    store.dir.close().unwrap();
    let dir = inside(&disk);
    for name in names_ending(&dir, ".snapshot") {
        dir.remove(&name).unwrap();
    }

    let store = Store::open(&disk, &config).unwrap();

    assert_eq!(known(&store.log), before);
    assert_eq!(
        names_ending(&dir, ".snapshot").len(),
        3,
        "the last two segments and the end"
    );
}

#[test]
fn a_damaged_snapshot_is_set_aside_and_reported() {
    let (disk, config, store) = log_with(150);
    interleaved(&store.log);
    let before = known(&store.log);
    store.dir.close().unwrap();
    let dir = inside(&disk);
    let names = names_ending(&dir, ".snapshot");
    for name in &names {
        let mut bytes = read_all(&dir, name);
        bytes[7] ^= 0x80;
        put(&dir, name, &bytes);
    }

    let store = Store::open(&disk, &config).unwrap();

    assert_eq!(known(&store.log), before);
    let report = store.report.as_ref().unwrap();
    for name in &names {
        let told = report
            .notes
            .iter()
            .any(|note| note.file.as_ref() == Some(name));
        assert!(told, "{name} is reported");
    }
    let saved = files(&dir)
        .iter()
        .filter(|name| name.starts_with("highwater.saved-"))
        .count();
    assert_eq!(saved, names.len());
}

/// A transaction that was ended behind the cut is open again, and its records wait.
#[test]
fn a_truncation_takes_the_end_of_a_transaction_back() {
    let (_, _, store) = log_with(1 << 20);
    interleaved(&store.log);
    store.log.update_high_watermark(offset(10));

    store.log.truncate_to(offset(6), ALLOWED, NOW).unwrap();

    assert_eq!(store.log.last_stable_offset(), offset(0));
    assert_eq!(
        store.log.open_transactions(),
        [(offset(0), 1), (offset(2), 2)]
    );
    assert_eq!(
        store
            .log
            .aborted_transactions(offset(0), offset(6))
            .unwrap(),
        []
    );
    end(&store.log, ONE, true).unwrap();
    end(&store.log, TWO, false).unwrap();
    store.log.update_high_watermark(offset(8));
    assert_eq!(committed(&store.log), [(0, 1), (4, 5)]);
}

#[test]
fn producers_expire_by_the_time_that_is_given() {
    let (disk, config, store) = log_with(1 << 20);
    append(&store.log, produced(ONE, 0, 1, false)).unwrap();
    append(&store.log, produced(TWO, 0, 1, true)).unwrap();
    let day = NOW.millis() + 86_400_000;

    store
        .log
        .expire_producers(highwater::types::Timestamp::from_millis(day));
    assert_eq!(known(&store.log).keys().copied().collect::<Vec<_>>(), [2]);
    store.dir.close().unwrap();
    let store = Store::open(&disk, &config).unwrap();
    assert_eq!(known(&store.log).keys().copied().collect::<Vec<_>>(), [2]);
}
