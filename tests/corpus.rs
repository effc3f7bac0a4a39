//! Every directory of real brokers and every golden directory, compared with what others found in
//! it.
//!
//! The directories are no part of the package: they are looked for under `HIGHWATER_SHARED`, else
//! beside the package, and the tests say that they skip where there are none.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    clippy::print_stderr,
    clippy::expect_used,
    clippy::arithmetic_side_effects,
    clippy::unwrap_in_result,
    clippy::panic_in_result_fn,
    clippy::print_stdout,
    clippy::wildcard_enum_match_arm,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::type_complexity,
    clippy::too_many_lines,
    clippy::similar_names,
    clippy::needless_pass_by_value,
    clippy::iter_over_hash_type,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "test helpers outside of test functions"
)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use highwater::epoch::EpochEntry;
use highwater::inspect::{
    Depth, Isolation, LogDirectory, Options, PartitionInfo, Query, ReadRecord, Target, examine,
    read,
};
use serde_json::{Value, json};

fn shared(name: &str) -> Option<PathBuf> {
    let root = std::env::var_os("HIGHWATER_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let found = root.join(name);
    if found.is_dir() {
        return Some(found);
    }
    eprintln!("skipped: no {}", found.display());
    None
}

fn read_json(path: &Path) -> Value {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn examine_all(path: &Path, depth: Depth) -> BTreeMap<String, PartitionInfo> {
    let target = Target::open(path).unwrap();
    let all = target.logs().iter().map(|name| {
        let log = target.log(name).unwrap().unwrap();
        (
            name.clone(),
            examine(&log, depth, &Options::default()).unwrap(),
        )
    });
    all.collect()
}

fn epochs(entries: &[EpochEntry]) -> Value {
    entries
        .iter()
        .map(|entry| json!([entry.epoch.get(), entry.start_offset.get()]))
        .collect()
}

fn counts<K: ToString>(counts: &BTreeMap<K, u64>) -> Value {
    counts
        .iter()
        .map(|(name, n)| (name.to_string(), Value::from(*n)))
        .collect()
}

fn damage(info: &PartitionInfo) -> Vec<String> {
    let damage = info.findings.iter().filter(|finding| finding.is_damage());
    damage.map(ToString::to_string).collect()
}

/// Fields of both, where the expectation has them.
fn compare(place: &str, info: &PartitionInfo, expected: &Value, names: &[(&str, Value)]) {
    for (name, got) in names {
        let want = &expected[*name];
        if !want.is_null() {
            assert_eq!(got, want, "{place}: {name} of {}", info.partition);
        }
    }
}

#[test]
fn the_corpus_holds_what_an_independent_parser_found() {
    let Some(corpus) = shared("corpus") else {
        return;
    };
    let expected = read_json(&corpus.join("expected.json"));
    for (name, directory) in expected.as_object().unwrap() {
        let found = examine_all(&corpus.join(name), Depth::Everything);
        let partitions = directory["partitions"].as_object().unwrap();
        let names: Vec<&String> = found.keys().collect();
        let mut expected_names: Vec<&String> = partitions.keys().collect();
        expected_names.sort();
        assert_eq!(names, expected_names, "{name}");
        for (partition, expected) in partitions {
            let info = &found[partition];
            assert_eq!(damage(info), Vec::<String>::new(), "{name}");
            let is_absent = |file: &Value| file.as_str().unwrap().contains(".log");
            if expected["absent_ge_4MiB"]
                .as_array()
                .unwrap()
                .iter()
                .any(is_absent)
            {
                continue;
            }
            let control: Value = info
                .control
                .iter()
                .map(|(kind, n)| (kind.to_uppercase(), Value::from(*n)))
                .collect();
            let max_ts = info
                .max_timestamp
                .map_or(-1, highwater::types::Timestamp::millis);
            compare(
                name,
                info,
                expected,
                &[
                    ("leo", json!(info.log_end_offset.get())),
                    ("segments", json!(info.segments)),
                    ("batches", json!(info.batches)),
                    ("records", json!(info.records)),
                    ("epochs_in_log", epochs(&info.epochs_in_log)),
                    ("magics", counts(&info.magic)),
                    ("codecs", counts(&info.codecs)),
                    ("control", control),
                    ("max_ts", json!(max_ts)),
                ],
            );
            let point = info.recovery_point.map(highwater::types::Offset::get);
            assert_eq!(
                json!(point),
                expected["checkpoints"]["recovery"],
                "{name} {partition}"
            );
            let watermark = info.high_watermark.map(highwater::types::Offset::get);
            assert_eq!(
                json!(watermark),
                expected["checkpoints"]["hw"],
                "{name} {partition}"
            );
            let rows = &expected["leader_epoch_checkpoint"]["entries"];
            if rows.is_array() {
                assert_eq!(&epochs(&info.epochs), rows, "{name} {partition}");
            }
        }
    }
}

#[test]
fn golden_directories_of_brokers_hold_what_kafka_says() {
    let Some(golden) = shared("golden") else {
        return;
    };
    for name in [
        "clean",
        "killed",
        "killed-young",
        "killed-compacting",
        "killed-swapping",
        "killed-full-index",
        "cluster-1",
        "cluster-2",
        "cluster-3",
        "cluster-controller",
        "cluster-before-truncation-1",
    ] {
        let expected = read_json(&golden.join(name).join("expected.json"));
        let found = examine_all(&golden.join(name).join("data"), Depth::Everything);
        for (partition, expected) in expected["local"].as_object().unwrap() {
            let info = &found[partition];
            assert_eq!(damage(info), Vec::<String>::new(), "{name}");
            compare(
                name,
                info,
                expected,
                &[
                    ("log_start_offset", json!(info.log_start_offset.get())),
                    ("log_end_offset", json!(info.log_end_offset.get())),
                ],
            );
        }
    }
}

#[test]
fn golden_directories_of_single_logs_hold_what_kafka_says() {
    let Some(golden) = shared("golden/storage") else {
        return;
    };
    let expected = read_json(&golden.join("expected.json"));
    for (name, expected) in expected.as_object().unwrap() {
        let found = examine_all(&golden.join(name), Depth::Everything);
        for (partition, expected) in expected["partitions"].as_object().unwrap() {
            let info = &found[partition];
            let is_damaged = ["torn-tail", "garbage-tail", "damaged-middle"].contains(&&**name);
            assert_eq!(
                !damage(info).is_empty(),
                is_damaged,
                "{name}: {:?}",
                damage(info)
            );
            compare(
                name,
                info,
                expected,
                &[
                    ("log_end_offset", json!(info.log_end_offset.get())),
                    ("epochs", epochs(&info.epochs)),
                    ("epochs_in_log", epochs(&info.epochs_in_log)),
                    ("batches", json!(info.batches)),
                    ("records", json!(info.records)),
                    ("magic", counts(&info.magic)),
                    ("codecs", counts(&info.codecs)),
                    ("control", counts(&info.control)),
                ],
            );
        }
    }
}

/// Number, first and last offset of what a reader of committed records gets, and the checksum that
/// the directories define.
fn read_committed(log: &LogDirectory) -> Value {
    let query = Query {
        isolation: Isolation::Committed,
        ..Query::default()
    };
    let (mut count, mut first, mut last, mut crc) = (0, None, None, crc32fast::Hasher::new());
    let mut take = |record: &ReadRecord<'_>| {
        count += 1;
        let offset = record.offset.get();
        first.get_or_insert(offset);
        last = Some(offset);
        crc.update(&offset.to_be_bytes());
        crc.update(&record.timestamp.millis().to_be_bytes());
        for field in [record.key, record.value] {
            let length = field.map_or(-1, |bytes| bytes.len() as i32);
            crc.update(&length.to_be_bytes());
            crc.update(field.unwrap_or_default());
        }
        Ok(ControlFlow::Continue(()))
    };
    read(log, &query, &Options::default(), &mut take).unwrap();
    let offsets: Vec<i64> = first.into_iter().chain(last).collect();
    let crc = format!("{:08x}", crc.finalize());
    json!({ "records": count, "offsets": offsets, "crc32": crc })
}

#[test]
fn committed_records_are_those_that_a_consumer_got() {
    let Some(golden) = shared("golden") else {
        return;
    };
    for name in ["clean", "killed", "killed-young", "killed-compacting"] {
        let expected = read_json(&golden.join(name).join("expected.json"));
        let target = Target::open(golden.join(name).join("data")).unwrap();
        for (partition, broker) in expected["broker"].as_object().unwrap() {
            let log = target.log(partition).unwrap().unwrap();
            let info = examine(&log, Depth::Batches, &Options::default()).unwrap();
            let end = info.log_end_offset.get();
            // The broker may have ended transactions since, and its watermark has caught up.
            if info.high_watermark != Some(info.log_end_offset) || broker["high_watermark"] != end {
                continue;
            }
            let mut wanted = broker["read_committed"].clone();
            wanted.as_object_mut().unwrap().remove("crc32_headers");
            assert_eq!(read_committed(&log), wanted, "{name} {partition}");
            assert_eq!(
                broker["last_stable_offset"],
                info.last_stable_offset.get(),
                "{name} {partition}"
            );
        }
    }
}

/// With all snapshots or transaction indexes gone nothing aborted is delivered, and no producer is
/// forgotten.
#[test]
fn lost_side_files_hide_nothing() {
    let Some(golden) = shared("golden") else {
        return;
    };
    let whole = examine_all(&golden.join("killed/data"), Depth::Batches);
    let torn = Target::open(golden.join("torn/data")).unwrap();
    let expected = read_json(&golden.join("killed/expected.json"));
    for name in ["transactional-0", "transactional-1", "transaction-open-0"] {
        let log = torn.log(name).unwrap().unwrap();
        let info = examine(&log, Depth::Batches, &Options::default()).unwrap();
        let ids = |info: &PartitionInfo| info.producers.iter().map(|p| p.0).collect::<Vec<_>>();
        assert_eq!(ids(&info), ids(&whole[name]), "{name}");
        if info.high_watermark == Some(info.log_end_offset) {
            let wanted = &expected["broker"][name]["read_committed"];
            assert_eq!(&read_committed(&log)["crc32"], &wanted["crc32"], "{name}");
        }
    }
}

#[test]
fn each_kind_of_damage_is_found_in_its_file() {
    let Some(golden) = shared("golden/torn") else {
        return;
    };
    let expected = read_json(&golden.join("expected.json"));
    let found = examine_all(&golden.join("data"), Depth::Everything);
    for damage in expected["damage"].as_array().unwrap() {
        let partition = damage["partition"].as_str().unwrap();
        let file = damage["file"].as_str().unwrap().trim_start_matches("../");
        let what = damage["what"].as_str().unwrap();
        let is_it =
            |name: &str| name == file || (name == "*.snapshot" && file.ends_with(".snapshot"));
        let findings = &found[partition].findings;
        assert!(
            findings.iter().any(|finding| is_it(&finding.file)),
            "{partition}/{file}: {what}: {findings:?}"
        );
    }
}
