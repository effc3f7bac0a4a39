//! Bytes of a file for reading: a map of the system, or a copy on the heap.
//!
//! 1. A map is read-only; nothing is ever stored through it.
//! 2. The file under a map is never made shorter: touching a page behind the end kills the process.
#![expect(
    unsafe_code,
    reason = "memmap2 leaves it to the caller that the file is not cut"
)]

use std::fmt;
use std::fs::File;
use std::io;
use std::ops::Deref;
use std::sync::Arc;

use memmap2::Mmap;

/// The whole content of a file as it was long when it was mapped; dereferences to its bytes.
///
/// On the heap it is a copy that later writes do not reach. In a map of the system they may appear,
/// so a caller maps only what is no longer written.
pub struct Map(Bytes);

enum Bytes {
    Mapped(Mmap),
    Heap(Arc<[u8]>),
}

impl Map {
    /// Maps a file of the system. An empty one costs no map, and cannot have one.
    pub(super) fn of_file(file: &File) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Self::from(Vec::new()));
        }
        // SAFETY: the crate never makes a mapped file shorter (rule 4 of `storage`), the lock on
        // the directory keeps other engines out, and only sealed files, which nobody writes, are
        // mapped.
        let map = unsafe { Mmap::map(file) }?;
        Ok(Self(Bytes::Mapped(map)))
    }
}

impl From<Arc<[u8]>> for Map {
    fn from(bytes: Arc<[u8]>) -> Self {
        Self(Bytes::Heap(bytes))
    }
}

impl From<Vec<u8>> for Map {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Heap(bytes.into()))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Mapped(map) => map,
            Bytes::Heap(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for Map {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = match &self.0 {
            Bytes::Mapped(_) => "mapped",
            Bytes::Heap(_) => "heap",
        };
        write!(f, "Map({} bytes, {place})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn both_twins_show_the_same_bytes() {
        let mut file = tempfile::tempfile().unwrap();
        let content: Vec<u8> = (0..=255).cycle().take(10_000).collect();
        file.write_all(&content).unwrap();

        let mapped = Map::of_file(&file).unwrap();
        let heap = Map::from(content);

        assert_eq!(*mapped, *heap);
        assert_eq!(format!("{mapped:?}"), "Map(10000 bytes, mapped)");
    }

    #[test]
    fn an_empty_file_gives_no_bytes() {
        let map = Map::of_file(&tempfile::tempfile().unwrap()).unwrap();

        assert!(map.is_empty());
        assert_eq!(format!("{map:?}"), "Map(0 bytes, heap)");
    }
}
