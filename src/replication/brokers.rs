//! What a broker's metadata says of the brokers of the cluster.

use std::collections::BTreeMap;

use super::message::{BrokerEpoch, BrokerId};

/// One registered broker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BrokerView {
    /// The epoch of its registration.
    pub epoch: BrokerEpoch,
    /// Whether the controller takes it for dead: it may be registered all the same.
    pub fenced: bool,
    /// Whether it has asked to be shut down.
    pub shutting_down: bool,
}

/// A picture of the registered brokers. It may be behind the controller's.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Brokers(BTreeMap<BrokerId, BrokerView>);

impl Brokers {
    /// Makes a picture without brokers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Notes a registration in place of the one before.
    pub fn register(&mut self, id: BrokerId, view: BrokerView) {
        self.0.insert(id, view);
    }

    /// Forgets a broker whose registration has gone.
    pub fn unregister(&mut self, id: BrokerId) {
        self.0.remove(&id);
    }

    /// What is known of a broker; `None` if it is not registered.
    #[must_use]
    pub fn get(&self, id: BrokerId) -> Option<&BrokerView> {
        self.0.get(&id)
    }

    /// The epoch of a broker that is registered and not fenced.
    #[must_use]
    pub fn alive_epoch(&self, id: BrokerId) -> Option<BrokerEpoch> {
        let alive = self.get(id).filter(|broker| !broker.fenced)?;
        Some(alive.epoch)
    }
}
