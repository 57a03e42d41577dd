//! The sources of data stored outside a model.
//!
//! A model may keep tensors in other files and name those files itself, so the names are untrusted. [`Location`] is a
//! checked name; [`Fs`] opens it. Three file systems come with the crate: [`Folder`] (the real one, confined to a
//! directory), [`MemoryFiles`] and [`NoFiles`]. Nothing else in this crate does I/O.

mod folder;
mod location;
mod memory;

use std::io;

pub use folder::Folder;
pub(crate) use folder::read_model_file;
pub use location::Location;
pub use memory::{MemoryFiles, NoFiles};

/// Opens the data files that a model names.
pub trait Fs {
    /// Opens the file at `location`, beneath whatever this file system is confined to.
    ///
    /// # Errors
    /// [`FileError::Refused`] if the file may not be read, [`FileError::Io`] if it cannot.
    fn open(&self, location: &Location) -> Result<Box<dyn DataFile>, FileError>;
}

/// An open file of known size.
pub trait DataFile: Send + Sync {
    /// The size in bytes when the file was opened.
    fn size(&self) -> u64;

    /// The identity of the file in its current state, which changes with it; `None` if unknown.
    fn identity(&self) -> Option<FileIdentity> {
        None
    }

    /// Fills `target` with the bytes starting at `offset`.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] when the file has become shorter, and any error of reading.
    fn read_at(&self, offset: u64, target: &mut [u8]) -> io::Result<()>;
}

/// The identity of a file: changed content means another time of its last change, unless both changes fall into one tick of
/// the file system's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileIdentity {
    /// The device it is on.
    pub device: u64,
    /// Its number there.
    pub number: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The time of the last change of its content, as programs may set it: nanoseconds since 1970.
    pub modified: i128,
    /// The time of the last change of its content or its attributes, as the system sets it: nanoseconds since 1970.
    pub changed: i128,
}

impl FileIdentity {
    /// The identity of an open file.
    ///
    /// # Errors
    /// The system's.
    #[cfg(unix)]
    pub fn of(file: &std::fs::File) -> io::Result<Self> {
        use std::os::unix::fs::MetadataExt;
        let found = file.metadata()?;
        let time = |seconds: i64, nanoseconds: i64| {
            i128::from(seconds) * 1_000_000_000 + i128::from(nanoseconds)
        };
        Ok(Self {
            device: found.dev(),
            number: found.ino(),
            bytes: found.size(),
            modified: time(found.mtime(), found.mtime_nsec()),
            changed: time(found.ctime(), found.ctime_nsec()),
        })
    }
}

impl std::fmt::Display for FileIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            device,
            number,
            bytes,
            modified,
            changed,
        } = self;
        write!(f, "{device}:{number} {bytes} {modified} {changed}")
    }
}

/// Why a data file was not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FileError {
    /// It may not be read.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Why a name or a file is not acceptable as a model's data file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The name is empty or has an empty part.
    #[error("the name is empty or has an empty part")]
    Empty,
    /// The name begins at the root.
    #[error("the name is absolute; expected a path relative to the model's folder")]
    Absolute,
    /// The name has a part `..` or `.`.
    #[error("the name has a `.` or `..` component; expected a path inside the model's folder")]
    Dots,
    /// The name has a backslash, a colon, or a control character.
    #[error(
        "the name has a backslash, a colon or a control character; expected parts separated by `/`"
    )]
    Character,
    /// The name is longer, or has more parts, than allowed.
    #[error("the name is too long")]
    TooLong,
    /// The file or one of its folders is a symbolic link.
    #[error(
        "the file, or a folder in its path, is a symbolic link; replace the link with its target"
    )]
    SymbolicLink,
    /// The name leads out of the model's folder.
    #[error("the name points outside the model's folder")]
    Escape,
    /// It is a folder, pipe, socket or device.
    #[error("expected a regular file, found something else")]
    NotRegular,
    /// The file has other hard links, which may be elsewhere.
    #[error(
        "the file has other hard links; copy it, or open the folder with `Folder::allow_hard_links`"
    )]
    HardLink,
    /// The model was loaded without access to files.
    #[error(
        "the model was loaded without files; load it by path, or give `Model::from_bytes` a folder"
    )]
    NoFiles,
}
