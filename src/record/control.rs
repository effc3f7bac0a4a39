//! Control records: transaction markers and the records of the metadata quorum.
//!
//! Kafka: `ControlRecordType`, `EndTransactionMarker`.

use super::builder::{BatchBuilder, BuildError};
use super::codec::Codec;
use super::error::DecodeError;
use super::record::Record;
use crate::types::{LeaderEpoch, Offset};

/// What a control record is about: the second number of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControlType {
    /// 0: a transaction ends, its records do not count.
    Abort,
    /// 1: a transaction ends, its records count.
    Commit,
    /// 2: a leader of the metadata quorum announces itself.
    LeaderChange,
    /// 3: the front of a metadata snapshot.
    SnapshotHeader,
    /// 4: the end of a metadata snapshot.
    SnapshotFooter,
    /// 5: the version of the quorum's protocol.
    KraftVersion,
    /// 6: the voters of the quorum.
    KraftVoters,
    /// A number that Kafka 4.4 does not know; readers pass over it.
    Unknown(i16),
}

impl ControlType {
    /// Reads the key of a control record: a version, 0 or more, and the type. What follows is
    /// ignored.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadRecord`] if it is shorter than four bytes or the version is negative.
    pub fn of_key(key: &[u8]) -> Result<Self, DecodeError> {
        let Some(&[v0, v1, t0, t1]) = key.first_chunk::<4>() else {
            return Err(DecodeError::BadRecord(
                "the key of a control record is shorter than 4 bytes",
            ));
        };
        if i16::from_be_bytes([v0, v1]) < 0 {
            return Err(DecodeError::BadRecord(
                "the key of a control record has a negative version",
            ));
        }
        Ok(match i16::from_be_bytes([t0, t1]) {
            0 => Self::Abort,
            1 => Self::Commit,
            2 => Self::LeaderChange,
            3 => Self::SnapshotHeader,
            4 => Self::SnapshotFooter,
            5 => Self::KraftVersion,
            6 => Self::KraftVoters,
            other => Self::Unknown(other),
        })
    }

    /// Its name in listings: `abort`, `commit`, `leader_change`, `snapshot_header`,
    /// `snapshot_footer`, `kraft_version`, `kraft_voters`, `unknown`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Abort => "abort",
            Self::Commit => "commit",
            Self::LeaderChange => "leader_change",
            Self::SnapshotHeader => "snapshot_header",
            Self::SnapshotFooter => "snapshot_footer",
            Self::KraftVersion => "kraft_version",
            Self::KraftVoters => "kraft_voters",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// The end of a transaction, as its coordinator decided it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// Whether the records of the transaction count.
    pub commit: bool,
    /// The epoch of the coordinator that wrote it. A marker with a lower one is fenced.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// Reads the record of a control batch; `None` if it is of another type.
    ///
    /// # Errors
    ///
    /// [`DecodeError::BadRecord`] for a malformed key, or a value that is shorter than six bytes or
    /// has a negative version. A higher version is read as version 0.
    pub fn of_record(record: &Record<'_>) -> Result<Option<Self>, DecodeError> {
        let kind = ControlType::of_key(record.key.unwrap_or_default())?;
        let commit = match kind {
            ControlType::Abort => false,
            ControlType::Commit => true,
            ControlType::LeaderChange
            | ControlType::SnapshotHeader
            | ControlType::SnapshotFooter
            | ControlType::KraftVersion
            | ControlType::KraftVoters
            | ControlType::Unknown(_) => return Ok(None),
        };
        let Some(&[v0, v1, e0, e1, e2, e3]) = record.value.unwrap_or_default().first_chunk::<6>()
        else {
            return Err(DecodeError::BadRecord(
                "the value of a marker is shorter than 6 bytes",
            ));
        };
        if i16::from_be_bytes([v0, v1]) < 0 {
            return Err(DecodeError::BadRecord(
                "the value of a marker has a negative version",
            ));
        }
        Ok(Some(Self {
            commit,
            coordinator_epoch: i32::from_be_bytes([e0, e1, e2, e3]),
        }))
    }

    /// Builds the batch that holds this marker alone: transactional, control, without a sequence.
    /// `timestamp` is in milliseconds since the Unix epoch. Kafka:
    /// `MemoryRecords.withEndTransactionMarker`.
    ///
    /// # Errors
    ///
    /// None in practice: a marker fits into any batch.
    pub fn to_batch(
        self,
        base_offset: Offset,
        epoch: Option<LeaderEpoch>,
        timestamp: i64,
        producer_id: i64,
        producer_epoch: i16,
    ) -> Result<Vec<u8>, BuildError> {
        let key = [0, 0, 0, u8::from(self.commit)];
        let [e0, e1, e2, e3] = self.coordinator_epoch.to_be_bytes();
        let mut builder = BatchBuilder::new(Codec::None)
            .base_offset(base_offset)
            .producer(producer_id, producer_epoch, -1)
            .transactional(true)
            .control(true);
        if let Some(epoch) = epoch {
            builder = builder.leader_epoch(epoch);
        }
        builder.push(timestamp, Some(&key), Some(&[0, 0, e0, e1, e2, e3]), &[])?;
        builder.finish()
    }
}
