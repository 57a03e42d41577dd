//! The user's settings for where compiled code is kept between processes: [`Cache`].

use crate::environment;
use kiln_kernel_cache::{DiskOptions, DiskTier, SealKey};
use std::path::{Path, PathBuf};

/// Where compiled code is kept, so that later processes need not compile it again.
///
/// The default is a folder of the current user: `KILN_CACHE_DIR`, or else `kiln` in `XDG_CACHE_HOME`, or else `.cache/kiln`
/// in the home folder. With `KILN_CACHE_DIR=off` nothing is kept. Problems with the folder are logged and never fail a
/// call.
///
/// ```
/// use kiln::{Cache, Options};
///
/// let options = Options::new().cache(Cache::folder("/var/cache/my-service").max_bytes(1 << 30));
/// assert_eq!(Cache::off().path(), None);
/// # let _ = options;
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cache {
    folder: Option<PathBuf>,
    max_bytes: Option<u64>,
    key: Option<SealKey>,
}

impl Default for Cache {
    fn default() -> Self {
        let environment::CacheEnvironment { folder, max_bytes } = environment::cache();
        Self {
            folder,
            max_bytes,
            key: None,
        }
    }
}

impl Cache {
    /// Disables the cache.
    pub fn off() -> Self {
        Self {
            folder: None,
            max_bytes: None,
            key: None,
        }
    }

    /// Keeps code in this folder, which is created when something is first stored. It must belong to the current user,
    /// and no other user may have write access to it.
    pub fn folder(path: impl Into<PathBuf>) -> Self {
        Self {
            folder: Some(path.into()),
            max_bytes: None,
            key: None,
        }
    }

    /// Approximate limit on the bytes in the folder; the least recently used entries are evicted. Four GiB by default.
    #[must_use]
    pub fn max_bytes(self, bytes: u64) -> Self {
        Self {
            max_bytes: Some(bytes),
            ..self
        }
    }

    /// Sets a key that signs entries when they are stored: entries not signed with it are rebuilt. A process without
    /// the key reads signed entries, and neither replaces nor removes them.
    ///
    /// ```
    /// use kiln::{Cache, SealKey};
    ///
    /// let secret = [7; 32]; // of a random number generator; or `SealKey::read("/etc/my-service/cache.key")?`
    /// let cache = Cache::folder("/var/cache/my-service").key(SealKey::of_secret(&secret));
    /// assert!(!format!("{cache:?}").contains('7'));
    /// ```
    #[must_use]
    pub fn key(self, key: SealKey) -> Self {
        Self {
            key: Some(key),
            ..self
        }
    }

    /// The folder; `None` if nothing is kept.
    pub fn path(&self) -> Option<&Path> {
        self.folder.as_deref()
    }

    /// The folder as a store, to list, check and clear it; `None` if nothing is kept.
    pub fn open(&self) -> Option<DiskTier> {
        let defaults = DiskOptions::default();
        let options = DiskOptions {
            max_bytes: self.max_bytes.unwrap_or(defaults.max_bytes),
            key: self.key,
            ..defaults
        };
        Some(DiskTier::at(self.folder.clone()?, options))
    }
}
