//! Cuts the power of a simulated disk at every moment of every short sequence of operations, and
//! says whether the log that opens then keeps what it promised.
//!
//! ```text
//! cargo run --profile explore --features sim --example crash_explorer -- --seed 7 --seconds 600
//! ```
//!
//! The last line is `N crash states, V violations, R a second`; the exit is 1 if V is not 0.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    clippy::panic_in_result_fn,
    clippy::unwrap_in_result,
    clippy::wildcard_enum_match_arm,
    clippy::case_sensitive_file_extension_comparisons,
    clippy::similar_names,
    clippy::match_same_arms,
    clippy::single_match_else,
    clippy::type_complexity,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::disallowed_methods,
    unreachable_pub,
    reason = "a test stops at the first surprise, measures its own speed and prints"
)]

use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use highwater::storage::Barrier;

mod case;
#[path = "../common/mod.rs"]
mod common;
mod judge;
mod model;
mod ops;
mod search;
mod seen;

use case::{Case, Verdict};
use search::{Explorer, Options};

const USAGE: &str = "crash_explorer [--seed N] [--seconds S] [--states N] [--depth N]
    [--second-cuts N] [--threads N] [--endless] [--stop] [--ignore BARRIER] [--barriers]
    [--replay CASE]";

struct Arguments {
    options: Options,
    replay: Option<Case>,
    /// Whether each barrier is ignored in turn, to see that somebody notices.
    barriers: bool,
}

fn parse(mut words: impl Iterator<Item = String>) -> Option<Arguments> {
    let mut options = Options::default();
    let mut replay = None;
    let mut barriers = false;
    while let Some(word) = words.next() {
        let mut number = || words.next()?.parse::<u64>().ok();
        match word.as_str() {
            "--seed" => options.seed = number()?,
            "--seconds" => options.time = Some(Duration::from_secs(number()?)),
            "--states" => options.states = Some(number()?),
            "--depth" => options.depth = u32::try_from(number()?).ok()?,
            "--second-cuts" => options.second_cuts = number()?,
            "--threads" => options.threads = usize::try_from(number()?).ok()?,
            "--endless" => options.endless = true,
            "--barriers" => barriers = true,
            "--stop" => options.stops = true,
            "--ignore" => {
                let name = words.next()?;
                let named = |barrier: &Barrier| format!("{barrier:?}") == name;
                options.ignored = Some(Barrier::ALL.into_iter().find(named)?);
            }
            "--replay" => replay = Some(Case::parse(&words.next()?)?),
            _ => return None,
        }
    }
    Some(Arguments {
        options,
        replay,
        barriers,
    })
}

fn main() -> ExitCode {
    let Some(Arguments {
        options,
        replay,
        barriers,
    }) = parse(std::env::args().skip(1))
    else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    let ignored = options.ignored;
    if let Some(case) = replay {
        return replayed(&case, ignored);
    }
    // Panics of the engine are told as violations.
    std::panic::set_hook(Box::new(|_| {}));
    if barriers {
        return without_each_barrier(&options);
    }
    println!("{options:?}");
    let explorer = Explorer::new(options);
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| tell_progress(&explorer, &over));
        explorer.explore();
        over.store(true, Ordering::Relaxed);
    });
    let rate = explorer.rate();
    for (case, why) in explorer.told() {
        tell(case, &why, ignored);
    }
    println!(
        "{} sequences, {} recovered logs",
        explorer.sequences(),
        explorer.recovered()
    );
    let (states, violations) = (explorer.states(), explorer.violations());
    println!("{states} crash states, {violations} violations, {rate} a second");
    ExitCode::from(u8::from(violations > 0))
}

/// Explores once for each barrier, ignoring it; fails if one is not missed.
fn without_each_barrier(options: &Options) -> ExitCode {
    let mut unneeded = 0;
    for barrier in Barrier::ALL {
        let explorer = Explorer::new(Options {
            ignored: Some(barrier),
            stops: true,
            ..options.clone()
        });
        explorer.explore();
        let states = explorer.states();
        match explorer.told().first() {
            Some((_, why)) => println!("{barrier:?} ignored: state {states}: {why}"),
            None => {
                println!("{barrier:?} ignored: nobody notices in {states} states");
                unneeded += 1;
            }
        }
    }
    let all = Barrier::ALL.len();
    println!("{} of {all} barriers ignored and caught", all - unneeded);
    ExitCode::from(u8::from(unneeded > 0))
}

fn tell_progress(explorer: &Explorer, over: &AtomicBool) {
    let mut waited = 0;
    while !over.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(100));
        waited += 1;
        if waited % 300 == 0 {
            let (states, rate) = (explorer.states(), explorer.rate());
            println!(
                "{states} crash states so far, {rate} a second, sequence {}",
                explorer.sequences()
            );
        }
    }
}

/// A violation, the smallest set of lost operations that shows it, and how to see it again.
fn tell(case: Case, why: &str, ignored: Option<Barrier>) {
    println!("violation: {why}");
    let small = case.shrunk(ignored);
    if let Verdict::Broken(why) = small.verdict(ignored) {
        println!("  at its smallest: {why}");
    }
    for op in small.lost(ignored) {
        println!("  {op}");
    }
    let ignore = ignored.map_or(String::new(), |barrier| format!(" --ignore {barrier:?}"));
    println!(
        "  replay: cargo run --profile explore --features sim --example crash_explorer --{ignore} \
         --replay '{small}'"
    );
}

fn replayed(case: &Case, ignored: Option<Barrier>) -> ExitCode {
    for op in case.lost(ignored) {
        println!("{op}");
    }
    match case.verdict(ignored) {
        Verdict::Holds => {
            println!("holds");
            ExitCode::SUCCESS
        }
        Verdict::Pointless => {
            println!("no such moment");
            ExitCode::from(2)
        }
        Verdict::Broken(why) => {
            println!("violation: {why}");
            ExitCode::from(1)
        }
    }
}
