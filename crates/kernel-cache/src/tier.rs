//! A store of bytes after the in-memory cache: [`Tier`]. Disk is one; a remote store would be another.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::entry::{EntryHead, StoredEntry};
use crate::error::CacheError;
use crate::key::CacheKey;
use crate::miss::{Miss, NotStored};
use crate::payload::Content;

/// A store of entries by key. Failures are reported as reasons, never as panics or errors of the call; returned content
/// has been verified to be the stored content.
pub trait Tier: Send + Sync {
    /// The name used in messages and statistics.
    fn name(&self) -> &str;

    /// The entry of a key.
    ///
    /// # Errors
    /// Why there is none.
    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss>;

    /// Reads the content of a key's entry into `content` if the sizes match, and returns its compile time. After an
    /// error `content` is unspecified.
    ///
    /// # Errors
    /// Why there is none.
    fn get_into(&self, key: &CacheKey, content: &mut [u8]) -> Result<Duration, Miss> {
        let entry = self.get(key)?;
        if entry.payload.len() != content.len() {
            return Err(Miss::Length {
                expected: content.len() as u64,
                found: entry.payload.len() as u64,
            });
        }
        content.copy_from_slice(&entry.payload);
        Ok(entry.compile_time)
    }

    /// Stores an entry under a key, replacing any previous one. A tier whose bytes leave the process accepts only code
    /// under the kind of code, since it returns content read under that kind as code.
    ///
    /// # Errors
    /// Why it was not stored.
    fn put(
        &self,
        key: &CacheKey,
        compile_time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored>;

    /// Removes the entry of a key; does nothing if it cannot.
    fn remove(&self, key: &CacheKey);

    /// Whether an entry may exist; reads none of its content.
    fn contains(&self, key: &CacheKey) -> bool;

    /// Claims the compile of an entry among all users of the store. Does not wait.
    fn try_claim(&self, _key: &CacheKey) -> Claim {
        Claim::Unavailable
    }

    /// Turns a miss into an error, for a store that is used as given, where damage is not repaired.
    fn damage(&self, _key: &CacheKey, _miss: &Miss) -> Option<CacheError> {
        None
    }

    /// The heads of stored entries, to find the nearest one to a key; at most `limit`, and none if that is too
    /// expensive.
    fn heads(&self, _limit: usize) -> Vec<EntryHead> {
        Vec::new()
    }
}

/// The result of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Entries evicted for it.
    pub evicted: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
}

/// Whether the caller may compile the entry.
pub enum Claim {
    /// It may compile, until it drops this.
    Held(Box<dyn Any + Send>),
    /// Another process is compiling it.
    Busy,
    /// This is unknown.
    Unavailable,
}

impl fmt::Debug for Claim {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Held(_) => "Held",
            Self::Busy => "Busy",
            Self::Unavailable => "Unavailable",
        })
    }
}
