use super::text::{parse_leader_epochs, print_leader_epochs};
use super::*;
use crate::epoch::{EpochCache, EpochEntry};
use crate::types::TopicPartition;
use crate::types::{LeaderEpoch, Offset};

fn offset(raw: i64) -> Offset {
    Offset::new(raw).unwrap()
}

fn offsets(text: &str) -> Result<Option<Vec<(String, i64)>>, CheckpointError> {
    let parsed = OffsetCheckpoint::parse(text.as_bytes())?;
    Ok(parsed.map(|found| {
        found
            .offsets
            .iter()
            .map(|(log, offset)| (log.to_string(), offset.get()))
            .collect()
    }))
}

fn offsets_error(text: &str) -> (usize, String) {
    let error = offsets(text).unwrap_err();
    (error.line, error.reason.to_string())
}

/// Kafka-storage reference, part 8.
#[test]
fn offset_rows_have_kafkas_bytes() {
    let mut checkpoint = OffsetCheckpoint::new();
    assert_eq!(checkpoint.print(), "0\n0\n");
    checkpoint
        .offsets
        .insert(TopicPartition::new("my-topic", 3), offset(1500));

    assert_eq!(checkpoint.print(), "0\n1\nmy-topic 3 1500\n");
    assert_eq!(
        OffsetCheckpoint::parse(b"0\n1\nmy-topic 3 1500\n"),
        Ok(Some(checkpoint))
    );
}

#[test]
fn an_offset_file_that_says_nothing_is_told_apart() {
    assert_eq!(offsets(""), Ok(None));
    assert_eq!(offsets("0"), Ok(None));
    assert_eq!(offsets("0\n"), Ok(None));
    assert_eq!(offsets("0\n0"), Ok(Some(vec![])));
    assert_eq!(offsets("0\n0\n"), Ok(Some(vec![])));
}

#[test]
fn white_space_and_line_ends_are_javas() {
    let expected = Ok(Some(vec![("a-0".to_owned(), 1), ("b-2".to_owned(), 3)]));
    assert_eq!(offsets("0\r\n2\r\na 0 1\r\nb 2 3\r\n"), expected);
    assert_eq!(offsets("0\r2\ra 0 1\rb 2 3"), expected);
    assert_eq!(offsets("+0\n+2\na \t 0\u{b}1  \nb 2 +3"), expected);
    assert_eq!(
        offsets("0\n2\na 0 1\na 0 7\n"),
        Ok(Some(vec![("a-0".to_owned(), 7)]))
    );
}

#[test]
fn malformed_offset_files_name_the_line() {
    for (text, line, reason) in [
        ("1\n0\n", 1, "\"1\" is no known version"),
        ("\n", 1, "\"\" is no known version"),
        ("0 \n0\n", 1, "\"0 \" is no known version"),
        ("0\nx\n", 2, "\"x\" is no number of rows"),
        ("0\n-1\n", 2, "\"-1\" is no number of rows"),
        ("0\n2147483648\n", 2, "\"2147483648\" is no number of rows"),
        (
            "0\n2147483647\n",
            2,
            "0 rows where 2147483647 are announced",
        ),
        ("0\n1\na 0 1\nb 0 1\n", 2, "2 rows where 1 are announced"),
        ("0\n1\na 0\n", 3, "2 fields where 3 are wanted"),
        ("0\n1\n a 0 1\n", 3, "4 fields where 3 are wanted"),
        ("0\n1\na 0 1\n\n", 4, "0 fields where 3 are wanted"),
        ("0\n1\na 0 -1\n", 3, "offset: \"-1\" is negative"),
        ("0\n1\na -1 1\n", 3, "partition: \"-1\" is negative"),
        (
            "0\n1\na 2147483648 1\n",
            3,
            "partition: \"2147483648\" is no number of its range",
        ),
        (
            "0\n1\na 0 9223372036854775808\n",
            3,
            "offset: \"9223372036854775808\" is no number of its range",
        ),
    ] {
        assert_eq!(offsets_error(text), (line, reason.to_owned()), "{text:?}");
    }
    let error = OffsetCheckpoint::parse(b"0\n1\na\xff 0 1\n").unwrap_err();
    assert_eq!(
        error,
        CheckpointError {
            line: 3,
            reason: Reason::NotUtf8
        }
    );
}

#[test]
fn leader_epochs_have_kafkas_bytes() {
    let mut cache = EpochCache::new();
    assert_eq!(print_leader_epochs(cache.entries()), "0\n0\n");
    cache.assign(LeaderEpoch::ZERO, Offset::ZERO);
    cache.assign(LeaderEpoch::new(5).unwrap(), offset(1000));

    let text = print_leader_epochs(cache.entries());

    assert_eq!(text, "0\n2\n0 0\n5 1000\n");
    assert_eq!(
        parse_leader_epochs(text.as_bytes()),
        Ok(Some(cache.entries().to_vec()))
    );
    assert_eq!(parse_leader_epochs(b""), Ok(None));
    let backwards = parse_leader_epochs(b"0\n2\n5 10\n3 20\n").unwrap().unwrap();
    assert_eq!(backwards.len(), 2);
    let repaired = EpochCache::from_entries(backwards);
    let epoch = LeaderEpoch::new(3).unwrap();
    assert_eq!(
        repaired.entries(),
        [EpochEntry {
            epoch,
            start_offset: offset(20)
        }]
    );
    assert_eq!(parse_leader_epochs(b"0\n1\n-1 0\n").unwrap_err().line, 3);
    assert_eq!(parse_leader_epochs(b"0\n1\n1 0 0\n").unwrap_err().line, 3);
}

const TOPIC_ID: &str = "I2eXt9rvSnyhct8BYmW6-w";

#[test]
fn partition_metadata_has_kafkas_bytes() {
    let metadata = PartitionMetadata::new(TOPIC_ID).unwrap();

    let text = metadata.print();

    assert_eq!(text, "version: 0\ntopic_id: I2eXt9rvSnyhct8BYmW6-w");
    assert_eq!(
        PartitionMetadata::parse(text.as_bytes()),
        Ok(Some(metadata))
    );
}

#[test]
fn partition_metadata_is_read_as_kafka_does() {
    let parse = |text: String| PartitionMetadata::parse(text.as_bytes());
    assert_eq!(parse(String::new()), Ok(None));
    let later = parse(format!("version: 7\r\nid: \t{TOPIC_ID}\r\nmore"))
        .unwrap()
        .unwrap();
    assert_eq!((later.version, later.topic_id()), (7, TOPIC_ID));
    assert!(parse(format!("version: 0\nid: {TOPIC_ID}==")).is_ok());
    for (text, line) in [
        ("version: 0\n".to_owned(), 2),
        (format!("version: -1\nid: {TOPIC_ID}"), 1),
        (format!("version:0\nid: {TOPIC_ID}"), 1),
        (format!("a: b: 0\nid: {TOPIC_ID}"), 1),
        (format!("version: x\nid: {TOPIC_ID}"), 1),
        ("version: 0\nid: short".to_owned(), 2),
        ("version: 0\nid: ".to_owned(), 2),
        (format!("version: 0\nid: {}", "A".repeat(22)), 2),
        (format!("version: 0\nid: {}B", "A".repeat(21)), 2),
    ] {
        assert_eq!(
            parse(text.clone()).map_err(|error| error.line),
            Err(line),
            "{text:?}"
        );
    }
    assert!(PartitionMetadata::new(&format!("{}Q", "A".repeat(21))).is_some());
}

/// Kafka: `CleanShutdownFileHandlerTest`, and garbage, which Kafka takes for clean too.
#[test]
fn a_marker_says_what_it_can() {
    let marker = CleanShutdown {
        broker_epoch: Some(42),
        generation: None,
    };
    assert_eq!(marker.print(), "{\"version\":0,\"brokerEpoch\":42}");
    assert_eq!(CleanShutdown::parse(marker.print().as_bytes()), marker);
    let ours = CleanShutdown {
        generation: Some(u64::MAX),
        ..marker
    };
    assert_eq!(CleanShutdown::parse(ours.print().as_bytes()), ours);
    assert_eq!(
        CleanShutdown::default().print(),
        "{\"version\":0,\"brokerEpoch\":-1}"
    );

    let spaced = br#" { "x" : "a,\"b}" , "t":true,"f":1.5e3, "brokerEpoch" : 42 } "#;
    assert_eq!(CleanShutdown::parse(spaced), marker);
    for text in [
        "",
        "{}",
        "{",
        "garbage",
        "{\"brokerEpoch\":}",
        "{\"brokerEpoch\":1,}",
        "{\"a\":[1]}",
        "{\"brokerEpoch\":\"7\"}",
        "{\"brokerEpoch\" 7}",
        "{\"a",
        "{\"a\\\"",
        "[]",
        "{,}",
        "{\"brokerEpoch\":1 2}",
        "{\"brokerEpoch\":inf}",
        "\u{fffd}",
    ] {
        assert_eq!(
            CleanShutdown::parse(text.as_bytes()),
            CleanShutdown::default(),
            "{text}"
        );
    }
    assert_eq!(CleanShutdown::parse(b"\xff"), CleanShutdown::default());
}

#[test]
fn meta_properties_are_java_properties() {
    let text =
        b"#\n#Mon Jan 01\nnode.id=1\ndirectory.id=\\u0041b\\=c\nversion=1\ncluster.id : x\\\n  y\n";
    let expected = MetaProperties {
        version: Some(1),
        node_id: Some(1),
        cluster_id: Some("xy".to_owned()),
        directory_id: Some("Ab=c".to_owned()),
    };
    assert_eq!(MetaProperties::parse(text), Ok(expected));
    assert_eq!(MetaProperties::parse(b""), Ok(MetaProperties::default()));
    let old = MetaProperties::parse(b"! v0\nversion 0\nbroker.id:7\n\\").unwrap();
    assert_eq!((old.version, old.node_id), (Some(0), Some(7)));
    let error = MetaProperties::parse(b"a=b\nnode.id=x\n").unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 2: node.id: \"x\" is no number of its range"
    );
    assert_eq!(
        MetaProperties::parse(b"a=\\u12").unwrap_err().reason,
        Reason::Escape
    );
    let latin = MetaProperties::parse(b"cluster.id=\xe9").unwrap();
    assert_eq!(latin.cluster_id.as_deref(), Some("\u{e9}"));
}

fn state() -> StateFile {
    let facts = LogFacts {
        recovery_point: offset(1500),
        high_watermark: Some(offset(1400)),
        log_start: None,
        log_end: offset(1500),
        last_epoch: LeaderEpoch::new(3),
        epoch_file_crc: Some(0x1a2b),
    };
    let bare = LogFacts {
        high_watermark: None,
        log_start: Some(offset(9)),
        last_epoch: None,
        epoch_file_crc: None,
        ..facts
    };
    let logs = [
        (TopicPartition::new("a-b", 0), facts),
        (TopicPartition::new("c", 1), bare),
    ];
    StateFile {
        generation: 17,
        logs: logs.into_iter().collect(),
    }
}

fn segments() -> SegmentsFile {
    let first = SegmentFacts {
        base: Offset::ZERO,
        bytes: 4096,
        last_offset: Some(offset(99)),
        index_crc: Some(0),
        timeindex_crc: Some(u32::MAX),
        txnindex_crc: None,
        snapshot_crc: None,
    };
    let empty = SegmentFacts {
        base: offset(100),
        bytes: 0,
        last_offset: None,
        ..first
    };
    SegmentsFile {
        segments: vec![first, empty],
    }
}

/// The bytes of our own files are a format of their own: a change here needs another version.
#[test]
fn our_files_have_these_bytes() {
    let body = "highwater.state 1\ngeneration 17\na-b 0 1500 1400 - 1500 3 00001a2b\n\
                c 1 1500 - 9 1500 - -\n";
    let crc = crc32fast::hash(body.as_bytes());
    assert_eq!(state().print(), format!("{body}crc32 {crc:08x}\n"));
    let body = "highwater.segments 1\n0 4096 99 00000000 ffffffff - -\n\
                100 0 - 00000000 ffffffff - -\n";
    assert!(segments().print().starts_with(body));
}

#[test]
fn our_files_come_back() {
    assert_eq!(
        StateFile::parse(state().print().as_bytes()),
        Ok(Some(state()))
    );
    assert_eq!(
        SegmentsFile::parse(segments().print().as_bytes()),
        Ok(Some(segments()))
    );
    assert_eq!(
        segments().segment(offset(100)).map(|facts| facts.bytes),
        Some(0)
    );
    let empty = StateFile::default();
    assert_eq!(StateFile::parse(empty.print().as_bytes()), Ok(Some(empty)));
    assert_eq!(StateFile::parse(b""), Ok(None));
    assert_eq!(SegmentsFile::parse(b""), Ok(None));
}

fn sealed(body: &str) -> Vec<u8> {
    format!("{body}crc32 {:08x}\n", crc32fast::hash(body.as_bytes())).into_bytes()
}

#[test]
fn sealed_files_with_wrong_lines_are_refused() {
    let state = |body: &str| StateFile::parse(&sealed(body)).map_err(|error| error.to_string());
    for (body, expected) in [
        (
            "highwater.state 2\n",
            "line 1: \"highwater.state 2\" is no known version",
        ),
        (
            "highwater.segments 1\n",
            "line 1: \"highwater.segments 1\" is no known version",
        ),
        ("highwater.state 1\n", "line 2: generation is missing"),
        (
            "highwater.state 1\ngen 1\n",
            "line 2: generation: \"gen\" is unknown",
        ),
        (
            "highwater.state 1\ngeneration -1\n",
            "line 2: generation: \"-1\" is negative",
        ),
        (
            "highwater.state 1\ngeneration 1\na 0 1 - - 1 - 12\n",
            "line 3: epoch file crc: \"12\" is no number of its range",
        ),
        (
            "highwater.state 1\ngeneration 1\na 0 1 - - 1 - -\na 0 1 - - 1 - -\n",
            "line 4: the row names what an earlier row names",
        ),
        (
            "highwater.state 1\ngeneration 1\na -3 1 - - 1 - -\n",
            "line 3: partition: \"-3\" is negative",
        ),
        ("", "the last line holds no checksum"),
    ] {
        assert_eq!(state(body), Err(expected.to_owned()), "{body}");
    }
    let twice = sealed("highwater.segments 1\n5 1 5 - - - -\n5 1 5 - - - -\n");
    assert_eq!(SegmentsFile::parse(&twice).unwrap_err().line, 3);
}

/// A torn write or a changed bit never passes for facts.
#[test]
fn every_prefix_and_every_flipped_bit_of_a_sealed_file_is_refused() {
    let files = [state().print(), segments().print()];
    let is_refused = |file: usize, bytes: &[u8]| match file {
        0 => StateFile::parse(bytes).is_err(),
        _ => SegmentsFile::parse(bytes).is_err(),
    };
    for (file, text) in files.iter().enumerate() {
        let bytes = text.as_bytes();
        for end in 1..bytes.len() {
            assert!(
                is_refused(file, &bytes[..end]),
                "{end} bytes of file {file}"
            );
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                let same_number = flipped.eq_ignore_ascii_case(bytes);
                assert!(
                    same_number || is_refused(file, &flipped),
                    "byte {at} of file {file}"
                );
            }
        }
    }
}

/// Kafka's files have no checksum: any bytes give an answer or a reason, never a panic.
#[test]
fn every_prefix_and_every_flipped_bit_of_kafkas_files_is_survived() {
    let files: [&[u8]; 4] = [
        b"0\n2\na-b 0 1\nc 1 2\n",
        b"version: 0\ntopic_id: I2eXt9rvSnyhct8BYmW6-w",
        b"{\"version\":0,\"brokerEpoch\":42,\"highwater\":7}",
        b"#\n#date\nnode.id=1\ncluster.id=\\u0041\\\n b\nversion=1\n",
    ];
    let parse_all = |bytes: &[u8]| {
        let answers = [
            OffsetCheckpoint::parse(bytes).is_ok(),
            parse_leader_epochs(bytes).is_ok(),
            PartitionMetadata::parse(bytes).is_ok(),
            MetaProperties::parse(bytes).is_ok(),
            CleanShutdown::parse(bytes) == CleanShutdown::default(),
        ];
        assert_eq!(answers.len(), 5);
    };
    for bytes in files {
        for end in 0..=bytes.len() {
            parse_all(&bytes[..end]);
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut flipped = bytes.to_vec();
                flipped[at] ^= 1 << bit;
                parse_all(&flipped);
            }
        }
    }
}
