//! The file operations of the disk tier as traits, so tests can make any call fail.
//!
//! An [`Fs`] is one folder; opened, it is a [`Folder`] whose files are named without a path. The disk tier decides from
//! a [`FileInfo`] whether a folder or file is trusted. [`SystemFs`] is the real file system.

mod regular;
mod system;

use std::fmt;
use std::io;
use std::path::Path;

pub use regular::open_regular;
pub use system::SystemFs;

/// Grows the buffer with zeros for the bytes to read.
pub(crate) fn extend_with_zeros(bytes: &mut Vec<u8>, n_bytes: usize) -> io::Result<()> {
    bytes.try_reserve_exact(n_bytes).map_err(|_| {
        let problem = format!("cannot allocate {n_bytes} bytes: free memory");
        io::Error::new(io::ErrorKind::OutOfMemory, problem)
    })?;
    bytes.resize(bytes.len() + n_bytes, 0);
    Ok(())
}

/// One folder, opened at each use: it may be removed or replaced meanwhile.
pub trait Fs: Send + Sync + fmt::Debug {
    /// The path, for messages.
    fn path(&self) -> &Path;
    /// The user of this process.
    fn user(&self) -> u32;
    /// Creates the folder and its parents, accessible to this user alone.
    ///
    /// # Errors
    /// The system's; none if the folder exists.
    fn make(&self) -> io::Result<()>;
    /// Opens the folder; the last path component may not be a link.
    ///
    /// # Errors
    /// The system's.
    fn open(&self) -> io::Result<Box<dyn Folder>>;
    /// The info of whatever is at the path; links are not followed.
    ///
    /// # Errors
    /// The system's.
    fn info(&self) -> io::Result<FileInfo>;
}

/// An open folder. Names are relative to it, even if it is renamed or removed.
pub trait Folder: Send + Sync {
    /// The folder's info.
    ///
    /// # Errors
    /// The system's.
    fn info(&self) -> io::Result<FileInfo>;
    /// The info of a file; links are not followed.
    ///
    /// # Errors
    /// The system's.
    fn info_of(&self, name: &str) -> io::Result<FileInfo>;
    /// Opens a file for reading; does not follow links or block on pipes.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Box<dyn FolderFile>>;
    /// Creates a new file, accessible to this user alone.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, name: &str) -> io::Result<Box<dyn FolderFile>>;
    /// Opens a file for locking, creating it if missing; does not follow links.
    ///
    /// # Errors
    /// The system's.
    fn open_or_create(&self, name: &str) -> io::Result<Box<dyn FolderFile>>;
    /// Renames a file, replacing any file with the new name.
    ///
    /// # Errors
    /// The system's.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    ///
    /// # Errors
    /// The system's.
    fn remove(&self, name: &str) -> io::Result<()>;
    /// The names in the folder.
    ///
    /// # Errors
    /// The system's.
    fn list(&self) -> io::Result<Vec<String>>;
    /// Syncs the folder, so renames survive a power cut.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;
}

/// An open file.
pub trait FolderFile: Send + Sync {
    /// The file's info.
    ///
    /// # Errors
    /// The system's.
    fn info(&self) -> io::Result<FileInfo>;
    /// The next bytes, up to the given count or the end of the file.
    ///
    /// # Errors
    /// The system's; out of memory if memory for them cannot be allocated.
    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>>;
    /// Fills the buffer with the next bytes.
    ///
    /// # Errors
    /// The system's; an unexpected end if there are fewer.
    fn read_into(&mut self, target: &mut [u8]) -> io::Result<()>;
    /// Appends bytes.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Syncs the content, so it survives a power cut.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;
    /// Marks the file as used now.
    ///
    /// # Errors
    /// The system's.
    fn touch(&self) -> io::Result<()>;
    /// Locks the file until it is closed, whichever process has it open; returns whether that worked, without waiting.
    /// The locks of a process end with it.
    ///
    /// # Errors
    /// The system's: it may not support locks.
    fn try_lock(&self) -> io::Result<bool>;
}

/// The metadata of a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// Its type.
    pub kind: FileKind,
    /// Its owner.
    pub owner: u32,
    /// Its permissions: the nine bits of `rwxrwxrwx`, and those above.
    pub mode: u32,
    /// The number of hard links.
    pub links: u64,
    /// Its size.
    pub bytes: u64,
    /// When it was last used, in nanoseconds by the file system's clock; may be any number.
    pub used: i128,
    /// Device and number: equal for two names of one file.
    pub identity: (u64, u64),
}

/// The type of a folder's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A folder.
    Folder,
    /// A symbolic link.
    Symlink,
    /// A pipe, a socket, a device.
    Other,
}

impl FileKind {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Regular => "regular file",
            Self::Folder => "folder",
            Self::Symlink => "symbolic link",
            Self::Other => "pipe, socket or device",
        }
    }
}
