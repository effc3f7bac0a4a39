//! Carries out the commands of a scenario on the leader of one partition.
//!
//! The scenario is the controller, the other brokers and the clients; the log is a real one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::log::{Answer, Refusal, print_answer};
use crate::error::Error;
use crate::log::{Log, LogConfig};
use crate::log_dir::{DirOptions, LogDir};
use crate::names::TopicPartition;
use crate::replica::{Context, Replica};
use crate::replication::brokers::{BrokerView, Brokers};
use crate::replication::leader::{Config, Env, Input, Output, Partition};
use crate::replication::message::{BrokerEpoch, BrokerId, Compatibility, ErrorCode};
use crate::storage::OsDir;
use crate::types::Timestamp;

use controller::Controller;
pub(super) use parse::Command;
use parse::Setting;

mod commands;
mod controller;
mod parse;
mod print;

const LOCAL: BrokerId = BrokerId(1);

impl From<ErrorCode> for Refusal {
    fn from(error: ErrorCode) -> Self {
        Self(error.name())
    }
}

const NO_LOG: Refusal = Refusal("NoLog");
const LEADER: Refusal = Refusal("Leader");
const NOTHING_IN_FLIGHT: Refusal = Refusal("NothingInFlight");
/// What Kafka fails with where no client would see an error of its own.
const UNKNOWN: Refusal = Refusal("Unknown");

/// The log of the partition, with its data directory.
struct Opened {
    /// Held for its lock.
    _dir: LogDir<OsDir>,
    replica: Replica<OsDir>,
}

/// The state of a scenario between two commands.
pub(super) struct Engine {
    data: PathBuf,
    now: Timestamp,
    config: Config,
    brokers: Brokers,
    opened: Option<Opened>,
    controller: Controller,
}

impl Engine {
    pub(super) fn new(data: &Path, compatibility: Compatibility) -> Self {
        let mut brokers = Brokers::new();
        let local = BrokerView {
            epoch: BrokerEpoch(1),
            fenced: false,
            shutting_down: false,
        };
        brokers.register(LOCAL, local);
        Self {
            data: data.to_path_buf(),
            now: super::START,
            config: Config {
                compatibility,
                ..Config::default()
            },
            brokers,
            opened: None,
            controller: Controller::default(),
        }
    }

    /// The result of one command: `ok ...` or `error KIND`.
    pub(super) fn execute(&mut self, command: Command) -> String {
        self.controller.begin_command();
        print_answer(self.dispatch(command))
    }

    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "what is not about the clock, the settings or the brokers is for the partition"
    )]
    fn dispatch(&mut self, command: Command) -> Answer {
        match command {
            Command::Role => Ok(String::new()),
            Command::Time(now) => {
                self.now = now;
                Ok(String::new())
            }
            Command::Config(settings) => {
                for setting in settings {
                    self.set(setting);
                }
                Ok(String::new())
            }
            Command::Broker { id, registration } => {
                match registration {
                    Some(view) => self.brokers.register(id, view),
                    None => self.brokers.unregister(id),
                }
                Ok(String::new())
            }
            command => {
                self.open()?;
                self.on_partition(command)
            }
        }
    }

    fn on_partition(&mut self, command: Command) -> Answer {
        match command {
            Command::Metadata(registration) => self.metadata(registration),
            Command::Append { records, acks } => self.append(records, acks),
            Command::Fetch { request, max } => self.fetch(request, max),
            Command::Consume { consume, max } => self.consume(consume, max),
            Command::IsrTick => self.tick(),
            Command::Reply { oldest, reply } => self.reply(oldest, reply),
            Command::EndOffset { epoch, current } => self.end_offset(epoch, current),
            Command::OffsetFor(question) => self.offset_for(question),
            Command::CheckAcks(required) => self.check_acks(required),
            Command::DeleteRecords(offset) => self.delete_records(offset),
            Command::Follow {
                records,
                epoch,
                high_watermark,
            } => self.follow(records, epoch, high_watermark),
            Command::Truncate(target) => self.truncate(target),
            Command::State => self.state(),
            Command::Replicas => Ok(format!("list={}", self.replicas(print::in_full)?)),
            Command::Role | Command::Time(_) | Command::Config(_) | Command::Broker { .. } => {
                Ok(String::new())
            }
        }
    }

    fn set(&mut self, setting: Setting) {
        match setting {
            Setting::MinIsr(count) => self.config.min_in_sync_replicas = count,
            Setting::LagMs(lag) => self.config.replica_lag_time_max_ms = lag,
            Setting::Queue(queued) => self.controller.set_queued(queued),
            // The leader of a partition does not look at it.
            Setting::Unclean => {}
        }
    }

    /// Opens the log before the first command on the partition; it shows from the first
    /// registration on.
    fn open(&mut self) -> Result<(), Refusal> {
        if self.opened.is_some() {
            return Ok(());
        }
        let failed = |e| Error::io("open data directory", &self.data, e);
        let data = OsDir::open(&self.data).or_else(|_| OsDir::create(&self.data));
        let partition = TopicPartition::new("t", 0);
        let config = LogConfig::default();
        let (dir, _) = LogDir::open_in(data.map_err(failed)?, DirOptions::new(self.now))?;
        let log = match dir.log(&partition) {
            Some(log) => log,
            None => dir.create_log(&partition, config, None, self.now)?,
        };
        let replica = Replica::new(LOCAL, log);
        self.opened = Some(Opened { _dir: dir, replica });
        Ok(())
    }

    fn opened(&self) -> Result<&Opened, Refusal> {
        self.opened.as_ref().ok_or(NO_LOG)
    }

    fn machine(&self) -> Result<&Partition, Refusal> {
        Ok(self.opened()?.replica.machine())
    }

    /// The log, once a registration has told of the partition.
    fn log(&self) -> Result<&Arc<Log<OsDir>>, Refusal> {
        let replica = &self.opened()?.replica;
        let is_known = replica.machine().partition_epoch().is_some();
        is_known.then(|| replica.log()).ok_or(NO_LOG)
    }

    fn context(&self) -> Context<'_> {
        Context {
            now: self.now,
            brokers: &self.brokers,
            config: self.config,
        }
    }

    fn ask<T>(&self, question: impl FnOnce(&Partition, &Env<'_>) -> T) -> Result<T, Refusal> {
        Ok(self.opened()?.replica.ask(&self.context(), question))
    }

    /// Does something with the replica; what it proposes reaches the controller before the command
    /// ends. What is for others comes back.
    fn with_replica<T>(
        &mut self,
        act: impl FnOnce(&mut Replica<OsDir>, &Context<'_>, &mut Vec<Output>) -> Result<T, Error>,
    ) -> Result<(T, Vec<Output>), Refusal> {
        let context = Context {
            now: self.now,
            brokers: &self.brokers,
            config: self.config,
        };
        let opened = self.opened.as_mut().ok_or(NO_LOG)?;
        let mut out = Vec::new();
        let result = act(&mut opened.replica, &context, &mut out)?;
        let mut done = Vec::new();
        while !out.is_empty() {
            for output in std::mem::take(&mut out) {
                if let Some(input) = self.controller.take(&output) {
                    opened.replica.handle(&context, input, &mut out)?;
                }
                done.push(output);
            }
            self.controller.send(self.now);
        }
        Ok((result, done))
    }

    fn step(&mut self, input: Input) -> Result<Vec<Output>, Refusal> {
        let act = |replica: &mut Replica<OsDir>, context: &Context<'_>, out: &mut Vec<Output>| {
            replica.handle(context, input, out)
        };
        let ((), done) = self.with_replica(act)?;
        Ok(done)
    }
}
