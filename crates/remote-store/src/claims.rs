//! Claims on compiles, among machines: an object that only one of them can create.
//!
//! A claim only saves work, and nothing depends on it: two machines may compile the same kernel, and store equal
//! entries. So stores without conditional writes have no claims. A claim whose holder does not release it is taken over
//! after it has been unchanged for the duration of the lease, by the clock of the waiting machine.
//!
//! *Invariant:* no two claims have the same content. Stores such as S3 derive an object's tag from its content, and a
//! claim that is released and made again, or taken over, has to be distinguished from the previous one.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use kiln_kernel_cache::{BoundedLru, KeyDigest, LruLimits};
use object_store::path::Path;
use object_store::{
    Error, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload, UpdateVersion,
};

/// The maximum number of other machines' claims that are remembered.
const CLAIMS: usize = 4096;

/// The claims of other machines.
#[derive(Debug)]
pub(crate) struct Claims {
    seen: BoundedLru<KeyDigest, Seen>,
    is_supported: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    version: UpdateVersion,
    /// When this version was first seen.
    first: Duration,
    /// When the claim was last queried.
    asked: Duration,
    /// When the entry was last queried.
    asked_entry: Duration,
}

/// The result of trying to claim.
#[derive(Clone, Debug)]
pub(crate) enum Tried {
    Held {
        is_taken_over: bool,
    },
    /// Another machine holds the claim, in this version.
    Busy(UpdateVersion),
    /// The store does not support conditional writes.
    Unsupported,
    Failed(String),
}

impl Claims {
    pub(crate) fn new() -> Self {
        let limits = LruLimits {
            entries: CLAIMS,
            bytes: usize::MAX,
        };
        Self {
            seen: BoundedLru::new(limits),
            is_supported: true,
        }
    }

    pub(crate) fn is_supported(&self) -> bool {
        self.is_supported
    }

    pub(crate) fn note_unsupported(&mut self) {
        self.is_supported = false;
    }

    /// Whether the claim was queried so recently that it is assumed to be still held; if not, it counts as queried now.
    pub(crate) fn is_held_still(
        &mut self,
        digest: KeyDigest,
        now: Duration,
        poll: Duration,
    ) -> bool {
        let Some(seen) = self.seen.get(&digest) else {
            return false;
        };
        let is_recent = now.saturating_sub(seen.asked) < poll;
        if !is_recent {
            seen.asked = now;
        }
        is_recent
    }

    /// Whether to query an entry that another machine is making. If so, it counts as queried now.
    pub(crate) fn may_ask_for_entry(
        &mut self,
        digest: KeyDigest,
        now: Duration,
        poll: Duration,
    ) -> bool {
        let Some(seen) = self.seen.get(&digest) else {
            return true;
        };
        let is_due = now.saturating_sub(seen.asked_entry) >= poll;
        if is_due {
            seen.asked_entry = now;
        }
        is_due
    }

    /// The version of a claim that has outlived its lease.
    pub(crate) fn expired(
        &mut self,
        digest: KeyDigest,
        now: Duration,
        lease: Duration,
    ) -> Option<UpdateVersion> {
        let seen = self.seen.get(&digest)?;
        let is_expired = now.saturating_sub(seen.first) >= lease;
        is_expired.then(|| seen.version.clone())
    }

    /// Another machine holds the claim, in this version.
    pub(crate) fn note_busy(&mut self, digest: KeyDigest, version: UpdateVersion, now: Duration) {
        let first = match self.seen.get(&digest) {
            Some(seen) if seen.version == version => seen.first,
            _ => now,
        };
        let seen = Seen {
            version,
            first,
            asked: now,
            asked_entry: now,
        };
        let _ = self.seen.insert(digest, seen, 0);
    }

    pub(crate) fn forget(&mut self, digest: KeyDigest) {
        self.seen.remove(&digest);
    }
}

/// Tries to create the claim, or to take over one that still has the `expired` version.
pub(crate) async fn try_claim(
    store: &dyn ObjectStore,
    name: &Path,
    expired: Option<UpdateVersion>,
) -> Tried {
    let Some(version) = expired else {
        return create(store, name, false).await;
    };
    let options = PutOptions::from(PutMode::Update(version.clone()));
    match store.put_opts(name, payload(), options).await {
        Ok(_) => Tried::Held {
            is_taken_over: true,
        },
        // Not every store that creates conditionally also replaces conditionally.
        Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => {
            replace(store, name, version).await
        }
        Err(Error::NotFound { .. }) => create(store, name, true).await,
        Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => held_by(store, name).await,
        Err(error) => Tried::Failed(error.to_string()),
    }
}

async fn create(store: &dyn ObjectStore, name: &Path, is_taken_over: bool) -> Tried {
    let options = PutOptions::from(PutMode::Create);
    match store.put_opts(name, payload(), options).await {
        Ok(_) => Tried::Held { is_taken_over },
        Err(Error::NotImplemented { .. } | Error::NotSupported { .. }) => Tried::Unsupported,
        Err(
            Error::AlreadyExists { .. } | Error::Precondition { .. } | Error::NotModified { .. },
        ) => held_by(store, name).await,
        Err(error) => Tried::Failed(error.to_string()),
    }
}

/// Removes a claim that still has this version, and creates another.
async fn replace(store: &dyn ObjectStore, name: &Path, version: UpdateVersion) -> Tried {
    match held_by(store, name).await {
        Tried::Busy(now) if now == version => {}
        other => return other,
    }
    match store.delete(name).await {
        Ok(()) | Err(Error::NotFound { .. }) => create(store, name, true).await,
        Err(error) => Tried::Failed(error.to_string()),
    }
}

async fn held_by(store: &dyn ObjectStore, name: &Path) -> Tried {
    match store.head(name).await {
        Ok(meta) => {
            // Stores without tags tell versions apart by the time of the last change.
            let tag = meta
                .e_tag
                .unwrap_or_else(|| meta.last_modified.to_rfc3339());
            Tried::Busy(UpdateVersion {
                e_tag: Some(tag),
                version: meta.version,
            })
        }
        // The claim was released in between, and will be tried again soon.
        Err(Error::NotFound { .. }) => Tried::Busy(UpdateVersion {
            e_tag: None,
            version: None,
        }),
        Err(error) => Tried::Failed(error.to_string()),
    }
}

/// The content of a claim: unique, and otherwise only for human readers.
fn payload() -> PutPayload {
    let unique = [0u8, 1].map(|half| RandomState::new().hash_one(half));
    let text = format!("being compiled {:016x}{:016x}\n", unique[0], unique[1]);
    PutPayload::from(text.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_claims_have_the_same_content() {
        let contents: std::collections::HashSet<Vec<u8>> = (0..100)
            .map(|_| payload().iter().flat_map(|bytes| bytes.to_vec()).collect())
            .collect();
        assert_eq!(contents.len(), 100);
    }
}
