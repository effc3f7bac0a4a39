//! A set of hashes that threads share.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Mutex, PoisonError};

/// The members are hashes themselves.
#[derive(Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("only whole numbers are hashed")
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }
}

type Shard = HashSet<u64, BuildHasherDefault<AsItIs>>;

pub struct Seen(Vec<Mutex<Shard>>);

impl Seen {
    const SHARDS: u64 = 64;

    pub fn new() -> Self {
        Self((0..Self::SHARDS).map(|_| Mutex::default()).collect())
    }

    /// Whether it was not there.
    pub fn insert(&self, hash: u64) -> bool {
        let shard = usize::try_from((hash >> 32) % Self::SHARDS).unwrap();
        let mut shard = self.0[shard].lock().unwrap_or_else(PoisonError::into_inner);
        shard.insert(hash)
    }

    pub fn count(&self) -> usize {
        let count =
            |shard: &Mutex<Shard>| shard.lock().unwrap_or_else(PoisonError::into_inner).len();
        self.0.iter().map(count).sum()
    }
}
