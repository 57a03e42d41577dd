//! The real file system, confined to one folder.
//!
//! A file is opened relative to the folder's descriptor, never by a path put together from text,
//! and the kernel follows no link: `openat2` with `RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS
//! | RESOLVE_NO_MAGICLINKS`, or, where that call does not exist or is forbidden, one `openat` with
//! `O_NOFOLLOW` per part of the name (a [`Location`] has no `..`, so this confines it as well). The opened file is then
//! checked through its descriptor, so it cannot be exchanged between check and use. `O_NONBLOCK` keeps a pipe from
//! blocking. Files are read, never mapped: a file that shrinks in the meantime is an error, not a signal.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use kiln_tensor::zeroed_bytes;
use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;

use super::{DataFile, FileError, FileIdentity, Fs, Location, Refusal};
use crate::{Error, LimitKind, Limits, Name};

/// A folder to whose files a model may refer.
#[derive(Debug)]
pub struct Folder {
    descriptor: OwnedFd,
    hard_links: bool,
}

const OPEN_FILE: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::NOFOLLOW);
const OPEN_FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::CLOEXEC)
    .union(OFlags::DIRECTORY);

impl Folder {
    /// Opens the folder at `path`. The path is the caller's own and may go through links.
    ///
    /// # Errors
    /// Any error of opening the folder.
    pub fn open(path: &Path) -> io::Result<Self> {
        let descriptor = rustix::fs::open(path, OPEN_FOLDER, Mode::empty())?;
        Ok(Self {
            descriptor,
            hard_links: false,
        })
    }

    /// Accepts files that have several hard links, as in stores that deduplicate files. Off by default: another name of the
    /// same file may be in a folder that the model's author must not reach.
    #[must_use]
    pub fn allow_hard_links(mut self, allow: bool) -> Self {
        self.hard_links = allow;
        self
    }

    /// Opens the file beneath the folder, without following links.
    fn resolve(&self, location: &Location) -> rustix::io::Result<OwnedFd> {
        #[cfg(target_os = "linux")]
        {
            use rustix::fs::ResolveFlags;
            let confined =
                ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
            // EAGAIN means that the kernel saw a rename on the way and could not decide; the walk can.
            match rustix::fs::openat2(
                &self.descriptor,
                location.as_str(),
                OPEN_FILE,
                Mode::empty(),
                confined,
            ) {
                Err(Errno::NOSYS | Errno::PERM | Errno::AGAIN) => {}
                result => return result,
            }
        }
        self.walk(location)
    }

    /// As [`Folder::resolve`], one part of the name after the other.
    fn walk(&self, location: &Location) -> rustix::io::Result<OwnedFd> {
        let mut folder: Option<OwnedFd> = None;
        let mut parts = location.parts().peekable();
        while let Some(part) = parts.next() {
            let flags = if parts.peek().is_some() {
                OPEN_FOLDER.union(OFlags::NOFOLLOW)
            } else {
                OPEN_FILE
            };
            let parent = folder.as_ref().unwrap_or(&self.descriptor);
            folder = Some(rustix::fs::openat(parent, part, flags, Mode::empty())?);
        }
        folder.ok_or(Errno::NOENT)
    }
}

impl Fs for Folder {
    fn open(&self, location: &Location) -> Result<Box<dyn DataFile>, FileError> {
        Ok(Box::new(self.admit(location, self.resolve(location))?))
    }
}

impl Folder {
    /// Checks the opened `location`.
    fn admit(
        &self,
        location: &Location,
        opened: rustix::io::Result<OwnedFd>,
    ) -> Result<RegularFile, FileError> {
        let descriptor = opened.map_err(|errno| match errno {
            Errno::LOOP => Refusal::SymbolicLink.into(),
            Errno::XDEV => Refusal::Escape.into(),
            // A socket, or a device without a driver, does not open.
            Errno::NXIO | Errno::NODEV => Refusal::NotRegular.into(),
            // `O_DIRECTORY | O_NOFOLLOW` on a link reports "not a folder", as it does on a file.
            Errno::NOTDIR => self.not_a_folder(location),
            other => FileError::Io(other.into()),
        })?;
        let file = RegularFile::check(descriptor)?;
        if file.links > 1 && !self.hard_links {
            return Err(Refusal::HardLink.into());
        }
        Ok(file)
    }

    /// Distinguishes a link from a file where a folder was expected; used only for the message.
    fn not_a_folder(&self, location: &Location) -> FileError {
        let mut path = String::new();
        for part in location.parts() {
            path.push_str(part);
            let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
            if let Ok(found) = rustix::fs::statat(&self.descriptor, path.as_str(), flags)
                && FileType::from_raw_mode(found.st_mode) == FileType::Symlink
            {
                return Refusal::SymbolicLink.into();
            }
            path.push('/');
        }
        FileError::Io(io::ErrorKind::NotADirectory.into())
    }
}

/// An open regular file, its size and number of names as of when it was opened.
#[derive(Debug)]
struct RegularFile {
    file: File,
    size: u64,
    links: u64,
}

impl RegularFile {
    fn check(descriptor: OwnedFd) -> Result<Self, FileError> {
        let found = rustix::fs::fstat(&descriptor).map_err(io::Error::from)?;
        if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
            return Err(Refusal::NotRegular.into());
        }
        let size = u64::try_from(found.st_size).unwrap_or(0);
        #[allow(
            clippy::useless_conversion,
            reason = "the width of a link count differs between systems"
        )]
        let links = u64::from(found.st_nlink);
        Ok(Self {
            file: File::from(descriptor),
            size,
            links,
        })
    }
}

impl DataFile for RegularFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn identity(&self) -> Option<FileIdentity> {
        FileIdentity::of(&self.file).ok()
    }

    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(target, offset)
    }
}

/// Reads a model file that the caller names, and opens its folder. Links are followed: the path is
/// the caller's own.
///
/// # Errors
/// [`Error::File`] naming the file without its folders, [`Error::Limit`] when it is larger than
/// `limits` allow.
pub(crate) fn read_model_file(path: &Path, limits: &Limits) -> Result<(Vec<u8>, Folder), Error> {
    let name = || Name::new(path.file_name().unwrap_or_default().to_string_lossy());
    let failed = |source: FileError| Error::File {
        file: name(),
        source,
    };
    let flags = OPEN_FILE.difference(OFlags::NOFOLLOW);
    let descriptor = rustix::fs::openat(CWD, path, flags, Mode::empty());
    let file = RegularFile::check(descriptor.map_err(|errno| failed(FileError::Io(errno.into())))?)
        .map_err(failed)?;
    limits.check(LimitKind::ModelBytes, file.size)?;
    let size = usize::try_from(file.size)
        .map_err(|_| failed(FileError::Io(io::ErrorKind::FileTooLarge.into())))?;
    let mut bytes = zeroed_bytes(size).map_err(|error| failed(FileError::Io(error.into())))?;
    file.read_at(0, &mut bytes)
        .map_err(|error| failed(error.into()))?;
    let parent = path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let folder = Folder::open(parent).map_err(|error| failed(error.into()))?;
    Ok((bytes, folder))
}

#[cfg(test)]
mod tests;
