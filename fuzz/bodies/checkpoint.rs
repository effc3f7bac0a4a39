//! Small files of any content are refused or read; what is read is printed and read alike.

use highwater::checkpoint::text::parse_leader_epochs;
use highwater::checkpoint::{
    CleanShutdown, MetaProperties, OffsetCheckpoint, PartitionMetadata, SegmentsFile, StateFile,
};
use highwater::epoch::EpochCache;

/// The data is the file.
pub(crate) fn run(data: &[u8]) {
    if let Ok(Some(found)) = OffsetCheckpoint::parse(data) {
        assert_eq!(
            OffsetCheckpoint::parse(found.print().as_bytes()),
            Ok(Some(found))
        );
    }
    if let Ok(Some(rows)) = parse_leader_epochs(data) {
        let cache = EpochCache::from_entries(rows);
        let rises = |w: &[highwater::epoch::EpochEntry]| {
            w[0].epoch < w[1].epoch && w[0].start_offset < w[1].start_offset
        };
        assert!(cache.entries().windows(2).all(rises));
    }
    if let Ok(Some(found)) = PartitionMetadata::parse(data) {
        assert!(PartitionMetadata::new(found.topic_id()).is_some());
    }
    let marker = CleanShutdown::parse(data);
    assert_eq!(
        CleanShutdown::parse(marker.print().as_bytes()).generation,
        marker.generation
    );
    drop(MetaProperties::parse(data));
    if let Ok(Some(found)) = StateFile::parse(data) {
        assert_eq!(StateFile::parse(found.print().as_bytes()), Ok(Some(found)));
    }
    if let Ok(Some(found)) = SegmentsFile::parse(data) {
        assert_eq!(
            SegmentsFile::parse(found.print().as_bytes()),
            Ok(Some(found))
        );
    }
}
