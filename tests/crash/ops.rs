//! The operations that are tried, and a log that runs them beside its model.

use highwater::error::Error;
use highwater::log::{Durability, LogConfig, TruncateOptions};
use highwater::log_dir::DirOptions;
use highwater::storage::Barrier;
use highwater::storage::sim::SimDisk;

use crate::common::{NOW, Store, epoch, offset, options, partition};
use crate::model::Model;

const ALLOWED: TruncateOptions = TruncateOptions {
    below_high_watermark: true,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Append,
    AppendCompressed,
    AppendSynced,
    /// As a follower: two batches with a hole before each, the second of the next epoch.
    Follow,
    Sync,
    Roll,
    Truncate,
    TruncateFully,
    DeleteRecords,
    Retain,
    AssignEpoch,
    /// The high watermark goes to the log end and is written down, with all other rows.
    Checkpoint,
    /// Close, then open.
    Close,
    /// The process is killed, then the directory is opened.
    Kill,
    /// The log is deleted and made anew.
    Delete,
}

impl Op {
    /// Each with the name that a replay has for it.
    pub const ALL: [(Self, &'static str); 15] = [
        (Self::Append, "append"),
        (Self::AppendCompressed, "append-compressed"),
        (Self::AppendSynced, "append-synced"),
        (Self::Follow, "follow"),
        (Self::Sync, "sync"),
        (Self::Roll, "roll"),
        (Self::Truncate, "truncate"),
        (Self::TruncateFully, "truncate-fully"),
        (Self::DeleteRecords, "delete-records"),
        (Self::Retain, "retain"),
        (Self::AssignEpoch, "assign-epoch"),
        (Self::Checkpoint, "checkpoint"),
        (Self::Close, "close"),
        (Self::Kill, "kill"),
        (Self::Delete, "delete"),
    ];

    pub fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(op, _)| *op == self);
        found.map_or("", |(_, name)| *name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(op, _)| *op)
    }
}

/// A log to begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Start {
    pub name: &'static str,
    pub ops: &'static [Op],
    pub preallocate: bool,
}

/// Where sequences begin: an empty log, and logs that have what operations act on.
pub const STARTS: [Start; 6] = [
    Start {
        name: "empty",
        ops: &[],
        preallocate: false,
    },
    Start {
        name: "unsynced",
        ops: &[Op::Append, Op::Follow],
        preallocate: false,
    },
    Start {
        name: "two-segments",
        ops: &[
            Op::AppendSynced,
            Op::Follow,
            Op::Checkpoint,
            Op::AppendCompressed,
            Op::Roll,
            Op::Append,
            Op::Sync,
            Op::Checkpoint,
            Op::Append,
        ],
        preallocate: false,
    },
    Start {
        name: "closed",
        ops: &[Op::Append, Op::Follow, Op::AppendCompressed, Op::Close],
        preallocate: false,
    },
    Start {
        name: "raised",
        ops: &[
            Op::Append,
            Op::Follow,
            Op::Roll,
            Op::Append,
            Op::DeleteRecords,
            Op::Checkpoint,
        ],
        preallocate: false,
    },
    Start {
        name: "preallocated",
        ops: &[Op::Append, Op::Checkpoint, Op::Follow],
        preallocate: true,
    },
];

impl Start {
    /// How the directory is opened after a power cut.
    pub fn options(self) -> DirOptions {
        options(&self.config())
    }

    pub fn config(self) -> LogConfig {
        LogConfig::default()
            .segment_bytes(700)
            .index_interval_bytes(1)
            .retention(None)
            .retention_bytes(Some(900))
            .preallocate(self.preallocate)
    }
}

/// A log and its model.
pub struct Session {
    pub disk: SimDisk,
    pub model: Model,
    config: LogConfig,
    store: Option<Store>,
}

impl Session {
    /// A new log on a disk that ignores a barrier, or none.
    pub fn new(start: Start, ignored: Option<Barrier>) -> Result<Self, Error> {
        let (disk, config) = (SimDisk::new(), start.config());
        disk.ignore(ignored);
        let store = Some(Store::create(&disk, &config)?);
        Ok(Self {
            disk,
            model: Model::default(),
            config,
            store,
        })
    }

    /// Runs an operation; fails if the log fails or does not do what the model does.
    pub fn apply(&mut self, op: Op) -> Result<(), String> {
        let mut next = self.model.after(op);
        self.carry_out(op, &next)
            .map_err(|error| format!("{}: {error}", op.name()))?;
        let Some(store) = &self.store else {
            return Err("the log is gone".into());
        };
        let log = &store.log;
        let (start, end) = (log.log_start_offset().get(), log.log_end_offset().get());
        if op == Op::Retain {
            next.start = start.max(next.start);
        }
        if matches!(op, Op::Close | Op::Kill) && end <= next.end {
            next.reopened(end, log.high_watermark().get());
        }
        if (start, end) != (next.start, next.end) {
            let wanted = (next.start, next.end);
            return Err(format!("{}: {:?}, not {wanted:?}", op.name(), (start, end)));
        }
        self.model = next;
        Ok(())
    }

    fn carry_out(&mut self, op: Op, next: &Model) -> Result<(), Error> {
        let Some(store) = &self.store else {
            unreachable!("a session is open until it fails")
        };
        let (log, old) = (&store.log, &self.model);
        match op {
            Op::Append | Op::AppendCompressed | Op::AppendSynced => {
                let mut bytes = next.batches.last().unwrap().unstamped();
                let durability = match op {
                    Op::AppendSynced => Durability::Synced,
                    _ => Durability::Written,
                };
                log.append_as_leader(&mut bytes, epoch(old.epoch), NOW, durability)
                    .map(drop)
            }
            Op::Follow => {
                let new = &next.batches[old.batches.len()..];
                let bytes: Vec<u8> = new.iter().flat_map(|b| b.bytes.iter().copied()).collect();
                log.append_as_follower(&bytes, epoch(next.epoch), NOW, Durability::Written)
                    .map(drop)
            }
            Op::Sync => log.flush().map(drop),
            Op::Roll => log.roll(NOW).map(drop),
            Op::Checkpoint => {
                log.update_high_watermark(offset(old.end));
                store.dir.checkpoint()
            }
            Op::DeleteRecords => {
                log.update_high_watermark(offset(old.end));
                log.delete_records(offset(next.start)).map(drop)
            }
            Op::Retain => {
                log.update_high_watermark(offset(old.end));
                log.retain(NOW).map(drop)
            }
            Op::Truncate => {
                log.update_high_watermark(offset(old.end));
                log.truncate_to(offset(old.cut()), ALLOWED, NOW).map(drop)
            }
            Op::TruncateFully => log.truncate_fully(offset(next.end), ALLOWED, NOW).map(drop),
            Op::AssignEpoch => log.assign_epoch(epoch(next.epoch)),
            Op::Close | Op::Kill => {
                if let Some(Store { dir, .. }) = self.store.take()
                    && op == Op::Close
                {
                    dir.close()?;
                }
                self.store = Some(Store::open(&self.disk, &self.config)?);
                Ok(())
            }
            Op::Delete => self.delete(),
        }
    }

    fn delete(&mut self) -> Result<(), Error> {
        let Some(Store { dir, log, .. }) = self.store.take() else {
            unreachable!("a session is open until it fails")
        };
        drop(log);
        dir.delete_log(&partition(), NOW)?;
        let log = dir.create_log(&partition(), self.config.clone(), None, NOW)?;
        self.store = Some(Store {
            dir,
            log,
            report: None,
        });
        Ok(())
    }
}
