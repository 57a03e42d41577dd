//! A folder of entries, one file each: [`DiskTier`]. Any number of processes can share it without waiting for each
//! other.
//!
//! Entries are written to a draft and renamed, so a reader sees a whole one or none; a second writer replaces an entry by
//! an equal one. The folder is opened and checked at each use. No lock of this process is held across uses, so a forked
//! child can continue.

mod claim;
mod evict;
mod manage;
mod name;
mod trust;

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::process::getpid;

use crate::entry::{self, EntryHead, PRELUDE, StoredEntry};
use crate::error::{CacheError, FolderProblem};
use crate::fs::{FileKind, Folder, FolderFile, Fs, SystemFs};
use crate::key::CacheKey;
use crate::miss::{Miss, NotStored};
use crate::payload::Content;
use crate::seal::SealKey;
use crate::tier::{Claim, Stored, Tier};

use evict::Account;
use name::FileName;

pub use manage::{Cleared, DiskUsage, EntryInfo, Verified};

/// How many times an operation is retried after interference from another process.
const ATTEMPTS: usize = 8;

/// The error code for an unusable folder, as in [`CacheError`].
const FOLDER: &str = "E0705";

/// Content is read and checked in pieces of this many bytes.
const PIECE: usize = 1 << 18;

/// Entries in a folder.
///
/// A custom file system could return any bytes, so safe code cannot supply one:
///
/// ```compile_fail,E0133
/// use kiln_kernel_cache::{DiskOptions, DiskTier, SystemFs};
///
/// let tier = DiskTier::with_fs(SystemFs::new("folder"), DiskOptions::default());
/// ```
#[derive(Debug)]
pub struct DiskTier {
    fs: Box<dyn Fs>,
    options: DiskOptions,
    account: Account,
    has_warned: AtomicBool,
}

/// The settings of a folder of entries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskOptions {
    /// The approximate byte limit of the folder; the least recently used entries are evicted above it. A process scans
    /// the folder after writing a sixteenth of this itself, so several processes may each exceed the limit by that
    /// much.
    pub max_bytes: u64,
    /// The maximum size of one entry in bytes.
    pub max_entry_bytes: u64,
    /// Whether an entry is synced to disk before it is published. Without this, an entry lost in a power cut is found
    /// damaged and rebuilt.
    pub sync: bool,
    /// Signs written entries; entries not signed with this key are misses. Without a key, signed entries are read like
    /// others, and neither replaced nor removed.
    pub key: Option<SealKey>,
}

impl Default for DiskOptions {
    fn default() -> Self {
        Self {
            max_bytes: 4 << 30,
            max_entry_bytes: 1 << 30,
            sync: false,
            key: None,
        }
    }
}

impl DiskTier {
    /// Entries in the folder at a path; the folder is created by the first store.
    pub fn at(path: impl Into<PathBuf>, options: DiskOptions) -> Self {
        Self::on(SystemFs::new(path), options)
    }

    fn on(fs: impl Fs + 'static, options: DiskOptions) -> Self {
        Self {
            fs: Box::new(fs),
            options,
            account: Account::default(),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Why the folder cannot be used, if so. A missing folder is created when needed.
    pub fn problem(&self) -> Option<CacheError> {
        match self.folder() {
            Ok(_) | Err(FolderProblem::Missing) => None,
            Err(problem) => Some(self.error(problem)),
        }
    }

    /// The open folder, after the permission check.
    fn folder(&self) -> Result<Box<dyn Folder>, FolderProblem> {
        let folder = match self.fs.open() {
            Ok(folder) => folder,
            // A link or a file at the end of the path fails differently on each system, so check what is there.
            Err(error) => {
                if let Ok(info) = self.fs.info() {
                    trust::judge_folder(&info, self.fs.user())?;
                }
                return Err(FolderProblem::io("opening the folder")(error));
            }
        };
        let info = folder
            .info()
            .map_err(FolderProblem::io("inspecting the folder"))?;
        trust::judge_folder(&info, self.fs.user())?;
        Ok(folder)
    }

    /// As above, creating the folder if it is missing.
    fn folder_made(&self) -> Result<Box<dyn Folder>, FolderProblem> {
        match self.folder() {
            Err(FolderProblem::Missing) => {
                self.fs
                    .make()
                    .map_err(FolderProblem::io("creating the folder"))?;
                self.folder()
            }
            result => result,
        }
    }

    fn error(&self, problem: FolderProblem) -> CacheError {
        let path = self.fs.path().to_owned();
        CacheError::Folder { path, problem }
    }

    /// The bytes of a file, if its owner and mode are trusted.
    fn read_file(
        &self,
        folder: &dyn Folder,
        name: &str,
    ) -> Result<(Vec<u8>, Box<dyn FolderFile>), Miss> {
        let mut file = self.open_entry(folder, name)?;
        let info = file.info().map_err(Miss::io("inspecting the entry"))?;
        let limit = self.options.max_entry_bytes;
        let too_large = Miss::TooLarge {
            bytes: info.bytes,
            limit,
        };
        if info.bytes > limit {
            return Err(too_large);
        }
        let bytes = usize::try_from(info.bytes).map_err(|_| too_large)?;
        let content = file.read(bytes).map_err(Miss::io("reading the entry"))?;
        Ok((content, file))
    }

    fn open_entry(&self, folder: &dyn Folder, name: &str) -> Result<Box<dyn FolderFile>, Miss> {
        let judge = |info| trust::judge_file(&info, self.fs.user()).map_err(Miss::Rejected);
        let file = match folder.open(name) {
            Ok(file) => file,
            Err(error) => {
                if error.kind() != ErrorKind::NotFound
                    && let Ok(info) = folder.info_of(name)
                {
                    judge(info)?;
                }
                return Err(Miss::io("opening the entry")(error));
            }
        };
        judge(file.info().map_err(Miss::io("inspecting the entry"))?)?;
        Ok(file)
    }

    /// Looks up an entry in the folder; a bad one is removed.
    fn look_up<T>(
        &self,
        key: &CacheKey,
        look: impl FnOnce(&dyn Folder) -> Result<T, Miss>,
    ) -> Result<T, Miss> {
        let folder = match self.folder() {
            Ok(folder) => folder,
            Err(FolderProblem::Missing) => return Err(Miss::Absent),
            Err(problem) => {
                self.warn(&problem, Some(FOLDER));
                return Err(Miss::Folder(problem));
            }
        };
        look(&*folder).inspect_err(|miss| {
            if miss.is_about_the_entry() {
                let name = FileName::Entry(key.digest()).to_string();
                if !self.is_anothers(&*folder, &name) {
                    tracing::debug!(%key, %miss, "removing a cache entry");
                    let _ = folder.remove(&name);
                }
            } else if *miss != Miss::Absent {
                self.warn(miss, None);
            }
        })
    }

    fn lookup(&self, folder: &dyn Folder, key: &CacheKey) -> Result<StoredEntry, Miss> {
        let name = FileName::Entry(key.digest()).to_string();
        let (bytes, file) = self.read_file(folder, &name)?;
        let (head, payload) = entry::read(bytes, self.options.key.as_ref())?;
        entry::matches(&head, key)?;
        // An entry that cannot be marked as used is merely evicted early.
        let _ = file.touch();
        Ok(StoredEntry {
            compile_time: head.compile_time,
            payload: trust::vouch(key, payload),
        })
    }

    /// The content of an entry, read and checked piece by piece while each piece is in the processor's caches.
    fn lookup_into(
        &self,
        folder: &dyn Folder,
        key: &CacheKey,
        content: &mut [u8],
    ) -> Result<Duration, Miss> {
        let name = FileName::Entry(key.digest()).to_string();
        let mut file = self.open_entry(folder, &name)?;
        let (front, head) = self.read_front(&mut *file)?;
        entry::matches(&head, key)?;
        if head.content_bytes != content.len() as u64 {
            return Err(Miss::Length {
                expected: content.len() as u64,
                found: head.content_bytes,
            });
        }
        let mut checker = entry::Checker::new(&front, self.options.key.as_ref());
        let mut read = |target: &mut [u8]| {
            file.read_into(target).map_err(|error| match error.kind() {
                // The file was truncated during the read.
                ErrorKind::UnexpectedEof => Miss::Digest { part: "content" },
                _ => Miss::io("reading the entry")(error),
            })
        };
        for piece in content.chunks_mut(PIECE) {
            read(piece)?;
            checker.update(piece);
        }
        let mut seal = vec![0; entry::seal_bytes(&front)?];
        read(&mut seal)?;
        checker.finish(&seal)?;
        let _ = file.touch();
        Ok(head.compile_time)
    }

    /// Whether an entry is signed and this process has no key: such entries are left to processes with the key. An
    /// entry with a damaged head counts as unsigned.
    fn is_anothers(&self, folder: &dyn Folder, name: &str) -> bool {
        if self.options.key.is_some() {
            return false;
        }
        let front = self
            .open_entry(folder, name)
            .and_then(|mut file| self.read_front(&mut *file));
        front.is_ok_and(|(front, _)| entry::is_signed(&front))
    }

    /// Everything before the content of an open entry, and the parsed head.
    fn read_front(&self, file: &mut dyn FolderFile) -> Result<(Vec<u8>, EntryHead), Miss> {
        let info = file.info().map_err(Miss::io("inspecting the entry"))?;
        let mut front = file.read(PRELUDE).map_err(Miss::io("reading the entry"))?;
        let rest = entry::front_bytes(&front)?.saturating_sub(front.len());
        front.extend(file.read(rest).map_err(Miss::io("reading the entry"))?);
        let head = entry::read_head(&front, info.bytes)?;
        Ok((front, head))
    }

    fn write(
        &self,
        folder: &dyn Folder,
        key: &CacheKey,
        front: &[u8],
        content: &[u8],
    ) -> Result<(), NotStored> {
        if self.is_anothers(folder, &FileName::Entry(key.digest()).to_string()) {
            return Err(NotStored::ReadOnly);
        }
        let (draft, mut file) = create_draft(folder)?;
        let seal = entry::seal(front, content, self.options.key.as_ref());
        let written = [front, content, &seal]
            .into_iter()
            .try_for_each(|part| file.write(part))
            .map_err(NotStored::io("writing the entry"))
            .and_then(|()| match self.options.sync {
                true => file.sync().map_err(NotStored::io("syncing the entry")),
                false => Ok(()),
            })
            .and_then(|()| {
                folder
                    .rename(&draft, &FileName::Entry(key.digest()).to_string())
                    .map_err(NotStored::io("renaming the entry"))
            });
        match written {
            Ok(()) if self.options.sync => {
                // A power cut may lose the rename and with it the entry; that is a miss.
                let _ = folder.sync();
            }
            Ok(()) => {}
            // A draft that cannot be removed here is removed by the next eviction.
            Err(_) => drop(folder.remove(&draft)),
        }
        written
    }

    fn try_put(&self, key: &CacheKey, front: &[u8], content: &[u8]) -> Result<(), NotStored> {
        let folder = self.folder_made()?;
        match self.write(&*folder, key, front, content) {
            // The folder was removed, or the draft swept up: retry.
            Err(NotStored::Io {
                kind: ErrorKind::NotFound,
                ..
            }) => self.write(&*self.folder_made()?, key, front, content),
            result => result,
        }
    }

    /// Reports a folder problem once: on standard error if there is no `tracing` subscriber.
    fn warn(&self, problem: &dyn std::fmt::Display, code: Option<&'static str>) {
        let folder = self.fs.path().display();
        if self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(%problem, "cache folder");
        } else {
            tracing::warn!(%folder, code, "cannot use the cache folder: {problem}");
            if !tracing::dispatcher::has_been_set() {
                let name = self.fs.path().file_name().unwrap_or_default().display();
                // A failed write to standard error cannot be reported.
                let _ = writeln!(
                    std::io::stderr(),
                    "kiln: cannot use the cache folder {name}: {problem}"
                );
            }
        }
    }
}

impl Tier for DiskTier {
    fn name(&self) -> &str {
        "disk"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        self.look_up(key, |folder| self.lookup(folder, key))
    }

    fn get_into(&self, key: &CacheKey, content: &mut [u8]) -> Result<Duration, Miss> {
        self.look_up(key, |folder| self.lookup_into(folder, key, content))
    }

    fn put(
        &self,
        key: &CacheKey,
        compile_time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        let content = content.for_key(key)?;
        let front = entry::front(key, compile_time, content.len(), self.options.key.is_some())?;
        let bytes = (front.len() as u64)
            .saturating_add(content.len() as u64)
            .saturating_add(2 * entry::DIGEST as u64);
        let limit = self.options.max_entry_bytes.min(self.options.max_bytes);
        if bytes > limit {
            return Err(NotStored::TooLarge { bytes, limit });
        }
        self.try_put(key, &front, content).inspect_err(|problem| {
            let is_folder = matches!(problem, NotStored::Folder(_));
            self.warn(problem, is_folder.then_some(FOLDER));
        })?;
        Ok(self.account_for(bytes))
    }

    fn remove(&self, key: &CacheKey) {
        let name = FileName::Entry(key.digest()).to_string();
        if let Ok(folder) = self.folder()
            && !self.is_anothers(&*folder, &name)
        {
            let _ = folder.remove(&name);
        }
    }

    fn contains(&self, key: &CacheKey) -> bool {
        let name = FileName::Entry(key.digest()).to_string();
        let Ok(folder) = self.folder() else {
            return false;
        };
        folder
            .info_of(&name)
            .is_ok_and(|info| info.kind == FileKind::Regular)
    }

    fn try_claim(&self, key: &CacheKey) -> Claim {
        match self.folder_made() {
            Ok(folder) => claim::try_claim(folder, key.digest(), self.fs.user()),
            Err(_) => Claim::Unavailable,
        }
    }

    fn heads(&self, limit: usize) -> Vec<EntryHead> {
        let entries = self.entries().unwrap_or_default();
        let heads = entries.into_iter().filter_map(|entry| entry.head.ok());
        heads.take(limit).collect()
    }
}

/// A new file, locked, so other processes see that its writer is alive.
fn create_draft(folder: &dyn Folder) -> Result<(String, Box<dyn FolderFile>), NotStored> {
    let doing = "making a draft";
    let mut last = std::io::Error::from(ErrorKind::AlreadyExists);
    for _ in 0..ATTEMPTS {
        // The hasher's keys are the standard library's random numbers, equal in forked children; a name collision is
        // harmless.
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_i32(getpid().as_raw_nonzero().get());
        let number = hasher.finish();
        let name = FileName::Draft(number).to_string();
        match folder.create(&name) {
            Ok(file) => {
                // A draft swept up before it was locked, or on a system without locks, is written again.
                let _ = file.try_lock();
                return Ok((name, file));
            }
            Err(error) if error.kind() == ErrorKind::AlreadyExists => last = error,
            Err(error) => return Err(NotStored::io(doing)(error)),
        }
    }
    Err(NotStored::io(doing)(last))
}
