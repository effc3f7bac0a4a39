//! Copies of what real brokers left, opened as they stand and compared with what Kafka says of
//! them. Needs the directories (`HIGHWATER_SHARED`, else `../shared`); without them there is
//! nothing to do.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use highwater::log::{LogConfig, RecoveryScope};
use highwater::log_dir::{DirOptions, DirReport, LogDir};
use highwater::producer::{ProducedBatch, ProducerState, Producers};
use highwater::types::{Offset, Timestamp};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::log;

fn shared() -> Option<PathBuf> {
    let root = std::env::var_os("HIGHWATER_SHARED").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"),
        PathBuf::from,
    );
    let golden = root.join("golden");
    golden.is_dir().then_some(golden)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::write(target, fs::read(entry.path()).unwrap()).unwrap();
        }
    }
}

fn producers(producers: &Producers) -> Value {
    let of = |(id, state): (i64, &ProducerState)| {
        let batch = |batch: &ProducedBatch| {
            json!([
                batch.first_sequence(),
                batch.last_sequence,
                batch.first_offset().get(),
                batch.last_offset.get(),
            ])
        };
        let told = json!({
            "epoch": state.producer_epoch(),
            "coordinator_epoch": state.coordinator_epoch(),
            "open_since": state.open_since().map(Offset::get),
            "last_timestamp": state.last_timestamp().millis(),
            "batches": state.batches().iter().map(batch).collect::<Value>(),
        });
        (id.to_string(), told)
    };
    producers.iter().map(of).collect()
}

struct Case {
    temp: TempDir,
    expected: Value,
}

fn case(name: &str) -> Option<Case> {
    let golden = shared()?.join(name);
    let expected = fs::read_to_string(golden.join("expected.json")).unwrap();
    let temp = TempDir::new().unwrap();
    copy(&golden.join("data"), temp.path());
    Some(Case {
        temp,
        expected: serde_json::from_str(&expected).unwrap(),
    })
}

impl Case {
    fn options(&self) -> DirOptions {
        let mut options = DirOptions::new(Timestamp::from_millis(
            self.expected["clock"].as_i64().unwrap(),
        ));
        for name in self.expected["local"].as_object().unwrap().keys() {
            let log = log(name);
            let mut config = LogConfig::default();
            let mut settings = BTreeMap::from([
                ("segment.bytes", "1048576"),
                ("segment.index.bytes", "65536"),
                ("retention.ms", "-1"),
            ]);
            let own = self.expected["topic_configs"]
                .get(&log.topic)
                .and_then(Value::as_object);
            for (key, value) in own.into_iter().flatten() {
                let key = key.strip_prefix("internal.").unwrap_or(key);
                settings.insert(key, value.as_str().unwrap());
            }
            for (key, value) in settings {
                // Settings of the cleaner and the broker are not the engine's.
                if config.set(key, value).is_err() {
                    continue;
                }
            }
            options = options.log_config(&log, config);
        }
        options
    }

    fn open(&self, scope: RecoveryScope) -> (LogDir, DirReport) {
        LogDir::open(self.temp.path(), self.options().scope(scope)).unwrap()
    }

    /// Every log that Kafka opened, and how it differs here.
    fn differences(&self, dir: &LogDir, leave_out: &[&str]) -> Vec<String> {
        let rows = fs::read_to_string(self.temp.path().join("replication-offset-checkpoint"));
        let rows = rows.unwrap_or_default();
        let mut differences = Vec::new();
        for (name, local) in self.expected["local"].as_object().unwrap() {
            if leave_out.contains(&name.as_str()) || local.get("error").is_some() {
                continue;
            }
            let Some(found) = dir.log(&log(name)) else {
                differences.push(format!("{name}: not open"));
                continue;
            };
            let mut compare = |what: &str, ours: Value| {
                if ours != local[what] {
                    differences.push(format!("{name}: {what} {ours}, Kafka {}", local[what]));
                }
            };
            compare("log_start_offset", json!(found.log_start_offset().get()));
            compare("log_end_offset", json!(found.log_end_offset().get()));
            compare("size", json!(found.bytes()));
            let epochs: Value = found
                .epochs()
                .iter()
                .map(|entry| json!([entry.epoch.get(), entry.start_offset.get()]))
                .collect();
            compare("epochs", epochs);
            let segments: Value = found
                .segments()
                .iter()
                .map(|(base, bytes)| json!([base.get(), bytes]))
                .collect();
            compare("segments", segments);
            let stable = found.last_stable_offset().get();
            compare("last_stable_offset", json!(stable));
            compare("producers", found.with_producers(producers));
            let parts = log(name);
            let row = format!("{} {} ", parts.topic, parts.partition);
            if rows.lines().any(|line| line.starts_with(&row)) {
                compare("high_watermark", json!(found.high_watermark().get()));
            }
        }
        differences
    }

    /// How the snapshots and transaction indexes of a clean stop differ from Kafka's.
    fn side_files(&self) -> Vec<String> {
        let mut differences = Vec::new();
        for (name, local) in self.expected["local"].as_object().unwrap() {
            let of_producers = |file: &str| {
                let (_, suffix) = file.rsplit_once('.').unwrap_or_default();
                ["snapshot", "txnindex"].contains(&suffix)
            };
            let dir = self.temp.path().join(name);
            let mut ours = BTreeMap::new();
            for entry in fs::read_dir(&dir).unwrap() {
                let file = entry.unwrap().file_name().into_string().unwrap();
                if of_producers(&file) {
                    let bytes = fs::read(dir.join(&file)).unwrap();
                    ours.insert(file, bytes);
                }
            }
            let kafka = local["files"].as_object().into_iter().flatten();
            let kafka: BTreeMap<&String, &Value> =
                kafka.filter(|(file, _)| of_producers(file)).collect();
            if !ours.keys().eq(kafka.keys().copied()) {
                differences.push(format!(
                    "{name}: {:?}, Kafka {:?}",
                    ours.keys(),
                    kafka.keys()
                ));
                continue;
            }
            for (file, bytes) in ours {
                let crc = format!("{:08x}", crc32fast::hash(&bytes));
                let wanted = kafka[&file];
                // Kafka writes several producers in any order.
                let crcs_differ = bytes.len() <= 10 + 46 || file.ends_with("index");
                if wanted[0] != bytes.len() || crcs_differ && wanted[1] != crc {
                    differences.push(format!("{name}/{file}: {crc}, Kafka {wanted}"));
                }
            }
        }
        differences
    }

    fn missing_acknowledged(&self, dir: &LogDir) -> Vec<String> {
        let acknowledged = self.expected.get("acknowledged").and_then(Value::as_object);
        // A topic that was deleted is not missed.
        let local = &self.expected["local"];
        let live = acknowledged
            .into_iter()
            .flatten()
            .filter(|(name, _)| local.get(name).is_some());
        let missing = live.filter(|(name, end)| {
            dir.log(&log(name))
                .is_none_or(|log| log.log_end_offset().get() < end.as_i64().unwrap())
        });
        missing
            .map(|(name, end)| format!("{name}: acknowledged {end}"))
            .collect()
    }
}

#[test]
fn directories_of_brokers_open_as_kafka_opens_them() {
    let names = [
        "clean",
        "killed",
        "killed-young",
        "killed-compacting",
        "killed-swapping",
        "cluster-1",
        "cluster-2",
        "cluster-3",
        "cluster-before-truncation-1",
    ];
    let mut complaints = Vec::new();
    for name in names {
        let Some(case) = case(name) else { continue };
        for scope in [RecoveryScope::FromRecoveryPoint, RecoveryScope::Everything] {
            let (dir, report) = case.open(scope);
            let failed = report
                .logs
                .iter()
                .filter_map(|(_, outcome)| outcome.as_ref().err());
            complaints.extend(failed.map(|error| format!("{name}: {error}")));
            let differences = case.differences(&dir, &[]);
            complaints.extend(
                differences
                    .into_iter()
                    .map(|line| format!("{name} {scope:?}: {line}")),
            );
            if !name.starts_with("cluster") {
                complaints.extend(case.missing_acknowledged(&dir));
            }
            dir.close().unwrap();
            let files = case.side_files();
            complaints.extend(files.iter().map(|line| format!("{name} {scope:?}: {line}")));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
}

/// The next open after a clean stop of ours finds the same, and trusts it.
#[test]
fn a_brokers_directory_is_trusted_after_our_clean_stop() {
    let Some(case) = case("killed") else { return };
    let (dir, _) = case.open(RecoveryScope::FromRecoveryPoint);
    dir.close().unwrap();

    let (dir, report) = case.open(RecoveryScope::FromRecoveryPoint);

    assert!(report.clean);
    for (log, outcome) in &report.logs {
        let trusted = outcome.as_ref().unwrap().trusted;
        assert_eq!(trusted, log.to_string() != "__cluster_metadata-0", "{log}");
    }
    assert_eq!(case.differences(&dir, &[]), Vec::<String>::new());
    dir.close().unwrap();
}

/// Kafka dies of this one at each start: its recovery adds entries to an index that is full.
#[test]
fn a_full_index_does_not_stop_us() {
    let Some(case) = case("killed-full-index") else {
        return;
    };

    let (dir, report) = case.open(RecoveryScope::Everything);

    let failed: Vec<_> = report
        .logs
        .iter()
        .filter(|(_, outcome)| outcome.is_err())
        .collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(case.missing_acknowledged(&dir), Vec::<String>::new());
    dir.close().unwrap();
}

/// Damage above the recovery point is cut, saved and reported; below it nothing is cut.
#[test]
fn torn_directories_lose_nothing_unsaid() {
    let Some(case) = case("torn") else { return };
    // The recovery point rows decide: what they say was flushed is never cut.
    let cut = [
        "codec-lz4-0",
        "codec-snappy-0",
        "codec-zstd-0",
        "codec-none-0",
        "full-index-0",
    ];
    let kept = [
        "codec-gzip-0",
        "idempotent-0",
        "idempotent-1",
        "dense-index-0",
        "unordered-times-0",
    ];
    let before = fs::read(
        case.temp
            .path()
            .join("dense-index-0/00000000000000000000.log"),
    )
    .unwrap();

    let (dir, report) = case.open(RecoveryScope::Everything);

    let mut complaints = Vec::new();
    for (log, outcome) in &report.logs {
        let name = log.to_string();
        let outcome = outcome.as_ref().unwrap();
        let is_saved = outcome.cut.as_ref().is_some_and(|cut| {
            let zeros = cut.saved_to.is_empty() && cut.row.letter() == 'C';
            zeros
                || cut
                    .saved_to
                    .iter()
                    .all(|file| case.temp.path().join(&name).join(file).exists())
        });
        if cut.contains(&name.as_str()) && !(is_saved && outcome.damage.is_empty()) {
            complaints.push(format!("{name}: {:?} {:?}", outcome.cut, outcome.damage));
        }
        if kept.contains(&name.as_str()) && (outcome.damage.is_empty() || outcome.cut.is_some()) {
            complaints.push(format!("{name}: {:?} {:?}", outcome.cut, outcome.damage));
        }
    }
    assert!(complaints.is_empty(), "\n{}", complaints.join("\n"));
    dir.close().unwrap();
    let after = fs::read(
        case.temp
            .path()
            .join("dense-index-0/00000000000000000000.log"),
    )
    .unwrap();
    assert_eq!(before, after);
    assert!(!case.temp.path().join(".kafka_cleanshutdown").exists());
}
