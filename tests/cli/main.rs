//! What each read-only verb prints and how it ends, on small directories that Kafka wrote.
//!
//! Standard output is compared with files under `tests/cli/expected`; `UPDATE=1` writes them anew.
#![allow(
    clippy::indexing_slicing,
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::arithmetic_side_effects,
    clippy::print_stdout,
    reason = "test helpers outside of test functions"
)]

mod bad_input;
mod places;
mod producers;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures/golden")
        .join(name)
}

fn highwater(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_highwater"))
        .args(args)
        .output()
        .unwrap()
}

/// Runs on a golden directory and compares standard output and exit code.
#[track_caller]
fn check(name: &str, code: i32, path: &str, args: &[&str]) -> String {
    let path = golden(path);
    let before = contents(&path);
    let mut all = vec![args[0], path.to_str().unwrap()];
    all.extend(&args[1..]);
    let output = highwater(&all);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    let stdout = String::from_utf8(output.stdout).unwrap();
    let expected = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/cli/expected")
        .join(name);
    if std::env::var_os("UPDATE").is_some() {
        fs::create_dir_all(expected.parent().unwrap()).unwrap();
        fs::write(&expected, &stdout).unwrap();
    }
    assert_eq!(stdout, fs::read_to_string(&expected).unwrap(), "{name}");
    assert_eq!(before, contents(&path), "{name} changed a file");
    stderr
}

fn contents(path: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut all = Vec::new();
    if path.is_file() {
        all.push((path.to_owned(), fs::read(path).unwrap()));
        return all;
    }
    let mut entries: Vec<_> = fs::read_dir(path)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    entries.sort();
    for entry in entries {
        all.extend(contents(&entry));
    }
    all
}

#[test]
fn info_counts() {
    check("info-segments.json", 0, "segments", &["info", "--json"]);
    check("info-segments.txt", 0, "segments/scenario-0", &["info"]);
    check("info-legacy.json", 0, "legacy-v1-gzip", &["info", "--json"]);
    check(
        "info-transactions.json",
        0,
        "transactions",
        &["info", "--json", "--now", "1700000100000"],
    );
    check("info-torn-tail.json", 1, "torn-tail", &["info", "--json"]);
    check(
        "info-damaged-middle.json",
        1,
        "damaged-middle",
        &["info", "--json"],
    );
}

#[test]
fn verify_tells_damage_from_what_is_only_worth_knowing() {
    check(
        "verify-clean.json",
        0,
        "clean/scenario-0",
        &["verify", "--json"],
    );
    check(
        "verify-torn-tail.json",
        1,
        "torn-tail/scenario-0",
        &["verify", "--json"],
    );
    check(
        "verify-damaged-middle.txt",
        1,
        "damaged-middle/scenario-0",
        &["verify"],
    );
}

#[test]
fn read_prints_records_and_nothing_else() {
    check(
        "read-headers.json",
        0,
        "headers/scenario-0",
        &["read", "--json"],
    );
    check(
        "read-legacy.json",
        0,
        "legacy-v1-gzip/scenario-0",
        &["read", "--json", "--max", "3"],
    );
    let from = ["read", "--json", "--from", "30", "--max", "2"];
    check("read-from.json", 0, "segments/scenario-0", &from);
    let since = ["read", "--json", "--since", "1700000011002"];
    check("read-since.json", 0, "segments/scenario-0", &since);
}

#[test]
fn a_torn_tail_above_the_recovery_point_is_the_end_of_the_log() {
    let args = ["read", "--json", "--isolation", "log-end"];
    let stderr = check("read-torn-tail.json", 0, "torn-tail/scenario-0", &args);
    assert!(stderr.contains("torn tail"), "{stderr}");
}

#[test]
fn records_behind_damage_are_printed() {
    let args = ["read", "--json", "--isolation", "log-end"];
    let stderr = check(
        "read-damaged-middle.json",
        1,
        "damaged-middle/scenario-0",
        &args,
    );
    assert!(
        stderr.contains("damage crc: scenario-0/00000000000000000006.log, position 0"),
        "{stderr}"
    );
}

#[test]
fn without_a_high_watermark_nothing_is_read() {
    let stderr = check(
        "read-nothing.json",
        0,
        "damaged-middle/scenario-0",
        &["read", "--json"],
    );
    assert!(stderr.contains("--high-watermark log-end"), "{stderr}");
}

/// As a broker sees its only replica when it starts again.
#[test]
fn a_high_watermark_can_be_named() {
    for (named, isolation) in [("log-end", "committed"), ("log-end", "high-watermark")] {
        let args = [
            "read",
            "--json",
            "--isolation",
            isolation,
            "--high-watermark",
            named,
        ];
        check("read-committed.json", 0, "headers/scenario-0", &args);
    }
    let args = ["read", "--json", "--high-watermark", "0"];
    check("read-nothing.json", 0, "headers/scenario-0", &args);
    let args = ["read", "--json", "--high-watermark", "x"];
    check("read-nothing.json", 2, "headers/scenario-0", &args);
}

#[test]
fn read_leaves_aborted_records_out() {
    let committed = ["read", "--isolation", "committed", "--json"];
    check("read-committed.json", 0, "headers/scenario-0", &committed);
    check(
        "read-committed-transactions.json",
        0,
        "transactions/scenario-0",
        &committed,
    );
}

#[test]
fn producers_tells_of_open_transactions() {
    let path = "transactions/scenario-0";
    let now = ["--now", "1700000100000"];
    let json = [&["producers", "--json"][..], &now].concat();
    check("producers.json", 0, path, &json);
    let text = [&["producers"][..], &now].concat();
    check("producers.txt", 0, path, &text);
    let hanging = [&["producers", "--hanging", "90s", "--json"][..], &now].concat();
    check("producers-hanging.json", 0, path, &hanging);
}

#[test]
fn dump_shows_files_as_they_stand() {
    let log = "scenario-0/00000000000000000000.log";
    let file = |directory: &str, name: &str| format!("{directory}/scenario-0/{name}");
    check(
        "dump-log.json",
        0,
        &format!("headers/{log}"),
        &["dump", "--json", "--records"],
    );
    check(
        "dump-directory.json",
        1,
        "damaged-middle",
        &["dump", "--json"],
    );
    let time_index = file("segments", "00000000000000000009.timeindex");
    check("dump-timeindex.json", 0, &time_index, &["dump", "--json"]);
    let transactions = file("transactions", "00000000000000000007.txnindex");
    check("dump-txnindex.json", 0, &transactions, &["dump", "--json"]);
    let snapshot = file("transactions", "00000000000000000007.snapshot");
    check("dump-snapshot.json", 0, &snapshot, &["dump", "--json"]);
    let epochs = file("epochs", "leader-epoch-checkpoint");
    check("dump-epochs.json", 0, &epochs, &["dump", "--json"]);
    check(
        "dump-checkpoint.json",
        0,
        "clean/recovery-point-offset-checkpoint",
        &["dump", "--json"],
    );
}

#[test]
fn epochs_answers_where_one_ends() {
    check("epochs.json", 0, "epochs/scenario-0", &["epochs", "--json"]);
    let args = ["epochs", "--json", "--end-offset-for", "7"];
    check("epochs-end.json", 0, "epochs/scenario-0", &args);
    let args = ["epochs", "--json", "--end-offset-for", "99"];
    check("epochs-unknown.json", 0, "epochs/scenario-0", &args);
}

#[test]
fn wrong_paths_and_arguments_have_codes_of_their_own() {
    for (code, args) in [
        (2, &["info"][..]),
        (2, &["read", "x", "--isolation", "none"][..]),
        (2, &["info", "x", "--config", "segment.size=3"][..]),
        (2, &["read", golden("clean").to_str().unwrap()][..]),
        (3, &["info", "/no/such/directory"][..]),
        (
            3,
            &["info", golden("clean/scenario.txt").to_str().unwrap()][..],
        ),
        (
            2,
            &["dump", golden("clean/scenario.txt").to_str().unwrap()][..],
        ),
    ] {
        let output = highwater(args);
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(output.stdout.is_empty(), "{args:?}");
    }
    let output = highwater(&["info", "/no/such/directory"]);
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains("/no/such/directory"), "{stderr}");
}

#[test]
fn completions_and_manual_are_printed() {
    for args in [&["completions", "bash"][..], &["man"][..]] {
        let output = highwater(args);
        assert!(output.status.success());
        assert!(
            String::from_utf8(output.stdout)
                .unwrap()
                .contains("truncate")
        );
    }
}
