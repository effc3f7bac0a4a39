//! What a log knows of its producers.

pub mod snapshot;
