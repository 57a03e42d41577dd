//! A process's claim on producing an entry: a lock on the claim file of its key.
//!
//! The system releases a lock when its process ends, so no dead process holds one. Only its holder removes the file, while
//! it is locked; a process that gets the lock of a file that has been removed starts over.

use crate::fs::{FileKind, Folder, FolderFile};
use crate::key::KeyDigest;
use crate::tier::Claim;

use super::ATTEMPTS;
use super::name::FileName;

/// A locked claim file; on drop it is removed and then unlocked.
struct Held {
    folder: Box<dyn Folder>,
    name: String,
    _file: Box<dyn FolderFile>,
}

impl Drop for Held {
    fn drop(&mut self) {
        // A file that is left behind is unlocked, and does no harm.
        let _ = self.folder.remove(&self.name);
    }
}

/// Claims a key. Does not wait.
pub(super) fn try_claim(folder: Box<dyn Folder>, digest: KeyDigest, user: u32) -> Claim {
    let name = FileName::Claim(digest).to_string();
    for _ in 0..ATTEMPTS {
        let Ok(file) = folder.open_or_create(&name) else {
            return Claim::Unavailable;
        };
        let Ok(info) = file.info() else {
            return Claim::Unavailable;
        };
        if info.kind != FileKind::Regular || info.owner != user {
            return Claim::Unavailable;
        }
        match file.try_lock() {
            Ok(true) if is_named(&*folder, &name, info.identity) => {
                return Claim::Held(Box::new(Held {
                    folder,
                    name,
                    _file: file,
                }));
            }
            // Removed by the previous holder.
            Ok(true) => {}
            Ok(false) => return Claim::Busy,
            Err(_) => return Claim::Unavailable,
        }
    }
    Claim::Busy
}

/// Whether a name still refers to that file.
pub(super) fn is_named(folder: &dyn Folder, name: &str, identity: (u64, u64)) -> bool {
    folder
        .info_of(name)
        .is_ok_and(|info| info.identity == identity)
}
