//! Eviction: above the folder's limit, the least recently used entries are removed.
//!
//! One process at a time evicts; others continue. Files may vanish meanwhile, and a reader keeps a file that it has
//! open. The order is that of the file system's timestamps: a clock jump makes it worse, and times in the future count
//! as the oldest, so such entries do not stay forever.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::fs::Folder;
use crate::tier::Stored;

use super::DiskTier;
use super::claim::is_named;
use super::name::FileName;

/// How far in the future a timestamp may be, in nanoseconds: the clocks of machines that share a folder differ.
const DRIFT: i128 = 3_600_000_000_000;

/// This process's estimate of the folder's size.
#[derive(Debug, Default)]
pub(super) struct Account {
    /// Bytes at the last scan.
    seen: AtomicU64,
    /// Bytes written since.
    written: AtomicU64,
    has_looked: AtomicBool,
}

struct Candidate {
    name: String,
    bytes: u64,
    used: i128,
}

impl DiskTier {
    /// Records written bytes, and evicts if the limit may be exceeded.
    pub(super) fn account_for(&self, bytes: u64) -> Stored {
        let limit = self.options.max_bytes;
        let account = &self.account;
        let written = account
            .written
            .fetch_add(bytes, Ordering::Relaxed)
            .saturating_add(bytes);
        let seen = account.seen.load(Ordering::Relaxed);
        let is_due = !account.has_looked.load(Ordering::Relaxed)
            || written > limit / 16
            || seen.saturating_add(written) > limit;
        if is_due {
            self.make_room().unwrap_or_default()
        } else {
            Stored::default()
        }
    }

    /// Scans the folder; removes excess entries and the files of dead processes. `None` if it cannot now.
    fn make_room(&self) -> Option<Stored> {
        let folder = self.folder().ok()?;
        let lock = folder
            .open_or_create(&FileName::Eviction.to_string())
            .ok()?;
        if !lock.try_lock().ok()? {
            return None;
        }
        lock.touch().ok()?;
        let now = lock.info().ok()?.used;
        let mut stored = Stored::default();
        let mut candidates = self.look_through(&*folder)?;
        let mut total: u64 = candidates.iter().map(|candidate| candidate.bytes).sum();
        let limit = self.options.max_bytes;
        if total > limit {
            candidates.sort_by_key(|candidate| match candidate.used > now + DRIFT {
                true => i128::MIN,
                false => candidate.used,
            });
            for candidate in &candidates {
                // A little below the limit, so the next store does not evict again.
                if total <= limit - limit / 8 {
                    break;
                }
                total = total.saturating_sub(candidate.bytes);
                if folder.remove(&candidate.name).is_ok() {
                    stored.evicted += 1;
                    stored.evicted_bytes += candidate.bytes;
                }
            }
            tracing::debug!(
                entries = stored.evicted,
                bytes = stored.evicted_bytes,
                "cache folder: made room"
            );
        }
        self.account.seen.store(total, Ordering::Relaxed);
        self.account.written.store(0, Ordering::Relaxed);
        self.account.has_looked.store(true, Ordering::Relaxed);
        Some(stored)
    }

    /// The existing entries; removes drafts and claims of dead processes on the way.
    fn look_through(&self, folder: &dyn Folder) -> Option<Vec<Candidate>> {
        let mut candidates = Vec::new();
        for name in folder.list().ok()? {
            match FileName::read(&name) {
                Some(FileName::Entry(_) | FileName::Foreign(_)) => {
                    if let Ok(info) = folder.info_of(&name) {
                        candidates.push(Candidate {
                            name,
                            bytes: info.bytes,
                            used: info.used,
                        });
                    }
                }
                Some(FileName::Draft(_) | FileName::Claim(_)) => {
                    remove_if_dead(folder, &name);
                }
                Some(FileName::Eviction) | None => {}
            }
        }
        Some(candidates)
    }
}

/// Removes a draft or a claim that no living process has locked; returns whether it did.
pub(super) fn remove_if_dead(folder: &dyn Folder, name: &str) -> bool {
    let Ok(file) = folder.open(name) else {
        return false;
    };
    let Ok(info) = file.info() else {
        return false;
    };
    matches!(file.try_lock(), Ok(true))
        && is_named(folder, name, info.identity)
        && folder.remove(name).is_ok()
}
