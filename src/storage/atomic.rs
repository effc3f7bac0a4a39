//! Small files that are replaced whole: after a crash the old content or the new one, never a mix.
//!
//! The order is content, its sync, the rename, the sync of the directory. Each step is a function
//! of its own, so that one left out is a change that the crash tests must notice.

use std::io;

use super::{Access, Barrier, Dir, File};

/// Gives the file `name` the content, durable on return, through `<name>.tmp` and a rename.
///
/// Two callers must not replace the same file at once. A `<name>.tmp` from before a crash is
/// removed.
///
/// # Errors
/// Those of the system. Before the rename the old file stands; a failure of the last step leaves it
/// open which of the two a power cut would show.
pub fn replace_file(dir: &impl Dir, name: &str, content: &[u8]) -> io::Result<()> {
    let temporary = format!("{name}.tmp");
    remove_if_there(dir, &temporary)?;
    let written = write_temporary(dir, &temporary, content).and_then(|file| sync_temporary(&file));
    if let Err(failure) = written {
        // Nobody needs it; what cannot be removed is removed by the next call.
        drop(remove_if_there(dir, &temporary));
        return Err(failure);
    }
    rename_into_place(dir, &temporary, name)?;
    sync_names(dir)
}

/// Reads a whole file; `None` if it is missing. Its length is checked before anything is allocated.
///
/// # Errors
/// `InvalidData` if it is longer than `max_bytes`, else those of the system.
pub fn read_file(dir: &impl Dir, name: &str, max_bytes: u64) -> io::Result<Option<Vec<u8>>> {
    let file = match dir.open(name, Access::Read) {
        Ok(file) => file,
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(failure) => return Err(failure),
    };
    let bytes = file.bytes()?;
    if bytes > max_bytes {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{bytes} bytes, and at most {max_bytes} make sense"),
        ));
    }
    let length = usize::try_from(bytes).map_err(io::Error::other)?;
    let mut content = vec![0; length];
    let came = file.read_at_most(&mut content, 0)?;
    content.truncate(came);
    Ok(Some(content))
}

/// Removes a file; says whether it was there. Durable after [`Dir::sync`].
///
/// # Errors
/// Those of the system, a missing file not among them.
pub fn remove_if_there(dir: &impl Dir, name: &str) -> io::Result<bool> {
    match dir.remove(name) {
        Ok(()) => Ok(true),
        Err(failure) if failure.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(failure) => Err(failure),
    }
}

fn write_temporary<D: Dir>(dir: &D, temporary: &str, content: &[u8]) -> io::Result<D::File> {
    let file = dir.create_new(temporary)?;
    file.write_all_at(content, 0)?;
    Ok(file)
}

/// Without it the name may be durable before the content: an empty or torn file.
fn sync_temporary(file: &impl File) -> io::Result<()> {
    file.sync_for(Barrier::ContentBeforeRename)
}

fn rename_into_place(dir: &impl Dir, temporary: &str, name: &str) -> io::Result<()> {
    dir.rename(temporary, name)
}

/// Without it the old content may come back after this call has returned.
fn sync_names(dir: &impl Dir) -> io::Result<()> {
    dir.sync_for(Barrier::RenameBeforeReturn)
}
