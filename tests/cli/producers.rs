//! Producers and transactions, on a log whose every batch is known:
//!
//! ```text
//!  0-2   producer 1, transaction     9-10  producer 1, transaction
//!  3-4   producer 2, transaction     11    producer 1 aborts
//!  5     producer 1 aborts           12-13 producer 2, transaction, never ended
//!  6     producer 2 commits          14    nobody's
//!  7-8   producer 3                        (a segment each; all are below the high watermark)
//! ```

use std::fs;
use std::path::PathBuf;
use std::process::Output;

use highwater::index::{AbortedTransaction, TransactionIndex};
use highwater::log::{Durability, EndTransaction, Log, LogConfig};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::producer::{ProducerSnapshotEntry, snapshot};
use highwater::record::{BatchBuilder, Codec, EndTransactionMarker};
use highwater::types::{LeaderEpoch, Offset, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bad_input::bounded;
use super::contents;

const NOW: i64 = 1_700_000_000_000;
const DAY: i64 = 86_400_000;
const COMMITTED: &str = "3\n4\n7\n8\n";
const SNAPSHOTS: [&str; 2] = [
    "00000000000000000009.snapshot",
    "00000000000000000015.snapshot",
];
const INDEXES: [&str; 2] = [
    "00000000000000000000.txnindex",
    "00000000000000000009.txnindex",
];

struct Writer<'l> {
    log: &'l Log,
    epoch: LeaderEpoch,
    time: i64,
}

impl Writer<'_> {
    /// Records whose values are their offsets, a second later than the last ones.
    fn records(&mut self, records: i64, producer: Option<(i64, i32)>, transactional: bool) {
        self.time += 1000;
        let mut batch = BatchBuilder::new(Codec::None).transactional(transactional);
        if let Some((id, sequence)) = producer {
            batch = batch.producer(id, 0, sequence);
        }
        let from = self.log.log_end_offset().get();
        for value in from..from + records {
            let value = value.to_string();
            batch
                .push(self.time, None, Some(value.as_bytes()), &[])
                .unwrap();
        }
        let mut bytes = batch.finish().unwrap();
        let time = Timestamp::from_millis(self.time);
        self.log
            .append_as_leader(&mut bytes, self.epoch, time, Durability::Written)
            .unwrap();
    }

    fn end(&mut self, producer_id: i64, commit: bool) {
        self.time += 1000;
        let end = EndTransaction {
            producer_id,
            producer_epoch: 0,
            marker: EndTransactionMarker {
                commit,
                coordinator_epoch: 7,
            },
        };
        let time = Timestamp::from_millis(self.time);
        self.log
            .append_end_transaction(end, self.epoch, time, Durability::Written)
            .unwrap();
    }
}

struct Case {
    temp: TempDir,
}

impl Case {
    fn new() -> Self {
        let temp = TempDir::new().unwrap();
        let now = Timestamp::from_millis(NOW);
        let name = TopicPartition::parse("t-0").unwrap();
        let (dir, _) = LogDir::open(temp.path(), DirOptions::new(now)).unwrap();
        let log = dir
            .create_log(&name, LogConfig::default(), None, now)
            .unwrap();
        let mut writer = Writer {
            log: &log,
            epoch: LeaderEpoch::new(0).unwrap(),
            time: NOW - 100_000,
        };
        writer.records(3, Some((1, 0)), true);
        writer.records(2, Some((2, 0)), true);
        writer.end(1, false);
        writer.end(2, true);
        writer.records(2, Some((3, 0)), false);
        log.roll(now).unwrap();
        writer.records(2, Some((1, 3)), true);
        writer.end(1, false);
        writer.records(2, Some((2, 2)), true);
        writer.records(1, None, false);
        log.flush().unwrap();
        log.update_high_watermark(offset(15));
        drop(log);
        dir.close().unwrap();
        Self { temp }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.temp.path().join("t-0").join(name)
    }

    fn log(&self) -> PathBuf {
        self.temp.path().join("t-0")
    }

    fn run(&self, args: &[&str]) -> Output {
        let log = self.log();
        let mut all = vec![args[0], log.to_str().unwrap()];
        all.extend(&args[1..]);
        bounded(&all)
    }

    /// What a verb prints that ends well and changes nothing.
    #[track_caller]
    fn prints(&self, args: &[&str]) -> String {
        let before = contents(self.temp.path());
        let output = self.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert_eq!(stderr, "");
        assert_eq!(before, contents(self.temp.path()));
        String::from_utf8(output.stdout).unwrap()
    }

    #[track_caller]
    fn json(&self, args: &[&str]) -> Vec<Value> {
        let lines = self.prints(args);
        let line = |line| serde_json::from_str(line).unwrap();
        lines.lines().map(line).collect()
    }

    fn producers(&self, more: &[&str]) -> Vec<Value> {
        let now = NOW.to_string();
        let mut args = vec!["producers", "--json", "--now", &now];
        args.extend(more);
        self.json(&args)
    }

    /// `verify` names the one finding, and ends as damage does.
    #[track_caller]
    fn verify_finds(&self, finding: &str) {
        let output = self.run(&["verify", "--now", &NOW.to_string()]);
        let lines = String::from_utf8(output.stdout).unwrap();
        assert!(lines.starts_with(finding), "{finding}: {lines}");
        assert_eq!(lines.lines().count(), 1, "{lines}");
        assert_eq!(output.status.code(), Some(1));
    }

    /// Changes the entries of a snapshot; its checksum is right.
    fn change_snapshot(&self, name: &str, change: impl FnOnce(&mut Vec<ProducerSnapshotEntry>)) {
        let mut entries = snapshot::parse(&fs::read(self.file(name)).unwrap()).unwrap();
        change(&mut entries);
        fs::write(self.file(name), snapshot::print(entries)).unwrap();
    }

    fn entry(&self, name: &str) -> AbortedTransaction {
        let parsed = TransactionIndex::parse(&fs::read(self.file(name)).unwrap()).unwrap();
        parsed.index.entries()[0]
    }

    fn write_index(&self, name: &str, entries: &[AbortedTransaction]) {
        let mut bytes = Vec::new();
        for entry in entries {
            entry.encode(&mut bytes);
        }
        fs::write(self.file(name), bytes).unwrap();
    }
}

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

#[test]
fn committed_records_leave_out_what_was_aborted_or_is_open() {
    let case = Case::new();

    assert_eq!(
        case.prints(&["read", "--isolation", "committed"]),
        COMMITTED
    );
    let from = ["read", "--isolation", "committed", "--from", "1"];
    assert_eq!(case.prints(&from), COMMITTED);
    let all = case.prints(&["read", "--isolation", "high-watermark"]);
    assert_eq!(all, "0\n1\n2\n3\n4\n7\n8\n9\n10\n12\n13\n14\n");
    let from = ["read", "--isolation", "committed", "--from", "12"];
    assert_eq!(case.prints(&from), "");
    let rows = case.temp.path().join("replication-offset-checkpoint");
    fs::write(rows, "0\n1\nt 0 8\n").unwrap();
    assert_eq!(case.prints(&["read", "--isolation", "committed"]), "3\n4\n");
}

/// Lost and damaged side files hide no abort and no producer.
#[test]
fn side_files_are_not_believed_where_batches_say_more() {
    let random: Vec<u8> = (0..=255_u8).map(|byte| byte.wrapping_mul(151)).collect();
    let known = Case::new().producers(&[]).len();
    for content in [None, Some(Vec::new()), Some(random), Some(vec![0; 68])] {
        for names in [&SNAPSHOTS[..], &INDEXES[..], &INDEXES[1..]] {
            let case = Case::new();
            for name in names {
                match &content {
                    None => fs::remove_file(case.file(name)).unwrap(),
                    Some(bytes) => fs::write(case.file(name), bytes).unwrap(),
                }
            }
            let read = case.prints(&["read", "--isolation", "committed"]);
            assert_eq!(read, COMMITTED, "{names:?} {content:?}");
            assert_eq!(case.producers(&[]).len(), known, "{names:?} {content:?}");
            assert_eq!(case.json(&["info", "--json"])[0]["last_stable_offset"], 12);

            // Nor once they were made anew.
            let recovered = case.run(&["recover", "--now", &NOW.to_string()]);
            assert_eq!(recovered.status.code(), Some(0));
            assert_eq!(case.entry(INDEXES[1]).first_offset, offset(9));
            let read = case.prints(&["read", "--isolation", "committed"]);
            assert_eq!(read, COMMITTED, "{names:?} {content:?}");
            assert_eq!(case.producers(&[]).len(), known, "{names:?} {content:?}");
            let found = case.prints(&["verify", "--now", &NOW.to_string()]);
            let saved = "note leftover: t-0/highwater.saved-";
            assert!(found.lines().all(|line| line.starts_with(saved)), "{found}");
        }
    }
}

#[test]
fn producers_are_told_with_their_last_batches() {
    let case = Case::new();
    let producer = |id: i64, coordinator: i32, open: Option<i64>, seconds: i64, batch: [i64; 4]| {
        json!({
            "producer_id": id, "producer_epoch": 0, "coordinator_epoch": coordinator,
            "open_since": open, "last_timestamp": NOW - 100_000 + seconds * 1000,
            "batches": [batch],
        })
    };

    let told = case.producers(&[]);

    let expected = [
        producer(1, 7, None, 7, [3, 4, 9, 10]),
        producer(2, 7, Some(12), 8, [2, 3, 12, 13]),
        producer(3, -1, None, 5, [0, 1, 7, 8]),
    ];
    assert_eq!(told, expected);

    // Without a snapshot the batches say more: the last five.
    for name in SNAPSHOTS {
        fs::remove_file(case.file(name)).unwrap();
    }
    let batches = json!([[0, 2, 0, 2], [3, 4, 9, 10]]);
    assert_eq!(case.producers(&[])[0]["batches"], batches);
}

#[test]
fn producers_say_who_holds_the_last_stable_offset_back() {
    let case = Case::new();
    let lines = case.prints(&["producers", "--now", &NOW.to_string()]);

    let told = "\
t-0: offsets 0 to 15, high watermark 15, last stable offset 12
  held back by producer 2, epoch 0
  producer 1, epoch 0, coordinator epoch 7: last sequence 4 at offset 10, last written \
                1699999907000 (1m 33s ago)
  producer 2, epoch 0, coordinator epoch 7: last sequence 3 at offset 13, last written \
                1699999908000 (1m 32s ago)
    transaction open: from offset 12 to 13, since 1699999908000 (1m 32s ago)
  producer 3, epoch 0, coordinator epoch -1: last sequence 1 at offset 8, last written \
                1699999905000 (1m 35s ago)
";
    assert_eq!(lines, told);
}

#[test]
fn a_transaction_hangs_once_nobody_has_written_to_it_for_long() {
    let case = Case::new();
    let ids = |age: &str| {
        let told = case.producers(&["--hanging", age]);
        let ids = told
            .iter()
            .map(|line| line["producer_id"].as_i64().unwrap());
        ids.collect::<Vec<_>>()
    };

    assert_eq!(ids("92s"), Vec::<i64>::new());
    assert_eq!(ids("91999"), [2]);
    assert_eq!(ids("1m"), [2]);
    assert_eq!(ids("1d"), Vec::<i64>::new());
    let refused = case.run(&["producers", "--hanging", "soon"]);
    assert_eq!(refused.status.code(), Some(2));
}

#[test]
fn producers_that_were_silent_for_a_day_are_forgotten_but_for_an_open_transaction() {
    let case = Case::new();
    let known = |now: i64| {
        let now = now.to_string();
        let told = case.json(&["producers", "--json", "--now", &now]);
        let info = case.json(&["info", "--json", "--now", &now]);
        assert_eq!(info[0]["producers"], told.len());
        let ids = told
            .iter()
            .map(|line| line["producer_id"].as_i64().unwrap());
        ids.collect::<Vec<_>>()
    };
    let last_of_three = NOW - 95_000;

    assert_eq!(known(last_of_three + DAY - 1), [1, 2, 3]);
    assert_eq!(known(last_of_three + DAY), [1, 2]);
    assert_eq!(known(last_of_three + 9 * DAY), [2]);

    let later = (last_of_three + 9 * DAY).to_string();
    assert_eq!(
        case.run(&["recover", "--now", &later]).status.code(),
        Some(0)
    );
    let before = last_of_three.to_string();
    // Recovery forgets as of its own time, but for those that the last segment brings back.
    let told = case.json(&["producers", "--json", "--now", &before]);
    let ids: Vec<_> = told.iter().map(|line| &line["producer_id"]).collect();
    assert_eq!(ids, [1, 2]);
}

#[test]
fn info_counts_producers_and_open_transactions() {
    let case = Case::new();
    let now = NOW.to_string();

    let info = &case.json(&["info", "--json", "--now", &now])[0];

    assert_eq!(info["last_stable_offset"], 12);
    assert_eq!(info["producers"], 3);
    let open = json!([{ "producer_id": 2, "producer_epoch": 0, "first_offset": 12 }]);
    assert_eq!(info["open_transactions"], open);
    let text = case.prints(&["info", "--now", &now]);
    assert!(
        text.contains("producers 3, open transactions 1, last stable offset 12"),
        "{text}"
    );
    assert!(text.contains("open since offset 12: producer 2"), "{text}");

    // Without a high watermark nothing is stable.
    fs::remove_file(case.temp.path().join("replication-offset-checkpoint")).unwrap();
    let info = &case.json(&["info", "--json", "--now", &now])[0];
    assert_eq!(
        (&info["last_stable_offset"], &info["high_watermark"]),
        (&json!(0), &Value::Null)
    );
}

#[test]
fn dump_shows_a_transaction_index() {
    let case = Case::new();
    let path = case.file(INDEXES[1]);

    let output = bounded(&["dump", "--json", path.to_str().unwrap()]);

    let line: Value = serde_json::from_slice(&output.stdout).unwrap();
    let expected = json!({
        "version": 0, "producer_id": 1, "first_offset": 9, "last_offset": 11,
        "last_stable_offset": 12,
    });
    assert_eq!(line, expected);
}

#[test]
fn verify_holds_snapshots_against_the_batches() {
    type Change = fn(&mut Vec<ProducerSnapshotEntry>);
    let changes: [(Change, usize, &str); 9] = [
        (
            |e| e[0].producer_epoch = 1,
            0,
            "epoch 1, where the batches give 0",
        ),
        (
            |e| e[1].coordinator_epoch = 6,
            1,
            "coordinator epoch 6, where the batches give 7",
        ),
        (
            |e| e[2].coordinator_epoch = 0,
            2,
            "coordinator epoch 0, where the batches give -1",
        ),
        (|e| e[2].last_sequence = 5, 2, "last sequence 5 at offset 8"),
        (
            |e| e[2].last_offset = Some(offset(6)),
            2,
            "last sequence 1 at offset 6",
        ),
        (
            |e| e[0].current_txn_first_offset = Some(offset(1)),
            0,
            "a transaction open since 1",
        ),
        (
            |e| e[2].producer_id = 4,
            2,
            "no batch before is of this producer",
        ),
        (|e| e[2].producer_id = 2, 2, "comes again"),
        (|e| e.truncate(2), 2, "producer 3 is missing"),
    ];
    for name in SNAPSHOTS {
        for (change, entry, detail) in &changes {
            let case = Case::new();
            case.change_snapshot(name, change);
            let position = 10 + 46 * entry;
            let what = format!("damage snapshot: t-0/{name}, position {position}, offset ");
            case.verify_finds(&what);
            let told = case.run(&["verify", "--now", &NOW.to_string()]).stdout;
            let told = String::from_utf8(told).unwrap();
            assert!(told.contains(detail), "{told}");
        }
    }
    let case = Case::new();
    case.change_snapshot(SNAPSHOTS[1], |e| e[1].current_txn_first_offset = None);
    case.verify_finds("damage snapshot: t-0/00000000000000000015.snapshot, position 56");

    // Any order will do, and one that has expired need not be there.
    let case = Case::new();
    case.change_snapshot(SNAPSHOTS[1], |e| e.swap(0, 1));
    assert_eq!(case.prints(&["verify", "--now", &NOW.to_string()]), "");
    case.change_snapshot(SNAPSHOTS[1], |e| e.truncate(2));
    let later = (NOW + DAY).to_string();
    assert_eq!(case.prints(&["verify", "--now", &later]), "");
}

#[test]
fn verify_holds_transaction_indexes_against_the_batches() {
    type Change = fn(&mut AbortedTransaction);
    let changes: [(Change, &str); 6] = [
        (|e| e.first_offset = offset(1), "first offset 1"),
        (|e| e.producer_id = 3, "no abort marker of producer 3"),
        (|e| e.last_offset = offset(6), "missing"),
        (|e| e.last_offset = offset(8), "missing"),
        (|e| e.last_stable_offset = offset(6), "last stable offset 6"),
        (|e| e.last_stable_offset = offset(2), "last stable offset 2"),
    ];
    let name = INDEXES[0];
    for (change, detail) in changes {
        let case = Case::new();
        let mut entry = case.entry(name);
        change(&mut entry);
        case.write_index(name, &[entry]);
        case.verify_finds(&format!("damage transaction_index: t-0/{name}, position 0"));
        let told = case.run(&["verify", "--now", &NOW.to_string()]).stdout;
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains(detail), "{told}");
    }

    let case = Case::new();
    case.write_index(name, &[]);
    case.verify_finds(&format!(
        "damage transaction_index: t-0/{name}, position 0, offset 5"
    ));

    let case = Case::new();
    let entry = case.entry(name);
    let behind = AbortedTransaction {
        last_offset: offset(7),
        ..entry
    };
    case.write_index(name, &[entry, behind]);
    case.verify_finds(&format!(
        "damage transaction_index: t-0/{name}, position 34, offset 7"
    ));

    let case = Case::new();
    let mut bytes = fs::read(case.file(name)).unwrap();
    bytes.extend_from_slice(&[0; 20]);
    fs::write(case.file(name), bytes).unwrap();
    case.verify_finds(&format!(
        "damage transaction_index: t-0/{name}, position 34"
    ));
}

/// Snapshots that hold no sense, and indexes that go backwards: told, with file and position, by
/// the verb that looks and by the one that mends.
#[test]
fn hostile_side_files_are_reported_and_made_anew() {
    let mut many = snapshot::print([]);
    many[6..10].copy_from_slice(&i32::MIN.to_be_bytes());
    let mut most = snapshot::print([]);
    most[6..10].copy_from_slice(&i32::MAX.to_be_bytes());
    for bytes in [&mut many, &mut most] {
        let crc = highwater::record::crc32c(&bytes[6..]);
        bytes[2..6].copy_from_slice(&crc.to_be_bytes());
    }
    let random: Vec<u8> = (0..3000_u32)
        .map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[0])
        .collect();
    let mut backwards = Vec::new();
    for last in [offset(5), offset(4)] {
        let entry = AbortedTransaction {
            last_offset: last,
            ..Case::new().entry(INDEXES[0])
        };
        entry.encode(&mut backwards);
    }
    let [index, _] = INDEXES;
    for (name, kind, position, bytes) in [
        (SNAPSHOTS[0], "snapshot", 0, &random),
        (SNAPSHOTS[1], "snapshot", 0, &random),
        (SNAPSHOTS[0], "snapshot", 6, &many),
        (SNAPSHOTS[1], "snapshot", 6, &many),
        (SNAPSHOTS[1], "snapshot", 10, &most),
        (index, "transaction_index", 34, &backwards),
    ] {
        let case = Case::new();
        let sound = fs::read(case.file(name)).unwrap();
        fs::write(case.file(name), bytes).unwrap();

        case.verify_finds(&format!("damage {kind}: t-0/{name}, position {position}"));
        let read = case.prints(&["read", "--isolation", "committed"]);
        assert_eq!(read, COMMITTED);
        assert_eq!(case.producers(&[]).len(), 3);

        let recovered = case.run(&["recover", "--json", "--now", &NOW.to_string()]);
        assert_eq!(recovered.status.code(), Some(0));
        let line: Value = serde_json::from_slice(&recovered.stdout).unwrap();
        let notes = line["notes"].as_array().unwrap();
        let note = notes.iter().find(|note| note["file"] == name).unwrap();
        let detail = note["detail"].as_str().unwrap();
        assert!(
            detail.starts_with(&format!("position {position}: ")),
            "{detail}"
        );
        assert_eq!(fs::read(case.file(name)).unwrap(), sound, "{name}");
    }
}
