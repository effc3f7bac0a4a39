//! The one error of the engine.
//!
//! Codecs (floor 1) have exact errors of their own, storage speaks [`std::io::Error`]; from the log
//! up everything returns [`Error`].

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::types::{Offset, Position};

/// A result of the engine.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, where, and what to do next.
///
/// The text is one line: what was being done, the file, the position and offset where they are
/// known, the cause, and the next step.
pub struct Error(Box<Repr>);

struct Repr {
    kind: ErrorKind,
    doing: String,
    path: Option<PathBuf>,
    position: Option<Position>,
    offset: Option<Offset>,
    next_step: Option<&'static str>,
    source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

/// What a caller can do about an error, one kind for each way to act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An offset outside the log, or above what may be read or deleted. Ask for the bounds and
    /// retry.
    OffsetOutOfRange,
    /// A batch fails its checksum or is malformed. Fetch or produce it again.
    CorruptRecord,
    /// A batch breaks a rule of its format or of the log. Do not retry with the same bytes.
    InvalidRecord,
    /// A timestamp outside the bounds of the configuration.
    InvalidTimestamp,
    /// A batch larger than `max.message.bytes`.
    RecordTooLarge,
    /// An append larger than a segment may be.
    RecordBatchTooLarge,
    /// A codec that does not exist or that this build leaves out.
    UnsupportedCompression,
    /// The batches of one follower append do not rise in offset.
    OffsetsOutOfOrder,
    /// A follower append begins below the log end.
    UnexpectedAppendOffset,
    /// A producer's sequence number does not follow its last one.
    OutOfOrderSequence,
    /// A producer epoch below the latest one of that producer.
    InvalidProducerEpoch,
    /// A batch that does not fit the state of its producer's transaction.
    InvalidTxnState,
    /// A marker of a transaction coordinator that was replaced.
    TransactionCoordinatorFenced,
    /// A leader epoch below the latest one of the log. Refresh who leads.
    FencedLeaderEpoch,
    /// An argument outside what the operation allows.
    InvalidArgument,
    /// The log was closed. Open it again.
    Closed,
    /// The log holds damage below its recovery point and refuses to change until it is repaired.
    Damaged,
    /// Not done by this version, or by this build's features.
    Unsupported,
    /// Another process or another handle has the directory.
    Locked,
    /// A write or a sync failed before; nothing on this log succeeds until it is opened again.
    Offline,
    /// A file or directory is not there.
    NotFound,
    /// A file holds bytes that cannot be what its name says.
    Corrupt,
    /// The disk has no room.
    NoSpace,
    /// The system refused an operation on a file.
    Io,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, doing: impl Into<String>) -> Self {
        Self(Box::new(Repr {
            kind,
            doing: doing.into(),
            path: None,
            position: None,
            offset: None,
            next_step: None,
            source: None,
        }))
    }

    /// An error of the system on a file. A missing file, a full disk and a fenced log have kinds of
    /// their own. The next step is the usual one for its cause.
    pub(crate) fn io(doing: impl Into<String>, path: &Path, source: io::Error) -> Self {
        let found = source.kind();
        let no_room = [io::ErrorKind::StorageFull, io::ErrorKind::QuotaExceeded];
        let kind = if FencedError::is_in(&source) {
            ErrorKind::Offline
        } else if found == io::ErrorKind::NotFound {
            ErrorKind::NotFound
        } else if no_room.contains(&found) {
            ErrorKind::NoSpace
        } else {
            ErrorKind::Io
        };
        let usual = [
            (io::ErrorKind::NotFound, "check the path"),
            (io::ErrorKind::NotADirectory, "name a directory"),
            (
                io::ErrorKind::PermissionDenied,
                "run as a user who may do that",
            ),
            (
                io::ErrorKind::ReadOnlyFilesystem,
                "mount it for writing, or work on a copy; reading needs neither",
            ),
        ];
        let of_cause = usual.iter().find(|(cause, _)| *cause == found);
        let next_step = if kind == ErrorKind::Offline {
            "open the log again"
        } else if kind == ErrorKind::NoSpace {
            "make room on the disk, then go on"
        } else {
            of_cause.map_or("check the disk and its file system", |(_, step)| step)
        };
        let error = Self::new(kind, doing).at_path(path);
        error.next_step(next_step).caused_by(source)
    }

    pub(crate) fn at_path(mut self, path: &Path) -> Self {
        self.0.path = Some(path.to_path_buf());
        self
    }

    pub(crate) fn at_position(mut self, position: Position) -> Self {
        self.0.position = Some(position);
        self
    }

    pub(crate) fn at_offset(mut self, offset: Offset) -> Self {
        self.0.offset = Some(offset);
        self
    }

    pub(crate) fn next_step(mut self, next_step: &'static str) -> Self {
        self.0.next_step = Some(next_step);
        self
    }

    pub(crate) fn caused_by(
        mut self,
        source: impl Into<Box<dyn std::error::Error + Send + Sync>>,
    ) -> Self {
        self.0.source = Some(source.into());
        self
    }

    /// What a caller can do about it.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file or directory, where one is to blame.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The place in the file. Unit: bytes from its front.
    pub fn position(&self) -> Option<Position> {
        self.0.position
    }

    /// The offset that was asked for or that is affected.
    pub fn offset(&self) -> Option<Offset> {
        self.0.offset
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.doing)?;
        if let Some(path) = &self.0.path {
            write!(f, ": {}", path.display())?;
        }
        if let Some(position) = self.0.position {
            write!(f, ", position {position}")?;
        }
        if let Some(offset) = self.0.offset {
            write!(f, ", offset {offset}")?;
        }
        if let Some(source) = &self.0.source {
            write!(f, ": {source}")?;
        }
        if let Some(next_step) = self.0.next_step {
            write!(f, "; {next_step}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let source = self.0.source.as_deref()?;
        Some(source)
    }
}

/// The cause inside an [`io::Error`] of a directory that an earlier failed write or sync fenced.
///
/// It stands on this floor so that [`Error`] knows it without a look at the storage above.
#[derive(Clone, Debug)]
pub struct FencedError {
    first: Arc<str>,
}

impl FencedError {
    pub(crate) fn new(first: Arc<str>) -> Self {
        Self { first }
    }

    /// Whether `failure` holds one.
    pub fn is_in(failure: &io::Error) -> bool {
        failure
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Self>())
            .is_some()
    }

    /// The failure that came first.
    pub fn first(&self) -> &str {
        &self.first
    }
}

impl fmt::Display for FencedError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "nothing is written after an earlier failure: {}",
            self.first
        )
    }
}

impl std::error::Error for FencedError {}

impl From<FencedError> for io::Error {
    fn from(fenced: FencedError) -> Self {
        Self::other(fenced)
    }
}
