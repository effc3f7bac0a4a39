//! The names of the files and directories that Kafka and this crate make.
//!
//! Sources: Kafka's `LogFileUtils`, `UnifiedLog` (directory names), `Snapshots` (metadata
//! snapshots). Nothing here touches a file; any text is classified, the unknown as unknown.

pub use crate::types::TopicPartition;
use crate::types::{LeaderEpoch, Offset};

/// The advisory lock of a data directory.
pub const LOCK: &str = ".lock";
/// The marker of a clean stop, in a data directory.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
/// The identity of a data directory.
pub const META_PROPERTIES: &str = "meta.properties";
/// Recovery points, in a data directory.
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
/// Log start offsets, in a data directory.
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
/// High watermarks, in a data directory.
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";
/// First dirty offsets of compacted logs, in a data directory.
pub const CLEANER_CHECKPOINT: &str = "cleaner-offset-checkpoint";
/// The first metadata records of a formatted directory, in a data directory.
pub const BOOTSTRAP_CHECKPOINT: &str = "bootstrap.checkpoint";
/// The cache of tiered storage, a directory in a data directory.
pub const REMOTE_LOG_INDEX_CACHE: &str = "remote-log-index-cache";
/// The metadata log of a KRaft node, a directory in a data directory.
pub const METADATA_LOG: &str = "__cluster_metadata-0";
/// The leader epochs of a log.
pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
/// The topic id of a log.
pub const PARTITION_METADATA: &str = "partition.metadata";
/// The vote of a KRaft node, in its metadata log.
pub const QUORUM_STATE: &str = "quorum-state";
/// What begins every name of this crate's own.
pub const OURS: &str = "highwater.";
/// Facts on each log, in a data directory: see [`StateFile`](crate::checkpoint::StateFile).
pub const STATE: &str = "highwater.state";
/// Facts on each sealed segment, in a log: see [`SegmentsFile`](crate::checkpoint::SegmentsFile).
pub const SEGMENTS: &str = "highwater.segments";
/// What a file is called until it is complete: the name with this behind it.
pub const TMP_SUFFIX: &str = ".tmp";

const SAVED: &str = "highwater.saved-";
/// What a file system allows. Unit: bytes.
const MAX_NAME_BYTES: usize = 255;
/// The digits of an offset in a file name.
const STEM_DIGITS: usize = 20;

impl TopicPartition {
    /// Reads `topic-partition`, split at the last hyphen. `None` if the partition is not a number
    /// as printed, or if the topic is empty or holds what a checkpoint row cannot: white space,
    /// control characters, a slash.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (topic, digits) = name.rsplit_once('-')?;
        let partition: i32 = digits.parse().ok()?;
        let sound = is_token(topic) && partition >= 0 && partition.to_string() == digits;
        sound.then(|| Self::new(topic, partition))
    }

    /// The name under which the log waits for its deletion. `unique` is any number not used before;
    /// the topic is cut so that the name has at most 255 bytes.
    pub fn delete_dir_name(&self, unique: u128) -> String {
        self.capped_name(unique, "-delete")
    }

    /// The name of a log that does not belong here, as [`delete_dir_name`](Self::delete_dir_name).
    pub fn stray_dir_name(&self, unique: u128) -> String {
        self.capped_name(unique, "-stray")
    }

    /// The name of a replica that is being moved here. Never cut, so it may be too long.
    pub fn future_dir_name(&self, unique: u128) -> String {
        format!("{self}.{unique:032x}-future")
    }

    fn capped_name(&self, unique: u128, suffix: &str) -> String {
        let tail = format!("-{}.{unique:032x}{suffix}", self.partition);
        let mut keep = self
            .topic
            .len()
            .min(MAX_NAME_BYTES.saturating_sub(tail.len()));
        while !self.topic.is_char_boundary(keep) {
            keep = keep.saturating_sub(1);
        }
        format!("{}{tail}", self.topic.get(..keep).unwrap_or_default())
    }
}

/// What a directory in a data directory is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirName {
    /// A log.
    Live(TopicPartition),
    /// A log that waits for its deletion. The topic may be cut.
    Delete(TopicPartition),
    /// A log that does not belong here, kept. The topic may be cut.
    Stray(TopicPartition),
    /// A replica that was being moved here.
    Future(TopicPartition),
    /// Anything else. Kafka refuses to start beside one, but for `remote-log-index-cache`.
    Foreign,
}

impl DirName {
    /// Classifies a directory name.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        type Make = fn(TopicPartition) -> DirName;
        let suffixes: [(&str, Make); 3] = [
            ("-delete", Self::Delete),
            ("-stray", Self::Stray),
            ("-future", Self::Future),
        ];
        for (suffix, make) in suffixes {
            if let Some(rest) = name.strip_suffix(suffix) {
                return rest
                    .rsplit_once('.')
                    .filter(|(_, unique)| is_token(unique))
                    .and_then(|(log, _)| TopicPartition::parse(log))
                    .map_or(Self::Foreign, make);
            }
        }
        TopicPartition::parse(name).map_or(Self::Foreign, Self::Live)
    }
}

/// The files of a segment, and the producer snapshots beside them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileType {
    /// `.log`: the batches.
    Log,
    /// `.index`: the offset index.
    Index,
    /// `.timeindex`: the time index.
    TimeIndex,
    /// `.txnindex`: the aborted transactions.
    TxnIndex,
    /// `.snapshot`: the producers as of the offset in its name (exclusive).
    Snapshot,
}

impl FileType {
    /// All of them.
    pub const ALL: [Self; 5] = [
        Self::Log,
        Self::Index,
        Self::TimeIndex,
        Self::TxnIndex,
        Self::Snapshot,
    ];

    /// The extension, dot included.
    #[must_use]
    pub const fn extension(self) -> &'static str {
        match self {
            Self::Log => ".log",
            Self::Index => ".index",
            Self::TimeIndex => ".timeindex",
            Self::TxnIndex => ".txnindex",
            Self::Snapshot => ".snapshot",
        }
    }
}

/// What stands behind the extension of a segment file while its segment comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Suffix {
    /// A file in use.
    None,
    /// `.deleted`: waits for its deletion.
    Deleted,
    /// `.cleaned`: output of the cleaner, not published.
    Cleaned,
    /// `.swap`: published output, waiting to replace what it was made of.
    Swap,
}

impl Suffix {
    const ALL: [Self; 4] = [Self::None, Self::Deleted, Self::Cleaned, Self::Swap];

    /// The suffix, dot included; empty for a file in use.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::None => "",
            Self::Deleted => ".deleted",
            Self::Cleaned => ".cleaned",
            Self::Swap => ".swap",
        }
    }
}

/// The name of a segment file: 20 digits and the extension.
#[must_use]
pub fn segment_name(base: Offset, kind: FileType) -> String {
    suffixed_segment_name(base, kind, Suffix::None)
}

/// As [`segment_name`], with a suffix behind.
#[must_use]
pub fn suffixed_segment_name(base: Offset, kind: FileType, suffix: Suffix) -> String {
    format!("{:020}{}{}", base.get(), kind.extension(), suffix.text())
}

/// The name of a file with bytes saved from a cut: the offset at which they stood and a number that
/// makes it unique.
#[must_use]
pub fn saved_name(offset: Offset, n: u32) -> String {
    format!("{SAVED}{offset}-{n}")
}

/// The name under which a file is written before it is renamed into place.
#[must_use]
pub fn tmp_name(name: &str) -> String {
    format!("{name}{TMP_SUFFIX}")
}

/// The files of this crate's own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OurFile {
    /// [`STATE`].
    State,
    /// [`SEGMENTS`].
    Segments,
    /// See [`saved_name`].
    Saved {
        /// The offset at which the bytes stood.
        offset: Offset,
        /// What tells files of one offset apart.
        n: u32,
    },
}

impl OurFile {
    fn parse(name: &str) -> Option<Self> {
        match name {
            STATE => Some(Self::State),
            SEGMENTS => Some(Self::Segments),
            _ => {
                let (offset, n) = name.strip_prefix(SAVED)?.split_once('-')?;
                let (offset, n) = (offset.parse().ok()?, n.parse().ok()?);
                (saved_name(offset, n) == name).then_some(Self::Saved { offset, n })
            }
        }
    }
}

/// What a file in a log directory is, by its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileName {
    /// A file of a segment, or a producer snapshot.
    Segment {
        /// The offset in the name.
        base: Offset,
        /// Which of the files.
        kind: FileType,
        /// Whether it is in use.
        suffix: Suffix,
        /// Whether the offset has exactly 20 digits. Kafka reads others, but writes only such; it
        /// then opens the file under the name with 20 digits.
        canonical: bool,
    },
    /// [`LEADER_EPOCH_CHECKPOINT`].
    LeaderEpochCheckpoint,
    /// [`PARTITION_METADATA`].
    PartitionMetadata,
    /// A snapshot of the metadata log: `<20 digits>-<10 digits>.checkpoint`.
    KraftCheckpoint {
        /// The end of what it covers (exclusive).
        end_offset: Offset,
        /// The epoch of the last record it covers.
        epoch: LeaderEpoch,
        /// Whether the snapshot is complete: neither `.part` nor `.deleted` stands behind.
        complete: bool,
    },
    /// [`QUORUM_STATE`].
    QuorumState,
    /// A file of this crate's own.
    Ours(OurFile),
    /// What was being written to become the file inside.
    Tmp(Box<Self>),
    /// Anything else.
    Unknown,
}

impl FileName {
    /// Classifies a file name in a log directory.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        let Some(target) = name.strip_suffix(TMP_SUFFIX) else {
            return Self::parse_final(name);
        };
        let target = Self::parse_final(target);
        if target == Self::Unknown {
            Self::Unknown
        } else {
            Self::Tmp(Box::new(target))
        }
    }

    fn parse_final(name: &str) -> Self {
        match name {
            LEADER_EPOCH_CHECKPOINT => Self::LeaderEpochCheckpoint,
            PARTITION_METADATA => Self::PartitionMetadata,
            QUORUM_STATE => Self::QuorumState,
            _ => OurFile::parse(name)
                .map(Self::Ours)
                .or_else(|| parse_segment(name))
                .or_else(|| parse_kraft_checkpoint(name))
                .unwrap_or(Self::Unknown),
        }
    }
}

/// What a file in a data directory is, by its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DataFileName {
    /// [`LOCK`].
    Lock,
    /// [`CLEAN_SHUTDOWN`].
    CleanShutdown,
    /// [`META_PROPERTIES`].
    MetaProperties,
    /// [`RECOVERY_POINT_CHECKPOINT`].
    RecoveryPoints,
    /// [`LOG_START_CHECKPOINT`].
    LogStarts,
    /// [`HIGH_WATERMARK_CHECKPOINT`].
    HighWatermarks,
    /// [`CLEANER_CHECKPOINT`].
    CleanerOffsets,
    /// [`BOOTSTRAP_CHECKPOINT`].
    BootstrapCheckpoint,
    /// [`STATE`].
    State,
    /// What was being written to become one of the above.
    Tmp,
    /// Anything else.
    Unknown,
}

impl DataFileName {
    /// Classifies a file name in a data directory.
    #[must_use]
    pub fn parse(name: &str) -> Self {
        match name.strip_suffix(TMP_SUFFIX) {
            Some(target) if Self::parse_final(target) != Self::Unknown => Self::Tmp,
            Some(_) => Self::Unknown,
            None => Self::parse_final(name),
        }
    }

    fn parse_final(name: &str) -> Self {
        match name {
            LOCK => Self::Lock,
            CLEAN_SHUTDOWN => Self::CleanShutdown,
            META_PROPERTIES => Self::MetaProperties,
            RECOVERY_POINT_CHECKPOINT => Self::RecoveryPoints,
            LOG_START_CHECKPOINT => Self::LogStarts,
            HIGH_WATERMARK_CHECKPOINT => Self::HighWatermarks,
            CLEANER_CHECKPOINT => Self::CleanerOffsets,
            BOOTSTRAP_CHECKPOINT => Self::BootstrapCheckpoint,
            STATE => Self::State,
            _ => Self::Unknown,
        }
    }
}

fn parse_segment(name: &str) -> Option<FileName> {
    let (stem, rest) = name.split_at_checked(name.find('.')?)?;
    let base = digits(stem)?;
    let (kind, suffix) = FileType::ALL.into_iter().find_map(|kind| {
        let behind = rest.strip_prefix(kind.extension())?;
        let suffix = Suffix::ALL
            .into_iter()
            .find(|suffix| suffix.text() == behind)?;
        Some((kind, suffix))
    })?;
    let canonical = stem.len() == STEM_DIGITS;
    Some(FileName::Segment {
        base,
        kind,
        suffix,
        canonical,
    })
}

fn parse_kraft_checkpoint(name: &str) -> Option<FileName> {
    let (stem, behind) = name.split_once(".checkpoint")?;
    let complete = match behind {
        "" => true,
        ".deleted" | ".part" => false,
        _ => return None,
    };
    let (end_offset, epoch) = stem.split_once('-')?;
    let epoch = i32::try_from(digits(epoch)?.get())
        .ok()
        .and_then(LeaderEpoch::new)?;
    Some(FileName::KraftCheckpoint {
        end_offset: digits(end_offset)?,
        epoch,
        complete,
    })
}

/// An offset written in nothing but ASCII digits.
fn digits(text: &str) -> Option<Offset> {
    let all_digits = text.bytes().all(|byte| byte.is_ascii_digit());
    if all_digits { text.parse().ok() } else { None }
}

/// Whether the text can stand as a field of a checkpoint row and in a file name.
fn is_token(text: &str) -> bool {
    let splits = |byte: u8| byte.is_ascii_whitespace() || byte.is_ascii_control() || byte == b'/';
    !text.is_empty() && !text.bytes().any(splits)
}

#[cfg(test)]
mod tests;
