//! The storage seam: one contract for the real file system and the simulated disk, then what is
//! special to each.
#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and build what they look at with std"
)]

mod contract;
mod fence;
mod os;
mod replace;
mod sim;

use highwater::storage::{Dir, File};

/// All bytes of a file.
fn content<F: File>(file: &F) -> Vec<u8> {
    let mut bytes = vec![0; usize::try_from(file.bytes().unwrap()).unwrap()];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

/// A file with content, both durable.
fn durable_file<D: Dir>(dir: &D, name: &str, bytes: &[u8]) -> D::File {
    let file = dir.create_new(name).unwrap();
    file.write_all_at(bytes, 0).unwrap();
    file.sync_data().unwrap();
    dir.sync().unwrap();
    file
}
