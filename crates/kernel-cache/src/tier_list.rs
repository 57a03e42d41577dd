//! Several tiers as one: [`TierList`].

use std::sync::Arc;
use std::time::Duration;

use crate::entry::StoredEntry;
use crate::key::CacheKey;
use crate::miss::{Miss, NotStored};
use crate::payload::Content;
use crate::tier::{Stored, Tier};

/// Several tiers as one, the fastest first: an entry comes from the first tier that has it, and is then copied into
/// those before it.
#[derive(Clone)]
pub struct TierList(Vec<Arc<dyn Tier>>);

impl TierList {
    /// A list of these tiers.
    pub fn new(tiers: Vec<Arc<dyn Tier>>) -> Self {
        Self(tiers)
    }

    /// The entry from the first tier that has it, with the tier's position; otherwise the last tier's reason.
    fn first<T>(
        &self,
        mut read: impl FnMut(&dyn Tier) -> Result<T, Miss>,
    ) -> Result<(usize, T), Miss> {
        let mut last = Miss::Absent;
        for (position, tier) in self.0.iter().enumerate() {
            match read(&**tier) {
                Ok(found) => return Ok((position, found)),
                Err(miss) => {
                    tracing::debug!(tier = tier.name(), %miss, "no entry");
                    last = miss;
                }
            }
        }
        Err(last)
    }

    /// Puts content into the given number of first tiers; a tier that rejects it is skipped.
    fn fill(&self, count: usize, key: &CacheKey, time: Duration, content: Content<'_>) {
        for tier in self.0.iter().take(count) {
            if let Err(problem) = tier.put(key, time, content) {
                tracing::debug!(%key, tier = tier.name(), %problem, "not stored");
            }
        }
    }
}

impl Tier for TierList {
    fn name(&self) -> &str {
        "stores"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        let (position, entry) = self.first(|tier| tier.get(key))?;
        self.fill(position, key, entry.compile_time, entry.payload.content());
        Ok(entry)
    }

    fn get_into(&self, key: &CacheKey, content: &mut [u8]) -> Result<Duration, Miss> {
        let (position, time) = self.first(|tier| tier.get_into(key, content))?;
        // Content that was read into the caller's bytes is data: `fill` would reject it as code.
        self.fill(position, key, time, Content::data(content));
        Ok(time)
    }

    /// Stores an entry in every tier that accepts it.
    ///
    /// # Errors
    /// If none does, the first tier's reason.
    fn put(
        &self,
        key: &CacheKey,
        compile_time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        let mut total = None;
        let mut problems = Vec::new();
        for tier in &self.0 {
            match tier.put(key, compile_time, content) {
                Ok(stored) => {
                    let total: &mut Stored = total.get_or_insert_default();
                    total.evicted += stored.evicted;
                    total.evicted_bytes += stored.evicted_bytes;
                }
                Err(problem) => problems.push(problem),
            }
        }
        match (total, problems.into_iter().next()) {
            (Some(total), _) => Ok(total),
            (None, problem) => Err(problem.unwrap_or(NotStored::ReadOnly)),
        }
    }

    fn remove(&self, key: &CacheKey) {
        for tier in &self.0 {
            tier.remove(key);
        }
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.0.iter().any(|tier| tier.contains(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{DiskOptions, DiskTier};
    use crate::key::EntryKind;

    #[test]
    fn entries_move_to_the_faster_tiers() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let [near, far] = folders.each_ref().map(|folder| {
            let tier = DiskTier::at(folder.path(), DiskOptions::default());
            Arc::new(tier) as Arc<dyn Tier>
        });
        let list = TierList::new(vec![Arc::clone(&near), Arc::clone(&far)]);
        let key = |model| CacheKey::of_fields(EntryKind::PROGRAM, [("model", model)]);
        let content = Content::data(b"content");
        assert!(list.get(&key("mlp")).is_err());
        far.put(&key("mlp"), Duration::ZERO, content).unwrap();
        far.put(&key("cnn"), Duration::ZERO, content).unwrap();
        assert!(list.contains(&key("mlp")) && !near.contains(&key("mlp")));
        assert_eq!(&*list.get(&key("mlp")).unwrap().payload, b"content");
        let mut read = [0; 7];
        list.get_into(&key("cnn"), &mut read).unwrap();
        assert_eq!(&read, b"content");
        assert!(near.contains(&key("mlp")) && near.contains(&key("cnn")));
        list.put(&key("rnn"), Duration::ZERO, content).unwrap();
        assert!(near.contains(&key("rnn")) && far.contains(&key("rnn")));
        list.remove(&key("rnn"));
        assert!(!list.contains(&key("rnn")));
        let none = TierList::new(Vec::new());
        assert!(none.get(&key("mlp")).is_err());
        assert!(none.put(&key("mlp"), Duration::ZERO, content).is_err());
    }
}
