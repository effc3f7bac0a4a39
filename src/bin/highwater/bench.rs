//! `bench`: each figure beside the raw system call on the same bytes, as a ratio.

mod append;
mod material;
mod measure;
mod open;
mod plan;
mod producers;
mod read;

use std::io;

use serde_json::json;

use crate::args::{BenchArgs, Setting};
use crate::engine::log_config;
use crate::output::{Failure, Out, Status};
use measure::Figure;
use plan::{NAMES, Plan, Settings};

pub(crate) fn run(config: &[Setting], args: &BenchArgs) -> Result<Status, Failure> {
    log_config(config)?;
    let over = Settings(config);
    let unknown = args
        .only
        .iter()
        .find(|only| !NAMES.contains(&only.as_str()));
    if let Some(unknown) = unknown {
        let names = NAMES.join(" ");
        return Err(Failure::usage(format!(
            "bench: no figure {unknown}; there are {names}"
        )));
    }
    let mut out = Out::new();
    if let Some(data) = &args.recover_here {
        let line = open::recover_here(data, over).map_err(failed)?;
        out.line(format_args!("{line}"))?;
        out.flush()?;
        return Ok(Status::Fine);
    }
    let plan = Plan {
        over,
        dir: args.dir.clone(),
        bytes: args.bytes,
        only: args.only.clone(),
    };
    let mut broken = None;
    let measured = plan.run(|figure| {
        show(&mut out, figure, args.json).map_err(|failure| {
            broken = Some(failure);
            io::Error::other("nobody reads on")
        })
    });
    match (measured, broken) {
        (_, Some(failure)) => Err(failure),
        (Err(error), None) => Err(failed(error)),
        (Ok(()), None) => Ok(Status::Fine),
    }
}

fn show(out: &mut Out, figure: &Figure, as_json: bool) -> Result<(), Failure> {
    if as_json {
        out.json(&json!({
            "name": figure.name,
            "highwater": figure.highwater,
            "reference": figure.reference,
            "unit": figure.unit,
            "ratio": figure.ratio,
            "what": figure.what,
        }))?;
    } else {
        out.line(format_args!(
            "{:26} {:12.1} {:12.1} {:11} {:6.2}  {}",
            figure.name, figure.highwater, figure.reference, figure.unit, figure.ratio, figure.what
        ))?;
    }
    out.flush()
}

/// What went wrong: with the engine, or with a file of the benchmark's own.
fn failed(error: io::Error) -> Failure {
    match error.downcast::<highwater::error::Error>() {
        Ok(engine) => Failure::Engine(engine),
        Err(error) => Failure::Io(format!("bench: {error}")),
    }
}
