//! What is where: the logs of a data directory, the files of a log.

use std::io;
use std::path::Path;

use super::finding::{Finding, FindingKind};
use crate::checkpoint::{LogFacts, MetaProperties, OffsetCheckpoint, StateFile};
use crate::error::{Error, ErrorKind, Result};
use crate::names::{self, DataFileName, DirName, FileName, FileType, Suffix, TopicPartition};
use crate::storage::{Access, Dir, EntryKind, File, OsDir};
use crate::types::Offset;

/// The largest checkpoint file that is read. A row of a thousand bytes for each of 60,000 logs
/// fits.
const MAX_CHECKPOINT_BYTES: u64 = 64 << 20;

/// A data directory, or one log in it.
#[derive(Debug)]
pub struct Target<D: Dir = OsDir> {
    data: D,
    checkpoints: Checkpoints,
    /// The directory names of the logs, in order.
    logs: Vec<String>,
    /// Whether the path was that of a data directory.
    is_data_dir: bool,
    findings: Vec<Finding>,
}

/// What the files of a data directory say.
#[derive(Debug, Default)]
struct Checkpoints {
    recovery_points: OffsetCheckpoint,
    high_watermarks: OffsetCheckpoint,
    log_starts: OffsetCheckpoint,
    state: Option<StateFile>,
    /// Whether the marker of a clean stop is there.
    is_clean: bool,
}

/// A log: its directory, its files, and what the data directory says about it.
#[derive(Debug)]
pub struct LogDirectory<D: Dir = OsDir> {
    pub(super) dir: D,
    pub(super) name: String,
    pub(super) segments: Vec<SegmentFiles>,
    pub(super) files: Vec<(String, FileName, u64)>,
    pub(super) recovery_point: Option<Offset>,
    pub(super) high_watermark: Option<Offset>,
    pub(super) log_start: Option<Offset>,
    pub(super) facts: Option<LogFacts>,
    pub(super) is_clean: bool,
    pub(super) findings: Vec<Finding>,
}

/// A segment that has a `.log` file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentFiles {
    /// The offset in its name.
    pub base: Offset,
    /// The length of the `.log` file when the directory was listed. Unit: bytes.
    pub log_bytes: u64,
    /// Whether it is the last one of the log.
    pub is_active: bool,
}

impl SegmentFiles {
    /// The name of its `.log` file.
    #[must_use]
    pub fn log_name(&self) -> String {
        names::segment_name(self.base, FileType::Log)
    }
}

impl Target<OsDir> {
    /// Opens a path: a log if it holds files of one or is named like one, else a data directory.
    ///
    /// # Errors
    ///
    /// The path is no readable directory.
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        let path = path.as_ref();
        let dir = OsDir::open(path).map_err(|source| cannot("open the directory", path, source))?;
        let real = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        let name = real
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let (Some(name), Some(parent)) = (name, real.parent()) else {
            return Self::of_data_dir(dir);
        };
        if !is_log(&dir, &name)? {
            return Self::of_data_dir(dir);
        }
        match OsDir::open(parent) {
            Ok(data) => Self::of_log(data, name),
            Err(source) => Err(cannot("open the data directory", parent, source)),
        }
    }
}

impl<D: Dir> Target<D> {
    /// Looks at all logs of a data directory.
    ///
    /// # Errors
    ///
    /// The directory or one of its files cannot be read.
    pub fn of_data_dir(data: D) -> Result<Self> {
        let mut target = Self::new(data, true)?;
        let entries = list(&target.data)?;
        for entry in entries {
            match entry.kind {
                EntryKind::File => target.data_file(&entry.name),
                EntryKind::Dir => target.data_subdir(entry.name),
                EntryKind::Other => {
                    let is_log = matches!(DirName::parse(&entry.name), DirName::Live(_));
                    if is_log && target.data.subdir(&entry.name).is_ok() {
                        target.logs.push(entry.name);
                    } else {
                        target.unknown(&entry.name);
                    }
                }
            }
        }
        Ok(target)
    }

    /// Looks at one log of a data directory, by the name of its directory.
    ///
    /// # Errors
    ///
    /// The files of the data directory cannot be read.
    pub fn of_log(data: D, name: String) -> Result<Self> {
        let mut target = Self::new(data, false)?;
        target.logs.push(name);
        Ok(target)
    }

    fn new(data: D, is_data_dir: bool) -> Result<Self> {
        let mut findings = Vec::new();
        let checkpoints = Checkpoints::read(&data, &mut findings)?;
        Ok(Self {
            data,
            checkpoints,
            logs: Vec::new(),
            is_data_dir,
            findings,
        })
    }

    fn unknown(&mut self, name: &str) {
        let detail = "Kafka gives no such name";
        self.findings
            .push(Finding::note(FindingKind::UnknownFile, name, detail));
    }

    fn data_file(&mut self, name: &str) {
        let kind = DataFileName::parse(name);
        if kind == DataFileName::Tmp {
            let detail = "a file that was being written";
            self.findings
                .push(Finding::note(FindingKind::Leftover, name, detail));
        } else if kind == DataFileName::Unknown {
            self.unknown(name);
        }
    }

    fn data_subdir(&mut self, name: String) {
        let (detail, next_step) = match DirName::parse(&name) {
            DirName::Live(_) => return self.logs.push(name),
            DirName::Delete(_) => (
                "a log that waits for its deletion",
                "nothing: opening the directory removes it",
            ),
            DirName::Stray(_) => (
                "a log that was set aside because it did not belong here",
                "look at it with `highwater info`, then remove it",
            ),
            DirName::Future(_) => (
                "a replica that was being moved here",
                "nothing: the broker goes on with it",
            ),
            DirName::Foreign if name == names::REMOTE_LOG_INDEX_CACHE => return,
            DirName::Foreign => return self.unknown(&name),
        };
        let finding = Finding::note(FindingKind::Leftover, name, detail);
        self.findings.push(finding.next_step(next_step));
    }

    /// Whether the path was that of a data directory.
    #[must_use]
    pub fn is_data_dir(&self) -> bool {
        self.is_data_dir
    }

    /// The path of the data directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.data.path()
    }

    /// What was found in the data directory itself.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The names of the logs' directories, in order.
    #[must_use]
    pub fn logs(&self) -> &[String] {
        &self.logs
    }

    /// Lists one of the logs; `None` if it is gone by now.
    ///
    /// # Errors
    ///
    /// The directory cannot be read.
    pub fn log(&self, name: &str) -> Result<Option<LogDirectory<D>>> {
        let dir = match self.data.subdir(name) {
            Ok(dir) => dir,
            Err(source) if source.kind() == io::ErrorKind::NotFound && self.is_data_dir => {
                return Ok(None);
            }
            Err(source) => {
                return Err(cannot("open the log", &self.data.path().join(name), source));
            }
        };
        let mut log = LogDirectory::list(dir, name)?;
        if let Some(key) = TopicPartition::parse(name)
            && name != names::METADATA_LOG
        {
            let checkpoints = &self.checkpoints;
            log.recovery_point = checkpoints.recovery_points.offsets.get(&key).copied();
            log.high_watermark = checkpoints.high_watermarks.offsets.get(&key).copied();
            log.log_start = checkpoints.log_starts.offsets.get(&key).copied();
            log.facts = checkpoints
                .state
                .as_ref()
                .and_then(|state| state.logs.get(&key).copied());
            log.is_clean = checkpoints.is_clean;
        }
        Ok(Some(log))
    }
}

impl Checkpoints {
    fn read<D: Dir>(data: &D, findings: &mut Vec<Finding>) -> Result<Self> {
        let mut offsets = |name: &str| -> Result<OffsetCheckpoint> {
            let Some(bytes) = content(data, name, MAX_CHECKPOINT_BYTES)? else {
                return Ok(OffsetCheckpoint::new());
            };
            match OffsetCheckpoint::parse(&bytes) {
                Ok(Some(rows)) => return Ok(rows),
                Ok(None) => {
                    let detail = "empty, as in a young directory: it says nothing";
                    findings.push(Finding::note(FindingKind::CheckpointFile, name, detail));
                }
                Err(error) => findings.push(Finding::damage(
                    FindingKind::CheckpointFile,
                    name,
                    error.to_string(),
                )),
            }
            Ok(OffsetCheckpoint::new())
        };
        let recovery_points = offsets(names::RECOVERY_POINT_CHECKPOINT)?;
        let high_watermarks = offsets(names::HIGH_WATERMARK_CHECKPOINT)?;
        let log_starts = offsets(names::LOG_START_CHECKPOINT)?;
        offsets(names::CLEANER_CHECKPOINT)?;
        let mut state = None;
        if let Some(bytes) = content(data, names::STATE, MAX_CHECKPOINT_BYTES)? {
            match StateFile::parse(&bytes) {
                Ok(found) => state = found,
                Err(error) => findings.push(Finding::note(
                    FindingKind::CheckpointFile,
                    names::STATE,
                    error.to_string(),
                )),
            }
        }
        if let Some(bytes) = content(data, names::META_PROPERTIES, MAX_CHECKPOINT_BYTES)?
            && let Err(error) = MetaProperties::parse(&bytes)
        {
            let kind = FindingKind::CheckpointFile;
            findings.push(Finding::damage(
                kind,
                names::META_PROPERTIES,
                error.to_string(),
            ));
        }
        let is_clean = content(data, names::CLEAN_SHUTDOWN, MAX_CHECKPOINT_BYTES)?.is_some();
        Ok(Self {
            recovery_points,
            high_watermarks,
            log_starts,
            state,
            is_clean,
        })
    }
}

impl<D: Dir> LogDirectory<D> {
    fn list(dir: D, name: &str) -> Result<Self> {
        let mut log = Self {
            name: name.to_owned(),
            segments: Vec::new(),
            files: Vec::new(),
            recovery_point: None,
            high_watermark: None,
            log_start: None,
            facts: None,
            is_clean: false,
            findings: Vec::new(),
            dir,
        };
        for entry in list(&log.dir)? {
            if entry.kind == EntryKind::Dir {
                log.note(
                    FindingKind::UnknownFile,
                    &entry.name,
                    "a directory inside a log",
                );
                continue;
            }
            let kind = FileName::parse(&entry.name);
            log.classify(&entry.name, &kind, entry.bytes);
            log.files.push((entry.name, kind, entry.bytes));
        }
        log.segments.sort_by_key(|segment| segment.base);
        if let Some(last) = log.segments.last_mut() {
            last.is_active = true;
        }
        log.orphans();
        Ok(log)
    }

    fn classify(&mut self, name: &str, kind: &FileName, log_bytes: u64) {
        let detail = match kind {
            FileName::Segment {
                kind: FileType::Log,
                suffix: Suffix::None,
                canonical: true,
                base,
            } => {
                let segment = SegmentFiles {
                    base: *base,
                    log_bytes,
                    is_active: false,
                };
                return self.segments.push(segment);
            }
            FileName::Segment {
                canonical: false, ..
            } => {
                let detail = "Kafka writes 20 digits, and opens the file of that name";
                return self.note(FindingKind::UnknownFile, name, detail);
            }
            FileName::Unknown => {
                return self.note(FindingKind::UnknownFile, name, "Kafka gives no such name");
            }
            FileName::Segment { suffix, .. } => match suffix {
                Suffix::None => return,
                Suffix::Deleted => "a file that waits for its deletion",
                Suffix::Cleaned => "output of the cleaner that was not published",
                Suffix::Swap => "output of the cleaner that replaces its sources at the next open",
            },
            FileName::Tmp(_) => "a file that was being written",
            FileName::KraftCheckpoint {
                complete: false, ..
            } => "a metadata snapshot not in use",
            FileName::Ours(names::OurFile::Saved { .. }) => {
                let detail = "bytes that were saved from a cut";
                let finding = Finding::note(FindingKind::Leftover, name, detail);
                let finding = finding.next_step("look at it with `highwater dump`, then remove it");
                return self.findings.push(finding.of_log(&self.name));
            }
            FileName::Ours(names::OurFile::State | names::OurFile::Segments)
            | FileName::KraftCheckpoint { complete: true, .. }
            | FileName::LeaderEpochCheckpoint
            | FileName::PartitionMetadata
            | FileName::QuorumState => return,
        };
        self.note(FindingKind::Leftover, name, detail);
    }

    /// Indexes without their `.log`.
    fn orphans(&mut self) {
        let is_orphan = |file: &FileName| {
            let FileName::Segment {
                base,
                kind,
                suffix: Suffix::None,
                ..
            } = file
            else {
                return false;
            };
            !matches!(kind, FileType::Log | FileType::Snapshot)
                && self
                    .segments
                    .binary_search_by_key(base, |segment| segment.base)
                    .is_err()
        };
        let orphans: Vec<String> = self
            .files
            .iter()
            .filter(|(_, kind, _)| is_orphan(kind))
            .map(|(name, ..)| name.clone())
            .collect();
        for name in orphans {
            self.note(
                FindingKind::Leftover,
                &name,
                "an index whose .log file is missing",
            );
        }
    }

    fn note(&mut self, kind: FindingKind, file: &str, detail: &str) {
        self.findings
            .push(Finding::note(kind, file, detail).of_log(&self.name));
    }

    /// The name of its directory.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its path.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Its segments, ascending.
    #[must_use]
    pub fn segments(&self) -> &[SegmentFiles] {
        &self.segments
    }

    /// The high watermark of the data directory's checkpoint as it stands.
    #[must_use]
    pub fn high_watermark(&self) -> Option<Offset> {
        self.high_watermark
    }

    /// Takes the high watermark to be at `offset`, whatever the checkpoint says: at
    /// [`Offset::MAX`] everything is replicated, as in a log whose only replica starts again.
    pub fn assume_high_watermark(&mut self, offset: Offset) {
        self.high_watermark = Some(offset);
    }

    /// Where the log begins: its first segment, or the checkpointed start if that lies inside the
    /// log. Where no segment holds a byte, the checkpointed start.
    #[must_use]
    pub fn log_start_offset(&self, log_end: Offset) -> Offset {
        let first = self
            .segments
            .first()
            .map_or(Offset::ZERO, |segment| segment.base);
        let is_empty = self.segments.iter().all(|segment| segment.log_bytes == 0);
        match self.log_start {
            Some(start) if start > first && (start <= log_end || is_empty) => start,
            _ => first,
        }
    }

    /// Whether this crate's record of the log is a witness: the recovery point row is the one
    /// written with it.
    pub(super) fn is_witnessed(&self) -> bool {
        let facts = self.facts.as_ref();
        facts.is_some_and(|facts| self.recovery_point == Some(facts.recovery_point))
    }

    /// Opens a file of the log; `None` if it is gone.
    pub(super) fn open(&self, name: &str) -> Result<Option<D::File>> {
        open(&self.dir, name)
    }

    /// The whole of a small file; `None` if it is gone.
    pub(super) fn content(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
        content(&self.dir, name, limit)
    }

    pub(super) fn failed(&self, doing: &str, name: &str, source: io::Error) -> Error {
        cannot(doing, &self.dir.path().join(name), source)
    }
}

/// The whole of a file that is not a `.log`.
///
/// # Errors
///
/// It cannot be read, or it is larger than 64 MiB.
pub fn read_file(path: impl AsRef<Path>) -> Result<Vec<u8>> {
    let path = path.as_ref();
    let (Some(name), Some(parent)) = (path.file_name(), path.parent()) else {
        let error = Error::new(ErrorKind::InvalidArgument, "read a file").at_path(path);
        return Err(error.next_step("name a file"));
    };
    let parent = if parent.as_os_str().is_empty() {
        Path::new(".")
    } else {
        parent
    };
    let dir = OsDir::open(parent).map_err(|source| cannot("open the directory", parent, source))?;
    content(&dir, &name.to_string_lossy(), MAX_CHECKPOINT_BYTES)?
        .ok_or_else(|| cannot("open the file", path, io::ErrorKind::NotFound.into()))
}

fn cannot(doing: &str, path: &Path, source: io::Error) -> Error {
    let kind = source.kind();
    let next_step = if kind == io::ErrorKind::NotFound {
        "check the path"
    } else if kind == io::ErrorKind::NotADirectory {
        "name a data directory or the directory of a log"
    } else if kind == io::ErrorKind::PermissionDenied {
        "run as a user who may read it"
    } else {
        "check the disk and its file system"
    };
    Error::io(format!("cannot {doing}"), path, source).next_step(next_step)
}

fn list<D: Dir>(dir: &D) -> Result<Vec<crate::storage::DirEntry>> {
    dir.list()
        .map_err(|source| cannot("list the directory", dir.path(), source))
}

fn open<D: Dir>(dir: &D, name: &str) -> Result<Option<D::File>> {
    match dir.open(name, Access::Read) {
        Ok(file) => Ok(Some(file)),
        Err(source) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(cannot("open the file", &dir.path().join(name), source)),
    }
}

/// The bytes of a file, whatever happens to its length meanwhile.
fn content<D: Dir>(dir: &D, name: &str, limit: u64) -> Result<Option<Vec<u8>>> {
    let Some(file) = open(dir, name)? else {
        return Ok(None);
    };
    let failed = |source| cannot("read the file", &dir.path().join(name), source);
    let bytes = file.bytes().map_err(failed)?;
    let length = usize::try_from(bytes)
        .ok()
        .filter(|_| bytes <= limit)
        .ok_or_else(|| {
            Error::new(
                ErrorKind::Unsupported,
                format!("a file of {bytes} bytes is not read"),
            )
            .at_path(&dir.path().join(name))
            .next_step("look at it by other means: such a file is far smaller")
        })?;
    let mut buffer = vec![0; length];
    let got = file.read_at_most(&mut buffer, 0).map_err(failed)?;
    buffer.truncate(got);
    Ok(Some(buffer))
}

/// Whether a directory is a log rather than a data directory.
fn is_log<D: Dir>(dir: &D, name: &str) -> Result<bool> {
    let entries = list(dir)?;
    let holds = |test: &dyn Fn(&crate::storage::DirEntry) -> bool| entries.iter().any(test);
    if holds(&|entry| {
        entry.kind != EntryKind::Dir
            && matches!(
                FileName::parse(&entry.name),
                FileName::Segment { .. }
                    | FileName::LeaderEpochCheckpoint
                    | FileName::PartitionMetadata
            )
    }) {
        return Ok(true);
    }
    let has_logs = holds(&|entry| {
        entry.kind == EntryKind::Dir && matches!(DirName::parse(&entry.name), DirName::Live(_))
    });
    let has_checkpoints = holds(&|entry| DataFileName::parse(&entry.name) != DataFileName::Unknown);
    Ok(!has_logs && !has_checkpoints && DirName::parse(name) != DirName::Foreign)
}
