//! Producer snapshots of any content are refused, or read and printed byte by byte alike.

use highwater::producer::snapshot;
use highwater::record::crc32c;

/// The data is the file; it is tried again with the right checksum, so that the entries are
/// reached.
pub(crate) fn run(data: &[u8]) {
    check(data);
    if data.len() >= snapshot::SNAPSHOT_HEADER_BYTES {
        let mut sealed = data.to_vec();
        let crc = crc32c(&sealed[6..]);
        sealed[2..6].copy_from_slice(&crc.to_be_bytes());
        check(&sealed);
    }
}

fn check(data: &[u8]) {
    if let Ok(entries) = snapshot::parse(data) {
        assert_eq!(snapshot::print(entries), data);
    }
}
