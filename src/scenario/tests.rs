use super::parse::Command;
use super::*;

/// Every malformed line ends the run before anything is done, and is named by its number.
#[test]
fn a_malformed_line_is_named_and_nothing_is_done() {
    let bad = [
        "fly",
        "config",
        "config word",
        "config a.b=1",
        "config segment.bytes=13",
        "config segment.bytes=x",
        "config retention.ms=1 retention.ms=2",
        "time",
        "time x",
        "time 1 2",
        "time 99999999999999999999",
        "roll now",
        "roll a=1",
        "hw 1.5",
        "truncate --1",
        "append",
        "append epoch=0",
        "append epoch=0 batch=AAAA records=1 size=1 ts=1",
        "append epoch=0 records=1 size=1",
        "append epoch=0 records=0 size=1 ts=1",
        "append epoch=0 records=-1 size=1 ts=1",
        "append epoch=0 records=1 size=-1 ts=1",
        "append epoch=0 records=2000000000 size=2000000000 ts=1",
        "append epoch=0 records=1 size=1 ts=1 codec=lzma",
        "append epoch=0 records=1 size=1 ts=1 pid=1",
        "append epoch=0 records=1 size=1 ts=1 pid=1 pepoch=40000 seq=0",
        "append epoch=0 records=1 size=1 ts=1 txn=perhaps",
        "append epoch=4294967296 batch=AAAA",
        "append epoch=0 batch=A",
        "append epoch=0 batch=A?==",
        "append epoch=0 batch=AAAA batch=AAAA",
        "append epoch=0 batch=AAAA colour=red",
        "marker epoch=0 pid=1 pepoch=0 type=maybe",
        "marker epoch=0 pid=1 pepoch=0",
        "follow",
        "follow batch=A",
        "read from=0",
        "read from=0 max=99999999999",
        "read from=0 max=1 isolation=none",
        "read from=0 max=1 min_one=1",
        "aborted from=0",
        "aborted from=0 to=x",
        "cut segment=0",
        "garbage segment=0 hex=abc",
        "garbage segment=0 hex=xy",
        "flip segment=0 at=0",
        "remove",
        "\u{e9}",
        "=",
    ];
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for line in bad {
        let mut out = Vec::new();

        let error = run(
            &format!("# first\n\nroll\n{line}\n"),
            &data,
            Compatibility::Kafka,
            &mut out,
        )
        .unwrap_err();

        assert_eq!(error.line(), 4, "{line}");
        assert!(error.is_malformed(), "{line}");
        assert!(error.to_string().starts_with("line 4: "), "{error}");
        assert!(out.is_empty(), "{line}");
        assert!(!data.exists(), "{line}");
    }
}

/// Lines cut, doubled and peppered at random: the parser answers, and never panics.
#[test]
fn no_line_panics() {
    let lines = [
        "config segment.bytes=200 retention.ms=-1 cleanup.policy=delete",
        "append epoch=3 records=4 size=10 ts=1700000000000 codec=gzip pid=4 pepoch=1 seq=9",
        "follow batch=AAAAAAAAAAAAAAAxAAAAAgIAAAAA epoch=7",
        "read from=4 max=1000 isolation=high_watermark min_one=true",
        "flip segment=0 at=100 bit=7",
        "garbage segment=0 hex=00ff00ff",
        "truncate 17",
    ];
    let pepper = [
        "=",
        " ",
        "-",
        "9999999999",
        "\u{0}",
        "\u{fe}",
        "#",
        "==",
        "\t",
        "a=b",
        "x",
    ];
    let mut seed: usize = 17;
    let mut random = |below: usize| {
        seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) % below
    };
    for _ in 0..20_000 {
        let mut line = lines[random(lines.len())].to_owned();
        for _ in 0..=random(3) {
            let at = line.floor_char_boundary(random(line.len() + 1));
            match random(3) {
                0 => line.truncate(at),
                1 => line.insert_str(at, pepper[random(pepper.len())]),
                _ => {
                    let tail = line[at..].to_owned();
                    line.push_str(&tail);
                }
            }
        }

        let parsed = Command::parse(&line);

        assert!(parsed.is_ok() || parsed.is_err(), "{line}");
    }
}

#[test]
fn results_that_cannot_be_written_name_their_line() {
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::from(io::ErrorKind::StorageFull))
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let folder = tempfile::tempdir().unwrap();

    let error = run("\ntime 5\n", folder.path(), Compatibility::Kafka, &mut Full).unwrap_err();

    assert_eq!(error.line(), 2);
    assert!(!error.is_malformed());
}
