//! The words that leader, follower and controller share.

use std::fmt;

pub use super::error_code::{ErrorCode, UnknownErrorName};

/// The number of a broker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerId(pub i32);

impl fmt::Display for BrokerId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which registration of a broker with the controller is meant: it rises with each one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerEpoch(pub i64);

impl BrokerEpoch {
    /// On the wire: do not compare. Old fetches carry it, and proposals for a member that has not
    /// fetched from this leader.
    pub const UNVERIFIED: Self = Self(-1);
}

impl fmt::Display for BrokerEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Which state of a partition is meant: it rises with every change that the controller writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PartitionEpoch(pub i32);

impl fmt::Display for PartitionEpoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Whether the leader was elected from outside the ISR and has not recovered yet (KIP-704).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeaderRecoveryState {
    /// It has, or it never had to.
    #[default]
    Recovered,
    /// It has not.
    Recovering,
}

/// Whose rules hold where this crate differs from Kafka on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Compatibility {
    /// Those of Kafka 4.4, its holes included: for comparison with it.
    Kafka,
    /// Those of this crate.
    #[default]
    Highwater,
}

/// Identifies a request to a machine until it is answered. The asker makes it unique.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// A set of brokers, in the order of their ids. Small, so it is a sorted list.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BrokerSet(Vec<BrokerId>);

impl BrokerSet {
    /// Makes an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Whether the broker is a member.
    #[must_use]
    pub fn contains(&self, id: BrokerId) -> bool {
        self.0.binary_search(&id).is_ok()
    }

    /// Adds a broker.
    pub fn insert(&mut self, id: BrokerId) {
        if let Err(at) = self.0.binary_search(&id) {
            self.0.insert(at, id);
        }
    }

    /// The members, by rising id.
    pub fn iter(&self) -> impl Iterator<Item = BrokerId> + '_ {
        self.0.iter().copied()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<BrokerId> for BrokerSet {
    fn from_iter<I: IntoIterator<Item = BrokerId>>(ids: I) -> Self {
        let mut ids: Vec<BrokerId> = ids.into_iter().collect();
        ids.sort_unstable();
        ids.dedup();
        Self(ids)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// D5: Kafka stores an ISR in the order it grew and compares it so; here it is a set.
    #[test]
    fn d05_a_set_of_brokers_is_compared_without_order() {
        let set = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<BrokerSet>();

        let mut grown = set(&[3, 1]);
        grown.insert(BrokerId(2));
        grown.insert(BrokerId(3));

        assert_eq!(grown, set(&[2, 3, 1, 2]));
        assert!(grown.contains(BrokerId(2)));
        assert!(!grown.contains(BrokerId(4)));
    }
}
