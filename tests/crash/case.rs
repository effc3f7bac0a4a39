//! One way through the exploration: operations, then power cuts. Can be printed, read back, run
//! alone and made smaller.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use highwater::log_dir::DirOptions;
use highwater::storage::Barrier;
use highwater::storage::sim::{Fate, Recording, SimDisk};

use crate::judge::{Recovery, judge};
use crate::model::Promise;
use crate::ops::{Op, STARTS, Session, Start};
use crate::seen::Seen;

/// A power cut: the moment of the run, and what becomes of each pending operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    pub moment: usize,
    pub fates: Vec<Fate>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub start: Start,
    /// The power is cut in the last one.
    pub ops: Vec<Op>,
    /// The first in the last operation, each other one in the recovery from the one before.
    pub cuts: Vec<Cut>,
}

/// What a case shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Holds,
    Broken(String),
    /// A run has no such moment.
    Pointless,
}

/// The last operation of a case, recorded.
pub struct Run {
    pub recording: Recording,
    /// What holds while it runs, and once it has returned.
    pub promises: [Promise; 2],
}

/// Runs the operations; an error is a violation by itself.
pub fn run(start: Start, ops: &[Op], ignored: Option<Barrier>) -> Result<Run, String> {
    guarded(|| {
        let mut session = Session::new(start, ignored).map_err(|error| error.to_string())?;
        let all: Vec<Op> = start.ops.iter().chain(ops).copied().collect();
        let Some((last, first)) = all.split_last() else {
            return Err("no operation".into());
        };
        for op in first {
            session.apply(*op)?;
        }
        let before = session.model.clone();
        session.disk.record();
        session.apply(*last)?;
        let recording = session.disk.recorded().ok_or("nothing was recorded")?;
        let after = &session.model;
        Ok(Run {
            recording,
            promises: [false, true].map(|done| Promise::new(*last, &before, after, done)),
        })
    })
}

/// A panic of the engine is a violation like any other.
pub fn guarded<T>(work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
        Err(format!("panic: {}", text.unwrap_or_default()))
    })
}

/// As [`judge`], with panics caught.
pub fn judged(
    disk: &SimDisk,
    options: &DirOptions,
    promise: &Promise,
    known: &Seen,
) -> Result<Recovery, String> {
    guarded(|| judge(disk, options, promise, known))
}

/// The disk that a cut of a recorded run leaves.
fn cut(mut recording: Recording, cut: &Cut) -> Option<(SimDisk, bool)> {
    for _ in 0..cut.moment {
        if !recording.advance() {
            return None;
        }
    }
    let done = recording.moments() == 1;
    Some((recording.disk().crash_with(&cut.fates), done))
}

impl Case {
    pub fn verdict(&self, ignored: Option<Barrier>) -> Verdict {
        let run = match run(self.start, &self.ops, ignored) {
            Ok(run) => run,
            Err(why) => return Verdict::Broken(why),
        };
        let mut recording = run.recording;
        let mut promise = None;
        for at in &self.cuts {
            let Some((disk, done)) = cut(recording, at) else {
                return Verdict::Pointless;
            };
            let promise = promise.get_or_insert_with(|| run.promises[usize::from(done)].clone());
            match judged(&disk, &self.start.options(), promise, &Seen::new()) {
                Ok(recovery) => {
                    recording = recovery.recording;
                    promise.saved = recovery.saved;
                }
                Err(why) => return Verdict::Broken(why),
            }
        }
        Verdict::Holds
    }

    /// The same violation with as few lost operations and cuts as possible.
    pub fn shrunk(mut self, ignored: Option<Barrier>) -> Self {
        let breaks = |case: &Self| matches!(case.verdict(ignored), Verdict::Broken(_));
        while let Some((_, fewer)) = self.cuts.split_last() {
            let fewer = Self {
                cuts: fewer.to_vec(),
                ..self.clone()
            };
            if !breaks(&fewer) {
                break;
            }
            self = fewer;
        }
        for at in (0..self.cuts.len()).rev() {
            for op in 0..self.cuts[at].fates.len() {
                let better = match self.cuts[at].fates[op] {
                    Fate::Kept => continue,
                    Fate::Lost => vec![Fate::Kept],
                    _ => vec![Fate::Kept, Fate::Lost],
                };
                for fate in better {
                    let mut smaller = self.clone();
                    smaller.cuts[at].fates[op] = fate;
                    if breaks(&smaller) {
                        self = smaller;
                        break;
                    }
                }
            }
        }
        self
    }

    /// The operations that the last cut loses or tears.
    pub fn lost(&self, ignored: Option<Barrier>) -> Vec<String> {
        let Ok(run) = run(self.start, &self.ops, ignored) else {
            return Vec::new();
        };
        let mut recording = run.recording;
        let mut promise = run.promises[0].clone();
        let mut told = Vec::new();
        for (level, at) in self.cuts.iter().enumerate() {
            for _ in 0..at.moment {
                recording.advance();
            }
            let ops = recording.disk().pending_ops();
            let lost = ops
                .iter()
                .zip(&at.fates)
                .filter(|(_, fate)| **fate != Fate::Kept);
            told.extend(lost.map(|(op, fate)| format!("cut {}: {op}: {fate:?}", level + 1)));
            let disk = recording.disk().crash_with(&at.fates);
            match judged(&disk, &self.start.options(), &promise, &Seen::new()) {
                Ok(recovery) => {
                    recording = recovery.recording;
                    promise.saved = recovery.saved;
                }
                Err(_) => break,
            }
        }
        told
    }

    /// Reads what [`Case`] prints.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        let name = words.next()?;
        let start = *STARTS.iter().find(|start| start.name == name)?;
        let ops = words.next()?;
        let ops = if ops == "-" {
            Some(Vec::new())
        } else {
            ops.split(',').map(Op::parse).collect()
        };
        let cuts = words.map(|word| {
            let (moment, fates) = word.split_once('/')?;
            let fates = fates.split(',').filter(|fate| !fate.is_empty());
            Some(Cut {
                moment: moment.parse().ok()?,
                fates: fates.map(parse_fate).collect::<Option<_>>()?,
            })
        });
        Some(Self {
            start,
            ops: ops?,
            cuts: cuts.collect::<Option<_>>()?,
        })
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops: Vec<&str> = self.ops.iter().map(|op| op.name()).collect();
        let ops = if ops.is_empty() {
            "-".into()
        } else {
            ops.join(",")
        };
        write!(f, "{} {ops}", self.start.name)?;
        for Cut { moment, fates } in &self.cuts {
            let fates: Vec<String> = fates.iter().map(print_fate).collect();
            write!(f, " {moment}/{}", fates.join(","))?;
        }
        Ok(())
    }
}

fn print_fate(fate: &Fate) -> String {
    match fate {
        Fate::Kept => "k".into(),
        Fate::Zeros => "z".into(),
        Fate::Garbage { seed } => format!("g{seed}"),
        Fate::Left(border) => format!("a{border}"),
        Fate::Right(border) => format!("b{border}"),
        _ => "l".into(),
    }
}

fn parse_fate(text: &str) -> Option<Fate> {
    let (kind, number) = text.split_at_checked(1)?;
    Some(match kind {
        "k" => Fate::Kept,
        "z" => Fate::Zeros,
        "l" => Fate::Lost,
        "g" => Fate::Garbage {
            seed: number.parse().ok()?,
        },
        "a" => Fate::Left(number.parse().ok()?),
        "b" => Fate::Right(number.parse().ok()?),
        _ => return None,
    })
}
