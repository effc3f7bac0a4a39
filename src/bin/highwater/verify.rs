//! `verify`: a finding a line.

use highwater::inspect::{Depth, Finding, Target};

use crate::args::{PathArgs, Setting};
use crate::info::each;
use crate::output::{self, Failure, Out, Status};

pub(crate) fn run(config: &[Setting], args: &PathArgs) -> Result<Status, Failure> {
    let mut out = Out::new();
    let target = Target::open(&args.path)?;
    let mut show = |findings: &[Finding]| {
        let mut status = Status::Fine;
        for finding in findings {
            if args.json {
                out.json(&output::finding(finding))?;
            } else {
                out.line(format_args!("{finding}"))?;
            }
            if finding.is_damage() {
                status = Status::Damage;
            }
        }
        out.flush()?;
        Ok::<_, Failure>(status)
    };
    let above = show(target.findings())?;
    let logs = each(
        config,
        &target,
        Depth::Everything,
        args.clock.now(),
        &mut |info| show(&info.findings),
    )?;
    Ok(above.and(logs))
}
