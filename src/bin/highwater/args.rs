//! The arguments of all verbs.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Parser, Subcommand, ValueEnum};
use highwater::record::Codec;
use highwater::replication::message::Compatibility;
use highwater::types::{LeaderEpoch, Offset, Timestamp};

use crate::engine::now;
use crate::output::Failure;

/// Writes, reads, inspects, truncates and recovers Kafka log directories.
#[derive(Debug, Parser)]
#[command(name = "highwater", version, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 fine, 1 damage, 2 usage, 3 I/O.")]
pub(crate) struct Args {
    /// A setting of the topic by Kafka's name, such as segment.bytes=1048576; may come again
    #[arg(long = "config", global = true, value_name = "KEY=VALUE")]
    pub(crate) config: Vec<Setting>,
    #[command(subcommand)]
    pub(crate) verb: Verb,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Verb {
    /// Appends lines of standard input as records
    Append(AppendArgs),
    /// Prints records
    Read(ReadArgs),
    /// Counts what a data directory or a log holds; changes nothing
    Info(PathArgs),
    /// Checks every checksum, index entry and rule; changes nothing; a finding a line
    Verify(PathArgs),
    /// Says who holds the last stable offset back, and what is known of each producer
    Producers(ProducersArgs),
    /// Prints batches, indexes, snapshots and checkpoints as they stand
    Dump(DumpArgs),
    /// Prints the leader epochs of a log
    Epochs(EpochsArgs),
    /// Cuts a log back
    Truncate(TruncateArgs),
    /// Opens every log, recovers it and closes it cleanly
    Recover(RecoverArgs),
    /// Runs a text scenario and prints a line a command
    Scenario(ScenarioArgs),
    /// Measures this disk and the engine on it, each beside the raw system call
    Bench(BenchArgs),
    /// Prints completions for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Prints the manual page
    Man,
}

#[derive(Debug, clap::Args)]
pub(crate) struct PathArgs {
    /// A data directory or the directory of one log
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) clock: Clock,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// When a verb believes to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Clock {
    /// The time, in milliseconds since 1970; else the clock's
    #[arg(long, value_name = "MS")]
    now: Option<i64>,
}

impl Clock {
    pub(crate) fn now(&self) -> Timestamp {
        self.now.map_or_else(now, Timestamp::from_millis)
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ProducersArgs {
    /// The directory of the log
    pub(crate) log: PathBuf,
    /// Only open transactions that nobody has written to for longer than this, such as 15m: a
    /// number and ms, s, m, h or d; milliseconds without a unit
    #[arg(long, value_name = "AGE")]
    pub(crate) hanging: Option<Age>,
    #[command(flatten)]
    pub(crate) clock: Clock,
    /// One JSON object a producer
    #[arg(long)]
    pub(crate) json: bool,
}

/// A length of time. Unit: milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Age(pub(crate) i64);

impl FromStr for Age {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digits = text.trim_end_matches(|unit: char| !unit.is_ascii_digit());
        let unit = match text.strip_prefix(digits).unwrap_or_default() {
            "" | "ms" => 1,
            "s" => 1_000,
            "m" => 60_000,
            "h" => 3_600_000,
            "d" => 86_400_000,
            unit => return Err(format!("{unit:?} is none of ms, s, m, h, d")),
        };
        let number = digits.parse::<i64>().ok().filter(|number| *number >= 0);
        number
            .and_then(|number| number.checked_mul(unit))
            .map(Self)
            .ok_or_else(|| "a number and a unit are wanted, such as 15m".to_owned())
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct AppendArgs {
    /// The directory of the log; it and its parent are made if they are missing
    pub(crate) log: PathBuf,
    /// none, gzip, snappy, lz4 or zstd
    #[arg(long, default_value = "none")]
    pub(crate) codec: Codec,
    /// How many lines become one batch
    #[arg(long, default_value_t = 100, value_name = "N")]
    pub(crate) batch_records: u32,
    /// When records are made durable
    #[arg(long, value_enum, default_value_t = Sync::End)]
    pub(crate) sync: Sync,
    /// The leader epoch; else the latest of the log, else 0
    #[arg(long)]
    pub(crate) epoch: Option<LeaderEpoch>,
    /// The topic id of a new log, 22 characters
    #[arg(long)]
    pub(crate) topic_id: Option<String>,
    /// Whether the high watermark follows what is durable
    #[arg(long, value_enum, default_value_t = Follow::Synced)]
    pub(crate) high_watermark: Follow,
    #[command(flatten)]
    pub(crate) clock: Clock,
    /// One JSON object a batch
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sync {
    /// After each batch
    Batch,
    /// Once, at the end of the input
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Follow {
    /// It moves to the synced end
    Synced,
    /// It stays where it is
    None,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReadArgs {
    /// The directory of the log
    pub(crate) log: PathBuf,
    /// The first offset; else the log start
    #[arg(long, value_name = "OFFSET", allow_negative_numbers = true)]
    pub(crate) from: Option<Offset>,
    /// From the first record of this time on: milliseconds since 1970
    #[arg(long, value_name = "TIME", allow_negative_numbers = true)]
    pub(crate) since: Option<i64>,
    /// At most so many records
    #[arg(long, value_name = "N")]
    pub(crate) max: Option<u64>,
    /// Up to where
    #[arg(long, value_enum, default_value_t = IsolationArg::HighWatermark)]
    pub(crate) isolation: IsolationArg,
    /// Where the high watermark is taken to be, instead of where its checkpoint says: an offset, or
    /// `log-end` as for a log whose only replica starts again
    #[arg(long, value_name = "OFFSET")]
    pub(crate) high_watermark: Option<WatermarkArg>,
    /// Waits for more records
    #[arg(long)]
    pub(crate) follow: bool,
    /// One JSON object a record
    #[arg(long)]
    pub(crate) json: bool,
}

/// A high watermark that the user names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct WatermarkArg(pub(crate) Offset);

impl FromStr for WatermarkArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text == "log-end" {
            return Ok(Self(Offset::MAX));
        }
        let raw = text.parse().ok().and_then(Offset::new);
        raw.map(Self)
            .ok_or_else(|| "neither an offset nor log-end".to_owned())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum IsolationArg {
    /// All records
    LogEnd,
    /// Records below the high watermark
    HighWatermark,
    /// Records below the last stable offset, without those of aborted transactions
    Committed,
}

#[derive(Debug, clap::Args)]
pub(crate) struct DumpArgs {
    /// A .log, .index, .timeindex, .txnindex, .snapshot or checkpoint file, or a directory
    pub(crate) path: PathBuf,
    /// A line a record too
    #[arg(long)]
    pub(crate) records: bool,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct EpochsArgs {
    /// The directory of the log
    pub(crate) log: PathBuf,
    /// Where this epoch ends
    #[arg(long, value_name = "EPOCH", allow_negative_numbers = true)]
    pub(crate) end_offset_for: Option<i32>,
    /// One JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[command(group(clap::ArgGroup::new("target").required(true)))]
pub(crate) struct TruncateArgs {
    /// The directory of the log
    pub(crate) log: PathBuf,
    /// The new end; aligned down to a batch
    #[arg(
        long,
        value_name = "OFFSET",
        group = "target",
        allow_negative_numbers = true
    )]
    pub(crate) to: Option<Offset>,
    /// To where this epoch ends
    #[arg(
        long,
        value_name = "EPOCH",
        group = "target",
        allow_negative_numbers = true
    )]
    pub(crate) to_epoch: Option<LeaderEpoch>,
    /// Only says what would be cut
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Allows a new end below the high watermark
    #[arg(long)]
    pub(crate) below_high_watermark: bool,
    #[command(flatten)]
    pub(crate) clock: Clock,
    /// One JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
#[expect(clippy::struct_excessive_bools, reason = "flags of a command line")]
pub(crate) struct RecoverArgs {
    /// A data directory or the directory of one log
    pub(crate) path: PathBuf,
    /// Only says what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Also cuts damage below the recovery point, its bytes saved beside the log first
    #[arg(long)]
    pub(crate) repair: bool,
    /// Reads what was recovered back from the device
    #[arg(long)]
    pub(crate) paranoid: bool,
    #[command(flatten)]
    pub(crate) clock: Clock,
    /// One JSON object a log
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ScenarioArgs {
    /// The scenario; - for standard input
    pub(crate) file: PathBuf,
    /// The data directory; else a fresh one that is removed afterwards
    #[arg(long)]
    pub(crate) dir: Option<PathBuf>,
    /// Whose rules hold where we differ from Kafka on purpose
    #[arg(long, value_enum, default_value_t = CompatibilityArg::Kafka)]
    pub(crate) compatibility: CompatibilityArg,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompatibilityArg {
    /// Kafka's
    Kafka,
    /// Those of this crate
    Highwater,
}

impl From<CompatibilityArg> for Compatibility {
    fn from(arg: CompatibilityArg) -> Self {
        match arg {
            CompatibilityArg::Kafka => Self::Kafka,
            CompatibilityArg::Highwater => Self::Highwater,
        }
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// Only this figure; may come again
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,
    /// Where to write
    #[arg(long, default_value = ".")]
    pub(crate) dir: PathBuf,
    /// How much
    #[arg(long, default_value_t = 1 << 30, value_name = "N")]
    pub(crate) bytes: u64,
    /// Recovers this data directory and prints how long that took: what the child process does
    #[arg(long, hide = true, value_name = "DIR")]
    pub(crate) recover_here: Option<PathBuf>,
    /// One JSON object a figure
    #[arg(long)]
    pub(crate) json: bool,
}

/// A setting of a topic.
#[derive(Clone, Debug)]
pub(crate) struct Setting {
    pub(crate) key: String,
    pub(crate) value: String,
}

/// The settings that the engine knows.
const KEYS: [&str; 13] = [
    "segment.bytes",
    "segment.ms",
    "segment.index.bytes",
    "index.interval.bytes",
    "max.message.bytes",
    "message.timestamp.type",
    "message.timestamp.before.max.ms",
    "message.timestamp.after.max.ms",
    "retention.ms",
    "retention.bytes",
    "cleanup.policy",
    "preallocate",
    "producer.id.expiration.ms",
];

impl FromStr for Setting {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (key, value) = text.split_once('=').ok_or("KEY=VALUE is wanted")?;
        if KEYS.contains(&key) {
            Ok(Self {
                key: key.to_owned(),
                value: value.to_owned(),
            })
        } else {
            Err(format!("unknown setting; one of {}", KEYS.join(", ")))
        }
    }
}

/// The `segment.bytes` among the settings.
pub(crate) fn segment_bytes(config: &[Setting]) -> Result<Option<u64>, Failure> {
    let setting = config
        .iter()
        .rev()
        .find(|setting| setting.key == "segment.bytes");
    setting
        .map(|setting| {
            setting.value.parse().map_err(|_| {
                Failure::usage(format!(
                    "segment.bytes: {:?} is no number of bytes",
                    setting.value
                ))
            })
        })
        .transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_a_unit() {
        for (text, age) in [
            ("0", Some(0)),
            ("900000", Some(900_000)),
            ("1500ms", Some(1_500)),
            ("15m", Some(900_000)),
            ("2h", Some(7_200_000)),
            ("1d", Some(86_400_000)),
            ("-1s", None),
            ("15 m", None),
            ("m", None),
            ("", None),
            ("9223372036854775807d", None),
        ] {
            assert_eq!(text.parse::<Age>().ok(), age.map(Age), "{text}");
        }
    }

    #[test]
    fn the_arguments_are_consistent() {
        use clap::CommandFactory;
        Args::command().debug_assert();
    }
}
