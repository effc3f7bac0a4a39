//! Idempotent producers and transactions: the state of a log's producers, pure.
//!
//! What a producer wrote last decides whether its next batch is taken, is a duplicate, or is out of
//! order; which transactions are open decides what readers of committed records may see. Kafka:
//! `ProducerStateManager`, `ProducerAppendInfo`, KIP-98.
//!
//! 1. A refused batch changes nothing: [`Producers::check`] looks, [`Producers::apply`] changes.
//! 2. Sequence numbers count from 0 to 2^31 - 1 and begin again at 0.
//! 3. A producer with an open transaction never expires.
//! 4. The clock is an argument.

pub mod snapshot;

mod state;
mod transactions;

pub use snapshot::ProducerSnapshotEntry;
pub use state::{
    Content, Origin, ProducedBatch, ProducerBatch, ProducerError, ProducerState, ProducerUpdate,
    Producers, WINDOW,
};
pub use transactions::{CompletedTransaction, Transactions};
