//! An embeddable, crash-safe, segmented append-only log whose directories are Apache Kafka log
//! directories, byte for byte.
#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod error;
pub mod types;

pub mod checkpoint;
pub mod epoch;
pub mod index;
pub mod names;
pub mod producer;
pub mod record;

pub mod storage;

pub mod log;

pub mod log_dir;

pub mod inspect;
#[cfg(feature = "scenario")]
pub mod scenario;
