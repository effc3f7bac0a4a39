//! Any bytes as the producer snapshots and the transaction index of a sound log: nothing of an
//! aborted transaction is delivered, nothing committed is hidden, and no producer is forgotten.

use std::sync::OnceLock;

use highwater::log::{Durability, EndTransaction, Isolation, Log, LogConfig};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::producer::snapshot;
use highwater::record::{BatchBuilder, Codec, EndTransactionMarker};
use highwater::storage::sim::{CrashPlan, SimDir, SimDisk};
use highwater::storage::{Dir, EntryKind, replace_file};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// What readers of committed records get: first and last offset of each batch.
const COMMITTED: [(i64, i64); 3] = [(0, 0), (3, 4), (8, 8)];

/// The first byte picks whether the snapshots or the transaction indexes hold the rest.
pub(crate) fn run(data: &[u8]) {
    let Some((&pick, bytes)) = data.split_first() else {
        return;
    };
    let suffix = if pick & 1 == 0 {
        ".snapshot"
    } else {
        ".txnindex"
    };
    // A sound snapshot is believed: it says what it says.
    if suffix == ".snapshot" && snapshot::parse(bytes).is_ok() {
        return;
    }
    let disk = ready().crash(&CrashPlan::KeepAll);
    let Ok(dir) = disk.root().subdir("fuzz-0") else {
        return;
    };
    for entry in dir.list().unwrap_or_default() {
        if entry.kind == EntryKind::File && entry.name.ends_with(suffix) {
            assert!(replace_file(&dir, &entry.name, bytes).is_ok());
        }
    }
    let (_data, log) = open(&disk);
    assert_eq!(committed(&log), COMMITTED);
    let known = log.with_producers(|producers| {
        let each = producers.iter();
        each.map(|(id, state)| (id, state.last_sequence()))
            .collect::<Vec<_>>()
    });
    assert_eq!(known, [(1, 2), (2, 1), (3, 0)]);
}

fn open(disk: &SimDisk) -> (LogDir<SimDir>, std::sync::Arc<Log<SimDir>>) {
    let options = DirOptions::new(NOW).config(config()).threads(1);
    let opened = LogDir::open_in(disk.root(), options);
    let (dir, _) = opened.unwrap_or_else(|error| panic!("the directory opens: {error}"));
    let log = dir.log(&TopicPartition::new("fuzz", 0));
    let log = log.unwrap_or_else(|| panic!("the log opens"));
    (dir, log)
}

fn config() -> LogConfig {
    LogConfig::default().segment_bytes(260)
}

fn committed(log: &Log<SimDir>) -> Vec<(i64, i64)> {
    let mut from = Offset::ZERO;
    let mut got = Vec::new();
    while let Ok(fetched) = log.read(from, 1 << 16, Isolation::Committed) {
        let batches = fetched.committed_batches().flatten();
        got.extend(batches.map(|batch| (batch.header().base_offset, batch.header().last_offset)));
        match fetched.next_offset() {
            Some(next) => from = next,
            None => break,
        }
    }
    got
}

/// A closed log of several segments: a committed transaction, an aborted one, one that is open.
fn ready() -> &'static SimDisk {
    static READY: OnceLock<SimDisk> = OnceLock::new();
    READY.get_or_init(|| {
        let disk = SimDisk::new();
        let options = DirOptions::new(NOW).config(config()).threads(1);
        let made = LogDir::open_in(disk.root(), options).and_then(|(dir, _)| {
            let log = dir.create_log(&TopicPartition::new("fuzz", 0), config(), None, NOW)?;
            fill(&log)?;
            log.update_high_watermark(log.log_end_offset());
            dir.close()
        });
        assert!(made.is_ok(), "{made:?}");
        disk
    })
}

fn fill(log: &Log<SimDir>) -> Result<(), highwater::error::Error> {
    let append = |id, sequence, count, transactional| {
        let mut batch = produced(id, sequence, count, transactional);
        log.append_as_leader(&mut batch, LeaderEpoch::ZERO, NOW, Durability::Written)
    };
    let end = |producer_id, commit| {
        let end = EndTransaction {
            producer_id,
            producer_epoch: 0,
            marker: EndTransactionMarker {
                commit,
                coordinator_epoch: 0,
            },
        };
        log.append_end_transaction(end, LeaderEpoch::ZERO, NOW, Durability::Written)
    };
    append(1, 0, 1, true)?;
    append(2, 0, 1, true)?;
    end(1, true)?;
    append(1, 1, 2, false)?;
    append(2, 1, 1, true)?;
    end(2, false)?;
    end(1, false)?;
    append(3, 0, 1, false).map(drop)
}

fn produced(id: i64, sequence: i32, count: u32, transactional: bool) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None)
        .producer(id, 0, sequence)
        .transactional(transactional);
    for _ in 0..count {
        let pushed = builder.push(NOW.millis(), None, Some(b"value"), &[]);
        assert!(pushed.is_ok());
    }
    builder.finish().unwrap_or_default()
}
