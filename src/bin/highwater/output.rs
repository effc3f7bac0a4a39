//! What goes to standard output, and how a run ends.

use std::fmt;
use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

use base64::engine::general_purpose::STANDARD;
use base64::write::EncoderWriter;
use highwater::error::{Error, ErrorKind};
use highwater::inspect::Finding;
use highwater::record::{Headers, Record};
use highwater::types::{Offset, Position};
use serde_json::{Value, json};

/// How a run that did its work ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Fine,
    Damage,
    Io,
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        Self::from(match status {
            Status::Fine => 0,
            Status::Damage => 1,
            Status::Io => 3,
        })
    }
}

impl Status {
    /// The worse of two.
    pub(crate) fn and(self, other: Self) -> Self {
        match (self, other) {
            (Self::Io, _) | (_, Self::Io) => Self::Io,
            (Self::Damage, _) | (_, Self::Damage) => Self::Damage,
            (Self::Fine, Self::Fine) => Self::Fine,
        }
    }
}

/// The kinds of errors that mean damage.
const DAMAGE: [ErrorKind; 3] = [
    ErrorKind::CorruptRecord,
    ErrorKind::Corrupt,
    ErrorKind::Damaged,
];
/// The kinds of errors that another call would not have met.
const USAGE: [ErrorKind; 9] = [
    ErrorKind::InvalidArgument,
    ErrorKind::OffsetOutOfRange,
    ErrorKind::Unsupported,
    ErrorKind::FencedLeaderEpoch,
    ErrorKind::InvalidRecord,
    ErrorKind::InvalidTimestamp,
    ErrorKind::RecordTooLarge,
    ErrorKind::RecordBatchTooLarge,
    ErrorKind::UnsupportedCompression,
];

/// Why a run did not do its work.
#[derive(Debug)]
pub(crate) enum Failure {
    Usage(String),
    /// A file that cannot be what its name says.
    Damage(String),
    Engine(Error),
    /// A file or standard input cannot be read or written.
    Io(String),
    Output(io::Error),
}

impl Failure {
    pub(crate) fn usage(text: impl Into<String>) -> Self {
        Self::Usage(text.into())
    }

    pub(crate) fn damage(text: impl Into<String>) -> Self {
        Self::Damage(text.into())
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Damage(_) => 1,
            Self::Usage(_) => 2,
            Self::Io(_) | Self::Output(_) => 3,
            Self::Engine(error) => {
                let kind = error.kind();
                if DAMAGE.contains(&kind) {
                    1
                } else if USAGE.contains(&kind) {
                    2
                } else {
                    3
                }
            }
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(text) | Self::Damage(text) | Self::Io(text) => f.write_str(text),
            Self::Engine(error) => error.fmt(f),
            Self::Output(error) => write!(f, "cannot write to standard output: {error}"),
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

/// Standard output, buffered.
pub(crate) struct Out(BufWriter<io::StdoutLock<'static>>);

impl Out {
    pub(crate) fn new() -> Self {
        Self(BufWriter::with_capacity(64 << 10, io::stdout().lock()))
    }

    pub(crate) fn json(&mut self, value: &Value) -> Result<(), Failure> {
        self.line(format_args!("{value}"))
    }

    pub(crate) fn line(&mut self, line: fmt::Arguments<'_>) -> Result<(), Failure> {
        self.0.write_fmt(line)?;
        self.0.write_all(b"\n")?;
        Ok(())
    }

    pub(crate) fn text(&mut self, text: fmt::Arguments<'_>) -> Result<(), Failure> {
        self.0.write_fmt(text)?;
        Ok(())
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.0.write_all(bytes)?;
        Ok(())
    }

    /// A record as one JSON object. Bytes that are not UTF-8 stand in base64 under another name.
    /// Large values are written piece by piece, so no copy of them is made.
    pub(crate) fn json_record(
        &mut self,
        numbers: &[(&str, i64)],
        record: &Record<'_>,
    ) -> Result<(), Failure> {
        self.0.write_all(b"{")?;
        for (name, number) in numbers {
            write!(self.0, "\"{name}\":{number},")?;
        }
        self.field("key", record.key)?;
        self.0.write_all(b",")?;
        self.field("value", record.value)?;
        self.0.write_all(b",\"headers\":")?;
        self.headers(record.headers())?;
        self.0.write_all(b"}\n")?;
        Ok(())
    }

    /// The headers of a record as a list of JSON objects; a malformed one ends the list.
    pub(crate) fn headers(&mut self, headers: Headers<'_>) -> Result<(), Failure> {
        self.0.write_all(b"[")?;
        for (number, header) in headers.map_while(Result::ok).enumerate() {
            self.0.write_all(if number == 0 { b"{" } else { b",{" })?;
            self.field("key", Some(header.key))?;
            self.0.write_all(b",")?;
            self.field("value", header.value)?;
            self.0.write_all(b"}")?;
        }
        self.0.write_all(b"]")?;
        Ok(())
    }

    fn field(&mut self, name: &str, bytes: Option<&[u8]>) -> Result<(), Failure> {
        match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
            None => write!(self.0, "\"{name}\":null")?,
            Some(Ok(text)) => {
                write!(self.0, "\"{name}\":")?;
                self.json_text(text)?;
            }
            Some(Err(bytes)) => {
                write!(self.0, "\"{name}_base64\":\"")?;
                self.base64(bytes)?;
                self.0.write_all(b"\"")?;
            }
        }
        Ok(())
    }

    /// Bytes for people, on one line: as they are where they are plain text, else quoted.
    pub(crate) fn plain(&mut self, bytes: Option<&[u8]>) -> Result<(), Failure> {
        match bytes.map(|bytes| std::str::from_utf8(bytes).map_err(|_| bytes)) {
            None => self.raw(b"null"),
            Some(Ok(text)) if text.chars().any(char::is_control) => self.json_text(text),
            Some(Ok(text)) => self.raw(text.as_bytes()),
            Some(Err(bytes)) => {
                self.raw(b"base64 ")?;
                self.base64(bytes)
            }
        }
    }

    fn json_text(&mut self, text: &str) -> Result<(), Failure> {
        serde_json::to_writer(&mut self.0, text).map_err(|e| Failure::Output(e.into()))
    }

    fn base64(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let mut encoder = EncoderWriter::new(&mut self.0, &STANDARD);
        encoder.write_all(bytes)?;
        encoder.finish()?;
        Ok(())
    }

    pub(crate) fn flush(&mut self) -> Result<(), Failure> {
        self.0.flush()?;
        Ok(())
    }
}

/// Writes bytes and is done.
pub(crate) fn bytes(bytes: &[u8]) -> Result<Status, Failure> {
    let mut out = Out::new();
    out.raw(bytes)?;
    out.flush()?;
    Ok(Status::Fine)
}

pub(crate) fn finding(finding: &Finding) -> Value {
    json!({
        "partition": finding.partition,
        "file": finding.file,
        "position": finding.position.map(Position::get),
        "offset": finding.offset.map(Offset::get),
        "kind": finding.kind.name(),
        "severity": finding.severity.name(),
        "detail": finding.detail,
        "next_step": finding.next_step,
    })
}
