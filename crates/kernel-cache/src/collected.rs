//! An in-memory tier that keeps every entry, used to collect the entries of one program.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use crate::entry::StoredEntry;
use crate::key::{CacheKey, KeyDigest};
use crate::miss::{Miss, NotStored};
use crate::payload::{Content, Payload};
use crate::sync::lock;
use crate::tier::{Stored, Tier};

/// An entry.
#[derive(Clone, Debug)]
pub struct Collected {
    /// Its key.
    pub key: CacheKey,
    /// How long its compile took.
    pub time: Duration,
    /// The content.
    pub content: Payload,
}

/// Every entry that was stored, or found in the tiers after it.
#[derive(Debug, Default)]
pub struct CollectingTier(Mutex<BTreeMap<KeyDigest, Collected>>);

impl CollectingTier {
    /// An empty tier.
    pub fn new() -> Self {
        Self::default()
    }

    /// The entries so far, by their keys' digests.
    pub fn entries(&self) -> Vec<Collected> {
        lock(&self.0).values().cloned().collect()
    }
}

impl Tier for CollectingTier {
    fn name(&self) -> &str {
        "collected"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        let entries = lock(&self.0);
        let entry = entries.get(&key.digest()).ok_or(Miss::Absent)?;
        Ok(StoredEntry {
            compile_time: entry.time,
            payload: entry.content.clone(),
        })
    }

    fn put(
        &self,
        key: &CacheKey,
        time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        let entry = Collected {
            key: key.clone(),
            time,
            content: content.to_payload(),
        };
        lock(&self.0).insert(key.digest(), entry);
        Ok(Stored::default())
    }

    fn remove(&self, key: &CacheKey) {
        lock(&self.0).remove(&key.digest());
    }

    fn contains(&self, key: &CacheKey) -> bool {
        lock(&self.0).contains_key(&key.digest())
    }
}
