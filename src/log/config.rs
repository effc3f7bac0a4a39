//! The settings of one log, with Kafka's names and defaults.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::record::{AppendRules, TimestampType};

/// The settings of one log.
///
/// Defaults are those of Kafka 4.4, so that a directory behaves here as it did there.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "switches that users set one by one"
)]
pub struct LogConfig {
    pub(crate) segment_bytes: u32,
    pub(crate) segment_ms: i64,
    pub(crate) segment_index_bytes: u32,
    pub(crate) index_interval_bytes: u32,
    pub(crate) max_message_bytes: u32,
    pub(crate) timestamp_type: TimestampType,
    pub(crate) timestamp_before_max_ms: i64,
    pub(crate) timestamp_after_max_ms: i64,
    pub(crate) retention_ms: i64,
    pub(crate) retention_bytes: i64,
    pub(crate) delete: bool,
    pub(crate) compact: bool,
    pub(crate) preallocate: bool,
    pub(crate) verify_reads: bool,
    pub(crate) watermark_policy: WatermarkPolicy,
    pub(crate) producer_expiration_ms: i64,
    pub(crate) follow_kafka: bool,
}

/// What moves the high watermark of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WatermarkPolicy {
    /// Only the caller: [`Log::update_high_watermark`](crate::log::Log::update_high_watermark).
    #[default]
    Manual,
    /// Every append raises it to the log end. For a log without replicas whose readers accept
    /// records that a power cut may take back.
    LogEnd,
    /// Every sync raises it to the flushed offset: readers see durable records only.
    Flushed,
}

impl Default for LogConfig {
    fn default() -> Self {
        Self {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 3_600_000,
            segment_index_bytes: 10 << 20,
            index_interval_bytes: 4096,
            max_message_bytes: (1 << 20) + 12,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            retention_ms: 7 * 24 * 3_600_000,
            retention_bytes: -1,
            delete: true,
            compact: false,
            preallocate: false,
            verify_reads: true,
            watermark_policy: WatermarkPolicy::Manual,
            producer_expiration_ms: 86_400_000,
            follow_kafka: false,
        }
    }
}

impl LogConfig {
    /// The smallest segment that is allowed, as in Kafka (`LegacyRecord.RECORD_OVERHEAD_V0`).
    pub const MIN_SEGMENT_BYTES: u32 = 14;

    /// Sets the size at which a segment rolls. Kafka: `segment.bytes`.
    ///
    /// Unit: bytes. Range: 14 to 2147483647. Default: 1073741824. Values outside are brought
    /// inside.
    #[must_use]
    pub fn segment_bytes(mut self, bytes: u32) -> Self {
        self.segment_bytes = bytes.clamp(Self::MIN_SEGMENT_BYTES, i32::MAX.unsigned_abs());
        self
    }

    /// Sets the largest difference of timestamps within a segment. Kafka: `segment.ms`.
    ///
    /// Default: seven days. The age of a segment is the largest timestamp of the incoming batch
    /// minus that of the segment's first batch; the clock counts only where records have no
    /// timestamps.
    #[must_use]
    pub fn segment_age(mut self, age: Duration) -> Self {
        self.segment_ms = millis(age);
        self
    }

    /// Sets the room for each index of a segment; a full index rolls the log. Kafka:
    /// `segment.index.bytes`.
    ///
    /// Unit: bytes. Range: 4 to 2147483647. Default: 10485760.
    #[must_use]
    pub fn segment_index_bytes(mut self, bytes: u32) -> Self {
        self.segment_index_bytes = bytes.clamp(4, i32::MAX.unsigned_abs());
        self
    }

    /// Sets how many bytes of records lie between two index entries. Kafka: `index.interval.bytes`.
    ///
    /// Unit: bytes. Default: 4096.
    #[must_use]
    pub fn index_interval_bytes(mut self, bytes: u32) -> Self {
        self.index_interval_bytes = bytes;
        self
    }

    /// Sets the largest batch that a leader takes. Kafka: `max.message.bytes`.
    ///
    /// Unit: bytes of the whole batch. Default: 1048588. Followers take what their leader took.
    #[must_use]
    pub fn max_message_bytes(mut self, bytes: u32) -> Self {
        self.max_message_bytes = bytes;
        self
    }

    /// Sets whose clock stamps the records. Kafka: `message.timestamp.type`. Default: `CreateTime`.
    #[must_use]
    pub fn timestamp_type(mut self, kind: TimestampType) -> Self {
        self.timestamp_type = kind;
        self
    }

    /// Sets how far a record's timestamp may lie before and after the clock. Kafka:
    /// `message.timestamp.before.max.ms` (default: no limit) and `message.timestamp.after.max.ms`
    /// (default: one hour).
    #[must_use]
    pub fn timestamp_bounds(mut self, before: Duration, after: Duration) -> Self {
        self.timestamp_before_max_ms = millis(before);
        self.timestamp_after_max_ms = millis(after);
        self
    }

    /// Sets the age at which segments may go, `None` for never. Kafka: `retention.ms`. Default:
    /// seven days.
    #[must_use]
    pub fn retention(mut self, age: Option<Duration>) -> Self {
        self.retention_ms = age.map_or(-1, millis);
        self
    }

    /// Sets the size above which the oldest segments may go, `None` for never. Kafka:
    /// `retention.bytes`.
    ///
    /// Unit: bytes of all `.log` files together. Default: never.
    #[must_use]
    pub fn retention_bytes(mut self, bytes: Option<u64>) -> Self {
        self.retention_bytes = bytes.map_or(-1, |bytes| i64::try_from(bytes).unwrap_or(i64::MAX));
        self
    }

    /// Sets whether a new `.log` is made `segment.bytes` long at once, zeros at its end until it is
    /// sealed. Kafka: `preallocate`. Default: no.
    #[must_use]
    pub fn preallocate(mut self, preallocate: bool) -> Self {
        self.preallocate = preallocate;
        self
    }

    /// Sets whether reads check each batch before they hand it out. Default: yes; see
    /// `DURABILITY.md`.
    #[must_use]
    pub fn verify_reads(mut self, verify: bool) -> Self {
        self.verify_reads = verify;
        self
    }

    /// Sets what moves the high watermark. Default: the caller.
    #[must_use]
    pub fn watermark_policy(mut self, policy: WatermarkPolicy) -> Self {
        self.watermark_policy = policy;
        self
    }

    /// Sets how long a producer is remembered after the timestamp of its last batch, unless it has
    /// a transaction open. Kafka: `producer.id.expiration.ms`. Default: one day.
    #[must_use]
    pub fn producer_expiration(mut self, age: Duration) -> Self {
        self.producer_expiration_ms = millis(age);
        self
    }

    /// Sets one value by Kafka's name: a line of a topic's configuration.
    ///
    /// # Errors
    /// `InvalidArgument` for a name that is not known here, or a value outside its range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<()> {
        let bad = || {
            Error::new(
                ErrorKind::InvalidArgument,
                format!("bad configuration {name}={value}"),
            )
            .next_step("see the list of names and ranges in the manual of --config")
        };
        let number = || value.parse::<i64>().map_err(|_| bad());
        let size = |min: i64| {
            let number = number()?;
            if number < min {
                return Err(bad());
            }
            i32::try_from(number)
                .map(i32::unsigned_abs)
                .map_err(|_| bad())
        };
        let at_least = |min: i64| number().and_then(|n| if n < min { Err(bad()) } else { Ok(n) });
        match name {
            "segment.bytes" => self.segment_bytes = size(i64::from(Self::MIN_SEGMENT_BYTES))?,
            "segment.ms" => self.segment_ms = at_least(1)?,
            "segment.index.bytes" => self.segment_index_bytes = size(4)?,
            "index.interval.bytes" => self.index_interval_bytes = size(0)?,
            "max.message.bytes" => self.max_message_bytes = size(0)?,
            "message.timestamp.type" => {
                self.timestamp_type = value.parse().map_err(|_| bad())?;
            }
            "message.timestamp.before.max.ms" => self.timestamp_before_max_ms = at_least(0)?,
            "message.timestamp.after.max.ms" => self.timestamp_after_max_ms = at_least(0)?,
            "retention.ms" => self.retention_ms = at_least(-1)?,
            "retention.bytes" => self.retention_bytes = number()?,
            "producer.id.expiration.ms" => self.producer_expiration_ms = at_least(1)?,
            "preallocate" => self.preallocate = value.parse().map_err(|_| bad())?,
            "cleanup.policy" => {
                let policies: Vec<&str> = value.split(',').map(str::trim).collect();
                if policies
                    .iter()
                    .any(|policy| !matches!(*policy, "delete" | "compact"))
                {
                    return Err(bad());
                }
                self.delete = policies.contains(&"delete");
                self.compact = policies.contains(&"compact");
            }
            _ => return Err(bad()),
        }
        Ok(())
    }

    /// Makes a log do what Kafka does where this crate does better and a scenario cannot be
    /// compared behind it: a lost offset index takes the producer snapshots above it along.
    #[cfg(feature = "scenario")]
    pub(crate) fn following_kafka(mut self) -> Self {
        self.follow_kafka = true;
        self
    }

    pub(crate) fn append_rules(&self) -> AppendRules {
        AppendRules {
            max_message_bytes: self.max_message_bytes,
            timestamp_type: self.timestamp_type,
            timestamp_before_max_ms: self.timestamp_before_max_ms,
            timestamp_after_max_ms: self.timestamp_after_max_ms,
            compacted: self.compact,
        }
    }
}

fn millis(duration: Duration) -> i64 {
    i64::try_from(duration.as_millis()).unwrap_or(i64::MAX)
}
