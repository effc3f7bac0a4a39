#![doc = include_str!("docs/crate.md")]
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

pub mod replication;

pub mod log_dir;

pub mod inspect;
pub mod replica;
#[cfg(feature = "scenario")]
pub mod scenario;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
