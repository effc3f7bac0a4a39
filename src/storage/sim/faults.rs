//! Calls that fail by plan, and the random numbers of the simulation.

use std::io;

/// The calls that a [`Fault`] can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultOn {
    /// `bytes`, `read_exact_at`, `read_at_most`, `map`, `evict`, `list`, `free_bytes`.
    Read,
    /// `write_all_at`; half of the bytes are written before it fails.
    Write,
    /// `set_len`.
    SetLen,
    /// `preallocate`.
    Allocate,
    /// `sync_data` and `sync_all` of a file.
    Sync,
    /// `sync` of a directory.
    DirSync,
    /// `open` and `subdir`.
    Open,
    /// `create_new`, `create_subdir` and `try_lock`.
    Create,
    /// `rename`; its name is the one before.
    Rename,
    /// `remove` and `remove_subdir`.
    Remove,
}

/// How a call fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// ENOSPC.
    NoSpace,
    /// EIO.
    Io,
    /// EMFILE.
    TooManyOpen,
    /// EINTR. Reads and writes begin again, as with the real calls; all others fail.
    Interrupted,
    /// The system call behind a read or a write does half of it; nothing happens to other calls.
    Short,
    /// EIO of [`FaultOn::Sync`] as Linux does it: the pages count as clean, the device keeps the
    /// old bytes. The next sync succeeds without writing them; reads show them until `evict`.
    /// Elsewhere it is EIO.
    LostPages,
}

/// A failure that waits for its call.
#[derive(Clone, Debug)]
pub struct Fault {
    on: FaultOn,
    kind: FaultKind,
    nth: u64,
    sticky: bool,
    name_part: Option<String>,
    seen: u64,
}

impl Fault {
    /// Fails the `nth` call (1 is the next one) of this sort, and no other.
    #[must_use]
    pub fn new(on: FaultOn, nth: u64, kind: FaultKind) -> Self {
        Self {
            on,
            kind,
            nth: nth.max(1),
            sticky: false,
            name_part: None,
            seen: 0,
        }
    }

    /// Fails all later ones too.
    #[must_use]
    pub fn sticky(mut self) -> Self {
        self.sticky = true;
        self
    }

    /// Counts and fails only calls on files or directories whose name holds `part`.
    #[must_use]
    pub fn on_names_with(mut self, part: impl Into<String>) -> Self {
        self.name_part = Some(part.into());
        self
    }

    /// Counts a call; whether it is hit.
    pub(super) fn meets(&mut self, on: FaultOn, name: &str) -> Option<FaultKind> {
        let other_name = self
            .name_part
            .as_ref()
            .is_some_and(|part| !name.contains(part));
        if self.on != on || other_name {
            return None;
        }
        self.seen = self.seen.saturating_add(1);
        let hit = self.seen == self.nth || (self.sticky && self.seen > self.nth);
        hit.then_some(self.kind)
    }
}

impl FaultKind {
    pub(super) fn error(self) -> io::Error {
        io::Error::from_raw_os_error(match self {
            Self::NoSpace => libc::ENOSPC,
            Self::TooManyOpen => libc::EMFILE,
            Self::Interrupted => libc::EINTR,
            Self::Io | Self::LostPages | Self::Short => libc::EIO,
        })
    }
}

/// `SplitMix64` (Steele, Lea, Flood 2014): one word of state, every seed is good.
#[derive(Clone, Debug)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        word ^ (word >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub(super) fn below(&mut self, bound: usize) -> usize {
        let bound = u64::try_from(bound).unwrap_or(u64::MAX);
        let drawn = self.next().checked_rem(bound).unwrap_or(0);
        usize::try_from(drawn).unwrap_or(0)
    }
}
