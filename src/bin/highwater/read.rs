//! `read`: records, and nothing else, on standard output.

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Duration;

use highwater::inspect::{Isolation, LogDirectory, Options, Query, ReadRecord, Target, read};
use highwater::types::{LeaderEpoch, Timestamp};

use crate::args::{IsolationArg, ReadArgs, Setting, WatermarkArg, segment_bytes};
use crate::output::{Failure, Out, Status};

/// How long `--follow` waits between two looks.
const PAUSE: Duration = Duration::from_millis(200);

pub(crate) fn run(config: &[Setting], args: &ReadArgs) -> Result<Status, Failure> {
    let segment_bytes = segment_bytes(config)?;
    let mut log = open_for(args)?;
    let isolation = match args.isolation {
        IsolationArg::LogEnd => Isolation::LogEnd,
        IsolationArg::HighWatermark => Isolation::HighWatermark,
        IsolationArg::Committed => Isolation::Committed,
    };
    if isolation != Isolation::LogEnd && log.high_watermark().is_none() {
        eprintln!(
            "highwater: {}: no high watermark is known, so nothing counts as committed; \
             --high-watermark log-end takes all for replicated",
            log.name()
        );
    }
    let mut query = Query {
        from: args.from,
        since: args.since.map(Timestamp::from_millis),
        isolation,
    };
    let mut printer = Printer {
        out: Out::new(),
        json: args.json,
        left: args.max,
        failure: None,
        printed: false,
    };
    let mut status = Status::Fine;
    let mut told = Vec::new();
    loop {
        let options = Options {
            segment_bytes,
            ..Options::default()
        };
        let outcome = read(&log, &query, &options, &mut |record| {
            Ok(printer.print(record))
        })?;
        if let Some(failure) = printer.failure.take() {
            return Err(failure);
        }
        printer.out.flush()?;
        for finding in &outcome.damage {
            if !told.contains(finding) {
                eprintln!("highwater: {finding}");
                told.push(finding.clone());
            }
            status = Status::Damage;
        }
        if let Some(tail) = outcome.torn_tail.filter(|_| !args.follow) {
            eprintln!("highwater: the log ends in a torn tail: {tail}");
        }
        if !args.follow || printer.left == Some(0) {
            return Ok(status);
        }
        query.from = Some(outcome.next_offset);
        if printer.printed {
            query.since = None;
        }
        #[expect(
            clippy::disallowed_methods,
            reason = "the verb waits for others to write"
        )]
        std::thread::sleep(PAUSE);
        log = open_for(args)?;
    }
}

fn open_for(args: &ReadArgs) -> Result<LogDirectory, Failure> {
    let mut log = open_log(&args.log)?;
    if let Some(WatermarkArg(offset)) = args.high_watermark {
        log.assume_high_watermark(offset);
    }
    Ok(log)
}

/// Opens the directory of one log.
pub(crate) fn open_log(path: &Path) -> Result<LogDirectory, Failure> {
    let target = Target::open(path)?;
    if target.is_data_dir() {
        return Err(Failure::usage(format!(
            "{}: no log; name the directory of one, such as DIR/topic-0",
            path.display()
        )));
    }
    let name = target.logs().first().cloned().unwrap_or_default();
    target
        .log(&name)?
        .ok_or_else(|| Failure::usage(format!("{}: the log is gone", path.display())))
}

struct Printer {
    out: Out,
    json: bool,
    /// How many more records are wanted.
    left: Option<u64>,
    failure: Option<Failure>,
    printed: bool,
}

impl Printer {
    fn print(&mut self, record: &ReadRecord<'_>) -> ControlFlow<()> {
        if self.left == Some(0) {
            return ControlFlow::Break(());
        }
        self.printed = true;
        if let Err(failure) = self.write(record) {
            self.failure = Some(failure);
            return ControlFlow::Break(());
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        if self.left == Some(0) {
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        }
    }

    /// For people: the value alone, as `append` takes it.
    fn write(&mut self, record: &ReadRecord<'_>) -> Result<(), Failure> {
        if !self.json {
            self.out.raw(record.value.unwrap_or_default())?;
            return self.out.raw(b"\n");
        }
        let epoch = record.leader_epoch.map_or(-1, LeaderEpoch::get);
        let numbers = [
            ("offset", record.offset.get()),
            ("timestamp", record.timestamp.millis()),
            ("leader_epoch", epoch.into()),
        ];
        self.out.json_record(&numbers, record.record())
    }
}
