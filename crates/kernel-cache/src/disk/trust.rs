//! What is believed: folders and files of this user, that nobody else may write to, reached through no link.

use crate::error::FolderProblem;
use crate::fs::{FileInfo, FileKind};
use crate::miss::Rejection;

/// The bits of a mode that let others write.
const OTHERS_WRITE: u32 = 0o022;

/// Whether a folder may be used.
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

/// Whether a file may be read. One without a name was replaced after it was opened, and is as good as before.
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
