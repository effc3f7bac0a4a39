//! The bytes of a simulated file, in sectors, so that holes and allocations cost no memory.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::hash::Fold;

/// What a drive writes as a whole, or tears. Unit: bytes.
pub(super) const SECTOR_BYTES: usize = 512;
const SECTOR_BYTES_U64: u64 = 512;

pub(super) type Image = Arc<[u8; SECTOR_BYTES]>;

/// A length and the sectors that were written; all others are zeros.
#[derive(Clone, Debug, Default)]
pub(super) struct Content {
    pub(super) bytes: u64,
    sectors: BTreeMap<u64, Image>,
}

/// A sector after a write, with the part of it that the write touched.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub(super) sector: u64,
    pub(super) image: Image,
    pub(super) touched: Range<usize>,
}

/// A part of a transfer that lies in one sector.
struct Piece {
    sector: u64,
    within: Range<usize>,
    buffer: Range<usize>,
}

impl Content {
    /// Copies what lies below the length; returns how many bytes.
    pub(super) fn read(&self, buffer: &mut [u8], position: u64) -> usize {
        let there = usize::try_from(self.bytes.saturating_sub(position)).unwrap_or(usize::MAX);
        let length = buffer.len().min(there);
        for piece in pieces(position, length) {
            let image = self.sector(piece.sector);
            copy(buffer.get_mut(piece.buffer), image.get(piece.within));
        }
        length
    }

    /// Stores the bytes, and grows the file if it was shorter.
    pub(super) fn write(&mut self, bytes: &[u8], position: u64) -> Vec<Written> {
        let mut written = Vec::new();
        for piece in pieces(position, bytes.len()) {
            let mut image = self.sector(piece.sector);
            copy(image.get_mut(piece.within.clone()), bytes.get(piece.buffer));
            let image = Arc::new(image);
            self.put(piece.sector, Arc::clone(&image));
            written.push(Written {
                sector: piece.sector,
                image,
                touched: piece.within,
            });
        }
        let end = position.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        self.bytes = self.bytes.max(end);
        written
    }

    pub(super) fn sector(&self, sector: u64) -> [u8; SECTOR_BYTES] {
        self.sectors
            .get(&sector)
            .map_or([0; SECTOR_BYTES], |image| **image)
    }

    /// Stores a sector and leaves the length alone.
    pub(super) fn put(&mut self, sector: u64, image: Image) {
        self.sectors.insert(sector, image);
    }

    pub(super) fn cut(&mut self, bytes: u64) {
        self.bytes = self.bytes.min(bytes);
        self.clear_behind_end();
    }

    /// Makes all bytes behind the end zeros, as they are read when the file grows again.
    pub(super) fn clear_behind_end(&mut self) {
        let kept = usize::try_from(self.bytes % SECTOR_BYTES_U64).unwrap_or(0);
        self.sectors
            .split_off(&self.bytes.div_ceil(SECTOR_BYTES_U64));
        let last = self.bytes / SECTOR_BYTES_U64;
        if kept > 0 && self.sectors.contains_key(&last) {
            let mut image = self.sector(last);
            image.iter_mut().skip(kept).for_each(|byte| *byte = 0);
            self.put(last, Arc::new(image));
        }
    }

    /// Takes length and bytes into a hash; a hole counts as the zeros that are read there.
    pub(super) fn hash_into(&self, hash: &mut Fold) {
        hash.number(self.bytes);
        for (sector, image) in &self.sectors {
            if image.iter().any(|byte| *byte != 0) {
                hash.number(*sector);
                hash.bytes(&**image);
            }
        }
    }

    /// Bytes of the device that the file takes, `allocated` of them from its front on for sure.
    pub(super) fn used_bytes(&self, allocated: u64) -> u64 {
        let first_free = allocated.div_ceil(SECTOR_BYTES_U64);
        let beyond = self.sectors.range(first_free..).count();
        let beyond = u64::try_from(beyond).unwrap_or(u64::MAX);
        first_free
            .saturating_add(beyond)
            .saturating_mul(SECTOR_BYTES_U64)
    }

    /// How many of `length` bytes at `position` can be written while `free` bytes are left.
    pub(super) fn room_for(
        &self,
        position: u64,
        length: usize,
        allocated: u64,
        free: u64,
    ) -> usize {
        let first_free = allocated.div_ceil(SECTOR_BYTES_U64);
        let mut sectors_left = free / SECTOR_BYTES_U64;
        for piece in pieces(position, length) {
            if piece.sector >= first_free && !self.sectors.contains_key(&piece.sector) {
                if sectors_left == 0 {
                    return piece.buffer.start;
                }
                sectors_left = sectors_left.saturating_sub(1);
            }
        }
        length
    }
}

/// Ends: every piece takes at least one byte.
fn pieces(position: u64, length: usize) -> impl Iterator<Item = Piece> {
    let mut done = 0_usize;
    std::iter::from_fn(move || {
        let at = position.saturating_add(u64::try_from(done).unwrap_or(u64::MAX));
        let start = usize::try_from(at % SECTOR_BYTES_U64).unwrap_or(0);
        let take = SECTOR_BYTES
            .saturating_sub(start)
            .min(length.saturating_sub(done));
        if take == 0 {
            return None;
        }
        let end = done.saturating_add(take);
        let piece = Piece {
            sector: at / SECTOR_BYTES_U64,
            within: start..start.saturating_add(take),
            buffer: done..end,
        };
        done = end;
        Some(piece)
    })
}

/// Both ranges come from one [`Piece`], so they lie inside and are equally long.
fn copy(target: Option<&mut [u8]>, source: Option<&[u8]>) {
    if let (Some(target), Some(source)) = (target, source)
        && target.len() == source.len()
    {
        target.copy_from_slice(source);
    }
}
