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
use super::hash::Fold;
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

/// What becomes of one pending operation. What is torn is a sector of a write; any other operation
/// with such a fate is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fate {
    /// It is on the device.
    Kept,
    /// It never happened.
    Lost,
    /// The bytes that it wrote are zeros.
    Zeros,
    /// The bytes that it wrote are others.
    Garbage {
        /// Of the bytes.
        seed: u64,
    },
    /// Only the bytes of the sector below this one are written.
    Left(usize),
    /// Only the bytes of the sector from this one on are written.
    Right(usize),
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
    /// Gives blocks to the front of a file.
    Allocate {
        /// Where they end. Unit: bytes.
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
            PendingKind::Allocate { bytes } => write!(f, "{index}: allocate {name} to {bytes}"),
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
            Change::Sector { file, .. }
            | Change::Grow { file, .. }
            | Change::Cut { file, .. }
            | Change::Allocate { file, .. } => {
                self.nodes.get(file).map_or("", Node::name).to_owned()
            }
            Change::Insert { name, .. } | Change::Remove { name, .. } => name.to_string(),
            Change::Rename { to, .. } => to.to_string(),
        }
    }

    /// The fates that a plan has for what is pending.
    pub(super) fn fates(&self, plan: CrashPlan) -> Vec<Fate> {
        let kept_if = |kept: bool| if kept { Fate::Kept } else { Fate::Lost };
        let count = self.pending.len();
        match plan {
            CrashPlan::LoseAll => vec![Fate::Lost; count],
            CrashPlan::KeepAll => vec![Fate::Kept; count],
            CrashPlan::LoseOnly(lost) => (0..count).map(|at| kept_if(at != lost)).collect(),
            CrashPlan::KeepOnly(kept) => (0..count).map(|at| kept_if(at == kept)).collect(),
            CrashPlan::Random { seed } => {
                let mut draws = Draws::new(seed);
                self.pending.iter().map(|c| draws.fate(c)).collect()
            }
        }
    }

    /// The disk after the power is back. Nothing on it is pending, locked or faulty.
    pub(super) fn crashed(&self, fates: &[Fate]) -> Self {
        let mut nodes = self.nodes.clone();
        for (change, fate) in self.pending.iter().zip(fates) {
            if let Some(change) = fate.of(change, &nodes) {
                change.apply_to_device(&mut nodes);
            }
        }
        Self {
            nodes: reachable(nodes),
            pending: Vec::new(),
            ..self.after_kill()
        }
    }

    /// A hash of the names, lengths and bytes that are read; of both views and what is pending if
    /// `whole`.
    pub(super) fn hash(&self, whole: bool) -> u64 {
        let mut hash = Fold::new();
        self.hash_tree(ROOT, &mut hash, false);
        if whole && !self.pending.is_empty() {
            self.hash_tree(ROOT, &mut hash, true);
            for change in &self.pending {
                hash.bytes(self.name_of(change).as_bytes());
                hash.bytes(format!("{:?}", kind_of(change)).as_bytes());
            }
        }
        hash.end()
    }

    /// Bounded by the depth of the tree.
    fn hash_tree(&self, dir: NodeId, hash: &mut Fold, of_device: bool) {
        let Some(Node::Dir { cache, device, .. }) = self.nodes.get(&dir) else {
            return;
        };
        for (name, node) in if of_device { &**device } else { &**cache } {
            hash.bytes(name.as_bytes());
            match self.nodes.get(node) {
                Some(Node::File { cache, device, .. }) => {
                    let content = if of_device { device } else { cache };
                    content.hash_into(hash);
                }
                Some(Node::Dir { .. }) => self.hash_tree(*node, hash, of_device),
                None => {}
            }
        }
        hash.number(u64::MAX);
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
        Change::Allocate { bytes, .. } => PendingKind::Allocate { bytes: *bytes },
        Change::Insert { .. } => PendingKind::Insert,
        Change::Remove { .. } => PendingKind::Remove,
        Change::Rename { from, .. } => PendingKind::Rename {
            from: from.to_string(),
        },
    }
}

/// What a walk from the root over durable names finds, each with the device view as its cache.
fn reachable(mut nodes: BTreeMap<NodeId, Node>) -> BTreeMap<NodeId, Node> {
    let mut found = BTreeMap::new();
    let mut seen = BTreeSet::from([ROOT]);
    let mut open = vec![(ROOT, Arc::<str>::from(""))];
    while let Some((id, name)) = open.pop() {
        let Some(mut node) = nodes.remove(&id) else {
            continue;
        };
        match &mut node {
            Node::File {
                cache,
                device,
                room,
                name: own,
            } => {
                Arc::make_mut(device).clear_behind_end();
                *cache = Arc::clone(device);
                room.cache = room.device;
                *own = name;
            }
            Node::Dir {
                cache,
                device,
                name: own,
            } => {
                *cache = Arc::clone(device);
                *own = name;
                let inner = device.iter().filter(|(_, inner)| seen.insert(**inner));
                open.extend(inner.map(|(name, inner)| (*inner, Arc::clone(name))));
            }
        }
        found.insert(id, node);
    }
    found
}

impl Fate {
    /// What is applied in the place of a change; `None` if it is lost.
    fn of(self, change: &Change, nodes: &BTreeMap<NodeId, Node>) -> Option<Change> {
        match self {
            Self::Kept => return Some(change.clone()),
            Self::Lost => return None,
            Self::Zeros | Self::Garbage { .. } | Self::Left(_) | Self::Right(_) => {}
        }
        let Change::Sector {
            file,
            sector,
            image,
            touched,
        } = change
        else {
            return None;
        };
        let old = match nodes.get(file) {
            Some(Node::File { device, .. }) => device.sector(*sector),
            Some(Node::Dir { .. }) | None => [0; SECTOR_BYTES],
        };
        Some(Change::Sector {
            file: *file,
            sector: *sector,
            image: self.tear(&old, image, touched),
            touched: touched.clone(),
        })
    }

    fn tear(self, old: &[u8; SECTOR_BYTES], image: &Image, touched: &Range<usize>) -> Image {
        let mut torn = *old;
        let mut random = match self {
            Self::Garbage { seed } => Random::new(seed),
            Self::Kept | Self::Lost | Self::Zeros | Self::Left(_) | Self::Right(_) => {
                Random::new(0)
            }
        };
        let bytes = torn.iter_mut().zip(image.iter()).enumerate();
        for (at, (byte, new)) in bytes.filter(|(at, _)| touched.contains(at)) {
            match self {
                Self::Kept => *byte = *new,
                Self::Zeros => *byte = 0,
                Self::Garbage { .. } => *byte = random.next().to_be_bytes()[0],
                Self::Left(border) if at < border => *byte = *new,
                Self::Right(border) if at >= border => *byte = *new,
                Self::Lost | Self::Left(_) | Self::Right(_) => {}
            }
        }
        Arc::new(torn)
    }
}

/// The choices of one crash.
struct Draws {
    random: Random,
    /// Of 8 draws so many keep an operation: some crashes lose a little, some nearly all.
    keeps_of_8: usize,
}

impl Draws {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let keeps_of_8 = random.below(8);
        Self { random, keeps_of_8 }
    }

    fn fate(&mut self, change: &Change) -> Fate {
        let kept = self.random.below(8) < self.keeps_of_8;
        let whole = if kept { Fate::Kept } else { Fate::Lost };
        let Change::Sector { touched, .. } = change else {
            return whole;
        };
        if self.random.below(4) != 0 {
            return whole;
        }
        let way = self.random.below(4);
        let length = touched.end.saturating_sub(touched.start);
        let border = touched.start.saturating_add(self.random.below(length));
        match way {
            0 => Fate::Zeros,
            1 => Fate::Garbage {
                seed: self.random.next(),
            },
            2 => Fate::Left(border),
            _ => Fate::Right(border),
        }
    }
}
