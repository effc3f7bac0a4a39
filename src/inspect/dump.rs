//! Shows the batches of a `.log` file as they stand, damaged ones included.

use std::ops::ControlFlow;
use std::path::Path;

use super::finding::Finding;
use super::walk::{classify, load};
use super::{MAX_BODY_BYTES, scratch};
use crate::error::{Error, Result};
use crate::log::scan::{Depth, Fault, Scanner, Step};
use crate::record::{Batch, BatchHeader, DecodeError};
use crate::storage::{Access, Dir, File, OsDir};
use crate::types::Position;

/// A batch as it stands.
#[derive(Debug)]
pub struct DumpedBatch<'b> {
    /// Where it begins. Unit: bytes from the front of the file.
    pub position: Position,
    /// Its header.
    pub header: BatchHeader,
    /// The offset of its first record; the header's where that needs records that cannot be read.
    pub base_offset: i64,
    /// The number of its records; `None` where that needs records that cannot be read.
    pub records: Option<u64>,
    /// Whether its checksum is right.
    pub crc_ok: bool,
    /// All of it, if it is not too large. Damaged bytes are handed out as they are.
    pub bytes: Option<Batch<'b>>,
}

/// Hands the batches of a file to `visit` in order. Batches with a wrong checksum are shown; what
/// is no batch at all ends the walk and is returned.
///
/// # Errors
///
/// The file cannot be read, or `visit` fails.
pub fn dump_log(
    path: &Path,
    visit: &mut dyn FnMut(&DumpedBatch<'_>) -> Result<ControlFlow<()>>,
) -> Result<Option<Finding>> {
    let failed = |source| {
        Error::io("cannot read the segment", path, source).next_step("check the path and the disk")
    };
    let name = path
        .file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty());
    let dir = OsDir::open(parent.unwrap_or(Path::new("."))).map_err(failed)?;
    let file = dir.open(&name, Access::Read).map_err(failed)?;
    let bytes = file.bytes().map_err(failed)?;
    let mut scanner = Scanner::new(&file, Position::ZERO, bytes, Depth::Checksums);
    let mut scratch = scratch();
    let mut body = Vec::new();
    loop {
        let (position, header, crc_ok) = match scanner.step().map_err(failed)? {
            Step::End(_) => return Ok(None),
            Step::Batch(position, header) => (position, header, true),
            Step::Bad(position, Some(header), Fault::Decode(DecodeError::BadCrc { .. })) => {
                scanner.seek(position.plus(header.bytes.into()));
                (position, header, false)
            }
            Step::Bad(position, header, fault) => {
                let (kind, detail) = classify(&file, bytes, position.get(), header.as_ref(), fault);
                let finding = if fault == Fault::Zeros {
                    Finding::note(super::FindingKind::Padding, name, detail)
                } else {
                    Finding::damage(kind, name, detail)
                };
                return Ok(Some(finding.at(position.get())));
            }
        };
        let mut dumped = DumpedBatch {
            position,
            header,
            base_offset: header.base_offset,
            records: u64::try_from(header.record_count).ok(),
            crc_ok,
            bytes: None,
        };
        if header.bytes <= MAX_BODY_BYTES && load(&file, position.get(), &header, &mut body).is_ok()
        {
            dumped.bytes = Batch::parse(&body).ok();
        }
        if let Some(batch) = dumped.bytes.filter(|_| header.is_compressed_wrapper()) {
            dumped.base_offset = batch
                .base_offset(&mut scratch)
                .unwrap_or(header.base_offset);
            dumped.records = batch.record_count(&mut scratch).ok().map(u64::from);
        }
        if visit(&dumped)?.is_break() {
            return Ok(None);
        }
    }
}
