//! Both views of the disk and what lies between them.
//!
//! Content and names are shared until they change, so that a copy of a disk costs one entry a file.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;

use super::content::{Content, Image};
use super::faults::{Fault, FaultKind, FaultOn, Random};
use super::record::{Event, Events};
use crate::storage::{Barrier, DirEntry, EntryKind};

pub(super) type NodeId = u64;
pub(super) const ROOT: NodeId = 0;

/// No file of a real system is longer.
const MAX_BYTES: u64 = i64::MAX.unsigned_abs();
/// Free bytes of a disk without a capacity.
const PLENTY_BYTES: u64 = 1 << 40;

#[derive(Clone, Debug)]
pub(super) struct State {
    pub(super) nodes: BTreeMap<NodeId, Node>,
    /// In the order in which they were made. Each is in the cache view and not in the device view.
    pub(super) pending: Vec<Change>,
    pub(super) next_node: NodeId,
    pub(super) calls: u64,
    pub(super) cut_at: Option<u64>,
    pub(super) faults: Vec<Fault>,
    /// What the next system call behind a read or a write meets.
    pub(super) hiccup: Option<FaultKind>,
    pub(super) shorts: Option<Random>,
    pub(super) capacity: Option<u64>,
    pub(super) locked: BTreeSet<NodeId>,
    /// The barrier whose syncs do nothing.
    pub(super) ignored: Option<Barrier>,
    pub(super) events: Option<Box<Events>>,
}

#[derive(Clone, Debug)]
pub(super) enum Node {
    File {
        cache: Arc<Content>,
        device: Arc<Content>,
        room: Room,
        name: Arc<str>,
    },
    Dir {
        cache: Arc<Names>,
        device: Arc<Names>,
        name: Arc<str>,
    },
}

/// Bytes from the front of a file that have blocks whether they were written or not, in both views.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Room {
    pub(super) cache: u64,
    pub(super) device: u64,
}

pub(super) type Names = BTreeMap<Arc<str>, NodeId>;

#[derive(Clone, Debug)]
pub(super) enum Change {
    Sector {
        file: NodeId,
        sector: u64,
        image: Image,
        touched: std::ops::Range<usize>,
    },
    Grow {
        file: NodeId,
        bytes: u64,
    },
    Cut {
        file: NodeId,
        bytes: u64,
    },
    Allocate {
        file: NodeId,
        bytes: u64,
    },
    Insert {
        dir: NodeId,
        name: Arc<str>,
        node: NodeId,
    },
    Remove {
        dir: NodeId,
        name: Arc<str>,
        node: NodeId,
    },
    Rename {
        dir: NodeId,
        from: Arc<str>,
        to: Arc<str>,
        node: NodeId,
    },
}

impl Change {
    /// The file or directory whose sync makes it durable.
    pub(super) fn owner(&self) -> NodeId {
        match self {
            Self::Sector { file, .. }
            | Self::Grow { file, .. }
            | Self::Cut { file, .. }
            | Self::Allocate { file, .. } => *file,
            Self::Insert { dir, .. } | Self::Remove { dir, .. } | Self::Rename { dir, .. } => *dir,
        }
    }

    /// Does it to the content of a file, or nothing if it is about names.
    fn apply_to_content(&self, content: &mut Content, room: &mut u64) {
        match self {
            Self::Sector { sector, image, .. } => content.put(*sector, image.clone()),
            Self::Grow { bytes, .. } => content.bytes = content.bytes.max(*bytes),
            Self::Cut { bytes, .. } => {
                content.cut(*bytes);
                *room = (*room).min(*bytes);
            }
            Self::Allocate { bytes, .. } => *room = (*room).max(*bytes),
            Self::Insert { .. } | Self::Remove { .. } | Self::Rename { .. } => {}
        }
    }

    /// Does it to the names of a directory, or nothing if it is about content.
    fn apply_to_names(&self, names: &mut Names) {
        match self {
            Self::Insert { name, node, .. } => {
                names.insert(Arc::clone(name), *node);
            }
            Self::Remove { name, node, .. } => remove_if_same(names, name, *node),
            Self::Rename { from, to, node, .. } => {
                remove_if_same(names, from, *node);
                names.insert(Arc::clone(to), *node);
            }
            Self::Sector { .. } | Self::Grow { .. } | Self::Cut { .. } | Self::Allocate { .. } => {}
        }
    }

    pub(super) fn apply_to_device(&self, nodes: &mut BTreeMap<NodeId, Node>) {
        match nodes.get_mut(&self.owner()) {
            Some(Node::File { device, room, .. }) => {
                self.apply_to_content(Arc::make_mut(device), &mut room.device);
            }
            Some(Node::Dir { device, .. }) => self.apply_to_names(Arc::make_mut(device)),
            None => {}
        }
    }
}

fn remove_if_same(names: &mut Names, name: &str, node: NodeId) {
    if names.get(name) == Some(&node) {
        names.remove(name);
    }
}

impl Node {
    fn dir(name: &str) -> Self {
        Self::Dir {
            cache: Arc::default(),
            device: Arc::default(),
            name: name.into(),
        }
    }

    fn file(name: &str) -> Self {
        Self::File {
            cache: Arc::default(),
            device: Arc::default(),
            room: Room::default(),
            name: name.into(),
        }
    }

    pub(super) fn name(&self) -> &str {
        match self {
            Self::File { name, .. } | Self::Dir { name, .. } => name,
        }
    }
}

impl State {
    pub(super) fn new() -> Self {
        Self::of(BTreeMap::from([(ROOT, Node::dir(""))]), 1)
    }

    /// A disk of these files on which nothing is pending, locked or faulty.
    pub(super) fn of(nodes: BTreeMap<NodeId, Node>, next_node: NodeId) -> Self {
        Self {
            nodes,
            pending: Vec::new(),
            next_node,
            calls: 0,
            cut_at: None,
            faults: Vec::new(),
            hiccup: None,
            shorts: None,
            capacity: None,
            locked: BTreeSet::new(),
            ignored: None,
            events: None,
        }
    }

    /// The same files with the same pending changes, in other hands.
    pub(super) fn after_kill(&self) -> Self {
        Self {
            pending: self.pending.clone(),
            shorts: self.shorts.clone(),
            capacity: self.capacity,
            ignored: self.ignored,
            ..Self::of(self.nodes.clone(), self.next_node)
        }
    }

    /// Counts a call; the fault that hits it, for a call that fails in its own way.
    pub(super) fn begin(&mut self, on: FaultOn, name: &str) -> io::Result<Option<FaultKind>> {
        self.calls = self.calls.saturating_add(1);
        if self.cut_at.is_some_and(|at| self.calls >= at) {
            return Err(io::Error::other("the power is off"));
        }
        self.hiccup = None;
        let mut hit = None;
        for fault in &mut self.faults {
            // All of them count the call.
            let meets = fault.meets(on, name);
            hit = hit.or(meets);
        }
        let transfers = matches!(on, FaultOn::Read | FaultOn::Write);
        match hit {
            Some(FaultKind::Interrupted | FaultKind::Short) if transfers => {
                self.hiccup = hit;
                Ok(None)
            }
            Some(FaultKind::Short) => Ok(None),
            other => Ok(other),
        }
    }

    /// Counts a call and fails it if a fault hits it.
    pub(super) fn enter(&mut self, on: FaultOn, name: &str) -> io::Result<()> {
        self.begin(on, name)?
            .map_or(Ok(()), |kind| Err(kind.error()))
    }

    fn push(&mut self, change: Change) {
        self.note(|| Event::Changed(change.clone()));
        self.pending.push(change);
    }

    // Names.

    pub(super) fn resolve(&self, parts: &[String]) -> io::Result<NodeId> {
        let mut at = ROOT;
        for part in parts {
            at = self.child(at, part)?;
        }
        self.names(at)?;
        Ok(at)
    }

    fn names(&self, dir: NodeId) -> io::Result<&Names> {
        match self.nodes.get(&dir) {
            Some(Node::Dir { cache, .. }) => Ok(cache),
            Some(Node::File { .. }) => Err(io::ErrorKind::NotADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    pub(super) fn child(&self, dir: NodeId, name: &str) -> io::Result<NodeId> {
        let found = self.names(dir)?.get(name).copied();
        found.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn is_dir(&self, node: NodeId) -> bool {
        matches!(self.nodes.get(&node), Some(Node::Dir { .. }))
    }

    pub(super) fn list(&self, dir: NodeId) -> io::Result<Vec<DirEntry>> {
        let entry = |(name, node): (&Arc<str>, &NodeId)| {
            let (kind, bytes) = match self.nodes.get(node)? {
                Node::File { cache, .. } => (EntryKind::File, cache.bytes),
                Node::Dir { .. } => (EntryKind::Dir, 0),
            };
            Some(DirEntry {
                name: name.to_string(),
                kind,
                bytes,
            })
        };
        Ok(self.names(dir)?.iter().filter_map(entry).collect())
    }

    pub(super) fn create(&mut self, dir: NodeId, name: &str, is_dir: bool) -> io::Result<NodeId> {
        if self.names(dir)?.contains_key(name) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let node = self.next_node;
        self.next_node = node.saturating_add(1);
        let made = if is_dir {
            Node::dir(name)
        } else {
            Node::file(name)
        };
        self.note(|| Event::Made(node, made.clone()));
        self.nodes.insert(node, made);
        self.change_names(Change::Insert {
            dir,
            name: name.into(),
            node,
        });
        Ok(node)
    }

    pub(super) fn rename(&mut self, dir: NodeId, from: &str, to: &str) -> io::Result<()> {
        let node = self.child(dir, from)?;
        if from == to {
            return Ok(());
        }
        if let Some(replaced) = self.names(dir)?.get(to).copied() {
            match (self.is_dir(node), self.is_dir(replaced)) {
                (false, true) => return Err(io::ErrorKind::IsADirectory.into()),
                (true, false) => return Err(io::ErrorKind::NotADirectory.into()),
                (true, true) if !self.names(replaced)?.is_empty() => {
                    return Err(io::ErrorKind::DirectoryNotEmpty.into());
                }
                _ => {}
            }
        }
        let (from, to) = (Arc::<str>::from(from), Arc::<str>::from(to));
        if let Some(Node::File { name, .. } | Node::Dir { name, .. }) = self.nodes.get_mut(&node) {
            name.clone_from(&to);
        }
        self.change_names(Change::Rename {
            dir,
            from,
            to,
            node,
        });
        Ok(())
    }

    pub(super) fn remove_file(&mut self, dir: NodeId, name: &str) -> io::Result<()> {
        let node = self.child(dir, name)?;
        if self.is_dir(node) {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        self.change_names(Change::Remove {
            dir,
            name: name.into(),
            node,
        });
        Ok(())
    }

    /// Removes from the leaves up, each name a change of its own. The depth is that of the tree.
    pub(super) fn remove_tree(&mut self, dir: NodeId, name: &str) -> io::Result<()> {
        let node = self.child(dir, name)?;
        let inner: Vec<_> = self.names(node)?.clone().into_iter().collect();
        for (inner_name, inner_node) in inner {
            if self.is_dir(inner_node) {
                self.remove_tree(node, &inner_name)?;
            } else {
                self.remove_file(node, &inner_name)?;
            }
        }
        self.change_names(Change::Remove {
            dir,
            name: name.into(),
            node,
        });
        Ok(())
    }

    fn change_names(&mut self, change: Change) {
        if let Some(Node::Dir { cache, .. }) = self.nodes.get_mut(&change.owner()) {
            change.apply_to_names(Arc::make_mut(cache));
        }
        self.push(change);
    }

    // Content.

    pub(super) fn content(&self, file: NodeId) -> io::Result<&Content> {
        match self.nodes.get(&file) {
            Some(Node::File { cache, .. }) => Ok(cache),
            Some(Node::Dir { .. }) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    fn content_mut(&mut self, file: NodeId) -> io::Result<(&mut Content, &mut u64)> {
        match self.nodes.get_mut(&file) {
            Some(Node::File { cache, room, .. }) => Ok((Arc::make_mut(cache), &mut room.cache)),
            Some(Node::Dir { .. }) => Err(io::ErrorKind::IsADirectory.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// As the system call: may be short, may be interrupted.
    pub(super) fn read_some(
        &mut self,
        file: NodeId,
        buffer: &mut [u8],
        position: u64,
    ) -> io::Result<usize> {
        let length = self.shorten(buffer.len())?;
        let content = self.content(file)?;
        Ok(buffer
            .get_mut(..length)
            .map_or(0, |part| content.read(part, position)))
    }

    /// As the system call: may be short, may be interrupted.
    pub(super) fn write_some(
        &mut self,
        file: NodeId,
        bytes: &[u8],
        position: u64,
    ) -> io::Result<usize> {
        let length = self.shorten(bytes.len())?;
        let end = u64::try_from(length)
            .ok()
            .and_then(|length| position.checked_add(length));
        end.filter(|end| *end <= MAX_BYTES)
            .ok_or(io::ErrorKind::FileTooLarge)?;
        let free = self.free_bytes();
        let (content, room) = self.content_mut(file)?;
        let length = content.room_for(position, length, *room, free);
        let part = bytes.get(..length).unwrap_or_default();
        if part.is_empty() && !bytes.is_empty() {
            return Err(FaultKind::NoSpace.error());
        }
        let before = content.bytes;
        let written = content.write(part, position);
        let after = content.bytes;
        for sector in written {
            self.push(Change::Sector {
                file,
                sector: sector.sector,
                image: sector.image,
                touched: sector.touched,
            });
        }
        if after > before {
            self.push(Change::Grow { file, bytes: after });
        }
        Ok(length)
    }

    fn shorten(&mut self, length: usize) -> io::Result<usize> {
        match self.hiccup.take() {
            Some(FaultKind::Interrupted) => return Err(io::ErrorKind::Interrupted.into()),
            Some(_) => return Ok(length.div_ceil(2)),
            None => {}
        }
        let Some(random) = self.shorts.as_mut().filter(|_| length > 0) else {
            return Ok(length);
        };
        if random.below(4) == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        Ok(random.below(length).saturating_add(1))
    }

    pub(super) fn set_len(&mut self, file: NodeId, bytes: u64) -> io::Result<()> {
        if bytes > MAX_BYTES {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        let (content, room) = self.content_mut(file)?;
        if bytes < content.bytes || (bytes == content.bytes && bytes < *room) {
            content.cut(bytes);
            *room = bytes.min(*room);
            self.push(Change::Cut { file, bytes });
        } else if bytes > content.bytes {
            content.bytes = bytes;
            self.push(Change::Grow { file, bytes });
        }
        Ok(())
    }

    /// Gives the first `bytes` of a file their blocks; the length stays.
    pub(super) fn reserve(&mut self, file: NodeId, bytes: u64) -> io::Result<()> {
        let free = self.free_bytes();
        let (content, room) = self.content_mut(file)?;
        let target = bytes.max(*room);
        let more = content
            .used_bytes(target)
            .saturating_sub(content.used_bytes(*room));
        if more > free {
            return Err(FaultKind::NoSpace.error());
        }
        if target > *room {
            *room = target;
            self.push(Change::Allocate {
                file,
                bytes: target,
            });
        }
        Ok(())
    }

    pub(super) fn allocate(&mut self, file: NodeId, bytes: u64) -> io::Result<()> {
        self.reserve(file, bytes)?;
        let longer = bytes.max(self.content(file)?.bytes);
        let (content, _) = self.content_mut(file)?;
        if longer > content.bytes {
            content.bytes = longer;
            self.push(Change::Grow {
                file,
                bytes: longer,
            });
        }
        Ok(())
    }

    pub(super) fn free_bytes(&self) -> u64 {
        let Some(capacity) = self.capacity else {
            return PLENTY_BYTES;
        };
        let linked: BTreeSet<NodeId> = self
            .nodes
            .values()
            .filter_map(|node| match node {
                Node::Dir { cache, .. } => Some(cache.values().copied()),
                Node::File { .. } => None,
            })
            .flatten()
            .collect();
        let used = linked
            .iter()
            .fold(0_u64, |sum, node| match self.nodes.get(node) {
                Some(Node::File { cache, room, .. }) => {
                    sum.saturating_add(cache.used_bytes(room.cache))
                }
                Some(Node::Dir { .. }) | None => sum,
            });
        capacity.saturating_sub(used)
    }

    // Durability.

    /// Makes every pending change of one file or directory durable.
    pub(super) fn sync(&mut self, owner: NodeId) {
        if !self.pending.iter().any(|change| change.owner() == owner) {
            return;
        }
        self.note(|| Event::Synced(owner));
        let (durable, rest) = std::mem::take(&mut self.pending)
            .into_iter()
            .partition::<Vec<_>, _>(|change| change.owner() == owner);
        self.pending = rest;
        for change in durable {
            change.apply_to_device(&mut self.nodes);
        }
    }

    /// Forgets the unwritten sectors of a file: clean in the cache, never on the device.
    pub(super) fn lose_pages(&mut self, lost: NodeId) {
        self.note(|| Event::PagesLost(lost));
        self.pending
            .retain(|change| !matches!(change, Change::Sector { file, .. } if *file == lost));
    }

    /// Reads clean pages again from the device; unwritten ones stay.
    pub(super) fn evict(&mut self, file: NodeId) {
        if let Some(Node::File {
            cache,
            device,
            room,
            ..
        }) = self.nodes.get_mut(&file)
        {
            let mut fresh = Content::clone(device);
            let mut fresh_room = room.device;
            for change in self.pending.iter().filter(|change| change.owner() == file) {
                change.apply_to_content(&mut fresh, &mut fresh_room);
            }
            fresh.bytes = cache.bytes;
            fresh.clear_behind_end();
            *cache = Arc::new(fresh);
        }
    }
}
