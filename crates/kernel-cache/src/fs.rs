//! The files that the disk tier needs, as traits, so that tests can make any call fail.
//!
//! An [`Fs`] is one folder on some system; opened, it is a [`Folder`], whose files are named without a path. What may be
//! believed of a folder or a file is decided by the disk tier, from their [`FileInfo`]. [`SystemFs`] is the real one.

mod regular;
mod system;

use std::fmt;
use std::io;
use std::path::Path;

pub use regular::open_regular;
pub use system::SystemFs;

/// Makes room for what is read, as zeros.
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
    /// Where it is, for messages.
    fn path(&self) -> &Path;
    /// The user that this process is.
    fn user(&self) -> u32;
    /// Makes the folder and those above it, for this user alone.
    ///
    /// # Errors
    /// The system's; none if the folder is there.
    fn make(&self) -> io::Result<()>;
    /// Opens the folder; not through a link at its end.
    ///
    /// # Errors
    /// The system's.
    fn open(&self) -> io::Result<Box<dyn Folder>>;
    /// What stands at its path, links not followed.
    ///
    /// # Errors
    /// The system's.
    fn info(&self) -> io::Result<FileInfo>;
}

/// An open folder. Whatever is renamed or removed around it, names are those in this folder.
pub trait Folder: Send + Sync {
    /// What it is.
    ///
    /// # Errors
    /// The system's.
    fn info(&self) -> io::Result<FileInfo>;
    /// What a file is, links not followed.
    ///
    /// # Errors
    /// The system's.
    fn info_of(&self, name: &str) -> io::Result<FileInfo>;
    /// Opens a file for reading; not through a link, and without waiting at a pipe.
    ///
    /// # Errors
    /// The system's.
    fn open(&self, name: &str) -> io::Result<Box<dyn FolderFile>>;
    /// Makes a file that is not there yet, for this user alone.
    ///
    /// # Errors
    /// The system's.
    fn create(&self, name: &str) -> io::Result<Box<dyn FolderFile>>;
    /// Opens a file for locking, and makes it if it is not there; not through a link.
    ///
    /// # Errors
    /// The system's.
    fn open_or_create(&self, name: &str) -> io::Result<Box<dyn FolderFile>>;
    /// Gives a file another name, in place of what has it.
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
    /// Makes renames outlast a power cut.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;
}

/// An open file.
pub trait FolderFile: Send + Sync {
    /// What it is.
    ///
    /// # Errors
    /// The system's.
    fn info(&self) -> io::Result<FileInfo>;
    /// The next bytes, as many or up to its end.
    ///
    /// # Errors
    /// The system's; out of memory where there is none for them.
    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>>;
    /// The next bytes, as many as there is room for.
    ///
    /// # Errors
    /// The system's; an unexpected end where there are fewer.
    fn read_into(&mut self, target: &mut [u8]) -> io::Result<()>;
    /// Appends bytes.
    ///
    /// # Errors
    /// The system's.
    fn write(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes its content outlast a power cut.
    ///
    /// # Errors
    /// The system's.
    fn sync(&self) -> io::Result<()>;
    /// Marks it as used now.
    ///
    /// # Errors
    /// The system's.
    fn touch(&self) -> io::Result<()>;
    /// Locks it until it is closed, whichever process has it open, and says whether that worked; does not wait. A
    /// process that ends gives its locks up.
    ///
    /// # Errors
    /// The system's: it may know no locks.
    fn try_lock(&self) -> io::Result<bool>;
}

/// What the system says about a file or folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileInfo {
    /// What it is.
    pub kind: FileKind,
    /// Whose it is.
    pub owner: u32,
    /// Who may do what with it: the nine bits of `rwxrwxrwx`, and those above.
    pub mode: u32,
    /// How many names it has.
    pub links: u64,
    /// Its size.
    pub bytes: u64,
    /// When it was last used, in nanoseconds of the file system's clock; any number at all.
    pub used: i128,
    /// Device and number: equal for two names of one file.
    pub identity: (u64, u64),
}

/// What something in a folder is.
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
