//! A fast hash of 64 bits, the same in every run, to tell disks apart.

/// Folds words by a multiplication to 128 bits, as wyhash does (Wang Yi, 2019).
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold(u64);

const FACTOR: u64 = 0xa076_1d64_78bd_642f;
const SECOND: u64 = 0xe703_7ed1_a0b4_28db;

impl Fold {
    pub(super) fn new() -> Self {
        Self(SECOND)
    }

    pub(super) fn number(&mut self, word: u64) {
        let product = u128::from(self.0 ^ FACTOR).wrapping_mul(u128::from(word ^ SECOND));
        let [high, low] = [product >> 64, product].map(|half| half & u128::from(u64::MAX));
        self.0 = u64::try_from(high ^ low).unwrap_or(0).wrapping_add(FACTOR);
    }

    /// Takes the length too, so that parts cannot run into one another.
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.number(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            self.number(u64::from_be_bytes(*word));
        }
        let mut last = [0; 8];
        for (to, from) in last.iter_mut().zip(rest) {
            *to = *from;
        }
        self.number(u64::from_be_bytes(last));
    }

    pub(super) fn end(self) -> u64 {
        self.0
    }
}
