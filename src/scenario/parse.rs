//! The commands of a scenario that drives one log.

use super::line::{Line, Malformed, Parsed, Shape, base64, hex};
use crate::log::{EndTransaction, Isolation, LogConfig};
use crate::record::{BatchBuilder, Codec, EndTransactionMarker};
use crate::types::Timestamp;

/// More than this many bytes of values are not built for `append records=`.
const MAX_BUILT_BYTES: u64 = 256 << 20;

/// One command. Numbers that Kafka takes as they are (negative ones too) are plain integers here:
/// what they mean is decided where the command is carried out.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Config(Vec<(String, String)>),
    Time(Timestamp),
    Append {
        epoch: i32,
        batch: Vec<u8>,
    },
    Marker {
        epoch: i32,
        end: EndTransaction,
    },
    Follow {
        batch: Vec<u8>,
        epoch: Option<i32>,
    },
    AssignEpoch(i32),
    EpochEnd(i32),
    HighWatermark(i64),
    IncrementHighWatermark(i64),
    Truncate(i64),
    TruncateFull(i64),
    StartOffset(i64),
    Roll,
    Flush,
    Retain,
    Read {
        from: i64,
        max: i32,
        isolation: Isolation,
        min_one: bool,
    },
    Aborted {
        from: i64,
        to: i64,
    },
    FindTime(i64),
    State,
    Batches,
    Checkpoint,
    Close,
    Kill,
    Open,
    OnFiles(OnFiles),
}

/// A command on the files of a closed log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum OnFiles {
    List,
    Cut { segment: i64, bytes: i64 },
    Garbage { segment: i64, bytes: Vec<u8> },
    Flip { segment: i64, at: i64, bit: i64 },
    Remove { file: String },
}

impl Command {
    /// The command of a line; `None` for a blank line or a comment.
    pub(crate) fn parse(text: &str) -> Parsed<Option<Self>> {
        let Some(line) = Line::split(text)? else {
            return Ok(None);
        };
        if line.verb == "config" {
            return config(&line).map(Some);
        }
        let shape = shape_of(line.verb)
            .ok_or_else(|| Malformed(format!("there is no verb {}", line.verb)))?;
        line.check(shape)?;
        match line.verb {
            "append" => append(&line),
            "marker" => marker(&line),
            "follow" => Ok(Self::Follow {
                batch: base64(line.text("batch"))?,
                epoch: line.number("epoch")?,
            }),
            "read" => read(&line),
            "aborted" => Ok(Self::Aborted {
                from: line.wanted("from")?,
                to: line.wanted("to")?,
            }),
            "files" | "cut" | "garbage" | "flip" | "remove" => on_files(&line).map(Self::OnFiles),
            _ => plain(&line),
        }
        .map(Some)
    }
}

fn shape_of(verb: &str) -> Option<Shape> {
    Some(match verb {
        "time" | "assign-epoch" | "epoch-end" | "hw" | "hw-increment" | "truncate"
        | "truncate-full" | "start-offset" | "find-time" => Shape::words(1),
        "roll" | "flush" | "retain" | "state" | "batches" | "checkpoint" | "close" | "kill"
        | "open" | "files" => Shape::words(0),
        "append" => Shape::keys(
            &["epoch"],
            &[
                "batch", "records", "size", "ts", "codec", "pid", "pepoch", "seq", "txn",
            ],
        ),
        "marker" => Shape::keys(&["epoch", "pid", "pepoch", "type"], &["coordinator"]),
        "follow" => Shape::keys(&["batch"], &["epoch"]),
        "read" => Shape::keys(&["from", "max"], &["isolation", "min_one"]),
        "aborted" => Shape::keys(&["from", "to"], &[]),
        "cut" => Shape::keys(&["segment", "bytes"], &[]),
        "garbage" => Shape::keys(&["segment", "hex"], &[]),
        "flip" => Shape::keys(&["segment", "at", "bit"], &[]),
        "remove" => Shape::keys(&["file"], &[]),
        _ => return None,
    })
}

/// Verbs with one number or nothing behind them.
fn plain(line: &Line<'_>) -> Parsed<Command> {
    Ok(match line.verb {
        "time" => Command::Time(Timestamp::from_millis(line.word()?)),
        "assign-epoch" => Command::AssignEpoch(line.word()?),
        "epoch-end" => Command::EpochEnd(line.word()?),
        "hw" => Command::HighWatermark(line.word()?),
        "hw-increment" => Command::IncrementHighWatermark(line.word()?),
        "truncate" => Command::Truncate(line.word()?),
        "truncate-full" => Command::TruncateFull(line.word()?),
        "start-offset" => Command::StartOffset(line.word()?),
        "find-time" => Command::FindTime(line.word()?),
        "roll" => Command::Roll,
        "flush" => Command::Flush,
        "retain" => Command::Retain,
        "state" => Command::State,
        "batches" => Command::Batches,
        "checkpoint" => Command::Checkpoint,
        "close" => Command::Close,
        "kill" => Command::Kill,
        "open" => Command::Open,
        verb => return Err(Malformed(format!("there is no verb {verb}"))),
    })
}

fn config(line: &Line<'_>) -> Parsed<Command> {
    if !line.words.is_empty() || line.keys.is_empty() {
        return Err(Malformed("config wants KEY=VALUE".to_owned()));
    }
    let mut trial = LogConfig::default();
    let mut settings = Vec::new();
    for (key, value) in &line.keys {
        trial
            .set(key, value)
            .map_err(|_| Malformed(format!("bad configuration {key}={value}")))?;
        settings.push(((*key).to_owned(), (*value).to_owned()));
    }
    Ok(Command::Config(settings))
}

fn append(line: &Line<'_>) -> Parsed<Command> {
    let epoch = line.wanted("epoch")?;
    let built = line.has("records");
    if built == line.has("batch") {
        return Err(Malformed(
            "append wants either batch= or records=".to_owned(),
        ));
    }
    let batch = if built {
        build(line)?
    } else {
        base64(line.text("batch"))?
    };
    Ok(Command::Append { epoch, batch })
}

/// The batch of `append records=`: null keys, no headers, values of one letter each.
fn build(line: &Line<'_>) -> Parsed<Vec<u8>> {
    if !(line.has("size") && line.has("ts")) {
        return Err(Malformed("append records= wants size= and ts=".to_owned()));
    }
    let records: u32 = line.wanted("records")?;
    let size: u32 = line.wanted("size")?;
    let first: i64 = line.wanted("ts")?;
    if records == 0 {
        return Err(Malformed("records= wants at least 1".to_owned()));
    }
    if u64::from(records).saturating_mul(u64::from(size).saturating_add(8)) > MAX_BUILT_BYTES {
        return Err(Malformed(
            "records= and size= make more than 256 MiB".to_owned(),
        ));
    }
    let codec = match line.keys.get("codec") {
        Some(name) => name
            .to_ascii_lowercase()
            .parse::<Codec>()
            .map_err(|_| Malformed(format!("there is no codec {name}")))?,
        None => Codec::None,
    };
    let mut builder = producer(line, BatchBuilder::new(codec))?;
    let unbuilt = |e| Malformed(format!("the batch cannot be built: {e}"));
    let mut value = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    for (timestamp, letter) in (0..records)
        .map(|at| first.wrapping_add(i64::from(at)))
        .zip((b'a'..=b'z').cycle())
    {
        value.fill(letter);
        builder
            .push(timestamp, None, Some(&value), &[])
            .map_err(unbuilt)?;
    }
    builder.finish().map_err(unbuilt)
}

fn producer(line: &Line<'_>, builder: BatchBuilder) -> Parsed<BatchBuilder> {
    let id = line.number("pid")?;
    let epoch = line.number("pepoch")?;
    let sequence = line.number("seq")?;
    let transactional = line.flag("txn")?;
    if id.is_some() && (epoch.is_none() || sequence.is_none()) {
        return Err(Malformed("append pid= wants pepoch= and seq=".to_owned()));
    }
    if id.is_none() && transactional {
        return Err(Malformed("append txn=true wants pid=".to_owned()));
    }
    let none = (
        id.unwrap_or(-1),
        epoch.unwrap_or(-1),
        sequence.unwrap_or(-1),
    );
    Ok(builder
        .producer(none.0, none.1, none.2)
        .transactional(transactional))
}

fn marker(line: &Line<'_>) -> Parsed<Command> {
    let commit = match line.text("type") {
        "commit" => true,
        "abort" => false,
        _ => return Err(Malformed("type= wants commit or abort".to_owned())),
    };
    Ok(Command::Marker {
        epoch: line.wanted("epoch")?,
        end: EndTransaction {
            producer_id: line.wanted("pid")?,
            producer_epoch: line.wanted("pepoch")?,
            marker: EndTransactionMarker {
                commit,
                coordinator_epoch: line.number("coordinator")?.unwrap_or(0),
            },
        },
    })
}

fn read(line: &Line<'_>) -> Parsed<Command> {
    let isolation = match line.keys.get("isolation").copied() {
        None | Some("log_end") => Isolation::LogEnd,
        Some("high_watermark") => Isolation::HighWatermark,
        Some("txn_committed") => Isolation::Committed,
        Some(other) => return Err(Malformed(format!("there is no isolation {other}"))),
    };
    Ok(Command::Read {
        from: line.wanted("from")?,
        max: line.wanted("max")?,
        isolation,
        min_one: line.flag("min_one")?,
    })
}

fn on_files(line: &Line<'_>) -> Parsed<OnFiles> {
    Ok(match line.verb {
        "files" => OnFiles::List,
        "cut" => OnFiles::Cut {
            segment: line.wanted("segment")?,
            bytes: line.wanted("bytes")?,
        },
        "garbage" => OnFiles::Garbage {
            segment: line.wanted("segment")?,
            bytes: hex(line.text("hex"))?,
        },
        "flip" => OnFiles::Flip {
            segment: line.wanted("segment")?,
            at: line.wanted("at")?,
            bit: line.wanted("bit")?,
        },
        _ => OnFiles::Remove {
            file: line.text("file").to_owned(),
        },
    })
}
