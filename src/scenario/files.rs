//! The files of a closed log: listing and damaging them.

use std::io;

use super::log::Refusal;
use super::parse::OnFiles;
use crate::error::Error;
use crate::names::OURS;
use crate::producer::snapshot;
use crate::record::crc32_ieee;
use crate::storage::{Access, Dir, EntryKind, File, OsDir, read_file, remove_if_there};

/// Carries out a command on the directory of a closed log; the text stands behind `ok`.
pub(super) fn run(dir: &OsDir, command: &OnFiles) -> Result<String, Refusal> {
    match command {
        OnFiles::List => list(dir),
        OnFiles::Remove { file } => {
            // Names that lead elsewhere are refused by the directory.
            if dir.open(file, Access::Read).is_err() {
                return Err(Refusal::NO_SUCH_FILE);
            }
            remove_if_there(dir, file).map_err(|e| failed(dir, file, e))?;
            Ok(String::new())
        }
        OnFiles::Cut { segment, bytes } => {
            let (name, file) = open(dir, *segment)?;
            let length = file.bytes().map_err(|e| failed(dir, &name, e))?;
            let left = u64::try_from(*bytes)
                .ok()
                .and_then(|bytes| length.checked_sub(bytes))
                .ok_or(Refusal::INVALID_OFFSET)?;
            file.set_len(left).map_err(|e| failed(dir, &name, e))?;
            Ok(format!("bytes={left}"))
        }
        OnFiles::Garbage { segment, bytes } => {
            let (name, file) = open(dir, *segment)?;
            let length = file.bytes().map_err(|e| failed(dir, &name, e))?;
            file.write_all_at(bytes, length)
                .and_then(|()| file.bytes())
                .map(|bytes| format!("bytes={bytes}"))
                .map_err(|e| failed(dir, &name, e))
        }
        OnFiles::Flip { segment, at, bit } => flip(dir, *segment, *at, *bit),
    }
}

fn flip(dir: &OsDir, segment: i64, at: i64, bit: i64) -> Result<String, Refusal> {
    let (name, file) = open(dir, segment)?;
    let length = file.bytes().map_err(|e| failed(dir, &name, e))?;
    let at = u64::try_from(at).ok().filter(|at| *at < length);
    let mask = u32::try_from(bit)
        .ok()
        .and_then(|bit| 1_u8.checked_shl(bit));
    let (Some(at), Some(mask)) = (at, mask) else {
        return Err(Refusal::INVALID_OFFSET);
    };
    let mut byte = [0];
    file.read_exact_at(&mut byte, at)
        .map_err(|e| failed(dir, &name, e))?;
    file.write_all_at(&byte.map(|byte| byte ^ mask), at)
        .map_err(|e| failed(dir, &name, e))?;
    Ok(String::new())
}

fn open(dir: &OsDir, segment: i64) -> Result<(String, <OsDir as Dir>::File), Refusal> {
    let name = format!("{segment:020}.log");
    match dir.open(&name, Access::Write) {
        Ok(file) => Ok((name, file)),
        Err(_) => Err(Refusal::NO_SUCH_FILE),
    }
}

fn list(dir: &OsDir) -> Result<String, Refusal> {
    let entries = dir.list().map_err(|e| failed(dir, "", e))?;
    let mut list = Vec::new();
    for entry in entries {
        if entry.kind != EntryKind::File || entry.name.starts_with(OURS) {
            continue;
        }
        let name = &entry.name;
        let bytes = read_file(dir, name, u64::MAX).map_err(|e| failed(dir, name, e))?;
        let mut bytes = bytes.unwrap_or_default();
        if name.ends_with(".snapshot") {
            bytes = sorted_snapshot(bytes);
        }
        list.push(format!("{name}:{}:{:08x}", bytes.len(), crc32_ieee(&bytes)));
    }
    Ok(format!("list={}", super::log::join(&list)))
}

/// A snapshot with its producers in the order of their ids: Kafka leaves them in that of a hash
/// map.
fn sorted_snapshot(bytes: Vec<u8>) -> Vec<u8> {
    match snapshot::parse(&bytes) {
        Ok(mut entries) => {
            entries.sort_by_key(|entry| entry.producer_id);
            snapshot::print(entries)
        }
        Err(_) => bytes,
    }
}

fn failed(dir: &OsDir, name: &str, error: io::Error) -> Refusal {
    Refusal::from(Error::io(
        "change a file of a closed log",
        &dir.path().join(name),
        error,
    ))
}
