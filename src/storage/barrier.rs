//! The names of the durability barriers, so that a simulated disk can ignore one of them and the
//! crash tests must notice.

/// A sync that something depends on: what stands before it is on the device when it returns.
///
/// Real directories and files take the name and do nothing with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Barrier {
    /// The content of a small file, before the rename that publishes it. Without it the name may be
    /// durable before the content: an empty or torn file.
    ContentBeforeRename,
    /// The rename of a small file, before the caller goes on. Without it the old content may come
    /// back.
    RenameBeforeReturn,
    /// Batches, before their append is acknowledged as synced and before the flushed offset moves.
    BatchesBeforeAcknowledgement,
    /// A full segment, before the next one exists. Without it a power cut leaves a hole between
    /// two.
    SegmentBeforeRoll,
    /// The indexes of a sealed segment, before it counts as flushed: recovery does not look at it
    /// again.
    IndexesBeforeSeal,
    /// Index entries, before a recovery point above them: recovery starts at one of them.
    IndexesBeforeRecoveryPoint,
    /// The names of a segment, before a batch in it is acknowledged.
    NamesBeforeFirstAppend,
    /// The length of a cut segment, before a batch is appended behind the cut.
    CutBeforeNextAppend,
    /// Removed files, before others may take their place.
    RemovalsBeforeReuse,
    /// The content of saved bytes, before what they were saved from is cut.
    SavedBeforeCut,
    /// The name of saved bytes, before what they were saved from is cut.
    SavedNameBeforeCut,
    /// Batches that recovery accepted, before anybody reads them.
    RecoveredBeforeOpen,
    /// The name of a log, before a batch in it is acknowledged.
    LogNameBeforeFirstAppend,
    /// A deleted log, before anything forgets it. Without it the log may come back.
    DeletionBeforeForgetting,
    /// The removal of the clean-shutdown marker, before a log is opened. Without it the marker can
    /// come back and vouch for logs that were being written.
    MarkerGoneBeforeFirstOpen,
}

impl Barrier {
    /// Every one of them.
    pub const ALL: [Self; 15] = [
        Self::ContentBeforeRename,
        Self::RenameBeforeReturn,
        Self::BatchesBeforeAcknowledgement,
        Self::SegmentBeforeRoll,
        Self::IndexesBeforeSeal,
        Self::IndexesBeforeRecoveryPoint,
        Self::NamesBeforeFirstAppend,
        Self::CutBeforeNextAppend,
        Self::RemovalsBeforeReuse,
        Self::SavedBeforeCut,
        Self::SavedNameBeforeCut,
        Self::RecoveredBeforeOpen,
        Self::LogNameBeforeFirstAppend,
        Self::DeletionBeforeForgetting,
        Self::MarkerGoneBeforeFirstOpen,
    ];
}
