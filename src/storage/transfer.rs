//! Whole transfers out of calls that may do less: short counts and EINTR end here.
//!
//! The real files and the simulated ones run the same loops, so that the simulation tests them.

use std::io;

/// Calls `read` until the buffer is full or the file ends; returns how many bytes came.
///
/// Every round fills at least one byte, ends the loop, or was interrupted.
pub(super) fn read_at_most(
    buffer: &mut [u8],
    position: u64,
    mut read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<usize> {
    let mut done = 0;
    while let Some(rest) = buffer.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match read(rest, place(position, done)?) {
            Ok(0) => break,
            Ok(count) => done = advance(done, count)?,
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(done)
}

/// As [`read_at_most`], but the end of the file is an error.
pub(super) fn read_exact(
    buffer: &mut [u8],
    position: u64,
    read: impl FnMut(&mut [u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let wanted = buffer.len();
    let came = read_at_most(buffer, position, read)?;
    if came == wanted {
        return Ok(());
    }
    Err(io::Error::new(
        io::ErrorKind::UnexpectedEof,
        format!("the file ends {came} bytes behind position {position}, {wanted} were wanted"),
    ))
}

/// Calls `write` until all bytes are taken. A call that takes none is an error, not a reason to go
/// on.
pub(super) fn write_all(
    bytes: &[u8],
    position: u64,
    mut write: impl FnMut(&[u8], u64) -> io::Result<usize>,
) -> io::Result<()> {
    let mut done = 0;
    while let Some(rest) = bytes.get(done..).filter(|rest| !rest.is_empty()) {
        match write(rest, place(position, done)?) {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::WriteZero,
                    "the system took no byte of a write",
                ));
            }
            Ok(count) => done = advance(done, count)?,
            Err(failure) if failure.kind() == io::ErrorKind::Interrupted => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

fn place(position: u64, done: usize) -> io::Result<u64> {
    u64::try_from(done)
        .ok()
        .and_then(|done| position.checked_add(done))
        .ok_or_else(too_far)
}

fn advance(done: usize, count: usize) -> io::Result<usize> {
    done.checked_add(count).ok_or_else(too_far)
}

fn too_far() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "a position past 2^64")
}
