//! `validate_append` against the answers of Kafka 4.4's own log to the same bytes.
//!
//! `appends.tsv`: name, configuration, bytes, answer of `UnifiedLog.appendAsLeader` (`none` for an
//! append that does nothing; `Unknown` where Kafka fails with an exception that clients cannot
//! tell, `crash` where its JVM dies). There highwater may answer anything but `ok`.

use std::collections::BTreeMap;

use super::super::*;
use super::hex;
use crate::types::{LeaderEpoch, Offset, Timestamp};

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);

fn rules(config: &str) -> AppendRules {
    let mut rules = AppendRules::default();
    if let Some((key, value)) = config.split_once('=') {
        match key {
            "cleanup.policy" => rules.compacted = value == "compact",
            "message.timestamp.type" => rules.timestamp_type = value.parse().unwrap(),
            "message.timestamp.before.max.ms" => {
                rules.timestamp_before_max_ms = value.parse().unwrap();
            }
            _ => panic!("{key}"),
        }
    }
    rules
}

fn kind(error: InvalidAppend) -> &'static str {
    match error {
        InvalidAppend::CorruptRecord(_) => "error CorruptRecord",
        InvalidAppend::InvalidRecord(_) | InvalidAppend::UndecodableRecord(_) => {
            "error InvalidRecord"
        }
        InvalidAppend::InvalidTimestamp { .. } => "error InvalidTimestamp",
        InvalidAppend::RecordTooLarge { .. } => "error RecordTooLarge",
        InvalidAppend::UnsupportedCompression(_) => "error UnsupportedCompression",
        InvalidAppend::UnsupportedMagic(_) => "error Unsupported",
    }
}

/// What highwater answers, in the words of the file; what it took must then hold together.
fn answer(bytes: &[u8], rules: &AppendRules) -> String {
    let mut scratch = Scratch::default();
    match validate_append(bytes, rules, NOW, &mut scratch) {
        Ok(None) => "none".to_owned(),
        Ok(Some(taken)) => {
            let mut bytes = bytes.to_vec();
            let base = Offset::new(1000).unwrap();
            stamp_append(&mut bytes, &taken, base, LeaderEpoch::new(7).unwrap(), NOW);
            let batch = Batch::parse(&bytes).unwrap();
            batch.verify().unwrap();
            let header = batch.header();
            assert_eq!((header.base_offset, header.leader_epoch), (1000, 7));
            assert_eq!(header.max_timestamp, taken.max_timestamp);
            assert_eq!(header.timestamp_type(), rules.timestamp_type);
            format!("ok {}", taken.max_timestamp)
        }
        Err(error) => kind(error).to_owned(),
    }
}

/// Where highwater answers something else on purpose.
fn ours(name: &str) -> Option<&'static str> {
    let table: BTreeMap<&str, &str> = BTreeMap::from([
        // A damaged block that lz4-java decodes to something.
        ("lz4-flip21.0", "error InvalidRecord"),
    ]);
    table.get(name).copied()
}

#[test]
#[cfg(all(
    feature = "gzip",
    feature = "snappy",
    feature = "lz4",
    feature = "zstd"
))]
fn appends_are_judged_as_by_kafka() {
    let file = include_str!("../../../tests/fixtures/record/appends.tsv");
    let mut differ = Vec::new();

    for line in file.lines() {
        let [name, config, bytes, kafka] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}");
        };
        let ours = answer(&hex(bytes), &rules(config));
        let agrees = match kafka {
            "error Unknown" | "crash" => !ours.starts_with("ok"),
            kafka => ours == self::ours(name).unwrap_or(kafka),
        };
        if !agrees {
            differ.push(format!("{name} {config}: kafka {kafka}, highwater {ours}"));
        }
    }

    assert!(differ.is_empty(), "{}", differ.join("\n"));
}
