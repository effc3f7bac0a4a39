//! Memory that files are read into.

use std::ops::Range;

/// The page of the system's cache on all usual machines. A wrong guess costs speed alone.
const PAGE_BYTES: usize = 4096;

/// Memory for reads, in which bytes lie at the same place of a page as in their file.
///
/// Copies of the kernel to memory that lies a few bytes further in its page than the source were
/// measured at a third of the speed of all others (AMD EPYC, `rep movsb`), and large allocations
/// begin 16 bytes into a page. Grows as needed, and what was filled once is not cleared again.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReadBuffer {
    memory: Vec<u8>,
    range: Range<usize>,
}

impl ReadBuffer {
    /// Room for `bytes` bytes that stand at `position` of a file, for
    /// [`File::read_exact_at`](super::File). What is in it is left over from before.
    pub(crate) fn room(&mut self, bytes: usize, position: u64) -> &mut [u8] {
        let most = bytes.saturating_add(PAGE_BYTES);
        if self.memory.len() < most {
            self.memory.resize(most, 0);
        }
        let page = u64::try_from(PAGE_BYTES).unwrap_or(1);
        let in_page = usize::try_from(position.checked_rem(page).unwrap_or(0)).unwrap_or(0);
        let to_page = self.memory.as_ptr().align_offset(PAGE_BYTES);
        let start = to_page
            .saturating_add(in_page)
            .checked_rem(PAGE_BYTES)
            .unwrap_or(0);
        self.range = start..start.saturating_add(bytes);
        self.memory.get_mut(self.range.clone()).unwrap_or_default()
    }

    /// Keeps the first `bytes` bytes of the room alone.
    pub(crate) fn truncate(&mut self, bytes: usize) {
        let end = self.range.start.saturating_add(bytes);
        self.range.end = self.range.end.min(end);
    }

    /// The room that was asked for last.
    pub(crate) fn bytes(&self) -> &[u8] {
        self.memory.get(self.range.clone()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_lie_where_they_lie_in_the_file() {
        let mut buffer = ReadBuffer::default();

        for position in [0_u64, 1, 4095, 4096, 1 << 20, (1 << 20) + 77] {
            let room = buffer.room(10_000, position);
            assert_eq!(room.len(), 10_000);
            assert_eq!(
                (room.as_ptr().addr() ^ usize::try_from(position).unwrap()) % 4096,
                0
            );
        }
        buffer.truncate(3);
        assert_eq!(buffer.bytes().len(), 3);
        buffer.truncate(5);
        assert_eq!(buffer.bytes().len(), 3);
    }
}
