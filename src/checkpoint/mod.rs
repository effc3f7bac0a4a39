//! The small files of a data directory and of a log: Kafka's checkpoints and this crate's own.
//!
//! Each parser takes the bytes of a whole file and says which line is wrong and why; none allocates
//! more than the input can fill. A file that holds nothing is told apart from one that is wrong,
//! since Kafka leaves its checkpoints empty until their first write.
//!
//! | module | file | form |
//! |---|---|---|
//! | [`text`] | Kafka's offset and leader epoch checkpoints | version, count, rows |
//! | [`partition_metadata`] | `partition.metadata` | two `key: value` lines |
//! | [`clean_shutdown`] | `.kafka_cleanshutdown` | a flat JSON object |
//! | [`meta_properties`] | `meta.properties` | Java properties |
//! | [`state`], [`segments`] | `highwater.*` | rows, sealed by a CRC-32 |

pub mod clean_shutdown;
pub mod meta_properties;
pub mod partition_metadata;
mod sealed;
pub mod segments;
pub mod state;
pub mod text;

use std::fmt;
use std::str::FromStr;

pub use clean_shutdown::CleanShutdown;
pub use meta_properties::MetaProperties;
pub use partition_metadata::PartitionMetadata;
pub use segments::{SegmentFacts, SegmentsFile};
pub use state::{LogFacts, StateFile};
pub use text::OffsetCheckpoint;

/// Why a file cannot be read, and at which line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointError {
    /// The line, counted from 1; 0 if no single line is to blame.
    pub line: usize,
    /// What is wrong with it.
    pub reason: Reason,
}

/// What is wrong with a line of a checkpoint file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The bytes are not UTF-8.
    NotUtf8,
    /// The first line names no version that is known.
    Version(String),
    /// The second line is no number of rows.
    Count(String),
    /// There are more or fewer rows than the second line says.
    CountMismatch {
        /// What the second line says.
        expected: i32,
        /// The rows that are there.
        found: usize,
    },
    /// A row has another number of fields.
    Fields {
        /// The number of fields of such a row.
        expected: usize,
        /// The number that is there.
        found: usize,
    },
    /// A field is not a number of its range.
    Number {
        /// The name of the field.
        field: &'static str,
        /// What it holds.
        text: String,
    },
    /// A field that must not be negative is.
    Negative {
        /// The name of the field.
        field: &'static str,
        /// What it holds.
        text: String,
    },
    /// A field is none of the words it can be.
    Word {
        /// The name of the field.
        field: &'static str,
        /// What it holds.
        text: String,
    },
    /// A line that must be there is not.
    Missing(&'static str),
    /// A row names what an earlier row named.
    Duplicate,
    /// An escape is cut short or malformed.
    Escape,
    /// The last line holds no checksum: the file was not written to its end.
    Unsealed,
    /// The checksum differs.
    Crc {
        /// What the last line says.
        stored: u32,
        /// What the bytes before it give.
        computed: u32,
    },
}

impl fmt::Display for CheckpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        self.reason.fmt(f)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUtf8 => f.write_str("not UTF-8"),
            Self::Version(text) => write!(f, "{text:?} is no known version"),
            Self::Count(text) => write!(f, "{text:?} is no number of rows"),
            Self::CountMismatch { expected, found } => {
                write!(f, "{found} rows where {expected} are announced")
            }
            Self::Fields { expected, found } => {
                write!(f, "{found} fields where {expected} are wanted")
            }
            Self::Number { field, text } => {
                write!(f, "{field}: {text:?} is no number of its range")
            }
            Self::Negative { field, text } => write!(f, "{field}: {text:?} is negative"),
            Self::Word { field, text } => write!(f, "{field}: {text:?} is unknown"),
            Self::Missing(what) => write!(f, "{what} is missing"),
            Self::Duplicate => f.write_str("the row names what an earlier row names"),
            Self::Escape => f.write_str("malformed escape"),
            Self::Unsealed => f.write_str("the last line holds no checksum"),
            Self::Crc { stored, computed } => {
                write!(
                    f,
                    "the checksum is {computed:08x} where {stored:08x} is stored"
                )
            }
        }
    }
}

impl std::error::Error for CheckpointError {}

impl CheckpointError {
    const fn new(line: usize, reason: Reason) -> Self {
        Self { line, reason }
    }
}

/// The text of a file.
fn utf8(bytes: &[u8]) -> Result<&str, CheckpointError> {
    std::str::from_utf8(bytes).map_err(|error| {
        let before = bytes
            .get(..error.valid_up_to())
            .and_then(|sound| str::from_utf8(sound).ok());
        let line = before.map_or(0, |before| lines(before).count().max(1));
        CheckpointError::new(line, Reason::NotUtf8)
    })
}

/// Lines as Java's `readLine` cuts them: behind `\n`, `\r\n` or a lone `\r`; numbered from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut rest = text;
    let cut = move || {
        if rest.is_empty() {
            return None;
        }
        let Some((line, behind)) = rest.split_once(['\n', '\r']) else {
            return Some(std::mem::take(&mut rest));
        };
        let ended_by_cr = rest.as_bytes().get(line.len()) == Some(&b'\r');
        rest = if ended_by_cr {
            behind.strip_prefix('\n').unwrap_or(behind)
        } else {
            behind
        };
        Some(line)
    };
    (1..).zip(std::iter::from_fn(cut))
}

/// The fields of a row as Java splits them at `\s+`: white space at the end counts for nothing, at
/// the front it makes an empty field.
fn fields(row: &str) -> impl Iterator<Item = &str> {
    let is_space = |c: char| c.is_ascii_whitespace() || c == '\u{b}';
    let leading = row.starts_with(is_space).then_some("");
    leading
        .into_iter()
        .chain(row.split(is_space).filter(|field| !field.is_empty()))
}

/// Exactly `N` fields.
fn split<const N: usize>(line: usize, row: &str) -> Result<[&str; N], CheckpointError> {
    let mut all = [""; N];
    let mut found = 0_usize;
    for field in fields(row) {
        if let Some(slot) = all.get_mut(found) {
            *slot = field;
        }
        found = found.saturating_add(1);
    }
    if found == N {
        Ok(all)
    } else {
        Err(CheckpointError::new(
            line,
            Reason::Fields { expected: N, found },
        ))
    }
}

/// A number of 0 or more: an offset, an epoch, a partition, a size.
fn number<T: FromStr>(line: usize, field: &'static str, text: &str) -> Result<T, CheckpointError> {
    text.parse().map_err(|_| {
        let is_negative = text.parse::<i64>().is_ok_and(|number| number < 0);
        let text = text.to_owned();
        let reason = if is_negative {
            Reason::Negative { field, text }
        } else {
            Reason::Number { field, text }
        };
        CheckpointError::new(line, reason)
    })
}

/// The number of a partition.
fn partition(line: usize, text: &str) -> Result<i32, CheckpointError> {
    let negative = |text: &str| Reason::Negative {
        field: "partition",
        text: text.to_owned(),
    };
    let found: i32 = number(line, "partition", text)?;
    if found < 0 {
        Err(CheckpointError::new(line, negative(text)))
    } else {
        Ok(found)
    }
}

/// As [`number`], where `-` stands for nothing.
fn optional<T: FromStr>(
    line: usize,
    field: &'static str,
    text: &str,
) -> Result<Option<T>, CheckpointError> {
    if text == "-" {
        Ok(None)
    } else {
        number(line, field, text).map(Some)
    }
}

/// A CRC in 8 hexadecimal digits, or `-`.
fn optional_crc(
    line: usize,
    field: &'static str,
    text: &str,
) -> Result<Option<u32>, CheckpointError> {
    if text == "-" {
        return Ok(None);
    }
    crc(text).map(Some).ok_or_else(|| {
        CheckpointError::new(
            line,
            Reason::Number {
                field,
                text: text.to_owned(),
            },
        )
    })
}

fn crc(text: &str) -> Option<u32> {
    let is_sound = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    if is_sound {
        u32::from_str_radix(text, 16).ok()
    } else {
        None
    }
}

/// Prints what [`optional`] reads.
struct OrDash<T>(Option<T>);

impl<T: fmt::Display> fmt::Display for OrDash<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(f),
            None => f.write_str("-"),
        }
    }
}

/// Prints what [`optional_crc`] reads.
struct CrcOrDash(Option<u32>);

impl fmt::Display for CrcOrDash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(crc) => write!(f, "{crc:08x}"),
            None => f.write_str("-"),
        }
    }
}

#[cfg(test)]
mod tests;
