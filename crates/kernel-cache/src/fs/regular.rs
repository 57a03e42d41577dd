//! Opens files named by a user: only regular files, since other files may block or have no end.
//!
//! The file is opened without blocking and checked through its descriptor, so it cannot be swapped between check and
//! use. Links are followed: the path is the caller's own.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// Opens a regular file for reading.
///
/// ```
/// let error = kiln_kernel_cache::open_regular("/dev/null".as_ref()).unwrap_err();
/// assert_eq!(error.to_string(), "expected a regular file, found a character device");
/// ```
///
/// # Errors
/// Those of opening; [`io::ErrorKind::InvalidInput`] for a pipe, a device, a socket or a folder, none of which is
/// waited for or read.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let descriptor = rustix::fs::openat(CWD, path, flags, Mode::empty());
    let descriptor = descriptor.map_err(|errno| match errno {
        Errno::NXIO | Errno::NODEV => refused("a socket, or a device without a driver"),
        other => other.into(),
    })?;
    let file = File::from(descriptor);
    let kind = file.metadata()?.file_type();
    if kind.is_file() {
        return Ok(file);
    }
    Err(refused(if kind.is_fifo() {
        "a pipe"
    } else if kind.is_char_device() {
        "a character device"
    } else if kind.is_block_device() {
        "a block device"
    } else if kind.is_dir() {
        "a folder"
    } else {
        "another kind of file"
    }))
}

fn refused(found: &str) -> io::Error {
    let message = format!("expected a regular file, found {found}");
    io::Error::new(io::ErrorKind::InvalidInput, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{FileType, mknodat};

    #[test]
    fn pipes_devices_sockets_and_folders_are_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        mknodat(CWD, at("pipe"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        std::os::unix::fs::symlink(at("pipe"), at("link")).unwrap();
        for (path, found) in [
            (at("pipe"), "a pipe"),
            (at("link"), "a pipe"),
            (at("socket"), "a socket, or a device without a driver"),
            ("/dev/zero".into(), "a character device"),
            (folder.path().into(), "a folder"),
        ] {
            let error = open_regular(&path).unwrap_err();
            let expected = format!("expected a regular file, found {found}");
            assert_eq!(error.to_string(), expected);
        }
        std::fs::write(at("file"), "x").unwrap();
        std::os::unix::fs::symlink(at("file"), at("other")).unwrap();
        assert_eq!(
            std::io::read_to_string(open_regular(&at("other")).unwrap()).unwrap(),
            "x"
        );
    }
}
