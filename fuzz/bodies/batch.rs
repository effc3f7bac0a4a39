//! Arbitrary bytes as entries of a log and as an append of a client.

use highwater::record::{AppendRules, Batch, Batches, Scratch, stamp_append, validate_append};
use highwater::types::{LeaderEpoch, Offset, Timestamp};

/// Reads `data` in every way that bytes from a disk or a client are read.
pub(crate) fn run(data: &[u8]) {
    let mut scratch = Scratch::new(1 << 20);
    for batch in Batches::new(data).flatten() {
        let sound = batch.verify().is_ok();
        assert_eq!(sound, batch.verify().is_ok());
        let _marker = batch.end_transaction_marker(&mut scratch);
        if let Ok(records) = batch.records(&mut scratch) {
            for record in records.flatten() {
                assert!(record.headers().all(|header| header.is_ok()));
            }
        }
    }
    append(data, &mut scratch);

    // With the checksum renewed the bytes get further.
    let mut renewed = data.to_vec();
    if let Some((front, covered)) = renewed.split_at_mut_checked(21) {
        let crc = highwater::record::crc32c(covered).to_be_bytes();
        if let Some(place) = front.last_chunk_mut::<4>() {
            *place = crc;
        }
        append(&renewed, &mut scratch);
    }
}

/// What is taken can be stamped, and is a sound batch then.
fn append(data: &[u8], scratch: &mut Scratch) {
    let now = Timestamp::from_millis(1_700_000_000_000);
    let Ok(Some(taken)) = validate_append(data, &AppendRules::default(), now, scratch) else {
        return;
    };
    let mut bytes = data.to_vec();
    stamp_append(&mut bytes, &taken, Offset::ZERO, LeaderEpoch::ZERO, now);
    let batch = Batch::parse(&bytes).expect("a batch that was taken");
    batch.verify().expect("a checksum that was kept or renewed");
    assert_eq!(batch.header().max_timestamp, taken.max_timestamp);
}
