//! `recover`: opens every log, recovers it, closes it cleanly; a line each.

use std::path::{Path, PathBuf};

use highwater::error::ErrorKind;
use highwater::inspect::Target;
use highwater::log::{Cut, Damage, Decision, Note, OpenReport, Plan, RecoveryScope, Source};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::storage::{Access, Dir, File, OsDir};
use highwater::types::Offset;
use serde_json::{Value, json};

use crate::args::{RecoverArgs, Setting};
use crate::engine::{Place, log_config, readable, saved};
use crate::output::{Failure, Out, Status};

pub(crate) fn run(config: &[Setting], args: &RecoverArgs) -> Result<Status, Failure> {
    let target = Target::open(&args.path)?;
    if target.logs().is_empty() {
        eprintln!("highwater: {}: no log here", target.path().display());
        return Ok(Status::Fine);
    }
    let mut options = DirOptions::new(args.clock.now())
        .config(log_config(config)?)
        .scope(RecoveryScope::Everything)
        .repair(args.repair);
    let data = if target.is_data_dir() {
        args.path.clone()
    } else {
        let place = Place::of(&args.path)?;
        readable(&args.path)?;
        options = options.only(place.log);
        place.data
    };
    if args.paranoid {
        for name in target.logs() {
            evict(&data.join(name));
        }
    }
    let mut show = Show {
        out: Out::new(),
        args,
        data: data.clone(),
        status: Status::Fine,
    };
    if args.dry_run {
        for (log, plan) in LogDir::plan(&data, &options)? {
            match plan {
                Ok(plan) => show.log(&log, &Outcome::of_plan(&plan))?,
                Err(error) => show.failed(&log, &error)?,
            }
        }
    } else {
        let (dir, report) = LogDir::open(&data, options)?;
        show_notes(&report.notes);
        let mut told = Ok(());
        for (log, outcome) in &report.logs {
            told = told.and_then(|()| match outcome {
                Ok(report) => show.log(log, &Outcome::of_report(report)),
                Err(error) => show.failed(log, error),
            });
        }
        let closed = dir.close();
        told?;
        closed?;
    }
    show.out.flush()?;
    Ok(show.status)
}

/// Asks the system to forget the bytes of a log, so that what is read next comes from the device.
/// It may refuse: then the read is an ordinary one.
fn evict(log: &Path) {
    let Ok(dir) = OsDir::open(log) else { return };
    for entry in dir.list().unwrap_or_default() {
        if let Ok(file) = dir.open(&entry.name, Access::Read)
            && let Err(error) = file.evict()
        {
            eprintln!(
                "highwater: {}: read from memory: {error}",
                log.join(&entry.name).display()
            );
        }
    }
}

/// What a plan and a report have in common.
struct Outcome<'a> {
    decision: Decision,
    cut: Option<&'a Cut>,
    damage: &'a [Damage],
    notes: &'a [Note],
    indexes_rebuilt: Vec<Offset>,
    epochs_source: Source,
    high_watermark_source: Source,
    log_end_offset: Offset,
}

impl<'a> Outcome<'a> {
    fn of_plan(plan: &'a Plan) -> Self {
        Self {
            decision: plan.decision(),
            cut: plan.cut.as_ref(),
            damage: &plan.damage,
            notes: &plan.notes,
            indexes_rebuilt: plan.indexes_rebuilt(),
            epochs_source: plan.epochs_source,
            high_watermark_source: plan.high_watermark_source,
            log_end_offset: plan.log_end_offset,
        }
    }

    fn of_report(report: &'a OpenReport) -> Self {
        Self {
            decision: report.decision,
            cut: report.cut.as_ref(),
            damage: &report.damage,
            notes: &report.notes,
            indexes_rebuilt: report.indexes_rebuilt.clone(),
            epochs_source: report.epochs_source,
            high_watermark_source: report.high_watermark_source,
            log_end_offset: report.log_end_offset,
        }
    }
}

struct Show<'a> {
    out: Out,
    args: &'a RecoverArgs,
    data: PathBuf,
    status: Status,
}

impl Show<'_> {
    fn log(&mut self, log: &TopicPartition, outcome: &Outcome<'_>) -> Result<(), Failure> {
        if !outcome.damage.is_empty() {
            self.status = self.status.and(Status::Damage);
        }
        let value = self.json_of(log, outcome);
        if self.args.json {
            self.out.json(&value)
        } else {
            self.people(log, outcome)
        }
    }

    fn json_of(&self, log: &TopicPartition, outcome: &Outcome<'_>) -> Value {
        let inside = self.data.join(log.to_string());
        let saved_to: Vec<String> = outcome
            .cut
            .into_iter()
            .flat_map(|cut| &cut.saved_to)
            .map(|name| inside.join(name).display().to_string())
            .collect();
        let damage: Vec<Value> = outcome
            .damage
            .iter()
            .map(|damage| {
                json!({
                    "file": damage.file,
                    "position": damage.position.get(),
                    "offset": damage.first_offset.get(),
                    "end_offset": damage.end_offset.get(),
                    "detail": damage.detail,
                })
            })
            .collect();
        let notes: Vec<Value> = outcome
            .notes
            .iter()
            .map(|note| json!({ "file": note.file, "detail": note.detail }))
            .collect();
        json!({
            "partition": log.to_string(),
            "decision": outcome.decision.name(),
            "cut_from": outcome.cut.map(|cut| cut.offset.get()),
            "cut_bytes": outcome.cut.map_or(0, |cut| cut.bytes),
            "lost_offsets": outcome.cut.map_or(0, |cut| cut.lost_offsets),
            "saved_to": saved_to,
            "indexes_rebuilt":
                outcome.indexes_rebuilt.iter().map(|base| base.get()).collect::<Vec<_>>(),
            "epochs_source": outcome.epochs_source.name(),
            "hw_source": outcome.high_watermark_source.name(),
            "log_end_offset": outcome.log_end_offset.get(),
            "cut_file": outcome.cut.map(|cut| cut.file.clone()),
            "cut_position": outcome.cut.map(|cut| cut.position.get()),
            "damage": damage,
            "notes": notes,
        })
    }

    fn people(&mut self, log: &TopicPartition, outcome: &Outcome<'_>) -> Result<(), Failure> {
        let (decision, end) = (outcome.decision.name(), outcome.log_end_offset);
        self.out
            .line(format_args!("{log}: {decision}, the log ends at {end}"))?;
        if let Some(cut) = outcome.cut {
            self.out.line(format_args!(
                "  cut {} bytes, {} offsets from {} on ({} position {}: {}); {}",
                cut.bytes,
                cut.lost_offsets,
                cut.offset,
                cut.file,
                cut.position,
                cut.detail,
                if self.args.dry_run {
                    "nothing done yet".to_owned()
                } else {
                    saved(&cut.saved_to)
                },
            ))?;
        }
        for damage in outcome.damage {
            self.out.line(format_args!(
                "  damaged: {} position {}, offsets {} to {}: {}; kept as it is: restore it from a \
                 replica, or cut there with --repair",
                damage.file, damage.position, damage.first_offset, damage.end_offset, damage.detail,
            ))?;
        }
        for note in outcome.notes {
            let file = note
                .file
                .as_deref()
                .map_or_else(String::new, |file| format!("{file}: "));
            self.out.line(format_args!("  {file}{}", note.detail))?;
        }
        Ok(())
    }

    /// One log that cannot be opened does not stop the others.
    fn failed(
        &mut self,
        log: &TopicPartition,
        error: &highwater::error::Error,
    ) -> Result<(), Failure> {
        let is_damage = matches!(
            error.kind(),
            ErrorKind::Corrupt | ErrorKind::CorruptRecord | ErrorKind::Damaged
        );
        self.status = self.status.and(if is_damage {
            Status::Damage
        } else {
            Status::Io
        });
        eprintln!("highwater: {log}: {error}");
        if self.args.json {
            self.out.json(&json!({
                "partition": log.to_string(),
                "decision": "failed",
                "error": error.to_string(),
            }))?;
        }
        Ok(())
    }
}

fn show_notes(notes: &[Note]) {
    for note in notes {
        eprintln!(
            "highwater: {}: {}",
            note.file.as_deref().unwrap_or_default(),
            note.detail
        );
    }
}
