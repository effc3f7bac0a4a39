//! A record of what happened to a disk, so that the power can be cut at every call of a run that is
//! made once.

use super::SimDisk;
use super::state::{Change, Node, NodeId, State};

/// A step that changes what a power cut may leave.
#[derive(Clone, Debug)]
pub(super) enum Event {
    Made(NodeId, Node),
    Changed(Change),
    Synced(NodeId),
    PagesLost(NodeId),
}

/// The steps since a recording began, each with the number of its call.
#[derive(Clone, Debug)]
pub(super) struct Events {
    start: State,
    steps: Vec<(u64, Event)>,
}

impl State {
    /// Keeps a step if somebody records.
    pub(super) fn note(&mut self, event: impl FnOnce() -> Event) {
        if let Some(events) = &mut self.events {
            events.steps.push((self.calls, event()));
        }
    }

    fn redo(&mut self, event: &Event) {
        match event {
            Event::Made(node, made) => {
                self.nodes.insert(*node, made.clone());
                self.next_node = self.next_node.max(node.saturating_add(1));
            }
            Event::Changed(change) => {
                if let Change::Rename { to, node, .. } = change
                    && let Some(Node::File { name, .. } | Node::Dir { name, .. }) =
                        self.nodes.get_mut(node)
                {
                    name.clone_from(to);
                }
                self.pending.push(change.clone());
            }
            Event::Synced(owner) => self.sync(*owner),
            Event::PagesLost(file) => self.lose_pages(*file),
        }
    }
}

/// The moments of a recorded run, first to last, each with the disk as a power cut finds it there.
///
/// A moment is a call after which a power cut may leave something else than before it. The first
/// one is that before the first such call, the last one that behind the whole run.
#[derive(Clone, Debug)]
pub struct Recording {
    disk: SimDisk,
    steps: std::vec::IntoIter<(u64, Event)>,
    call: u64,
}

impl SimDisk {
    /// Begins to record.
    pub fn record(&self) {
        let mut state = self.state();
        let mut start = state.clone();
        start.events = None;
        state.events = Some(Box::new(Events {
            start,
            steps: Vec::new(),
        }));
    }

    /// Ends the recording; `None` if there is none.
    pub fn recorded(&self) -> Option<Recording> {
        let events = self.state().events.take()?;
        Some(Recording {
            call: events.start.calls,
            disk: Self::from(events.start),
            steps: events.steps.into_iter(),
        })
    }
}

impl Recording {
    /// The disk at this moment: for what is pending on it and for its crashes, not for reads.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// The call that this moment is behind, as [`SimDisk::calls`] counts.
    pub fn call(&self) -> u64 {
        self.call
    }

    /// Goes to the next moment; `false` at the last one.
    pub fn advance(&mut self) -> bool {
        let Some((call, _)) = self.steps.as_slice().first().cloned() else {
            return false;
        };
        self.call = call;
        let steps = self.steps.as_slice();
        let of_call = steps.iter().take_while(|(at, _)| *at == call).count();
        let mut state = self.disk.state();
        for (_, event) in self.steps.by_ref().take(of_call) {
            state.redo(&event);
        }
        drop(state);
        true
    }

    /// How many moments there are from this one on.
    pub fn moments(&self) -> usize {
        let mut last = None;
        let steps = self.steps.as_slice().iter();
        let changes = steps.filter(|(call, _)| last.replace(*call) != Some(*call));
        changes.count().saturating_add(1)
    }
}
