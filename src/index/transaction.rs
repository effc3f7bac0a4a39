//! The transaction index (`.txnindex`): the aborted transactions whose marker lies in a segment.
//!
//! An entry is `version i16 = 0 | producer id i64 | first offset i64 | last offset i64 | last
//! stable offset i64`, 34 bytes (Kafka: `AbortedTxn`). A segment without aborted transactions has
//! no file.

use byteorder::{BigEndian, ByteOrder};

use super::{IndexError, IndexProblem};
use crate::types::Offset;

/// The length of an entry. Unit: bytes.
pub const TRANSACTION_ENTRY_BYTES: usize = 34;

const VERSION: i16 = 0;

type Raw = [u8; TRANSACTION_ENTRY_BYTES];

/// One aborted transaction that wrote at least a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// Who wrote it.
    pub producer_id: i64,
    /// The offset of its first record.
    pub first_offset: Offset,
    /// The offset of its ABORT marker (inclusive).
    pub last_offset: Offset,
    /// The first offset of the earliest other transaction open at that moment, else the offset
    /// behind the marker.
    pub last_stable_offset: Offset,
}

impl AbortedTransaction {
    fn decode(entry: usize, raw: &Raw) -> Result<Self, IndexProblem> {
        let (version, rest) = raw.split_at(2);
        let version = BigEndian::read_i16(version);
        if version != VERSION {
            return Err(IndexProblem::Version { entry, version });
        }
        let (producer_id, rest) = rest.split_at(8);
        let (first, rest) = rest.split_at(8);
        let (last, stable) = rest.split_at(8);
        let offset = |field: &[u8]| {
            Offset::new(BigEndian::read_i64(field)).ok_or(IndexProblem::OffsetOutOfRange { entry })
        };
        Ok(Self {
            producer_id: BigEndian::read_i64(producer_id),
            first_offset: offset(first)?,
            last_offset: offset(last)?,
            last_stable_offset: offset(stable)?,
        })
    }

    /// Appends the bytes of the entry.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&VERSION.to_be_bytes());
        out.extend_from_slice(&self.producer_id.to_be_bytes());
        out.extend_from_slice(&self.first_offset.get().to_be_bytes());
        out.extend_from_slice(&self.last_offset.get().to_be_bytes());
        out.extend_from_slice(&self.last_stable_offset.get().to_be_bytes());
    }
}

/// The entries of one segment's transaction index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TransactionIndex {
    /// Last offsets rise strictly, unless the bytes that were parsed did not: see
    /// [`check`](TransactionIndex::check).
    entries: Vec<AbortedTransaction>,
}

/// What a transaction index file holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParsedTransactionIndex {
    /// The whole entries.
    pub index: TransactionIndex,
    /// The number of bytes behind them: an entry that was not written to its end. Cut them before
    /// the next append, or everything behind is misaligned.
    pub torn_bytes: usize,
}

impl TransactionIndex {
    /// Makes an empty index.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads the bytes of an index file. Cost: one allocation of the size of the input.
    ///
    /// # Errors
    ///
    /// A version other than 0 or a negative offset, with the number of the entry. (Kafka looks at
    /// the high byte of the version only, but writes nothing else than 0.)
    pub fn parse(bytes: &[u8]) -> Result<ParsedTransactionIndex, IndexProblem> {
        let (raw, torn) = bytes.as_chunks();
        let entries = raw
            .iter()
            .enumerate()
            .map(|(entry, raw)| AbortedTransaction::decode(entry, raw))
            .collect::<Result<Vec<_>, _>>()?;
        Ok(ParsedTransactionIndex {
            index: Self { entries },
            torn_bytes: torn.len(),
        })
    }

    /// Whether the entries can be believed in a segment of this base offset: last offsets strictly
    /// rising and none below the base, no transaction that ends before it begins.
    ///
    /// # Errors
    ///
    /// The first problem. Rebuild the index from the segments.
    pub fn check(&self, base: Offset) -> Result<(), IndexProblem> {
        let mut last = None;
        for (entry, found) in self.entries.iter().enumerate() {
            if found.last_offset < base {
                return Err(IndexProblem::OffsetOutOfRange { entry });
            }
            if last.is_some_and(|last| found.last_offset <= last) {
                return Err(IndexProblem::OffsetNotRising { entry });
            }
            if found.first_offset > found.last_offset {
                return Err(IndexProblem::Reversed { entry });
            }
            last = Some(found.last_offset);
        }
        Ok(())
    }

    /// Adds a transaction.
    ///
    /// # Errors
    ///
    /// Its last offset does not lie above that of the last entry.
    pub fn push(&mut self, transaction: AbortedTransaction) -> Result<(), IndexError> {
        if let Some(last) = self.entries.last()
            && transaction.last_offset <= last.last_offset
        {
            return Err(IndexError::OffsetNotRising {
                last: last.last_offset,
                offset: transaction.last_offset,
            });
        }
        self.entries.push(transaction);
        Ok(())
    }

    /// The entries in order.
    pub fn entries(&self) -> &[AbortedTransaction] {
        &self.entries
    }

    /// The number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether no transaction was aborted in the segment.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Appends to `out` the transactions that overlap `from` (inclusive) to `upper_bound`
    /// (exclusive). True if no later segment can hold another. Kafka: `collectAbortedTxns`.
    pub fn collect(
        &self,
        from: Offset,
        upper_bound: Offset,
        out: &mut Vec<AbortedTransaction>,
    ) -> bool {
        for found in &self.entries {
            if found.last_offset >= from && found.first_offset < upper_bound {
                out.push(*found);
            }
            if found.last_stable_offset >= upper_bound {
                return true;
            }
        }
        false
    }

    /// Drops the transactions whose last offset is at or above `target`.
    pub fn truncate_to(&mut self, target: Offset) {
        let keep = self
            .entries
            .iter()
            .take_while(|found| found.last_offset < target)
            .count();
        self.entries.truncate(keep);
    }

    /// Appends the bytes of the entries from number `first_entry` (counted from 0) on.
    pub fn encode_from(&self, first_entry: usize, out: &mut Vec<u8>) {
        for entry in self.entries.get(first_entry..).unwrap_or_default() {
            entry.encode(out);
        }
    }
}

#[cfg(test)]
mod tests;
