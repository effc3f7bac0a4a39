//! Looks into a Kafka data directory, or one log of it, without changing anything: a line a
//! partition, then what is wrong with it.
//!
//! `cargo run --example inspect_kafka -- /var/lib/kafka/data`
#![allow(clippy::print_stdout, reason = "an example prints")]

use std::path::PathBuf;
use std::process::ExitCode;

use highwater::inspect::{Depth, Options, Severity, Target, examine};

fn main() -> Result<ExitCode, Box<dyn std::error::Error>> {
    let Some(path) = std::env::args_os().nth(1).map(PathBuf::from) else {
        return Err("name a data directory or a log directory".into());
    };
    let target = Target::open(&path)?;
    let mut damaged = false;
    for name in target.logs() {
        // A log may be deleted while a broker is at work.
        let Some(log) = target.log(name)? else {
            continue;
        };
        let info = examine(&log, Depth::Everything, &Options::default())?;
        println!(
            "{}: offsets {} to {}, {} segments, {} bytes, {} records",
            info.partition,
            info.log_start_offset,
            info.log_end_offset,
            info.segments,
            info.bytes,
            info.records
        );
        for finding in &info.findings {
            println!("  {finding:?}");
            damaged |= finding.severity == Severity::Damage;
        }
    }
    Ok(if damaged {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    })
}
