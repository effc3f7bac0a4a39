use super::*;

const UNIQUE: u128 = 0x0123_4567_89ab_cdef_0123_4567_89ab_cdef;
const HEX: &str = "0123456789abcdef0123456789abcdef";

fn log(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(topic, partition)
}

#[test]
fn a_log_directory_is_split_at_its_last_hyphen() {
    for (name, expected) in [
        ("topic-0", DirName::Live(log("topic", 0))),
        ("a-b-12", DirName::Live(log("a-b", 12))),
        (
            "__cluster_metadata-0",
            DirName::Live(log("__cluster_metadata", 0)),
        ),
        ("my-delete-3", DirName::Live(log("my-delete", 3))),
        ("a.b-1.0123-delete", DirName::Delete(log("a.b", 1))),
        ("t-7.0123-stray", DirName::Stray(log("t", 7))),
        ("t-7.0123-future", DirName::Future(log("t", 7))),
    ] {
        assert_eq!(DirName::parse(name), expected, "{name}");
    }
    for name in [
        "",
        "-",
        "-0",
        "topic",
        "topic-",
        "topic-x",
        "topic-+1",
        "topic-01",
        "topic-2147483648",
        "a b-0",
        "a/b-0",
        "topic-0-delete",
        "topic.0123-delete",
        "t-0.-delete",
        "t-0. -delete",
        "lost+found",
        "remote-log-index-cache",
        "plain-0-x",
        "-delete",
    ] {
        assert_eq!(DirName::parse(name), DirName::Foreign, "{name}");
    }
}

/// Kafka: a topic of 249 characters keeps 213 of them in a name of 255.
#[test]
fn delete_and_stray_names_are_capped() {
    let long = log(&"x".repeat(249), 5);
    let cut = log(&"x".repeat(213), 5);

    let name = long.delete_dir_name(UNIQUE);
    assert_eq!(
        (name.len(), DirName::parse(&name)),
        (255, DirName::Delete(cut))
    );
    assert_eq!(long.stray_dir_name(UNIQUE).len(), 255);
    assert_eq!(long.future_dir_name(UNIQUE).len(), 249 + 2 + 1 + 32 + 7);
    assert_eq!(
        log("t", 0).delete_dir_name(UNIQUE),
        format!("t-0.{HEX}-delete")
    );
    assert_eq!(
        log("t", 0).stray_dir_name(1),
        format!("t-0.{:0>32}-stray", 1)
    );
    let wide = log(&"\u{e9}".repeat(124), 0).delete_dir_name(UNIQUE);
    assert!(wide.len() <= 255);
}

#[test]
fn only_kafkas_alphabet_is_legal() {
    assert!(log("a.b_c-D9", 0).is_legal());
    assert!(log(&"x".repeat(249), 0).is_legal());
    for (topic, partition) in [
        ("", 0),
        (".", 0),
        ("..", 0),
        ("a b", 0),
        ("\u{e9}", 0),
        ("a", -1),
    ] {
        assert!(!log(topic, partition).is_legal());
    }
    assert!(!log(&"x".repeat(250), 0).is_legal());
}

#[test]
fn segment_names_come_back() {
    for base in [Offset::ZERO, Offset::new(123).unwrap(), Offset::MAX] {
        for kind in FileType::ALL {
            for suffix in Suffix::ALL {
                let name = suffixed_segment_name(base, kind, suffix);
                let expected = FileName::Segment {
                    base,
                    kind,
                    suffix,
                    canonical: true,
                };
                assert_eq!(FileName::parse(&name), expected);
            }
        }
    }
    assert_eq!(
        segment_name(Offset::ZERO, FileType::Log),
        "00000000000000000000.log"
    );
    let short = FileName::Segment {
        base: Offset::new(7).unwrap(),
        kind: FileType::Index,
        suffix: Suffix::None,
        canonical: false,
    };
    assert_eq!(FileName::parse("007.index"), short);
}

#[test]
fn the_other_files_of_a_log() {
    let checkpoint = |complete| FileName::KraftCheckpoint {
        end_offset: Offset::new(17).unwrap(),
        epoch: LeaderEpoch::new(3).unwrap(),
        complete,
    };
    for (name, expected) in [
        ("leader-epoch-checkpoint", FileName::LeaderEpochCheckpoint),
        ("partition.metadata", FileName::PartitionMetadata),
        ("quorum-state", FileName::QuorumState),
        (
            "00000000000000000017-0000000003.checkpoint",
            checkpoint(true),
        ),
        (
            "00000000000000000017-0000000003.checkpoint.deleted",
            checkpoint(false),
        ),
        (
            "00000000000000000017-0000000003.checkpoint.part",
            checkpoint(false),
        ),
        ("highwater.segments", FileName::Ours(OurFile::Segments)),
        ("highwater.state", FileName::Ours(OurFile::State)),
        (
            "partition.metadata.tmp",
            FileName::Tmp(Box::new(FileName::PartitionMetadata)),
        ),
        (
            "highwater.state.tmp",
            FileName::Tmp(Box::new(FileName::Ours(OurFile::State))),
        ),
    ] {
        assert_eq!(FileName::parse(name), expected, "{name}");
    }
    for name in [
        "",
        ".",
        ".log",
        "x.log",
        "+5.log",
        "-5.log",
        "5.foo.log",
        "5.log.deleted.swap",
        "5",
        "9223372036854775808.log",
        "partition.metadata.tmp.tmp",
        "foo.tmp",
        "1-.checkpoint",
        "highwater.saved-01-2",
        "highwater.saved-1",
        "highwater.",
        "\u{661}.log",
    ] {
        assert_eq!(FileName::parse(name), FileName::Unknown, "{name}");
    }
    let offset = Offset::new(1500).unwrap();
    let saved = FileName::Ours(OurFile::Saved { offset, n: 2 });
    assert_eq!(saved_name(offset, 2), "highwater.saved-1500-2");
    assert_eq!(FileName::parse("highwater.saved-1500-2"), saved);
}

#[test]
fn the_files_of_a_data_directory() {
    for (name, expected) in [
        (".lock", DataFileName::Lock),
        (".kafka_cleanshutdown", DataFileName::CleanShutdown),
        ("meta.properties", DataFileName::MetaProperties),
        (
            "recovery-point-offset-checkpoint",
            DataFileName::RecoveryPoints,
        ),
        ("log-start-offset-checkpoint", DataFileName::LogStarts),
        (
            "replication-offset-checkpoint",
            DataFileName::HighWatermarks,
        ),
        ("cleaner-offset-checkpoint", DataFileName::CleanerOffsets),
        ("bootstrap.checkpoint", DataFileName::BootstrapCheckpoint),
        ("highwater.state", DataFileName::State),
        ("highwater.state.tmp", DataFileName::Tmp),
        ("foo.tmp", DataFileName::Unknown),
        ("foo", DataFileName::Unknown),
    ] {
        assert_eq!(DataFileName::parse(name), expected);
    }
    assert_eq!(tmp_name(STATE), "highwater.state.tmp");
}
