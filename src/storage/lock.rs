//! The kind of lock that a JVM sees: `fcntl`, owned by the open file and not by the process.
//!
//! `flock` and `fcntl` locks ignore each other on Linux. A Kafka broker takes the second kind, so a
//! directory that holds only the first would be opened twice.
#![expect(
    unsafe_code,
    reason = "no crate in use wraps open-file-description locks"
)]

use std::fs::File;
use std::io;

/// Locks the whole file for writing; `false` if another open file has it. Ends when `file` is
/// closed.
///
/// # Errors
/// Those of the system; a file system without such locks is one of them.
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(super) fn try_lock_whole_file(file: &File) -> io::Result<bool> {
    use std::os::fd::AsRawFd;

    let whole = libc::flock {
        l_type: short(libc::F_WRLCK)?,
        l_whence: short(libc::SEEK_SET)?,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    loop {
        // SAFETY: `file` keeps the descriptor open for the call, and F_OFD_SETLK reads one `flock`
        // through the pointer, which `whole` outlives.
        let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const whole) };
        if answer != -1 {
            return Ok(true);
        }
        let failure = io::Error::last_os_error();
        match failure.raw_os_error() {
            Some(libc::EINTR) => {}
            Some(libc::EAGAIN | libc::EACCES) => return Ok(false),
            _ => return Err(failure),
        }
    }
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn short(constant: libc::c_int) -> io::Result<libc::c_short> {
    libc::c_short::try_from(constant).map_err(io::Error::other)
}

/// Says yes: this system has no lock that belongs to an open file and that a JVM sees.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(super) fn try_lock_whole_file(_file: &File) -> io::Result<bool> {
    Ok(true)
}
