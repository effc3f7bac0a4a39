//! Runs each fuzz target over its committed corpus, with plain cargo.

#![allow(
    clippy::arithmetic_side_effects,
    clippy::indexing_slicing,
    clippy::unwrap_used,
    unreachable_pub,
    clippy::disallowed_methods,
    clippy::expect_used,
    reason = "a test reads its corpus, and bodies panic where a target is to find a bug"
)]

use std::fs;
use std::path::Path;

#[path = "../fuzz/bodies/batch.rs"]
mod batch;
#[path = "../fuzz/bodies/checkpoint.rs"]
mod checkpoint;
#[path = "../fuzz/bodies/decompress.rs"]
mod decompress;
#[path = "../fuzz/bodies/index.rs"]
mod index;
#[path = "../fuzz/bodies/legacy.rs"]
mod legacy;
#[cfg(feature = "sim")]
#[path = "../fuzz/bodies/producer_files.rs"]
mod producer_files;
#[cfg(feature = "sim")]
#[path = "../fuzz/bodies/segment_open.rs"]
mod segment_open;
#[path = "../fuzz/bodies/snapshot.rs"]
mod snapshot;

fn replay(target: &str, run: fn(&[u8])) {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fuzz/corpus")
        .join(target);
    let mut files: u32 = 0;
    for entry in fs::read_dir(&corpus).expect("a corpus directory") {
        let path = entry.expect("a corpus entry").path();
        let bytes = fs::read(&path).expect("a corpus file");
        run(&bytes);
        // A cheap neighbourhood of each file, so that a replay is worth a little more than the
        // files.
        for cut in 0..bytes.len().min(200) {
            run(bytes.get(..cut).unwrap_or_default());
        }
        files = files.saturating_add(1);
    }
    assert!(files > 0, "{} is empty", corpus.display());
}

#[test]
fn batch_corpus_passes() {
    replay("batch", batch::run);
}

#[test]
fn legacy_corpus_passes() {
    replay("legacy", legacy::run);
}

#[test]
fn decompress_corpus_passes() {
    replay("decompress", decompress::run);
}

#[test]
fn index_corpus_passes() {
    replay("index", index::run);
}

#[test]
fn checkpoint_corpus_passes() {
    replay("checkpoint", checkpoint::run);
}

#[test]
fn snapshot_corpus_passes() {
    replay("snapshot", snapshot::run);
}

#[cfg(feature = "sim")]
#[test]
fn producer_files_corpus_passes() {
    replay("producer_files", producer_files::run);
}

#[cfg(feature = "sim")]
#[test]
fn segment_open_corpus_passes() {
    replay("segment_open", segment_open::run);
}
