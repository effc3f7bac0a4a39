//! The text language in which the engine is compared with Kafka, feature `scenario`.
//!
//! A scenario is a text file that drives one log, or the leader of one partition, a command a line;
//! every command gives one result line, `N ok key=value ...` or `N error KIND`, where N is the
//! number of its line. The same file runs on Kafka's own code, and both answers must be equal, line
//! by line.
//!
//! 1. All lines are parsed before the first command is carried out: a malformed scenario changes
//!    nothing.
//! 2. A command never ends the run: what goes wrong is its answer.
//! 3. The clock stands at [`START`] and moves only by the command `time`.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use crate::replication::message::Compatibility;
use crate::types::Timestamp;

mod files;
mod leader;
mod line;
mod log;
mod parse;

/// Where the clock of a scenario stands at its beginning.
pub const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// Why a scenario did not run to its end.
#[derive(Debug)]
pub struct ScenarioError {
    line: usize,
    cause: Cause,
}

#[derive(Debug)]
enum Cause {
    Malformed(String),
    Output(io::Error),
}

impl ScenarioError {
    /// The number of the line, from 1.
    pub fn line(&self) -> usize {
        self.line
    }

    /// Whether the scenario is to blame; else its results could not be written.
    pub fn is_malformed(&self) -> bool {
        matches!(self.cause, Cause::Malformed(_))
    }
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.cause {
            Cause::Malformed(why) => write!(f, "line {}: {why}", self.line),
            Cause::Output(_) => write!(f, "write the result of line {}", self.line),
        }
    }
}

impl std::error::Error for ScenarioError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.cause {
            Cause::Malformed(_) => None,
            Cause::Output(source) => Some(source),
        }
    }
}

/// Runs a scenario in the data directory `dir`, which is made if it is missing (its parent is not),
/// and writes the result lines to `out`.
///
/// A file that begins with `role leader` drives the leader of the partition `t-0`, under the rules
/// of `compatibility`. Any other drives the log `scenario-0`, which has one set of rules.
///
/// The log is left as the last command left it, open ones as by a killed process.
///
/// # Errors
/// A line that cannot be parsed: nothing was done then, [`ScenarioError::line`] tells which. Or
/// `out` could not be written.
pub fn run(
    text: &str,
    dir: &Path,
    compatibility: Compatibility,
    out: &mut dyn Write,
) -> Result<(), ScenarioError> {
    if is_for_leader(text) {
        let mut engine = leader::Engine::new(dir, compatibility);
        run_lines(text, leader::Command::parse, |c| engine.execute(c), out)
    } else {
        let mut engine = log::Engine::new(dir);
        run_lines(text, parse::Command::parse, |c| engine.execute(c), out)
    }
}

/// Whether the first command names the role.
fn is_for_leader(text: &str) -> bool {
    let mut lines = text
        .lines()
        .filter_map(|line| line::Line::split(line).ok()?);
    lines.next().is_some_and(|first| first.verb == "role")
}

fn run_lines<C>(
    text: &str,
    parse: impl Fn(&str) -> line::Parsed<Option<C>>,
    mut execute: impl FnMut(C) -> String,
    out: &mut dyn Write,
) -> Result<(), ScenarioError> {
    let mut commands = Vec::new();
    for (at, text) in text.lines().enumerate() {
        let line = at.saturating_add(1);
        match parse(text) {
            Ok(Some(command)) => commands.push((line, command)),
            Ok(None) => {}
            Err(why) => {
                return Err(ScenarioError {
                    line,
                    cause: Cause::Malformed(why.0),
                });
            }
        }
    }
    for (line, command) in commands {
        let result = execute(command);
        writeln!(out, "{line} {result}").map_err(|e| ScenarioError {
            line,
            cause: Cause::Output(e),
        })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
