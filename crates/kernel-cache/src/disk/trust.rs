//! The trust rule: code may be run from folders and files that belong to this user, are not writable by other users,
//! and are not reached through a link.
#![allow(unsafe_code, reason = "code from the folder is vouched for here")]

use crate::error::FolderProblem;
use crate::fs::{FileInfo, FileKind, Fs};
use crate::key::CacheKey;
use crate::miss::Rejection;
use crate::payload::Payload;

use super::{DiskOptions, DiskTier};

/// The mode bits that allow other users to write.
const OTHERS_WRITE: u32 = 0o022;

impl DiskTier {
    /// Entries in the folder of a custom file system, such as one with injected faults in tests.
    ///
    /// # Safety
    /// Reads must return bytes written through a `DiskTier` on the same files, or bytes whose digests do not match.
    /// Otherwise arbitrary bytes may be run as code.
    pub unsafe fn with_fs(fs: impl Fs + 'static, options: DiskOptions) -> Self {
        Self::on(fs, options)
    }
}

/// The checked content of a key's entry, as code if the key is one of code.
pub(super) fn vouch(key: &CacheKey, payload: Payload) -> Payload {
    match key.kind().is_code() {
        // SAFETY: an entry of this key was written by a `DiskTier`, which stores only code under it; its digests, and its
        // authentication code if there is a key, show that it is unchanged. `judge_folder` and `judge_file` checked that no
        // other user wrote the file; another program of the same user is trusted, as documented in SECURITY.md.
        true => unsafe { payload.into_code() },
        false => payload,
    }
}

/// Whether a folder is trusted.
pub(super) fn judge_folder(info: &FileInfo, user: u32) -> Result<(), FolderProblem> {
    match info.kind {
        FileKind::Folder => {}
        FileKind::Symlink => return Err(FolderProblem::Symlink),
        other => return Err(FolderProblem::NotAFolder(other.name())),
    }
    if info.owner != user {
        return Err(FolderProblem::ForeignOwner {
            expected: user,
            found: info.owner,
        });
    }
    match info.mode & OTHERS_WRITE {
        0 => Ok(()),
        _ => Err(FolderProblem::WritableByOthers { mode: info.mode }),
    }
}

/// Whether a file is trusted. A file without a name was replaced after it was opened, which is fine.
pub(super) fn judge_file(info: &FileInfo, user: u32) -> Result<(), Rejection> {
    if info.kind != FileKind::Regular {
        return Err(Rejection::NotRegular(info.kind.name()));
    }
    if info.owner != user {
        return Err(Rejection::ForeignOwner {
            expected: user,
            found: info.owner,
        });
    }
    if info.mode & OTHERS_WRITE != 0 {
        return Err(Rejection::WritableByOthers { mode: info.mode });
    }
    match info.links {
        0 | 1 => Ok(()),
        links => Err(Rejection::HardLinks { links }),
    }
}
