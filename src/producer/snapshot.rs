//! Producer snapshots (`.snapshot`): the producers of a log as of the offset in the file's name.
//!
//! Layout (Kafka: `ProducerSnapshot`), big-endian: `version i16 = 1 | crc u32 | count i32`, then
//! entries of 46 bytes. The checksum is CRC-32C over everything behind it. Only the last batch of
//! each producer is kept.

use std::fmt;

use byteorder::{BigEndian, ByteOrder};

use crate::types::{Offset, Timestamp};

/// The length of a snapshot without producers. Unit: bytes.
pub const SNAPSHOT_HEADER_BYTES: usize = 10;
/// The length of an entry. Unit: bytes.
pub const SNAPSHOT_ENTRY_BYTES: usize = 46;

const VERSION: i16 = 1;
/// Where the checksum stands.
const CRC_AT: usize = 2;
/// Where the checksummed bytes begin.
const CRC_FROM: usize = 6;

/// What a snapshot says of one producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProducerSnapshotEntry {
    /// The id of the producer.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The sequence number of the last record of its last batch; -1 if it has none.
    pub last_sequence: i32,
    /// The offset of that record (inclusive); -1 in the file for `None`.
    pub last_offset: Option<Offset>,
    /// Last offset minus first offset of that batch; 0 if there is none.
    pub offset_delta: i32,
    /// The largest timestamp of that batch, or the time of the last marker.
    pub timestamp: Timestamp,
    /// The epoch of the coordinator that wrote its last marker; -1 if there was none.
    pub coordinator_epoch: i32,
    /// The first offset of its open transaction; -1 in the file for `None`.
    pub current_txn_first_offset: Option<Offset>,
}

/// Why bytes are no producer snapshot. Use an older one, or read the log from there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SnapshotError {
    /// There are fewer bytes than the header or the count asks for.
    Short {
        /// The bytes that are there.
        bytes: usize,
    },
    /// The version is not 1.
    Version(i16),
    /// The checksum differs.
    Crc {
        /// What the file says.
        stored: u32,
        /// What its bytes give.
        computed: u32,
    },
    /// The number of entries is negative.
    Count(i32),
    /// There are bytes behind the last entry.
    Trailing {
        /// How many.
        bytes: usize,
    },
    /// An offset is below -1.
    Offset {
        /// The number of the entry, counted from 0.
        entry: usize,
    },
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Short { bytes } => write!(f, "{bytes} bytes are too short for a snapshot"),
            Self::Version(version) => write!(f, "version {version} is unknown"),
            Self::Crc { stored, computed } => {
                write!(
                    f,
                    "the checksum is {computed:08x} where {stored:08x} is stored"
                )
            }
            Self::Count(count) => write!(f, "{count} is no number of entries"),
            Self::Trailing { bytes } => write!(f, "{bytes} bytes behind the last entry"),
            Self::Offset { entry } => write!(f, "entry {entry}: offset below -1"),
        }
    }
}

impl std::error::Error for SnapshotError {}

impl SnapshotError {
    /// Where in a file of `bytes` bytes it was found. Unit: bytes from the front.
    #[must_use]
    pub fn position(&self, bytes: usize) -> usize {
        match self {
            Self::Short { .. } => bytes,
            Self::Version(_) => 0,
            Self::Crc { .. } => CRC_AT,
            Self::Count(_) => CRC_FROM,
            Self::Trailing { bytes: extra } => bytes.saturating_sub(*extra),
            Self::Offset { entry } => entry_position(*entry),
        }
    }
}

/// Where an entry begins, by its number counted from 0. Unit: bytes from the front.
#[must_use]
pub fn entry_position(entry: usize) -> usize {
    entry
        .saturating_mul(SNAPSHOT_ENTRY_BYTES)
        .saturating_add(SNAPSHOT_HEADER_BYTES)
}

/// Reads a snapshot. Entries come in the order of the file, which means nothing.
///
/// # Errors
///
/// Anything but a whole snapshot of version 1 with the right checksum and nothing behind it. The
/// count is compared with the length before anything is allocated.
pub fn parse(bytes: &[u8]) -> Result<Vec<ProducerSnapshotEntry>, SnapshotError> {
    let short = SnapshotError::Short { bytes: bytes.len() };
    let (head, body) = bytes.split_at_checked(SNAPSHOT_HEADER_BYTES).ok_or(short)?;
    let (version, head) = head.split_at(2);
    let (stored, count) = head.split_at(4);
    let version = BigEndian::read_i16(version);
    if version != VERSION {
        return Err(SnapshotError::Version(version));
    }
    let stored = BigEndian::read_u32(stored);
    let computed = crc32c::crc32c(bytes.get(CRC_FROM..).ok_or(short)?);
    if stored != computed {
        return Err(SnapshotError::Crc { stored, computed });
    }
    let count = BigEndian::read_i32(count);
    let wanted = usize::try_from(count).map_err(|_| SnapshotError::Count(count))?;
    let (entries, rest) = body.as_chunks::<SNAPSHOT_ENTRY_BYTES>();
    if wanted > entries.len() {
        return Err(short);
    }
    let extra = entries
        .len()
        .saturating_sub(wanted)
        .saturating_mul(SNAPSHOT_ENTRY_BYTES);
    let bytes = extra.saturating_add(rest.len());
    if bytes != 0 {
        return Err(SnapshotError::Trailing { bytes });
    }
    entries
        .iter()
        .enumerate()
        .map(|(entry, raw)| decode(entry, raw))
        .collect()
}

/// Makes the bytes of a snapshot, entries in the given order.
#[must_use]
pub fn print(entries: impl IntoIterator<Item = ProducerSnapshotEntry>) -> Vec<u8> {
    let entries = entries.into_iter();
    let body_bytes = entries.size_hint().0.saturating_mul(SNAPSHOT_ENTRY_BYTES);
    let mut out = Vec::with_capacity(SNAPSHOT_HEADER_BYTES.saturating_add(body_bytes));
    out.extend_from_slice(&VERSION.to_be_bytes());
    out.extend_from_slice(&[0; 8]);
    let mut count: i32 = 0;
    for entry in entries {
        encode(&entry, &mut out);
        count = count.saturating_add(1);
    }
    if let Some(field) = out.get_mut(CRC_FROM..SNAPSHOT_HEADER_BYTES) {
        BigEndian::write_i32(field, count);
    }
    let crc = out.get(CRC_FROM..).map_or(0, crc32c::crc32c);
    if let Some(field) = out.get_mut(CRC_AT..CRC_FROM) {
        BigEndian::write_u32(field, crc);
    }
    out
}

fn decode(
    entry: usize,
    raw: &[u8; SNAPSHOT_ENTRY_BYTES],
) -> Result<ProducerSnapshotEntry, SnapshotError> {
    let (producer_id, rest) = raw.split_at(8);
    let (producer_epoch, rest) = rest.split_at(2);
    let (last_sequence, rest) = rest.split_at(4);
    let (last_offset, rest) = rest.split_at(8);
    let (offset_delta, rest) = rest.split_at(4);
    let (timestamp, rest) = rest.split_at(8);
    let (coordinator_epoch, current_txn_first_offset) = rest.split_at(4);
    let offset = |field: &[u8]| match BigEndian::read_i64(field) {
        -1 => Ok(None),
        raw => Offset::new(raw)
            .map(Some)
            .ok_or(SnapshotError::Offset { entry }),
    };
    Ok(ProducerSnapshotEntry {
        producer_id: BigEndian::read_i64(producer_id),
        producer_epoch: BigEndian::read_i16(producer_epoch),
        last_sequence: BigEndian::read_i32(last_sequence),
        last_offset: offset(last_offset)?,
        offset_delta: BigEndian::read_i32(offset_delta),
        timestamp: Timestamp::from_millis(BigEndian::read_i64(timestamp)),
        coordinator_epoch: BigEndian::read_i32(coordinator_epoch),
        current_txn_first_offset: offset(current_txn_first_offset)?,
    })
}

fn encode(entry: &ProducerSnapshotEntry, out: &mut Vec<u8>) {
    let raw = |offset: Option<Offset>| offset.map_or(-1, Offset::get).to_be_bytes();
    out.extend_from_slice(&entry.producer_id.to_be_bytes());
    out.extend_from_slice(&entry.producer_epoch.to_be_bytes());
    out.extend_from_slice(&entry.last_sequence.to_be_bytes());
    out.extend_from_slice(&raw(entry.last_offset));
    out.extend_from_slice(&entry.offset_delta.to_be_bytes());
    out.extend_from_slice(&entry.timestamp.millis().to_be_bytes());
    out.extend_from_slice(&entry.coordinator_epoch.to_be_bytes());
    out.extend_from_slice(&raw(entry.current_txn_first_offset));
}

#[cfg(test)]
mod tests;
