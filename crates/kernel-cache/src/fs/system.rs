//! [`SystemFs`]: a real folder. All access goes through its descriptor, and links are not followed.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};

use rustix::fs::{
    AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, Timespec, Timestamps, UTIME_NOW,
};
use rustix::process::getpid;

use super::{FileInfo, FileKind, Folder, FolderFile, Fs};

/// The folder at a path.
#[derive(Clone, Debug)]
pub struct SystemFs {
    path: PathBuf,
}

struct SystemFolder(OwnedFd);

struct SystemFile {
    file: File,
    /// The process that locked it; 0 while it is not locked.
    locker: AtomicI32,
}

impl Drop for SystemFile {
    fn drop(&mut self) {
        // Closing is not enough: a child forked in the meantime has the file open too, and would keep the lock.
        let locker = self.locker.load(Ordering::Relaxed);
        if locker != 0 && locker == this_process() {
            let _ = self.file.unlock();
        }
    }
}

fn this_process() -> i32 {
    getpid().as_raw_nonzero().get()
}

impl SystemFs {
    /// The folder at this path, which need not exist.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }
}

impl Fs for SystemFs {
    fn path(&self) -> &Path {
        &self.path
    }

    fn user(&self) -> u32 {
        rustix::process::geteuid().as_raw()
    }

    fn make(&self) -> io::Result<()> {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.path)
    }

    fn open(&self) -> io::Result<Box<dyn Folder>> {
        let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.path, flags, Mode::empty())?;
        Ok(Box::new(SystemFolder(folder)))
    }

    fn info(&self) -> io::Result<FileInfo> {
        let stat = rustix::fs::statat(CWD, &self.path, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(info_of(&stat))
    }
}

impl SystemFolder {
    fn file(&self, name: &str, flags: OFlags) -> io::Result<Box<dyn FolderFile>> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let file = rustix::fs::openat(&self.0, name, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Box::new(SystemFile {
            file: File::from(file),
            locker: AtomicI32::new(0),
        }))
    }
}

impl Folder for SystemFolder {
    fn info(&self) -> io::Result<FileInfo> {
        Ok(info_of(&rustix::fs::fstat(&self.0)?))
    }

    fn info_of(&self, name: &str) -> io::Result<FileInfo> {
        let stat = rustix::fs::statat(&self.0, name, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(info_of(&stat))
    }

    fn open(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.file(name, OFlags::RDONLY)
    }

    fn create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.file(name, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL)
    }

    fn open_or_create(&self, name: &str) -> io::Result<Box<dyn FolderFile>> {
        self.file(name, OFlags::RDWR | OFlags::CREATE)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        Ok(rustix::fs::renameat(&self.0, from, &self.0, to)?)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        Ok(rustix::fs::unlinkat(&self.0, name, AtFlags::empty())?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for item in Dir::read_from(&self.0)? {
            // Names that are not UTF-8 are never the cache's own.
            if let Ok(name) = item?.file_name().to_str() {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync(&self) -> io::Result<()> {
        Ok(rustix::fs::fsync(&self.0)?)
    }
}

impl FolderFile for SystemFile {
    fn info(&self) -> io::Result<FileInfo> {
        Ok(info_of(&rustix::fs::fstat(&self.file)?))
    }

    fn read(&mut self, n_bytes: usize) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        bytes
            .try_reserve_exact(n_bytes)
            .map_err(|_| io::Error::from(io::ErrorKind::OutOfMemory))?;
        (&self.file).take(n_bytes as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    fn read_into(&mut self, target: &mut [u8]) -> io::Result<()> {
        self.file.read_exact(target)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync_all()
    }

    fn touch(&self) -> io::Result<()> {
        let now = Timespec {
            tv_sec: 0,
            tv_nsec: UTIME_NOW,
        };
        let times = Timestamps {
            last_access: now,
            last_modification: now,
        };
        Ok(rustix::fs::futimens(&self.file, &times)?)
    }

    fn try_lock(&self) -> io::Result<bool> {
        match self.file.try_lock() {
            Ok(()) => {
                self.locker.store(this_process(), Ordering::Relaxed);
                Ok(true)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Error(error)) => Err(error),
        }
    }
}

fn info_of(stat: &Stat) -> FileInfo {
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => FileKind::Regular,
        FileType::Directory => FileKind::Folder,
        FileType::Symlink => FileKind::Symlink,
        _ => FileKind::Other,
    };
    FileInfo {
        kind,
        owner: stat.st_uid,
        mode: stat.st_mode & 0o7777,
        links: stat.st_nlink,
        bytes: u64::try_from(stat.st_size).unwrap_or(0),
        used: i128::from(stat.st_mtime) * 1_000_000_000 + i128::from(stat.st_mtime_nsec),
        identity: (stat.st_dev, stat.st_ino),
    }
}
