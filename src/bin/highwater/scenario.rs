//! `scenario`.

use std::io::Read as _;
use std::path::Path;

use highwater::scenario;

use crate::args::{ScenarioArgs, Setting};
use crate::output::{self, Failure, Status};

/// A data directory that goes when the run ends.
struct Fresh(std::path::PathBuf);

impl Drop for Fresh {
    #[expect(
        clippy::disallowed_methods,
        reason = "a temporary directory is no log's file"
    )]
    fn drop(&mut self) {
        // What cannot be removed stays in the system's temporary directory.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[expect(clippy::disallowed_methods, reason = "a scenario is no log's file")]
pub(crate) fn run(_config: &[Setting], args: &ScenarioArgs) -> Result<Status, Failure> {
    let mut text = String::new();
    let read = if args.file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text).map(|_| ())
    } else {
        std::fs::read_to_string(&args.file).map(|read| text = read)
    };
    read.map_err(|e| Failure::usage(format!("{}: {e}", args.file.display())))?;
    let name = format!("highwater-scenario-{}", std::process::id());
    let fresh = Fresh(std::env::temp_dir().join(name));
    let dir = args.dir.as_deref().unwrap_or(&fresh.0);
    let mut results = Vec::new();
    scenario::run(&text, dir, args.compatibility.into(), &mut results)
        .map_err(|e| Failure::usage(format!("{}: {e}", args.file.display())))?;
    output::bytes(&results)
}
