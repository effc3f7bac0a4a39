//! Hostile bytes: each verb says in one line what is wrong, where, and what to do; ends with the
//! code of damage; changes nothing; and needs little memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use highwater::record::{BatchBuilder, Codec, crc32c};
use tempfile::TempDir;

use super::{contents, highwater};

/// What a process may take at most, code and stacks included. Unit: bytes.
const MEMORY_BYTES: u64 = 256 << 20;

const LOG: &str = "00000000000000000000.log";

fn batch(base: i64, values: &[&[u8]], codec: Codec) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for value in values {
        builder
            .push(1_700_000_000_000, None, Some(value), &[])
            .unwrap();
    }
    let mut bytes = builder.finish().unwrap();
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes
}

fn plain(base: i64) -> Vec<u8> {
    batch(base, &[b"a", b"b", b"c"], Codec::None)
}

/// A batch of three records, changed behind its checksum's back or not.
fn changed(base: i64, mend_crc: bool, change: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = plain(base);
    change(&mut bytes);
    if mend_crc {
        let crc = crc32c(&bytes[21..]);
        bytes[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    bytes
}

struct Case {
    temp: TempDir,
}

impl Case {
    /// A log that holds these bytes, as a broker that was killed may leave it.
    fn new(log: &[u8]) -> Self {
        let temp = TempDir::new().unwrap();
        fs::create_dir(temp.path().join("t-0")).unwrap();
        fs::write(temp.path().join("t-0").join(LOG), log).unwrap();
        Self { temp }
    }

    fn with_recovery_point(self, offset: i64) -> Self {
        let rows = format!("0\n1\nt 0 {offset}\n");
        let file = self.temp.path().join("recovery-point-offset-checkpoint");
        fs::write(file, rows).unwrap();
        self
    }

    fn log(&self) -> PathBuf {
        self.temp.path().join("t-0")
    }

    fn run(&self, args: &[&str]) -> Output {
        let log = self.log();
        let mut all = vec![args[0], log.to_str().unwrap()];
        all.extend(&args[1..]);
        bounded(&all)
    }

    /// All read-only verbs: which values `read` prints, what is said of the damage.
    #[track_caller]
    fn check(&self, values: &str, kind: &str, position: usize) {
        let before = contents(self.temp.path());
        let what = format!("damage {kind}: t-0/{LOG}, position {position}");

        let read = self.run(&["read", "--isolation", "log-end"]);
        assert_eq!(String::from_utf8_lossy(&read.stdout), values);
        one_line(&read, 1, &what);
        let verify = self.run(&["verify"]);
        assert_eq!(verify.status.code(), Some(1));
        let lines = String::from_utf8(verify.stdout).unwrap();
        let line = lines.lines().find(|line| line.starts_with("damage"));
        assert!(line.is_some_and(|line| line.starts_with(&what)), "{lines}");
        let dump = self.run(&["dump", "--records"]);
        one_line(
            &dump,
            1,
            &format!("damage {kind}: {LOG}, position {position}"),
        );
        assert_eq!(before, contents(self.temp.path()));
    }
}

/// Runs with bounded memory where the machine can do that.
pub(super) fn bounded(args: &[&str]) -> Output {
    let limit = format!("--as={MEMORY_BYTES}");
    let limited = Command::new("prlimit")
        .args([&limit, env!("CARGO_BIN_EXE_highwater")])
        .args(args)
        .output();
    limited.unwrap_or_else(|_| highwater(args))
}

#[track_caller]
fn one_line(output: &Output, code: i32, part: &str) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{stderr}");
    assert_eq!(stderr.lines().count(), 1, "{stderr}");
    assert!(stderr.contains(part), "{part}: {stderr}");
    assert!(stderr.contains("; "), "no next step: {stderr}");
}

#[test]
fn an_unknown_codec_spoils_its_batch_only() {
    let strange = changed(3, true, |bytes| bytes[22] = 5);
    let case = Case::new(&[plain(0), strange, plain(6)].concat());

    case.check("a\nb\nc\na\nb\nc\n", "record_body", 85);
}

#[test]
fn a_magic_of_three_is_named() {
    let strange = changed(3, true, |bytes| bytes[16] = 3);
    let bytes = [plain(0), strange].concat();

    Case::new(&bytes).check("a\nb\nc\n", "bad_magic", 85);
    // A batch of the right size is no garbage: it is no torn tail either.
    Case::new(&bytes)
        .with_recovery_point(3)
        .check("a\nb\nc\n", "bad_magic", 85);
}

#[test]
fn random_bytes_are_no_segment() {
    let mut random = 7_u64;
    let bytes: Vec<u8> = (0..50_000)
        .map(|_| {
            random = random
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            random.to_be_bytes()[0]
        })
        .collect();

    Case::new(&bytes).check("", "bad_length", 0);
}

#[test]
fn a_length_of_two_gibibytes_reserves_nothing() {
    let long = changed(3, false, |bytes| {
        bytes[8..12].copy_from_slice(&i32::MAX.to_be_bytes());
    });
    let case = Case::new(&[plain(0), long, plain(6)].concat());

    case.check("a\nb\nc\n", "bad_length", 85);
}

#[test]
fn a_record_longer_than_its_batch_reserves_nothing() {
    let long = changed(3, true, |bytes| {
        bytes[61..66].copy_from_slice(&[0xfe, 0xff, 0xff, 0xff, 0x0f]);
    });
    let case = Case::new(&[plain(0), long, plain(6)].concat());

    case.check("a\nb\nc\na\nb\nc\n", "record_body", 85);
}

#[test]
fn a_decompression_bomb_is_not_unpacked() {
    let zeros = vec![0; 100 << 20];
    let bomb = batch(3, &[&zeros], Codec::Gzip);
    assert!(bomb.len() < 1 << 20);
    let case = Case::new(&[plain(0), bomb, plain(4)].concat());

    case.check("a\nb\nc\na\nb\nc\n", "record_body", 85);
}

#[test]
fn a_large_value_is_shown_without_copies_of_it() {
    let large = vec![0xff; 60 << 20];
    let case = Case::new(&batch(0, &[&large], Codec::Gzip));

    for args in [
        &["dump", "--records", "--json"][..],
        &["read", "--json", "--isolation", "log-end"],
    ] {
        let output = case.run(args);
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{stderr}");
        assert!(output.stdout.len() > 80 << 20);
    }
}

/// Everything that a kill may leave behind the last batch is the end of the log, not damage.
#[test]
fn tails_at_the_recovery_point_are_the_end() {
    let garbage: Vec<u8> = (1..=200_u8).map(|byte| byte.wrapping_mul(151)).collect();
    let torn = plain(3)[..80].to_vec();
    for (tail, kind) in [
        (vec![0; 300], "zeroed_range"),
        (torn, "torn_tail"),
        (plain(3)[..40].to_vec(), "torn_tail"),
        (garbage, "bad_length"),
    ] {
        let case = Case::new(&[plain(0), tail].concat()).with_recovery_point(3);

        let read = case.run(&["read", "--isolation", "log-end"]);

        assert_eq!(String::from_utf8_lossy(&read.stdout), "a\nb\nc\n");
        one_line(&read, 0, &format!("note {kind}: t-0/{LOG}, position 85"));
        let recovered = case.run(&["recover", "--json"]);
        assert_eq!(recovered.status.code(), Some(0));
        let read = case.run(&["read", "--isolation", "log-end"]);
        assert!(read.stderr.is_empty());
        assert_eq!(case.run(&["verify"]).status.code(), Some(0));
    }
}

#[test]
fn a_torn_batch_below_the_recovery_point_is_damage() {
    let bytes = [plain(0), plain(3)[..80].to_vec()].concat();
    let case = Case::new(&bytes).with_recovery_point(6);

    case.check("a\nb\nc\n", "torn_tail", 85);

    let recovered = case.run(&["recover", "--json"]);
    assert_eq!(recovered.status.code(), Some(1));
    assert_eq!(fs::read(case.log().join(LOG)).unwrap(), bytes);
    let refused = case.run(&["append"]);
    one_line(&refused, 1, "t-0");
}

#[test]
fn damage_above_what_is_read_is_not_told() {
    let broken = changed(3, false, |bytes| bytes[70] ^= 1);
    let case = Case::new(&[plain(0), broken, plain(6)].concat());
    let rows = case.temp.path().join("replication-offset-checkpoint");
    fs::write(rows, "0\n1\nt 0 3\n").unwrap();

    let read = case.run(&["read"]);

    assert_eq!(String::from_utf8_lossy(&read.stdout), "a\nb\nc\n");
    assert_eq!(read.status.code(), Some(0));
    assert!(read.stderr.is_empty());
}

#[test]
fn a_repair_leaves_a_log_that_verifies() {
    let broken = changed(3, false, |bytes| bytes[70] ^= 1);
    let case = Case::new(&[plain(0), broken, plain(6)].concat()).with_recovery_point(9);
    assert_eq!(case.run(&["recover"]).status.code(), Some(1));

    let repaired = case.run(&["recover", "--repair", "--json"]);

    assert_eq!(repaired.status.code(), Some(0));
    let line: serde_json::Value = serde_json::from_slice(&repaired.stdout).unwrap();
    assert_eq!(line["cut_from"], 3);
    assert_eq!(line["lost_offsets"], 6);
    let saved = line["saved_to"][0].as_str().unwrap();
    assert_eq!(fs::read(Path::new(saved)).unwrap().len(), 2 * 85);
    assert_eq!(case.run(&["verify"]).status.code(), Some(0));
    let again = case.run(&["recover", "--json"]);
    let line: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(
        (&line["cut_bytes"], again.status.code()),
        (&0.into(), Some(0))
    );
}

/// The headers decide whether the recovery point is believed, and what lies below it is never cut.
#[test]
fn info_says_where_the_log_ends_when_it_is_opened() {
    let broken = |base| changed(base, false, |bytes| bytes[70] ^= 1);
    let wild = changed(0, false, |bytes| bytes[23..27].fill(0x7f));
    for (bytes, point, end) in [
        ([broken(0), broken(3), broken(6)].concat(), 9, 9),
        ([broken(0), broken(3), plain(6)].concat(), 9, 9),
        ([plain(0), broken(3), broken(6)].concat(), 3, 3),
        ([wild, plain(3)].concat(), 6, 6),
        ([plain(0), plain(3)[..80].to_vec()].concat(), 6, 6),
        ([plain(0), vec![0; 200]].concat(), 6, 3),
    ] {
        let case = Case::new(&bytes).with_recovery_point(point);
        let value = |output: Output| -> serde_json::Value {
            serde_json::from_slice(&output.stdout).unwrap()
        };

        let info = value(case.run(&["info", "--json"]));
        let plan = value(case.run(&["recover", "--dry-run", "--json"]));
        let done = value(case.run(&["recover", "--json"]));

        for said in [info, plan, done] {
            assert_eq!(said["log_end_offset"], end, "recovery point {point}");
        }
    }
}
