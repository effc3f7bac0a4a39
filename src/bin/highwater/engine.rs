//! Opening logs for the verbs that write.

use std::io;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use highwater::log::{LogConfig, OpenReport};
use highwater::log_dir::{DirOptions, LogDir};
use highwater::names::TopicPartition;
use highwater::storage::{Access, Dir, OsDir};
use highwater::types::Timestamp;

use crate::args::Setting;
use crate::output::Failure;
use crate::read::open_log;

/// The directory of a log, taken apart.
pub(crate) struct Place {
    pub(crate) data: PathBuf,
    pub(crate) log: TopicPartition,
}

impl Place {
    /// `DIR/topic-0`.
    pub(crate) fn of(path: &Path) -> Result<Self, Failure> {
        let no_log = || {
            Failure::usage(format!(
                "{}: not the name of a log; name one such as DIR/topic-0",
                path.display()
            ))
        };
        let whole;
        let path = if path.file_name().is_some() {
            path
        } else {
            whole = std::path::absolute(path)?;
            &whole
        };
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .ok_or_else(no_log)?;
        let log = TopicPartition::parse(name).ok_or_else(no_log)?;
        let data = path
            .parent()
            .filter(|parent| !parent.as_os_str().is_empty());
        Ok(Self {
            data: data.unwrap_or(Path::new(".")).to_path_buf(),
            log,
        })
    }

    /// Opens the log alone. The report is `None` if there is no such log.
    pub(crate) fn open(
        &self,
        options: DirOptions,
    ) -> Result<(LogDir, Option<OpenReport>), Failure> {
        readable(&self.data.join(self.log.to_string()))?;
        // What stands beside the log in its directory is not what was asked for.
        let (dir, mut report) = LogDir::open(&self.data, options.only(self.log.clone()))?;
        match report.logs.pop() {
            None => Ok((dir, None)),
            Some((_, Ok(report))) => {
                tell(&self.log, &report);
                Ok((dir, Some(report)))
            }
            Some((_, Err(error))) => {
                // What it says comes second to why the log could not be opened.
                drop(dir.close());
                Err(error.into())
            }
        }
    }
}

/// Fails before anything is locked or changed, if the directory of a log is none or cannot be read.
pub(crate) fn readable(path: &Path) -> Result<(), Failure> {
    match path.metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Ok(found) if !found.is_dir() => {
            return Err(Failure::Io(format!(
                "{}: a file stands where the directory of the log should be; name another log",
                path.display()
            )));
        }
        Ok(_) | Err(_) => {}
    }
    let log = open_log(path)?;
    let cannot = |error: io::Error| {
        Failure::Io(format!(
            "cannot open the log: {}: {error}; run as a user who may read it",
            path.display()
        ))
    };
    let dir = OsDir::open(path).map_err(cannot)?;
    for segment in log.segments() {
        dir.open(&segment.log_name(), Access::Read)
            .map_err(|error| {
                let name = path.join(segment.log_name());
                let name = name.display();
                Failure::Io(format!(
                    "cannot open the segment: {name}: {error}; run as a user who may read it"
                ))
            })?;
    }
    Ok(())
}

/// What opening a log changed, for people.
fn tell(log: &TopicPartition, report: &OpenReport) {
    if let Some(cut) = &report.cut {
        eprintln!(
            "highwater: {log}: cut {} bytes behind offset {} ({} position {}: {}); {}",
            cut.bytes,
            cut.offset,
            cut.file,
            cut.position,
            cut.detail,
            saved(&cut.saved_to),
        );
    }
}

pub(crate) fn saved(files: &[String]) -> String {
    if files.is_empty() {
        "nothing to save".to_owned()
    } else {
        format!("saved to {}", files.join(", "))
    }
}

/// The settings of the command line over Kafka's defaults.
pub(crate) fn log_config(settings: &[Setting]) -> Result<LogConfig, Failure> {
    let mut config = LogConfig::default();
    for setting in settings {
        config.set(&setting.key, &setting.value)?;
    }
    Ok(config)
}

#[expect(
    clippy::disallowed_methods,
    reason = "the command line is where time enters"
)]
pub(crate) fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
