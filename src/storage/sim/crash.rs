//! What a power cut leaves: the device view and a chosen part of what was pending.
//!
//! 1. Every pending operation is kept or lost on its own, whatever came before it.
//! 2. A torn sector harms only the bytes that its write touched: drives and file systems do not
//!    damage neighbours that were durable (what `SQLite` calls powersafe overwrite).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::content::{Image, SECTOR_BYTES};
use super::faults::Random;
use super::state::{Change, Node, NodeId, ROOT, State};

/// Which pending operations survive a power cut. An index counts [`super::SimDisk::pending_ops`]
/// from 0; one past the end names no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CrashPlan {
    /// None.
    LoseAll,
    /// All.
    KeepAll,
    /// All but one.
    LoseOnly(usize),
    /// Only one.
    KeepOnly(usize),
    /// Each by a draw; sectors may also be torn, zeroed, or garbage where they were written.
    Random {
        /// Equal seeds on equal disks give equal disks.
        seed: u64,
    },
}

impl CrashPlan {
    /// The plans without chance for a disk with that many pending operations, simplest first.
    pub fn enumerate(pending: usize) -> impl Iterator<Item = Self> {
        [Self::LoseAll, Self::KeepAll]
            .into_iter()
            .chain((0..pending).map(Self::LoseOnly))
            .chain((0..pending).map(Self::KeepOnly))
    }
}

/// What a pending operation does.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PendingKind {
    /// Writes a part of a sector.
    Data {
        /// The bytes of the file that it touches.
        range: Range<u64>,
    },
    /// Makes the file longer.
    Grow {
        /// The length after it. Unit: bytes.
        bytes: u64,
    },
    /// Makes the file shorter.
    Cut {
        /// The length after it. Unit: bytes.
        bytes: u64,
    },
    /// Gives a new file or directory its name.
    Insert,
    /// Takes the name away.
    Remove,
    /// Gives it another name.
    Rename {
        /// The name before.
        from: String,
    },
}

/// An operation that a power cut may lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PendingOp {
    /// Its place in the order in which the operations were made, from 0.
    pub index: usize,
    /// The file or directory; for a rename the name after it.
    pub name: String,
    /// What it does.
    pub kind: PendingKind,
}

impl fmt::Display for PendingOp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { index, name, kind } = self;
        match kind {
            PendingKind::Data { range } => {
                write!(f, "{index}: write {name} {}..{}", range.start, range.end)
            }
            PendingKind::Grow { bytes } => write!(f, "{index}: grow {name} to {bytes}"),
            PendingKind::Cut { bytes } => write!(f, "{index}: cut {name} to {bytes}"),
            PendingKind::Insert => write!(f, "{index}: insert {name}"),
            PendingKind::Remove => write!(f, "{index}: remove {name}"),
            PendingKind::Rename { from } => write!(f, "{index}: rename {from} to {name}"),
        }
    }
}

impl State {
    pub(super) fn pending_ops(&self) -> Vec<PendingOp> {
        let describe = |(index, change): (usize, &Change)| PendingOp {
            index,
            name: self.name_of(change),
            kind: kind_of(change),
        };
        self.pending.iter().enumerate().map(describe).collect()
    }

    fn name_of(&self, change: &Change) -> String {
        match change {
            Change::Sector { file, .. } | Change::Grow { file, .. } | Change::Cut { file, .. } => {
                self.nodes.get(file).map_or("", Node::name).to_owned()
            }
            Change::Insert { name, .. } | Change::Remove { name, .. } => name.clone(),
            Change::Rename { to, .. } => to.clone(),
        }
    }

    /// The disk after the power is back. Nothing on it is pending, locked or faulty.
    pub(super) fn crashed(&self, plan: CrashPlan) -> Self {
        let mut nodes = self.nodes.clone();
        let mut draws = Draws::new(plan);
        for (index, change) in self.pending.iter().enumerate() {
            if let Some(change) = draws.fate(index, change, &nodes) {
                change.apply_to_device(&mut nodes);
            }
        }
        let mut after = self.clone();
        after.nodes = reachable(nodes);
        after.pending.clear();
        after.calls = 0;
        after.cut_at = None;
        after.faults.clear();
        after.locked.clear();
        after
    }
}

fn kind_of(change: &Change) -> PendingKind {
    match change {
        Change::Sector {
            sector, touched, ..
        } => {
            let sector_bytes = u64::try_from(SECTOR_BYTES).unwrap_or(u64::MAX);
            let start = sector.saturating_mul(sector_bytes);
            let at = |within: usize| start.saturating_add(u64::try_from(within).unwrap_or(0));
            PendingKind::Data {
                range: at(touched.start)..at(touched.end),
            }
        }
        Change::Grow { bytes, .. } => PendingKind::Grow { bytes: *bytes },
        Change::Cut { bytes, .. } => PendingKind::Cut { bytes: *bytes },
        Change::Insert { .. } => PendingKind::Insert,
        Change::Remove { .. } => PendingKind::Remove,
        Change::Rename { from, .. } => PendingKind::Rename { from: from.clone() },
    }
}

/// What a walk from the root over durable names finds, each with the device view as its cache.
fn reachable(mut nodes: BTreeMap<NodeId, Node>) -> BTreeMap<NodeId, Node> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::from([ROOT]);
    let mut open = vec![(ROOT, String::new())];
    while let Some((id, name)) = open.pop() {
        let Some(mut node) = nodes.remove(&id) else {
            continue;
        };
        match &mut node {
            Node::File {
                cache,
                device,
                allocated,
                name: own,
            } => {
                device.clear_behind_end();
                *cache = device.clone();
                *allocated = device.bytes.min(*allocated);
                *own = name;
            }
            Node::Dir {
                cache,
                device,
                name: own,
            } => {
                cache.clone_from(device);
                *own = name;
                let inner = device.iter().filter(|(_, inner)| seen.insert(**inner));
                open.extend(inner.map(|(name, inner)| (*inner, name.clone())));
            }
        }
        found.insert(id, node);
    }
    found
}

/// The choices of one crash.
struct Draws {
    plan: CrashPlan,
    random: Random,
    /// Of 8 draws so many keep an operation: some crashes lose a little, some nearly all.
    keeps_of_8: usize,
}

impl Draws {
    fn new(plan: CrashPlan) -> Self {
        let seed = match plan {
            CrashPlan::Random { seed } => seed,
            CrashPlan::LoseAll
            | CrashPlan::KeepAll
            | CrashPlan::LoseOnly(_)
            | CrashPlan::KeepOnly(_) => 0,
        };
        let mut random = Random::new(seed);
        let keeps_of_8 = random.below(8);
        Self {
            plan,
            random,
            keeps_of_8,
        }
    }

    /// What is applied in the place of a change; `None` if it is lost.
    fn fate(
        &mut self,
        index: usize,
        change: &Change,
        nodes: &BTreeMap<NodeId, Node>,
    ) -> Option<Change> {
        let kept = match self.plan {
            CrashPlan::LoseAll => false,
            CrashPlan::KeepAll => true,
            CrashPlan::LoseOnly(lost) => index != lost,
            CrashPlan::KeepOnly(kept) => index == kept,
            CrashPlan::Random { .. } => return self.draw(change, nodes),
        };
        kept.then(|| change.clone())
    }

    fn draw(&mut self, change: &Change, nodes: &BTreeMap<NodeId, Node>) -> Option<Change> {
        let kept = self.random.below(8) < self.keeps_of_8;
        let Change::Sector {
            file,
            sector,
            image,
            touched,
        } = change
        else {
            return kept.then(|| change.clone());
        };
        if self.random.below(4) != 0 {
            return kept.then(|| change.clone());
        }
        let old = match nodes.get(file) {
            Some(Node::File { device, .. }) => device.sector(*sector),
            Some(Node::Dir { .. }) | None => [0; SECTOR_BYTES],
        };
        let image = self.tear(&old, image, touched);
        Some(Change::Sector {
            file: *file,
            sector: *sector,
            image,
            touched: touched.clone(),
        })
    }

    /// Zeros, garbage, the left part or the right part of a write.
    fn tear(&mut self, old: &[u8; SECTOR_BYTES], image: &Image, touched: &Range<usize>) -> Image {
        let mut torn = *old;
        let way = self.random.below(4);
        let length = touched.end.saturating_sub(touched.start);
        let border = touched.start.saturating_add(self.random.below(length));
        for (at, (byte, new)) in torn.iter_mut().zip(image.iter()).enumerate() {
            let is_touched = touched.contains(&at);
            match way {
                0 if is_touched => *byte = 0,
                1 if is_touched => *byte = self.random.next().to_be_bytes()[0],
                2 if at < border => *byte = *new,
                3 if at >= border => *byte = *new,
                _ => {}
            }
        }
        Arc::new(torn)
    }
}
