//! Any bytes as the segments of a log that was not closed: it opens or says why not, keeps its
//! promises, and opens the same way again.

use highwater::log::{Durability, Fetched, Isolation, LogConfig, TruncateOptions};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::{
    CLEAN_SHUTDOWN, FileType, RECOVERY_POINT_CHECKPOINT, TopicPartition, segment_name,
};
use highwater::record::{BatchBuilder, Codec};
use highwater::storage::sim::{SimDir, SimDisk};
use highwater::storage::{Dir, File};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The first byte picks what stands beside the segment, the second a recovery point, the third
/// where the bytes are split into two segments; the rest is the log.
pub(crate) fn run(data: &[u8]) {
    let [flags, recovery_point, split, bytes @ ..] = data else {
        return;
    };
    let disk = SimDisk::new();
    let root = disk.root();
    let Ok(dir) = root.create_subdir("fuzz-0") else {
        return;
    };
    let cut = usize::from(*split).min(bytes.len());
    let (first, second) = bytes.split_at(cut);
    put(&dir, &segment_name(Offset::ZERO, FileType::Log), first);
    if flags & 1 != 0 {
        put(&dir, &segment_name(Offset::MAX, FileType::Log), second);
    } else if let Some(base) = Offset::new(i64::from(*split)) {
        put(&dir, &segment_name(base, FileType::Log), second);
    }
    if flags & 2 != 0 {
        put(&dir, &segment_name(Offset::ZERO, FileType::Index), second);
        put(
            &dir,
            &segment_name(Offset::ZERO, FileType::TimeIndex),
            first,
        );
    }
    if flags & 4 != 0 {
        put(&root, CLEAN_SHUTDOWN, b"{}");
    }
    let row = format!("0\n1\nfuzz 0 {recovery_point}\n");
    put(&root, RECOVERY_POINT_CHECKPOINT, row.as_bytes());

    let Some(end) = open(&root) else { return };
    assert_eq!(open(&root), Some(end), "the second open ends elsewhere");
}

fn put(dir: &SimDir, name: &str, bytes: &[u8]) {
    if let Ok(file) = dir.create_new(name) {
        assert!(file.write_all_at(bytes, 0).is_ok(), "the disk has room");
    }
}

/// Opens, reads all, appends if the log takes it, and takes that back; returns the end.
fn open(root: &SimDir) -> Option<Offset> {
    let name = TopicPartition::new("fuzz", 0);
    let config = LogConfig::default().segment_index_bytes(1 << 10);
    let options = DirOptions::new(NOW).config(config);
    let (dir, _) = LogDir::open_in(root.clone(), options).ok()?;
    let log = dir.log(&name)?;
    let end = log.log_end_offset();
    assert!(log.log_start_offset() <= log.high_watermark());
    assert!(log.high_watermark() <= end);
    assert!(log.recovery_point() <= end);

    let mut fetched = Fetched::default();
    let mut from = log.log_start_offset();
    while log
        .read_into(from, 1 << 16, true, Isolation::LogEnd, &mut fetched)
        .is_ok()
    {
        let Some(next) = fetched.next_offset() else {
            break;
        };
        assert!(next > from, "a read that goes nowhere");
        assert!(next <= end, "a read past the end");
        from = next;
    }
    let mut batch = BatchBuilder::new(Codec::None);
    if batch.push(NOW.millis(), None, Some(b"next"), &[]).is_err() {
        return Some(end);
    }
    let mut bytes = batch.finish().ok()?;
    let epoch = log.latest_epoch().unwrap_or(LeaderEpoch::ZERO);
    if let Ok(appended) = log.append_as_leader(&mut bytes, epoch, NOW, Durability::Synced) {
        assert_eq!(appended.first_offset, Some(end));
        let read = log.read(end, 1 << 16, Isolation::LogEnd);
        assert!(read.is_ok_and(|read| read.bytes() == bytes));
        let allowed = TruncateOptions {
            below_high_watermark: true,
        };
        let cut = log.truncate_to(end, allowed, NOW);
        assert!(cut.is_ok_and(|cut| cut.log_end_offset == end));
    }
    Some(end)
}
