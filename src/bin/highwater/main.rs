//! The command line. It sees the public API of the crate only.
//!
//! Exit codes: 0 fine, 1 damage, 2 usage, 3 I/O. Each verb has a file of its own.
#![expect(clippy::print_stderr, reason = "a command-line tool prints")]

mod append;
mod args;
mod bench;
mod dump;
mod engine;
mod epochs;
mod info;
mod output;
mod producers;
mod progress;
mod read;
mod recover;
mod scenario;
mod truncate;
mod verify;

use std::process::ExitCode;

use clap::{CommandFactory, Parser};

use args::{Args, Verb};
use output::{Failure, Status};

fn main() -> ExitCode {
    let args = Args::parse();
    match run(args) {
        Ok(status) => status.into(),
        Err(failure) if failure.is_broken_pipe() => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("highwater: {failure}");
            failure.code()
        }
    }
}

fn run(args: Args) -> Result<Status, Failure> {
    let config = args.config;
    match args.verb {
        Verb::Append(args) => append::run(&config, &args),
        Verb::Read(args) => read::run(&config, &args),
        Verb::Info(args) => info::run(&config, &args),
        Verb::Verify(args) => verify::run(&config, &args),
        Verb::Producers(args) => producers::run(&config, &args),
        Verb::Dump(args) => dump::run(&args),
        Verb::Epochs(args) => epochs::run(&config, &args),
        Verb::Truncate(args) => truncate::run(&config, &args),
        Verb::Recover(args) => recover::run(&config, &args),
        Verb::Scenario(args) => scenario::run(&config, &args),
        Verb::Bench(args) => bench::run(&config, &args),
        Verb::Completions { shell } => {
            let mut out = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "highwater", &mut out);
            output::bytes(&out)
        }
        Verb::Man => {
            let mut out = Vec::new();
            clap_mangen::Man::new(Args::command()).render(&mut out)?;
            output::bytes(&out)
        }
    }
}
