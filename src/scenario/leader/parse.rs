//! The commands of a scenario that drives the leader of one partition.

use std::str::FromStr;

use crate::replication::brokers::BrokerView;
use crate::replication::leader::{Acks, FetchRequest, Registration};
use crate::replication::message::{
    BrokerEpoch, BrokerId, BrokerSet, ErrorCode, LeaderRecoveryState, PartitionEpoch, RequestId,
};
use crate::scenario::line::{Line, Malformed, Parsed, Shape};
use crate::types::{LeaderEpoch, Timestamp};

const DEFAULT_SIZE: u32 = 10;
const DEFAULT_MAX: u32 = 1 << 20;

/// One command. Offsets and epochs that a client may send are plain numbers: what a negative one
/// means is decided by the machine.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Command {
    Role,
    Config(Vec<Setting>),
    Time(Timestamp),
    Broker {
        id: BrokerId,
        registration: Option<BrokerView>,
    },
    Metadata(Registration),
    Append {
        records: Records,
        acks: Acks,
    },
    Fetch {
        request: FetchRequest,
        max: usize,
    },
    Consume {
        consume: Consume,
        max: usize,
    },
    IsrTick,
    Reply {
        oldest: bool,
        reply: Reply,
    },
    EndOffset {
        epoch: i32,
        current: Option<i32>,
    },
    OffsetFor(OffsetFor),
    CheckAcks(i64),
    DeleteRecords(i64),
    Follow {
        records: Records,
        epoch: LeaderEpoch,
        high_watermark: Option<i64>,
    },
    Truncate(i64),
    State,
    Replicas,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Setting {
    MinIsr(u32),
    LagMs(i64),
    Queue(bool),
    Unclean,
}

/// A consumer's fetch.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Consume {
    pub(crate) offset: i64,
    /// Whether only committed transactions count.
    pub(crate) committed: bool,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) last_epoch: Option<i32>,
    pub(crate) leader_only: bool,
}

/// A question for an offset.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct OffsetFor {
    /// A timestamp, or one of the negative numbers of `ListOffsetsRequest`.
    pub(crate) time: i64,
    /// Whether only committed transactions count; `None` for a replica.
    pub(crate) committed: Option<bool>,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) leader_only: bool,
}

/// How many records of how many bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Records {
    pub(crate) count: u32,
    pub(crate) size: u32,
}

/// What the controller says; what is missing is as it was sent.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Accepted {
    pub(crate) isr: Option<BrokerSet>,
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) partition_epoch: Option<i32>,
    pub(crate) recovery: LeaderRecoveryState,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Reply {
    Accepted(Accepted),
    Refused(ErrorCode),
    RequestRefused(ErrorCode),
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
        line.check(shape_of(&line)?)?;
        match line.verb {
            "role" => role(&line),
            "broker" => broker(&line),
            "metadata" => metadata(&line),
            "append" => Ok(Self::Append {
                records: records(&line)?,
                acks: acks(&line)?,
            }),
            "fetch" => fetch(&line),
            "consume" => consume(&line),
            "reply" => reply(&line),
            "offset-for" => offset_for(&line),
            "follow" => follow(&line),
            _ => plain(&line),
        }
        .map(Some)
    }
}

fn shape_of(line: &Line<'_>) -> Parsed<Shape> {
    let broker = Shape {
        words: 1,
        required: &[],
        optional: &["epoch", "fenced", "shutting-down", "gone"],
    };
    let accepted = Shape {
        words: 1,
        required: &[],
        optional: &[
            "isr",
            "leader_epoch",
            "partition_epoch",
            "recovery",
            "oldest",
        ],
    };
    let refused = Shape {
        words: 2,
        required: &[],
        optional: &["oldest"],
    };
    Ok(match line.verb {
        "role" | "time" | "truncate" | "check-acks" | "delete-records" => Shape::words(1),
        "isr-tick" | "state" | "replicas" => Shape::words(0),
        "broker" => broker,
        "reply" if line.words.first() == Some(&"ok") => accepted,
        "reply" => refused,
        "metadata" => Shape::keys(
            &[
                "leader",
                "leader_epoch",
                "partition_epoch",
                "replicas",
                "isr",
            ],
            &["recovery", "adding", "removing"],
        ),
        "append" => Shape::keys(&["records"], &["acks", "size"]),
        "follow" => Shape::keys(&["records", "epoch"], &["size", "hw"]),
        "fetch" => Shape::keys(
            &["replica", "broker_epoch", "offset"],
            &["leader_epoch", "last_epoch", "max", "log_start"],
        ),
        "consume" => Shape::keys(
            &["offset"],
            &[
                "isolation",
                "leader_epoch",
                "last_epoch",
                "max",
                "leader_only",
            ],
        ),
        "end-offset" => Shape::keys(&["epoch"], &["current"]),
        "offset-for" => Shape::keys(&["time"], &["isolation", "leader_epoch", "leader_only"]),
        verb => return Err(Malformed(format!("there is no verb {verb}"))),
    })
}

/// Verbs with one number or nothing behind them.
fn plain(line: &Line<'_>) -> Parsed<Command> {
    Ok(match line.verb {
        "time" => Command::Time(Timestamp::from_millis(line.word()?)),
        "truncate" => Command::Truncate(line.word()?),
        "check-acks" => Command::CheckAcks(line.word()?),
        "delete-records" => Command::DeleteRecords(line.word()?),
        "end-offset" => Command::EndOffset {
            epoch: line.wanted("epoch")?,
            current: line.number("current")?,
        },
        "isr-tick" => Command::IsrTick,
        "state" => Command::State,
        "replicas" => Command::Replicas,
        verb => return Err(Malformed(format!("there is no verb {verb}"))),
    })
}

fn role(line: &Line<'_>) -> Parsed<Command> {
    match line.words.first() {
        Some(&"leader") => Ok(Command::Role),
        _ => Err(Malformed("the role is leader".to_owned())),
    }
}

fn config(line: &Line<'_>) -> Parsed<Command> {
    if !line.words.is_empty() || line.keys.is_empty() {
        return Err(Malformed("config wants KEY=VALUE".to_owned()));
    }
    let setting = |(key, value): (&&str, &&str)| {
        let bad = || Malformed(format!("bad configuration {key}={value}"));
        Ok(match *key {
            "min.insync.replicas" => {
                let count = value.parse().ok().filter(|count| *count >= 1);
                Setting::MinIsr(count.ok_or_else(bad)?)
            }
            "replica.lag.time.max.ms" => Setting::LagMs(value.parse().map_err(|_| bad())?),
            "alter.partition.queue" => Setting::Queue(line.flag(key)?),
            "unclean.leader.election.enable" => {
                line.flag(key)?;
                Setting::Unclean
            }
            _ => return Err(bad()),
        })
    };
    line.keys
        .iter()
        .map(setting)
        .collect::<Parsed<_>>()
        .map(Command::Config)
}

fn broker(line: &Line<'_>) -> Parsed<Command> {
    let id = BrokerId(line.word()?);
    let registration = BrokerView {
        epoch: BrokerEpoch(line.number("epoch")?.unwrap_or_default()),
        fenced: line.flag("fenced")?,
        shutting_down: line.flag("shutting-down")?,
    };
    let gone = line.flag("gone")?;
    if !gone && !line.has("epoch") {
        return Err(Malformed("broker wants epoch= or gone=true".to_owned()));
    }
    Ok(Command::Broker {
        id,
        registration: (!gone).then_some(registration),
    })
}

fn metadata(line: &Line<'_>) -> Parsed<Command> {
    let epoch = |key| {
        let epoch = line.wanted::<i32>(key)?;
        if epoch < 0 {
            return Err(Malformed(format!("{key}= starts at 0")));
        }
        Ok(epoch)
    };
    // What the partition does not look at must be well formed all the same.
    recovery(line)?;
    ids(line, "adding")?;
    ids(line, "removing")?;
    let leader: i32 = line.wanted("leader")?;
    Ok(Command::Metadata(Registration {
        leader: (leader >= 0).then_some(BrokerId(leader)),
        leader_epoch: LeaderEpoch::new(epoch("leader_epoch")?).unwrap_or_default(),
        partition_epoch: PartitionEpoch(epoch("partition_epoch")?),
        replicas: ids(line, "replicas")?,
        isr: ids(line, "isr")?,
    }))
}

fn fetch(line: &Line<'_>) -> Parsed<Command> {
    let replica: i32 = line.wanted("replica")?;
    if replica < 0 {
        return Err(Malformed("replica= wants a broker id".to_owned()));
    }
    let request = FetchRequest {
        request: RequestId::default(),
        replica: BrokerId(replica),
        broker_epoch: BrokerEpoch(line.wanted("broker_epoch")?),
        offset: line.wanted("offset")?,
        leader_epoch: line.number("leader_epoch")?,
        last_epoch: line.number("last_epoch")?,
        log_start_offset: line.number("log_start")?.unwrap_or_default(),
        batch_base: None,
    };
    let max = max(line)?;
    Ok(Command::Fetch { request, max })
}

fn consume(line: &Line<'_>) -> Parsed<Command> {
    let consume = Consume {
        offset: line.wanted("offset")?,
        committed: isolation(line)?.unwrap_or_default(),
        leader_epoch: line.number("leader_epoch")?,
        last_epoch: line.number("last_epoch")?,
        leader_only: line.flag("leader_only")?,
    };
    let max = max(line)?;
    Ok(Command::Consume { consume, max })
}

fn reply(line: &Line<'_>) -> Parsed<Command> {
    let kind = || {
        let name = line.words.get(1).copied().unwrap_or_default();
        ErrorCode::from_str(name).map_err(|_| Malformed(format!("there is no error {name}")))
    };
    let isr = || line.has("isr").then(|| ids(line, "isr")).transpose();
    let reply = match line.words.first() {
        Some(&"ok") => Reply::Accepted(Accepted {
            isr: isr()?,
            leader_epoch: line.number("leader_epoch")?,
            partition_epoch: line.number("partition_epoch")?,
            recovery: recovery(line)?,
        }),
        Some(&"error") => Reply::Refused(kind()?),
        Some(&"request-error") => Reply::RequestRefused(kind()?),
        _ => {
            let wants = "reply wants ok, error KIND or request-error KIND";
            return Err(Malformed(wants.to_owned()));
        }
    };
    let oldest = line.flag("oldest")?;
    Ok(Command::Reply { oldest, reply })
}

fn offset_for(line: &Line<'_>) -> Parsed<Command> {
    // The numbers of `ListOffsetsRequest`.
    let time = match line.text("time") {
        "latest" => -1,
        "earliest" => -2,
        "largest" => -3,
        _ => line.wanted("time")?,
    };
    Ok(Command::OffsetFor(OffsetFor {
        time,
        committed: isolation(line)?,
        leader_epoch: line.number("leader_epoch")?,
        leader_only: line.flag("leader_only")?,
    }))
}

fn follow(line: &Line<'_>) -> Parsed<Command> {
    let epoch = LeaderEpoch::new(line.wanted("epoch")?);
    Ok(Command::Follow {
        records: records(line)?,
        epoch: epoch.ok_or_else(|| Malformed("epoch= starts at 0".to_owned()))?,
        high_watermark: line.number("hw")?,
    })
}

fn records(line: &Line<'_>) -> Parsed<Records> {
    let count = line.wanted("records")?;
    let size = line.number("size")?.unwrap_or(DEFAULT_SIZE);
    if !(1..=10_000).contains(&count) {
        return Err(Malformed("records= wants 1 to 10000".to_owned()));
    }
    if size > 100_000 {
        return Err(Malformed("size= wants 0 to 100000".to_owned()));
    }
    Ok(Records { count, size })
}

fn acks(line: &Line<'_>) -> Parsed<Acks> {
    match line.text("acks") {
        "" | "all" => Ok(Acks::All),
        "1" => Ok(Acks::Leader),
        "0" => Ok(Acks::None),
        _ => Err(Malformed("acks= wants all, 1 or 0".to_owned())),
    }
}

fn max(line: &Line<'_>) -> Parsed<usize> {
    let max: u32 = line.number("max")?.unwrap_or(DEFAULT_MAX);
    usize::try_from(max).map_err(|_| Malformed("max= is too large".to_owned()))
}

/// Whether only committed transactions count, if an isolation is named.
fn isolation(line: &Line<'_>) -> Parsed<Option<bool>> {
    match line.text("isolation") {
        "" => Ok(None),
        "read_uncommitted" => Ok(Some(false)),
        "read_committed" => Ok(Some(true)),
        _ => {
            let wants = "isolation= wants read_uncommitted or read_committed";
            Err(Malformed(wants.to_owned()))
        }
    }
}

fn recovery(line: &Line<'_>) -> Parsed<LeaderRecoveryState> {
    match line.text("recovery") {
        "" | "RECOVERED" => Ok(LeaderRecoveryState::Recovered),
        "RECOVERING" => Ok(LeaderRecoveryState::Recovering),
        _ => Err(Malformed(
            "recovery= wants RECOVERED or RECOVERING".to_owned(),
        )),
    }
}

/// A list of broker ids, `-` or a missing key for none.
fn ids(line: &Line<'_>, key: &str) -> Parsed<BrokerSet> {
    let text = line.text(key);
    if text == "-" || !line.has(key) {
        return Ok(BrokerSet::new());
    }
    let id = |part: &str| {
        let bad = |_| Malformed(format!("{key}= wants broker ids"));
        part.parse().map(BrokerId).map_err(bad)
    };
    text.split(',').map(id).collect()
}
