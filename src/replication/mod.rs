//! Kafka's replication rules as state machines: no I/O, no clock, no thread, no randomness.
//!
//! A machine takes plain data in and appends plain data to a list: `machine.handle(now, env, input,
//! &mut out)`. Time and everything else that a rule looks at is an argument. So the code that runs
//! in production is the code that a simulator and a model checker drive.
//!
//! What it never does: read or write a log (it says what the log must do, and is told what came of
//! it), hold records, start a timer, iterate in an order that differs between runs.
//!
//! 1. One input is one transition: admission to the ISR and the high watermark are decided together
//!    with the fetch that brings them about.
//! 2. Outputs are carried out in their order, before the next input.
//! 3. Every question has an id, an answer carries it, and an answer that nobody waits for changes
//!    nothing and is counted.
//! 4. The high watermark of a leader never falls, and never passes a replica that may be in the
//!    controller's ISR.
//! 5. All machines are `Clone + Eq + Hash + Debug`.
//!
//! Sources: Kafka 4.4 (`Partition`, `Replica`, `DefaultAlterPartitionManager`) and KIPs 101, 207,
//! 279, 320, 497, 704, 841, 903. Where this crate's rules differ from Kafka's stands at
//! [`Compatibility::Highwater`](message::Compatibility), and each rule says so.

pub mod alter_partition;
pub mod brokers;
mod error_code;
pub mod isr;
pub mod leader;
pub mod message;
