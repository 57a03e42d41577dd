//! Management of a folder of entries: list, measure, verify, clear.

use std::cmp::Reverse;

use crate::entry::{self, EntryHead};
use crate::error::{CacheError, FolderProblem};
use crate::fs::{FileInfo, Folder};
use crate::key::KeyDigest;
use crate::miss::Miss;

use super::DiskTier;
use super::evict::remove_if_dead;
use super::name::FileName;

/// A listed entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// The digest of its key.
    pub digest: KeyDigest,
    /// The size of its file.
    pub bytes: u64,
    /// When it was last used: nanoseconds since 1970 by the file system's clock.
    pub used: i128,
    /// Its metadata, or why it cannot be read.
    pub head: Result<EntryHead, Miss>,
}

/// The size of a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DiskUsage {
    /// Entries.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Entries in formats of other versions.
    pub foreign_entries: u64,
    /// Their bytes.
    pub foreign_bytes: u64,
    /// Drafts: of active or dead writers.
    pub drafts: u64,
    /// The limit on bytes.
    pub max_bytes: u64,
}

/// The result of verifying a folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verified {
    /// Entries that are whole.
    pub whole: u64,
    /// Damaged entries, and why.
    pub bad: Vec<(KeyDigest, Miss)>,
}

/// The result of clearing a folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleared {
    /// Entries, in any format.
    pub entries: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Drafts and claims of dead processes.
    pub leftovers: u64,
    /// Entries that could not be removed.
    pub failed: u64,
}

impl DiskTier {
    /// Every entry, most recently used first. Reads and checks the heads, not the content.
    ///
    /// # Errors
    /// The folder cannot be used; a missing one has no entries.
    pub fn entries(&self) -> Result<Vec<EntryInfo>, CacheError> {
        let mut entries = Vec::new();
        self.for_each_file(|folder, name, info| {
            if let FileName::Entry(digest) = name {
                entries.push(EntryInfo {
                    digest,
                    bytes: info.bytes,
                    used: info.used,
                    head: self.read_head(folder, name),
                });
            }
        })?;
        entries.sort_by_key(|entry| Reverse((entry.used, entry.digest)));
        Ok(entries)
    }

    /// The size of the folder.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn usage(&self) -> Result<DiskUsage, CacheError> {
        let mut usage = DiskUsage {
            max_bytes: self.options.max_bytes,
            ..DiskUsage::default()
        };
        self.for_each_file(|_, name, info| match name {
            FileName::Entry(_) => {
                usage.entries += 1;
                usage.bytes += info.bytes;
            }
            FileName::Foreign(_) => {
                usage.foreign_entries += 1;
                usage.foreign_bytes += info.bytes;
            }
            FileName::Draft(_) => usage.drafts += 1,
            FileName::Claim(_) | FileName::Eviction => {}
        })?;
        Ok(usage)
    }

    /// Reads and checks every entry; `remove` removes the bad ones.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn verify(&self, remove: bool) -> Result<Verified, CacheError> {
        let mut verified = Verified::default();
        self.for_each_file(|folder, name, _| {
            let FileName::Entry(digest) = name else {
                return;
            };
            match self.check(folder, name, digest) {
                Ok(()) => verified.whole += 1,
                // Removed by another process since it was listed.
                Err(Miss::Absent) => {}
                Err(miss) => {
                    if remove && miss.is_about_the_entry() {
                        let _ = folder.remove(&name.to_string());
                    }
                    verified.bad.push((digest, miss));
                }
            }
        })?;
        verified.bad.sort_by_key(|(digest, _)| *digest);
        Ok(verified)
    }

    /// Removes every entry, including those of other versions, and the files of dead processes. Entries being written,
    /// and files with other names, stay.
    ///
    /// # Errors
    /// As [`entries`](Self::entries).
    pub fn clear(&self) -> Result<Cleared, CacheError> {
        let mut cleared = Cleared::default();
        self.for_each_name(|folder, file, name| match name {
            FileName::Entry(_) | FileName::Foreign(_) => {
                let bytes = folder.info_of(file).map_or(0, |info| info.bytes);
                match folder.remove(file) {
                    Ok(()) => {
                        cleared.entries += 1;
                        cleared.bytes += bytes;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(_) => cleared.failed += 1,
                }
            }
            FileName::Draft(_) | FileName::Claim(_) => {
                cleared.leftovers += u64::from(remove_if_dead(folder, file));
            }
            FileName::Eviction => {}
        })?;
        Ok(cleared)
    }

    fn check(&self, folder: &dyn Folder, name: FileName, digest: KeyDigest) -> Result<(), Miss> {
        let (bytes, _) = self.read_file(folder, &name.to_string())?;
        let (head, _) = entry::read(bytes, self.options.key.as_ref())?;
        if head.digest == digest {
            Ok(())
        } else {
            Err(Miss::Key {
                expected: digest,
                found: head.digest,
            })
        }
    }

    fn read_head(&self, folder: &dyn Folder, name: FileName) -> Result<EntryHead, Miss> {
        let mut file = self.open_entry(folder, &name.to_string())?;
        self.read_front(&mut *file).map(|(_, head)| head)
    }

    fn for_each_file(
        &self,
        mut visit: impl FnMut(&dyn Folder, FileName, FileInfo),
    ) -> Result<(), CacheError> {
        self.for_each_name(|folder, file, name| {
            // A file that vanished is skipped.
            if let Ok(info) = folder.info_of(file) {
                visit(folder, name, info);
            }
        })
    }

    fn for_each_name(
        &self,
        mut visit: impl FnMut(&dyn Folder, &str, FileName),
    ) -> Result<(), CacheError> {
        let folder = match self.folder() {
            Ok(folder) => folder,
            Err(FolderProblem::Missing) => return Ok(()),
            Err(problem) => return Err(self.error(problem)),
        };
        let mut names = folder.list().map_err(|error| CacheError::Io {
            path: self.fs.path().to_owned(),
            doing: "listing",
            message: error.to_string(),
        })?;
        names.sort_unstable();
        for file in names {
            if let Some(name) = FileName::read(&file) {
                visit(&*folder, &file, name);
            }
        }
        Ok(())
    }
}
