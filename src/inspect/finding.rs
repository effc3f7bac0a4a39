//! What a walk can find, in words that programs and people share.

use std::fmt;

use crate::types::{Offset, Position};

/// How bad a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is lost.
    Note,
    /// Bytes that are wrong or missing.
    Damage,
}

impl Severity {
    /// The word in listings: `note` or `damage`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Note => "note",
            Self::Damage => "damage",
        }
    }
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $variant:ident $name:literal $next:literal;)*) => {
        /// What was found.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum FindingKind {
            $($(#[$doc])* $variant,)*
        }

        impl FindingKind {
            /// The word in listings: the name of the variant in snake case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            const fn next_step(self) -> &'static str {
                match self { $(Self::$variant => $next,)* }
            }
        }
    };
}

kinds! {
    /// A batch that the file ends inside of.
    TornTail "torn_tail"
        "open the log with `highwater recover`: it cuts and saves a tail at or above the \
         recovery point";
    /// A batch whose checksum is wrong.
    Crc "crc"
        "fetch the log from a replica, or run `highwater recover --repair`, which saves the \
         bytes first";
    /// A size field that no batch can have.
    BadLength "bad_length"
        "fetch the log from a replica, or run `highwater recover --repair`, which saves the \
         bytes first";
    /// A version other than 0, 1 and 2.
    BadMagic "bad_magic"
        "fetch the log from a replica, or run `highwater recover --repair`, which saves the \
         bytes first";
    /// Zeros where batches were.
    ZeroedRange "zeroed_range"
        "fetch the log from a replica, or run `highwater recover --repair`, which saves the \
         bytes first";
    /// A segment that begins below the end of the one before it.
    Overlap "overlap"
        "look at both segments with `highwater dump`, then fetch the log from a replica";
    /// A batch whose offsets do not follow those before it.
    OffsetOrder "offset_order"
        "look at the batch with `highwater dump`; opening the log ends it before a stale batch";
    /// A batch of a lower leader epoch than the batch before it.
    EpochOrder "epoch_order"
        "look at the batch with `highwater dump`; opening the log ends it before a stale batch";
    /// A batch that holds another number of records than its header says.
    RecordCount "record_count"
        "fetch the log from a replica, or leave the batch out with `highwater recover --repair`";
    /// A batch whose records cannot be read though its checksum is right.
    RecordBody "record_body"
        "fetch the log from a replica, or leave the batch out with `highwater recover --repair`";
    /// Offsets are missing that this crate's own files remember.
    Gap "gap" "fetch the log from a replica";
    /// A segment is missing that this crate's own files remember.
    MissingSegment "missing_segment" "put the segment back, or fetch the log from a replica";
    /// An offset index.
    OffsetIndex "offset_index" "remove the file: the index is rebuilt when the log is opened";
    /// A time index.
    TimeIndex "time_index" "remove the file: the index is rebuilt when the log is opened";
    /// A transaction index.
    TransactionIndex "transaction_index"
        "open the log with `highwater recover`: the batches complete the index";
    /// A producer snapshot.
    Snapshot "snapshot"
        "remove the file and open the log with `highwater recover`: an older snapshot and the \
         batches replace it";
    /// The leader epochs of a log.
    EpochCheckpoint "epoch_checkpoint"
        "open the log with `highwater recover`: epochs are rebuilt from the batches";
    /// A checkpoint file of the data directory.
    CheckpointFile "checkpoint_file"
        "open the directory with `highwater recover`: what cannot be read is scanned for";
    /// The topic id of a log.
    PartitionMetadata "partition_metadata"
        "write the file again with the topic id that the cluster has";
    /// A file or directory that a stop in the middle of something left.
    Leftover "leftover" "nothing: opening the log finishes or removes it";
    /// A name that neither Kafka nor this crate gives.
    UnknownFile "unknown_file" "move it out of the directory";
    /// Zeros behind the content of a file that was not closed.
    Padding "padding" "nothing: opening the log cuts it";
    /// Offsets that no segment holds.
    Hole "hole" "nothing: followers and compaction leave holes";
}

impl fmt::Display for FindingKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// One thing that a walk found, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the log's directory; `None` for a file of the data directory that concerns no
    /// single log.
    pub partition: Option<String>,
    /// The file or directory. In the log directory, or in the data directory for its checkpoints.
    pub file: String,
    /// Where it begins. Unit: bytes from the front of the file.
    pub position: Option<Position>,
    /// The first offset that is affected.
    pub offset: Option<Offset>,
    /// What it is.
    pub kind: FindingKind,
    /// How bad it is.
    pub severity: Severity,
    /// The facts, in one line.
    pub detail: String,
    /// What to do about it.
    pub next_step: &'static str,
}

impl Finding {
    pub(super) fn new(
        severity: Severity,
        kind: FindingKind,
        file: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let next_step = match (severity, kind) {
            (
                Severity::Note,
                FindingKind::OffsetIndex
                | FindingKind::TimeIndex
                | FindingKind::TransactionIndex
                | FindingKind::Snapshot
                | FindingKind::EpochCheckpoint
                | FindingKind::CheckpointFile
                | FindingKind::PartitionMetadata,
            ) => "nothing: opening the log decides from the batches",
            _ => kind.next_step(),
        };
        Self {
            partition: None,
            file: file.into(),
            position: None,
            offset: None,
            kind,
            severity,
            detail: detail.into(),
            next_step,
        }
    }

    pub(super) fn damage(
        kind: FindingKind,
        file: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Damage, kind, file, detail)
    }

    pub(super) fn note(
        kind: FindingKind,
        file: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        Self::new(Severity::Note, kind, file, detail)
    }

    pub(super) fn of_log(mut self, partition: &str) -> Self {
        self.partition = Some(partition.to_owned());
        self
    }

    pub(super) fn at(mut self, position: u64) -> Self {
        self.position = Some(Position::new(position));
        self
    }

    pub(super) fn at_offset(mut self, offset: i64) -> Self {
        self.offset = Offset::new(offset);
        self
    }

    /// Replaces what its kind advises.
    pub(super) fn next_step(mut self, next_step: &'static str) -> Self {
        self.next_step = next_step;
        self
    }

    /// Whether bytes are wrong or missing.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.severity == Severity::Damage
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: ", self.severity, self.kind)?;
        if let Some(partition) = &self.partition {
            write!(f, "{partition}/")?;
        }
        f.write_str(&self.file)?;
        if let Some(position) = self.position {
            write!(f, ", position {position}")?;
        }
        if let Some(offset) = self.offset {
            write!(f, ", offset {offset}")?;
        }
        write!(f, ": {}; {}", self.detail, self.next_step)
    }
}
