//! Walks the batches of a `.log` file from a position on, with bounded memory.
//!
//! 1. Nothing is allocated for a length that the file does not hold.
//! 2. A batch larger than the buffer has its checksum computed piece by piece.

use std::fmt;
use std::io;

use crate::record::{
    BATCH_HEADER_BYTES, BATCH_PREFIX_BYTES, BatchHeader, DecodeError, crc_append, crc_start,
};
use crate::storage::{File, ReadBuffer};
use crate::types::Position;

/// How much of a batch a scan looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Headers only: bodies are stepped over.
    Headers,
    /// Headers and checksums.
    Checksums,
}

/// One step of a scan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A whole batch, at this position.
    Batch(Position, BatchHeader),
    /// The end of the file, exactly behind a batch.
    End(Position),
    /// Bytes that are no whole, sound batch. With a header where one could be read.
    Bad(Position, Option<BatchHeader>, Fault),
}

/// Why bytes are no whole, sound batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// All bytes from here to the end of the file are zero.
    Zeros,
    /// The file ends inside the header, or before the end that the header names.
    Short,
    /// The bytes are wrong.
    Decode(DecodeError),
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zeros => f.write_str("zeros to the end of the file"),
            Self::Short => f.write_str("the file ends inside a batch"),
            Self::Decode(error) => error.fmt(f),
        }
    }
}

/// Reads batches one after the other.
#[derive(Debug)]
pub(crate) struct Scanner<'f, F> {
    file: &'f F,
    /// The first byte that is not looked at. Bytes from the front of the file.
    end: u64,
    /// Where the next batch begins.
    position: u64,
    depth: Depth,
    /// How much is read at once.
    piece: usize,
    buffer: ReadBuffer,
    /// The file position of the first byte of `buffer`.
    buffer_start: u64,
}

impl<'f, F: File> Scanner<'f, F> {
    /// Memory for a scan that reads all bytes. Large enough that the system call is cheap beside
    /// the checksum, small enough to stay in a second-level cache.
    pub(crate) const SCAN_BYTES: usize = 256 << 10;
    /// Memory for a scan that looks for one place near by.
    pub(crate) const LOOKUP_BYTES: usize = 8 << 10;

    /// A scan of the bytes [`start`, `end`).
    pub(crate) fn new(file: &'f F, start: Position, end: u64, depth: Depth) -> Self {
        let piece = match depth {
            Depth::Headers => Self::LOOKUP_BYTES,
            Depth::Checksums => Self::SCAN_BYTES,
        };
        Self {
            file,
            end,
            position: start.get(),
            depth,
            piece,
            buffer: ReadBuffer::default(),
            buffer_start: start.get(),
        }
    }

    /// The first byte that is not looked at.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// Where the next batch begins.
    pub(crate) fn position(&self) -> Position {
        Position::new(self.position)
    }

    /// The next batch, or why there is none. After anything but a batch the scan stays where it is.
    pub(crate) fn step(&mut self) -> io::Result<Step> {
        let at = Position::new(self.position);
        let left = self.end.saturating_sub(self.position);
        if left == 0 {
            return Ok(Step::End(at));
        }
        let header = match self.header(left)? {
            Ok(header) => header,
            Err(fault) => return self.bad(at, None, fault),
        };
        if u64::from(header.bytes) > left {
            return self.bad(at, Some(header), Fault::Short);
        }
        if self.depth == Depth::Checksums {
            let computed = self.checksum(&header)?;
            if computed != header.crc {
                let fault = DecodeError::BadCrc {
                    stored: header.crc,
                    computed,
                };
                return self.bad(at, Some(header), Fault::Decode(fault));
            }
        }
        self.position = self.position.saturating_add(u64::from(header.bytes));
        Ok(Step::Batch(at, header))
    }

    /// Goes on at another place, for a look behind damage.
    pub(crate) fn seek(&mut self, position: Position) {
        self.position = position.get();
    }

    fn bad(&mut self, at: Position, header: Option<BatchHeader>, fault: Fault) -> io::Result<Step> {
        let fault = if self.rest_is_zero()? {
            Fault::Zeros
        } else {
            fault
        };
        Ok(Step::Bad(at, header, fault))
    }

    fn header(&mut self, left: u64) -> io::Result<Result<BatchHeader, Fault>> {
        let front = self.window(BATCH_HEADER_BYTES)?;
        // An entry of at most 17 bytes is none: Kafka's FileLogInputStream stops silently there.
        if front.len() <= BATCH_PREFIX_BYTES {
            return Ok(Err(Fault::Short));
        }
        Ok(match BatchHeader::parse(front) {
            Ok(header) => Ok(header),
            Err(DecodeError::TooShort { needed, .. }) if needed > left => Err(Fault::Short),
            Err(error) => Err(Fault::Decode(error)),
        })
    }

    fn checksum(&mut self, header: &BatchHeader) -> io::Result<u32> {
        let from = crc_start(header.magic);
        let bytes = usize::try_from(header.bytes).unwrap_or(usize::MAX);
        if bytes <= self.piece {
            let batch = self.window(bytes)?;
            let covered = batch.get(from..bytes).unwrap_or_default();
            return Ok(crc_append(header.magic, 0, covered));
        }
        let start = self.position;
        let last = start.saturating_add(u64::from(header.bytes));
        let mut crc = 0;
        self.position = start.saturating_add(u64::try_from(from).unwrap_or(0));
        while self.position < last {
            let want = usize::try_from(last.saturating_sub(self.position)).unwrap_or(usize::MAX);
            let piece = self.window(want.min(self.piece))?;
            if piece.is_empty() {
                break;
            }
            crc = crc_append(header.magic, crc, piece);
            let taken = u64::try_from(piece.len()).unwrap_or(0);
            self.position = self.position.saturating_add(taken);
        }
        self.position = start;
        Ok(crc)
    }

    fn rest_is_zero(&mut self) -> io::Result<bool> {
        let start = self.position;
        let mut zero = true;
        while zero && self.position < self.end {
            let piece = self.window(self.piece)?;
            zero = piece.iter().all(|byte| *byte == 0) && !piece.is_empty();
            let taken = u64::try_from(piece.len()).unwrap_or(0);
            self.position = self.position.saturating_add(taken);
        }
        self.position = start;
        Ok(zero)
    }

    /// At most `want` bytes at the scan's position, fewer only at the end.
    fn window(&mut self, want: usize) -> io::Result<&[u8]> {
        let left = self.end.saturating_sub(self.position);
        let want = want.min(usize::try_from(left).unwrap_or(usize::MAX));
        if self.buffered(want).is_none() {
            self.fill(want)?;
        }
        Ok(self.buffered(want).unwrap_or_default())
    }

    fn buffered(&self, want: usize) -> Option<&[u8]> {
        let skip = usize::try_from(self.position.checked_sub(self.buffer_start)?).ok()?;
        self.buffer.bytes().get(skip..skip.checked_add(want)?)
    }

    fn fill(&mut self, want: usize) -> io::Result<()> {
        let left = usize::try_from(self.end.saturating_sub(self.position)).unwrap_or(usize::MAX);
        let bytes = self.piece.max(want).min(left);
        self.buffer_start = self.position;
        let room = self.buffer.room(bytes, self.position);
        let got = self.file.read_at_most(room, self.position)?;
        self.buffer.truncate(got);
        Ok(())
    }
}
