//! A store of bytes behind the memory of a cache: [`Tier`]. Disk is one; a remote store would be another.

use std::any::Any;
use std::fmt;
use std::time::Duration;

use crate::entry::{EntryHead, StoredEntry};
use crate::error::CacheError;
use crate::key::CacheKey;
use crate::miss::{Miss, NotStored};
use crate::payload::Content;

/// A store of entries by key. What goes wrong is a reason, never a panic and never an error of the call; what it hands
/// out was checked to be what was put in.
pub trait Tier: Send + Sync {
    /// Its name in messages and statistics.
    fn name(&self) -> &str;

    /// The entry of a key.
    ///
    /// # Errors
    /// Why there is none.
    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss>;

    /// The content of a key's entry, where it has as many bytes as there is room for; and how long it took to make. On an
    /// error `content` holds anything.
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

    /// Puts an entry under a key, in place of what is there. A tier whose bytes leave the process takes code alone under
    /// the kind of code: what it reads back there, it hands out as code.
    ///
    /// # Errors
    /// Why it was not.
    fn put(
        &self,
        key: &CacheKey,
        compile_time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored>;

    /// Removes what stands under a key; nothing if it cannot.
    fn remove(&self, key: &CacheKey);

    /// Whether an entry may be there; reads none of its content.
    fn contains(&self, key: &CacheKey) -> bool;

    /// Claims the making of an entry among all that share the store. Does not wait.
    fn try_claim(&self, _key: &CacheKey) -> Claim {
        Claim::Unavailable
    }

    /// The error that a miss is, where the store was given to be used as it is and damage in it is not made good.
    fn damage(&self, _key: &CacheKey, _miss: &Miss) -> Option<CacheError> {
        None
    }

    /// The heads of what is stored, to find what is nearest to a key; at most `limit`, and none if that is too expensive.
    fn heads(&self, _limit: usize) -> Vec<EntryHead> {
        Vec::new()
    }
}

/// What came of storing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    /// Entries that had to go for it.
    pub evicted: u64,
    /// Their bytes.
    pub evicted_bytes: u64,
}

/// Whether the caller is the one to make an entry.
pub enum Claim {
    /// It is, until it drops this.
    Held(Box<dyn Any + Send>),
    /// Another process is.
    Busy,
    /// There is no telling.
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
