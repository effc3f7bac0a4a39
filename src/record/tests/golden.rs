//! Batches that Kafka wrote.

use super::super::*;
use super::hex;
use crate::types::{LeaderEpoch, Offset};

/// Reference vectors: two records, one of them with a header and without a key.
#[test]
fn a_plain_batch_is_read_and_built() {
    let bytes = hex(concat!(
        "00000000000000000000004c0000000002d664a2f000000000000100000000000003e8",
        "00000000000003edffffffffffffffffffffffffffff00000002",
        "14000000046b31047631001e000a02010a68656c6c6f0202680278"
    ));
    let batch = Batch::parse(&bytes).unwrap();
    batch.verify().unwrap();
    assert_eq!(batch.header().crc, 0xd664_a2f0);
    let mut scratch = Scratch::default();
    let records: Vec<_> = batch
        .records(&mut scratch)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(records[0].key, Some(b"k1".as_slice()));
    assert_eq!(
        (records[1].offset, records[1].timestamp, records[1].key),
        (1, 1005, None)
    );
    let headers: Vec<_> = records[1].headers().map(Result::unwrap).collect();
    assert_eq!(
        headers,
        [Header {
            key: b"h",
            value: Some(b"x")
        }]
    );

    let mut builder = BatchBuilder::new(Codec::None).leader_epoch(LeaderEpoch::ZERO);
    builder.push(1000, Some(b"k1"), Some(b"v1"), &[]).unwrap();
    builder
        .push(1005, None, Some(b"hello"), &[("h", Some(b"x"))])
        .unwrap();
    assert_eq!(builder.len_estimate(), bytes.len());
    assert_eq!(builder.finish().unwrap(), bytes);
}

#[test]
fn a_commit_marker_is_read_and_built() {
    let bytes = hex(concat!(
        "000000000000000a000000420000000502312774c100300000000000000000000003e8",
        "00000000000003e800000000000000010003ffffffff00000001",
        "2000000008000000010c00000000000700"
    ));
    let batch = Batch::parse(&bytes).unwrap();
    batch.verify().unwrap();
    let mut scratch = Scratch::default();
    assert_eq!(
        batch.control_type(&mut scratch),
        Ok(Some(ControlType::Commit))
    );
    let marker = EndTransactionMarker {
        commit: true,
        coordinator_epoch: 7,
    };
    assert_eq!(batch.end_transaction_marker(&mut scratch), Ok(Some(marker)));

    let (base, epoch) = (Offset::new(10).unwrap(), LeaderEpoch::new(5));
    assert_eq!(marker.to_batch(base, epoch, 1000, 1, 3).unwrap(), bytes);
}

#[test]
fn a_batch_emptied_by_compaction_keeps_its_offsets() {
    let bytes = hex(concat!(
        "0000000000000014000000310000000502c1b87acd000000000004ffffffffffffffff",
        "00000000000004d2000000000000000100030000000900000000"
    ));
    let batch = Batch::parse(&bytes).unwrap();
    batch.verify().unwrap();
    let header = batch.header();
    assert_eq!(
        (header.base_offset, header.last_offset, header.record_count),
        (20, 24, 0)
    );
    assert_eq!((header.last_sequence(), header.base_timestamp), (13, -1));
    assert_eq!(batch.records(&mut Scratch::default()).unwrap().count(), 0);
}

#[test]
#[cfg(feature = "legacy")]
fn messages_of_versions_0_and_1_are_read() {
    for (bytes, timestamp) in [
        (
            "00000000000000000000001257e7496e0000000000026b31000000027631",
            -1,
        ),
        (
            "00000000000000000000001ab1a6ec76010000000000000003e8000000026b31000000027631",
            1000,
        ),
    ] {
        let bytes = hex(bytes);
        let batch = Batch::parse(&bytes).unwrap();
        batch.verify().unwrap();
        let mut scratch = Scratch::default();
        let record = batch
            .records(&mut scratch)
            .unwrap()
            .next()
            .unwrap()
            .unwrap();
        assert_eq!((record.offset, record.timestamp), (0, timestamp));
        assert_eq!(record.key, Some(b"k1".as_slice()));
        assert_eq!(record.value, Some(b"v1".as_slice()));
        let mut cut = bytes.clone();
        assert_eq!(stamp(&mut cut, Offset::ZERO, LeaderEpoch::ZERO), {
            Err(DecodeError::CannotStamp(batch.header().magic))
        });
    }
}

/// `batches.txt`: log, then `first-last:epoch:codec:records:bytes` a batch as Kafka lists them, the
/// number of records, the control records.
#[test]
#[cfg(all(
    feature = "legacy",
    feature = "gzip",
    feature = "snappy",
    feature = "lz4",
    feature = "zstd"
))]
fn logs_of_kafka_are_listed_as_kafka_does() {
    let fixtures = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/record");
    let mut scratch = Scratch::default();

    for line in include_str!("../../../tests/fixtures/record/batches.txt").lines() {
        let [name, listed, records, control] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let mut found = Vec::new();
        let mut controls = std::collections::BTreeMap::<_, u32>::new();
        let mut count = 0;
        let bytes = bytes_of(&fixtures.join(format!("{name}.log")));
        for batch in Batches::new(&bytes) {
            let batch = batch.unwrap();
            batch.verify_deep(&mut scratch).unwrap();
            let header = *batch.header();
            let first = batch.base_offset(&mut scratch).unwrap();
            let in_batch = batch.record_count(&mut scratch).unwrap();
            let (last_offset, epoch, size) =
                (header.last_offset, header.leader_epoch, header.bytes);
            let codec = header.codec().unwrap();
            found.push(format!(
                "{first}-{last_offset}:{epoch}:{codec}:{in_batch}:{size}"
            ));
            count += in_batch;
            if let Some(kind) = batch.control_type(&mut scratch).unwrap() {
                *controls.entry(kind.name()).or_default() += 1;
            }
            let offsets: Vec<_> = batch
                .records(&mut scratch)
                .unwrap()
                .map(|r| r.unwrap().offset)
                .collect();
            assert!(offsets.is_sorted());
            assert!(
                offsets
                    .iter()
                    .all(|offset| (first..=last_offset).contains(offset))
            );
        }
        let controls: Vec<_> = controls.iter().map(|(k, n)| format!("{k}:{n}")).collect();
        let controls = if controls.is_empty() {
            "-".to_owned()
        } else {
            controls.join(",")
        };
        assert_eq!(found.join(","), listed, "{name}");
        assert_eq!(
            (count.to_string().as_str(), controls.as_str()),
            (records, control),
            "{name}"
        );
    }
}

#[expect(clippy::disallowed_methods, reason = "a fixture")]
fn bytes_of(path: &std::path::Path) -> Vec<u8> {
    std::fs::read(path).unwrap()
}

#[test]
fn what_is_compressed_comes_back() {
    let mut scratch = Scratch::default();
    for codec in Codec::ALL.into_iter().filter(|codec| codec.is_available()) {
        let mut builder = BatchBuilder::new(codec).producer(9, 1, i32::MAX);
        let value = vec![b'x'; 1000];
        for n in 0..300_i64 {
            builder
                .push(
                    1000 - n,
                    Some(&n.to_be_bytes()),
                    Some(&value),
                    &[("a", None)],
                )
                .unwrap();
        }
        let bytes = builder.finish().unwrap();

        let batch = Batch::parse(&bytes).unwrap();
        batch.verify().unwrap();
        assert_eq!(batch.header().codec(), Ok(codec));
        assert_eq!(batch.header().last_sequence(), 298);
        assert_eq!(batch.header().max_timestamp, 1000);
        let mut next = 0;
        for record in batch.records(&mut scratch).unwrap() {
            let record = record.unwrap();
            assert_eq!((record.offset, record.timestamp), (next, 1000 - next));
            assert_eq!(record.value, Some(value.as_slice()));
            next += 1;
        }
        assert_eq!(next, 300);
    }
}

/// `setMaxTimestamp` rebuilds the attributes from the flags that Kafka knows.
#[test]
fn restamping_drops_unknown_flags_and_keeps_the_others() {
    let mut builder = BatchBuilder::new(Codec::None)
        .transactional(true)
        .producer(1, 0, 0);
    builder.push(5, None, None, &[]).unwrap();
    let mut bytes = builder.finish().unwrap();
    bytes[21] = 0x41;
    bytes[22] |= 0xc0;

    restamp_timestamps(&mut bytes, TimestampType::LogAppendTime, 77).unwrap();

    let batch = Batch::parse(&bytes).unwrap();
    batch.verify().unwrap();
    assert_eq!(batch.header().attributes, 0x58);
    let mut scratch = Scratch::default();
    assert_eq!(
        batch
            .records(&mut scratch)
            .unwrap()
            .next()
            .unwrap()
            .unwrap()
            .timestamp,
        77
    );
}
