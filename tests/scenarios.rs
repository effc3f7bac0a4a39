//! Text scenarios against what Apache Kafka 4.4 answered to them (`*.expected`), line by line.
//!
//! A command behind a line `#! differs: WHY` is not compared: highwater answers otherwise on
//! purpose. Files with a line `#! kafka only: WHY` are left out. Scenarios of a role run under
//! Kafka's rules, and then every line is compared. `SCENARIOS=DIR` runs those of another directory.
//!
//! `leader-highwater` holds stories under our own rules, with our answers.
#![allow(
    clippy::unwrap_used,
    clippy::unwrap_in_result,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    clippy::print_stdout,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic_in_result_fn,
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
    reason = "tests stop at the first surprise and read the tree with std"
)]

use std::collections::BTreeMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use highwater::replication::message::Compatibility;
use highwater::scenario;

/// Result lines by the number of their command.
type Results = BTreeMap<usize, String>;

fn results(text: &str) -> Results {
    let split = |line: &str| {
        let (number, result) = line.split_once(' ').unwrap();
        (number.parse().unwrap(), result.to_owned())
    };
    text.lines().map(split).collect()
}

/// Whether the scenario drives a role, not a log.
fn has_role(text: &str) -> bool {
    let mut commands = text.lines().filter(|line| !line.starts_with('#'));
    commands.any(|line| line.starts_with("role "))
}

/// The numbers of the commands whose answers are compared.
fn compared(text: &str) -> Vec<usize> {
    let mut numbers = Vec::new();
    let mut differs = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.starts_with("#! differs:") {
            differs = !has_role(text);
        } else if !line.trim().is_empty() && !line.starts_with('#') {
            if !differs {
                numbers.push(number);
            }
            differs = false;
        }
    }
    numbers
}

fn answers(text: &str, rules: Compatibility) -> Result<Results, String> {
    let folder = tempfile::tempdir().unwrap();
    let mut out = Vec::new();
    let data = folder.path().join("data");
    catch_unwind(AssertUnwindSafe(|| {
        scenario::run(text, &data, rules, &mut out)
    }))
    .map_err(|_| "it panicked".to_owned())?
    .map_err(|error| error.to_string())?;
    Ok(results(&String::from_utf8(out).unwrap()))
}

/// The first difference, if there is one.
fn difference(path: &Path, expected: &Results, rules: Compatibility) -> Option<String> {
    let text = fs::read_to_string(path).unwrap();
    let ours = match answers(&text, rules) {
        Ok(ours) => ours,
        Err(why) => return Some(format!("{}: {why}", path.display())),
    };
    let absent = || "(none)".to_owned();
    compared(&text).into_iter().find_map(|number| {
        let (kafka, ours) = (expected.get(&number), ours.get(&number));
        let line = text.lines().nth(number - 1).unwrap_or_default();
        (kafka != ours).then(|| {
            format!(
                "{}:{number}: {line:.120}\n  kafka:     {}\n  highwater: {}",
                path.display(),
                kafka.cloned().unwrap_or_else(absent),
                ours.cloned().unwrap_or_else(absent)
            )
        })
    })
}

fn scenarios_of(folder: &Path) -> Vec<(PathBuf, Results)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let answers = ["expected", "kafka"].map(|suffix| path.with_extension(suffix));
        let expected = answers
            .iter()
            .find_map(|answer| fs::read_to_string(answer).ok());
        let is_scenario = path.extension().is_some_and(|suffix| suffix == "txt");
        if let (true, Some(expected)) = (is_scenario, expected) {
            let text = fs::read_to_string(&path).unwrap();
            if has_role(&text) || !text.contains("\n#! kafka only:") {
                found.push((path, results(&expected)));
            }
        }
    }
    found.sort();
    found
}

fn run(folder: &Path, rules: Compatibility) {
    let scenarios = scenarios_of(folder);
    assert!(
        !scenarios.is_empty(),
        "no scenarios in {}",
        folder.display()
    );
    let differences: Vec<String> = scenarios
        .iter()
        .filter_map(|(path, expected)| difference(path, expected, rules))
        .collect();
    for difference in &differences {
        println!("{difference}");
    }
    assert!(
        differences.is_empty(),
        "{} of {}",
        differences.len(),
        scenarios.len()
    );
}

fn own(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/scenarios")
        .join(folder)
}

#[test]
fn highwater_answers_as_kafka_does() {
    let folder = std::env::var_os("SCENARIOS").map_or_else(|| own(""), PathBuf::from);
    run(&folder, Compatibility::Kafka);
}

#[test]
fn a_leader_answers_as_kafkas_does() {
    run(&own("leader"), Compatibility::Kafka);
}

/// Where our rules differ: each story begins with what differs, and why.
#[test]
fn a_leader_under_our_own_rules_tells_its_stories() {
    run(&own("leader-highwater"), Compatibility::Highwater);
}
