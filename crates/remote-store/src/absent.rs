//! Entries that were found absent, and how long that is remembered.

use std::time::Duration;

use kiln_kernel_cache::{BoundedLru, KeyDigest, LruLimits};

/// The maximum number of keys that are remembered.
const KEYS: usize = 1 << 16;

/// A bounded memory of absent entries.
#[derive(Debug)]
pub(crate) struct Absent {
    until: BoundedLru<KeyDigest, Duration>,
    believed_for: Duration,
}

impl Absent {
    pub(crate) fn new(believed_for: Duration) -> Self {
        let limits = LruLimits {
            entries: KEYS,
            bytes: usize::MAX,
        };
        Self {
            until: BoundedLru::new(limits),
            believed_for,
        }
    }

    /// Whether the entry was found absent a short while ago.
    pub(crate) fn has(&mut self, digest: KeyDigest, now: Duration) -> bool {
        match self.until.get(&digest) {
            Some(until) if now < *until => true,
            Some(_) => {
                self.until.remove(&digest);
                false
            }
            None => false,
        }
    }

    /// Records that the entry was found absent.
    pub(crate) fn note(&mut self, digest: KeyDigest, now: Duration) {
        let until = now.saturating_add(self.believed_for);
        let _ = self.until.insert(digest, until, 0);
    }

    /// Records that the entry may exist now.
    pub(crate) fn forget(&mut self, digest: KeyDigest) {
        self.until.remove(&digest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absence_is_believed_for_a_while() {
        let mut absent = Absent::new(Duration::from_secs(10));
        let digest = KeyDigest::of(b"x");
        assert!(!absent.has(digest, Duration::ZERO));
        absent.note(digest, Duration::ZERO);
        assert!(absent.has(digest, Duration::from_secs(9)));
        assert!(!absent.has(digest, Duration::from_secs(10)));
        absent.note(digest, Duration::from_secs(10));
        absent.forget(digest);
        assert!(!absent.has(digest, Duration::from_secs(10)));
    }
}
