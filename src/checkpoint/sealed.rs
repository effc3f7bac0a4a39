//! The frame of this crate's own files: a line with name and version, lines, a line with a CRC-32
//! (IEEE) of all bytes before it.
//!
//! ```text
//! highwater.state 1
//! ...
//! crc32 cbf43926
//! ```

use std::fmt::Write;

use super::{CheckpointError, Reason, crc, utf8};

/// The length of the last line: `crc32 `, 8 digits, a line end.
const SEAL_BYTES: usize = 15;

/// Builds a file line by line.
pub(super) struct Writer(String);

impl Writer {
    pub(super) fn new(name: &str, version: u32) -> Self {
        Self(format!("{name} {version}\n"))
    }

    #[expect(
        clippy::let_underscore_must_use,
        reason = "writing to a String cannot fail"
    )]
    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        let _ = self.0.write_fmt(line);
        self.0.push('\n');
    }

    pub(super) fn finish(mut self) -> String {
        let crc = crc32fast::hash(self.0.as_bytes());
        self.line(format_args!("crc32 {crc:08x}"));
        self.0
    }
}

/// Checks the seal, the name and the version; the lines between, numbered as in the file. `None` if
/// the file is empty.
pub(super) fn open<'a>(
    bytes: &'a [u8],
    name: &str,
    version: u32,
) -> Result<Option<impl Iterator<Item = (usize, &'a str)> + use<'a>>, CheckpointError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let text = utf8(bytes)?;
    let unsealed = CheckpointError::new(0, Reason::Unsealed);
    let cut = text
        .len()
        .checked_sub(SEAL_BYTES)
        .and_then(|at| text.split_at_checked(at));
    let (body, seal) = cut.ok_or_else(|| unsealed.clone())?;
    let stored = seal
        .strip_prefix("crc32 ")
        .and_then(|seal| seal.strip_suffix('\n'));
    let stored = stored.and_then(crc).ok_or_else(|| unsealed.clone())?;
    let body_lines = body.strip_suffix('\n').ok_or(unsealed)?;
    let computed = crc32fast::hash(body.as_bytes());
    if stored != computed {
        return Err(CheckpointError::new(0, Reason::Crc { stored, computed }));
    }
    let mut lines = (1..).zip(body_lines.split('\n'));
    let first = lines.next().map_or("", |(_, first)| first);
    if first
        .strip_prefix(name)
        .and_then(|rest| rest.strip_prefix(' '))
        == Some(&version.to_string())
    {
        Ok(Some(lines))
    } else {
        Err(CheckpointError::new(1, Reason::Version(first.to_owned())))
    }
}
