//! Looks at a log directory and says what opening it would do. Reads only.
//!
//! The scan begins at the recovery point and streams: memory is that of one buffer and the indexes
//! of one segment, whatever the length of the log. What it does at the place where it stops is one
//! row of [`decision`](crate::log::decide).

use std::io;

use crate::checkpoint::LogFacts;
use crate::checkpoint::text::parse_leader_epochs;
use crate::epoch::EpochCache;
use crate::error::{Error, Result};
use crate::index::{OffsetIndex, TimeIndex};
use crate::log::config::LogConfig;
use crate::log::decision::{Decision, Row};
use crate::log::layout::{Layout, SegmentFiles};
use crate::log::scan::{Depth, Scanner, Step};
use crate::log::segment::{IndexTally, build_indexes};
use crate::log::walk::Walk;
use crate::log::witness;
use crate::names::LEADER_EPOCH_CHECKPOINT;
use crate::storage::{Access, Dir, File, read_file};
use crate::types::{Offset, Position, Timestamp};

/// How much of a log is looked at when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RecoveryScope {
    /// What a crash can have harmed: the batches above the recovery point; nothing after a clean
    /// stop.
    #[default]
    FromRecoveryPoint,
    /// Every batch. Damage below the recovery point is found, and kept.
    Everything,
}

/// Where a value came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Kafka's checkpoint file.
    Checkpoint,
    /// The batches of the log.
    Batches,
    /// Nowhere: the value that a log without it has.
    Default,
}

impl Source {
    /// The name that tools print.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Checkpoint => "checkpoint",
            Self::Batches => "batches",
            Self::Default => "default",
        }
    }
}

/// What is cut from the end of a log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The `.log` file.
    pub file: String,
    /// Where its sound part ends.
    pub position: Position,
    /// Bytes behind it, those of later segments included.
    pub bytes: u64,
    /// Where the log ends then.
    pub offset: Offset,
    /// How many offsets the cut bytes seem to hold.
    pub lost_offsets: u64,
    /// The row of the decision table.
    pub row: Row,
    /// Why the scan stopped.
    pub detail: String,
    /// The files that hold the cut bytes; empty before it is done, and for zeros.
    pub saved_to: Vec<String>,
}

/// Damage below the recovery point: kept, and the log takes no changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The `.log` file.
    pub file: String,
    /// Where it begins.
    pub position: Position,
    /// The first offset that cannot be read.
    pub first_offset: Offset,
    /// The next offset that can; exclusive end of the damage.
    pub end_offset: Offset,
    /// The row of the decision table.
    pub row: Row,
    /// What is wrong.
    pub detail: String,
}

/// Something worth knowing that is no damage.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// The file that it is about, if it is one.
    pub file: Option<String>,
    /// What it is.
    pub detail: String,
}

/// What the checkpoint files say of a log.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct OpenState {
    /// The directory holds a clean-shutdown marker.
    pub(crate) clean: bool,
    pub(crate) recovery_point: Option<Offset>,
    pub(crate) high_watermark: Option<Offset>,
    pub(crate) log_start: Option<Offset>,
    /// Our own record of the log, if it is a witness.
    pub(crate) witness: Option<LogFacts>,
    /// The marker is ours: nobody wrote since.
    pub(crate) nobody_since: bool,
}

/// A segment that stays.
#[derive(Clone, Debug)]
pub(crate) struct PlannedSegment {
    pub(crate) base: Offset,
    /// Bytes that stay.
    pub(crate) bytes: u64,
    /// Bytes that the file has.
    pub(crate) stored_bytes: u64,
    /// Its index files must be made anew.
    pub(crate) rebuild: bool,
    /// Its batches were read: they are synced before the log opens.
    pub(crate) scanned: bool,
    /// It lies below a recovery point that is believed: no crash has harmed it.
    pub(crate) settled: bool,
    /// All of its batches were read, and none is of a producer: where the last one ends.
    pub(crate) without_producers: Option<Offset>,
}

/// What the last segment starts with.
#[derive(Debug)]
pub(crate) struct ActivePlan {
    pub(crate) index: OffsetIndex,
    pub(crate) time: TimeIndex,
    pub(crate) largest: (Timestamp, Offset),
}

/// What opening a log would find and do.
#[derive(Debug)]
pub struct Plan {
    /// Whether the clean-shutdown marker was there and believed.
    pub trusted: bool,
    /// Where the log starts.
    pub log_start_offset: Offset,
    /// Where the log ends; exclusive.
    pub log_end_offset: Offset,
    /// The recovery point that holds from then on.
    pub recovery_point: Offset,
    /// The high watermark.
    pub high_watermark: Offset,
    /// What is cut.
    pub cut: Option<Cut>,
    /// What is damaged below the recovery point.
    pub damage: Vec<Damage>,
    /// What else was seen.
    pub notes: Vec<Note>,
    /// Bytes whose checksums were computed.
    pub scanned_bytes: u64,
    /// Where the leader epochs came from.
    pub epochs_source: Source,
    /// Where the high watermark came from.
    pub high_watermark_source: Source,
    pub(crate) epochs: EpochCache,
    pub(crate) epochs_changed: bool,
    pub(crate) layout: Layout,
    pub(crate) segments: Vec<PlannedSegment>,
    pub(crate) removed: Vec<(Offset, u64)>,
    pub(crate) active: Option<ActivePlan>,
    pub(crate) batches_end: Offset,
    /// The log holds no byte and starts at a checkpointed offset above its last segment.
    pub(crate) restart_at: Option<Offset>,
}

impl Plan {
    /// The decision: degraded before cut before sound.
    pub fn decision(&self) -> Decision {
        if !self.damage.is_empty() {
            Decision::Degrade
        } else if let Some(cut) = &self.cut {
            cut.row.decision()
        } else if self.trusted {
            Decision::Trust
        } else {
            Decision::GoOn
        }
    }

    /// Base offsets of the segments whose indexes are made anew. Those of a damaged log's last
    /// segment are not.
    pub fn indexes_rebuilt(&self) -> Vec<Offset> {
        let kept = usize::from(!self.damage.is_empty());
        self.segments
            .iter()
            .take(self.segments.len().saturating_sub(kept))
            .filter(|segment| segment.rebuild)
            .map(|segment| segment.base)
            .collect()
    }
}
/// Makes the plan.
pub(crate) fn plan<D: Dir>(
    dir: &D,
    config: &LogConfig,
    state: OpenState,
    scope: RecoveryScope,
) -> Result<Plan> {
    let layout = Layout::read(dir)?;
    let segments: Vec<(Offset, SegmentFiles)> = layout
        .segments
        .iter()
        .map(|(base, files)| (*base, files.clone()))
        .collect();
    let planner = Planner {
        dir,
        config,
        state,
        segments: &segments,
    };
    let mut notes = Vec::new();
    for (name, to) in layout.leftovers() {
        let detail = to.map_or("leftover, removed".into(), |to| format!("becomes {to}"));
        notes.push(Note {
            file: Some(name.into()),
            detail,
        });
    }
    for name in &layout.unknown {
        notes.push(Note {
            file: Some(name.clone()),
            detail: "unknown file, left alone".into(),
        });
    }
    let mut damage = witness::missing_segments(dir, &layout, &state)?;
    let mut known = planner.read_epochs(&mut notes)?;
    planner.learn_lost(&mut known)?;
    let trusted = if scope == RecoveryScope::FromRecoveryPoint && damage.is_empty() {
        planner.trust(&known)?
    } else {
        None
    };
    let is_trusted = trusted.is_some();
    let mut walked = match trusted {
        Some(walked) => walked,
        None => planner.scan(scope, &known, &mut notes)?,
    };
    if let Some((_, cut)) = &walked.cut {
        // Behind a cut nothing is left to be missed.
        damage.retain(|damage| damage.end_offset <= cut.offset);
    }
    damage.append(&mut walked.damage);
    planner.settle(layout, walked, &known, damage, notes, is_trusted)
}

pub(crate) struct Planner<'a, D: Dir> {
    pub(crate) dir: &'a D,
    pub(crate) config: &'a LogConfig,
    pub(crate) state: OpenState,
    pub(crate) segments: &'a [(Offset, SegmentFiles)],
}

/// The epochs as the file has them.
pub(crate) struct KnownEpochs {
    /// `None`: to be learned from all batches.
    pub(crate) file: Option<EpochCache>,
    pub(crate) bytes: Vec<u8>,
}

/// What a scan, or the trust in a marker, found.
pub(crate) struct Walked {
    pub(crate) walk: Walk,
    pub(crate) segments: Vec<PlannedSegment>,
    pub(crate) active: Option<ActivePlan>,
    pub(crate) cut: Option<(usize, Cut)>,
    pub(crate) damage: Vec<Damage>,
    pub(crate) scanned_bytes: u64,
    pub(crate) watermark: Option<Offset>,
}

impl<D: Dir> Planner<'_, D> {
    pub(crate) fn open(&self, files: &SegmentFiles) -> Result<Option<(D::File, u64)>> {
        let Some(stored) = &files.log else {
            return Ok(None);
        };
        let fail = |e| Error::io("open segment", &self.dir.path().join(&stored.name), e);
        let file = self.dir.open(&stored.name, Access::Read).map_err(fail)?;
        let bytes = file.bytes().map_err(fail)?;
        Ok(Some((file, bytes)))
    }

    pub(crate) fn failed(&self, error: io::Error) -> Error {
        Error::io("read", self.dir.path(), error)
    }

    fn read_epochs(&self, notes: &mut Vec<Note>) -> Result<KnownEpochs> {
        let bytes = read_file(self.dir, LEADER_EPOCH_CHECKPOINT, 64 << 20)
            .map_err(|e| Error::io("read leader epochs", self.dir.path(), e))?
            .unwrap_or_default();
        let mut note = |detail: String| {
            notes.push(Note {
                file: Some(LEADER_EPOCH_CHECKPOINT.into()),
                detail,
            });
        };
        let witness = self.state.witness.filter(|_| self.state.nobody_since);
        let changed = witness
            .and_then(|facts| facts.epoch_file_crc)
            .is_some_and(|crc| crc != crate::record::crc32_ieee(&bytes));
        let file = match parse_leader_epochs(&bytes) {
            Ok(Some(_)) if changed => {
                note("not the file that was written, rebuilt from the batches".into());
                None
            }
            Ok(Some(entries)) => Some(EpochCache::from_entries(entries)),
            Ok(None) => None,
            Err(error) => {
                note(format!("{error}, rebuilt from the batches"));
                None
            }
        };
        Ok(KnownEpochs { file, bytes })
    }

    /// Learns the epochs of segments whose offset index is lost. Kafka: `LogSegment.recover`, which
    /// walks them before anything else.
    fn learn_lost(&self, known: &mut KnownEpochs) -> Result<()> {
        let Some(epochs) = known.file.take() else {
            return Ok(());
        };
        let mut walk = Walk::new(epochs);
        for (base, files) in self.segments {
            if files.index.is_some() {
                continue;
            }
            let Some((file, bytes)) = self.open(files)? else {
                continue;
            };
            let mut scan = Scanner::new(&file, Position::ZERO, bytes, Depth::Checksums);
            while let Step::Batch(at, header) = scan.step().map_err(|e| self.failed(e))? {
                if walk.accept(*base, at, &header).is_err() {
                    break;
                }
            }
        }
        known.file = Some(walk.epochs);
        Ok(())
    }

    /// Believes the clean-shutdown marker if the last batch of the log, and our own record or the
    /// recovery point row, agree with it. Reads the batches behind the last index entry only.
    fn trust(&self, known: &KnownEpochs) -> Result<Option<Walked>> {
        if !self.state.clean {
            return Ok(None);
        }
        let mut walk = Walk::new(known.file.clone().unwrap_or_default());
        let mut planned = self.planned();
        let Some((base, files)) = self.segments.last() else {
            return Ok(Some(Walked::new(walk, planned, None)));
        };
        let Some((file, bytes)) = self.open(files)? else {
            return Ok(None);
        };
        let loaded = witness::load_indexes(self.dir, *base, files, bytes, self.config)?;
        let (index, time, rebuilt) = if let Some((index, time)) = loaded {
            (index, time, false)
        } else {
            let (max, interval) = (
                self.config.segment_index_bytes,
                self.config.index_interval_bytes,
            );
            let built =
                build_indexes(&file, *base, bytes, max, interval).map_err(|e| self.failed(e))?;
            (built.index, built.time, true)
        };
        let from = index
            .last_entry()
            .map_or(Position::ZERO, |(_, position)| position);
        let mut scan = Scanner::new(&file, from, bytes, Depth::Checksums);
        let mut tally = IndexTally {
            bytes_since_entry: 0,
            largest: time.last_entry(),
        };
        loop {
            match scan.step().map_err(|e| self.failed(e))? {
                Step::Batch(position, header) => {
                    if walk.accept(*base, position, &header).is_err() {
                        return Ok(None);
                    }
                    tally.largest = tally.larger(&header);
                }
                Step::End(_) => break,
                Step::Bad(..) => return Ok(None),
            }
        }
        let end = walk.end(*base);
        let agrees = match self.state.witness.filter(|_| self.state.nobody_since) {
            Some(facts) => facts.log_end == end,
            None => self.state.recovery_point.is_none_or(|row| row == end),
        };
        if !agrees {
            return Ok(None);
        }
        if let Some(last) = planned.last_mut() {
            last.rebuild = rebuilt;
        }
        let active = ActivePlan {
            index,
            time,
            largest: tally.largest,
        };
        Ok(Some(Walked::new(walk, planned, Some(active))))
    }

    pub(crate) fn planned(&self) -> Vec<PlannedSegment> {
        self.segments
            .iter()
            .map(|(base, files)| {
                let bytes = files.log.as_ref().map_or(0, |stored| stored.bytes);
                PlannedSegment {
                    base: *base,
                    bytes,
                    stored_bytes: bytes,
                    rebuild: files.index.is_none() || files.time.is_none(),
                    scanned: false,
                    settled: false,
                    without_producers: None,
                }
            })
            .collect()
    }
}

impl Walked {
    pub(crate) fn new(
        walk: Walk,
        segments: Vec<PlannedSegment>,
        active: Option<ActivePlan>,
    ) -> Self {
        Self {
            walk,
            segments,
            active,
            cut: None,
            damage: Vec::new(),
            scanned_bytes: 0,
            watermark: None,
        }
    }
}
