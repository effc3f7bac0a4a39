//! Arbitrary bytes as one message of version 0 or 1: the first byte chooses version and attributes,
//! the rest stands behind them.

use highwater::record::{Batches, Scratch};

/// Reads `data` as a message set.
pub(crate) fn run(data: &[u8]) {
    let mut scratch = Scratch::new(1 << 20);
    read(data, &mut scratch);
    let Some((&choice, rest)) = data.split_first() else {
        return;
    };
    let Ok(size) = i32::try_from(rest.len().saturating_add(6)) else {
        return;
    };
    let mut entry = 9_i64.to_be_bytes().to_vec();
    entry.extend_from_slice(&size.to_be_bytes());
    let covered = [&[choice & 1, choice >> 1], rest].concat();
    entry.extend_from_slice(&highwater::record::crc32_ieee(&covered).to_be_bytes());
    entry.extend_from_slice(&covered);
    read(&entry, &mut scratch);
}

fn read(data: &[u8], scratch: &mut Scratch) {
    for batch in Batches::new(data).flatten() {
        let _sound = batch.verify_deep(scratch);
        let first = batch.base_offset(scratch);
        let count = batch.record_count(scratch);
        if let Ok(mut records) = batch.records(scratch) {
            let next = records.next();
            if let (Ok(first), Some(Ok(record))) = (first, next) {
                assert_eq!(first, record.offset);
            }
            let rest = records.flatten().count();
            if let Ok(count) = count {
                assert!(rest <= usize::try_from(count).unwrap_or(usize::MAX));
            }
        }
    }
}
