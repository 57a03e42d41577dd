//! Packages in a store shared by several servers: each is an entry of a tier.
//!
//! The tier signs entries and verifies those that it reads; it has its own deadlines, and stops using a store that
//! fails. Callers decide what to do about a failure. *Invariant:* whatever the store returns, the result is a package
//! of this version, for a machine like this one, or a typed error.

use crate::error::ServiceError;
use crate::package::Package;
use kiln::internals::kernel_cache::{CacheKey, Claim, Content, EntryKind, Miss};
use kiln::{Device, Tier};
use std::any::Any;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Packages among the entries of a store.
const PACKAGE: EntryKind = EntryKind::new("package");

/// How often another server's compile is polled.
const POLL: Duration = Duration::from_millis(50);

/// The maximum time to wait for another server's compile.
const LONGEST: Duration = Duration::from_secs(120);

/// A store that several servers share.
#[derive(Clone)]
pub(super) struct Shared {
    tier: Arc<dyn Tier>,
    /// The highest level of this machine: servers of different kinds make different packages.
    machine: String,
}

/// The next action of a server that needs a package.
pub(crate) enum Turn {
    /// Compile, and hold this claim meanwhile. Without a claim, other servers may compile it too.
    Compile(Option<Box<dyn Any + Send>>),
    /// Look it up again: another server has stored the package.
    Stored,
}

impl Shared {
    pub(super) fn new(tier: Arc<dyn Tier>) -> Self {
        let levels = Device::cpu().levels();
        let machine = levels.last().cloned().unwrap_or_default();
        Self { tier, machine }
    }

    fn key(&self, key: &str) -> CacheKey {
        let fields = [
            ("package", key),
            ("kiln", env!("CARGO_PKG_VERSION")),
            ("machine", &self.machine),
        ];
        CacheKey::of_fields(PACKAGE, fields)
    }

    /// The package of a key, in a temporary folder.
    pub(super) fn get(&self, key: &str) -> Result<Option<Package>, ServiceError> {
        let entry = match self.tier.get(&self.key(key)) {
            Ok(entry) => entry,
            Err(Miss::Absent) => return Ok(None),
            Err(Miss::Unavailable { message }) => return Err(self.failed("read", key, message)),
            Err(miss) => {
                return Err(ServiceError::PackageRefused {
                    key: key.to_owned(),
                    reason: format!("the shared store: {miss}"),
                });
            }
        };
        Package::unpack(&entry.payload, key).map(Some)
    }

    /// Stores a package; the tier may do so in the background.
    pub(super) fn put(&self, package: &Package) -> Result<(), ServiceError> {
        let metadata = package.metadata();
        let bytes = package.pack()?;
        let took = Duration::from_millis(metadata.compile_ms);
        let stored = self
            .tier
            .put(&self.key(&metadata.key), took, Content::data(&bytes));
        match stored {
            Ok(_) => Ok(()),
            Err(reason) => Err(self.failed("write", &metadata.key, reason.to_string())),
        }
    }

    pub(super) fn remove(&self, key: &str) {
        self.tier.remove(&self.key(key));
    }

    /// Waits while another server makes the package.
    pub(super) fn turn(&self, key: &str, is_cancelled: impl Fn() -> bool) -> Turn {
        let (key, begin) = (self.key(key), Instant::now());
        while begin.elapsed() < LONGEST && !is_cancelled() {
            match self.tier.try_claim(&key) {
                // Another server may have released its claim after it stored the package.
                Claim::Held(_) if self.tier.contains(&key) => return Turn::Stored,
                Claim::Held(claim) => return Turn::Compile(Some(claim)),
                Claim::Unavailable => return Turn::Compile(None),
                Claim::Busy if self.tier.contains(&key) => return Turn::Stored,
                Claim::Busy => std::thread::sleep(POLL),
            }
        }
        Turn::Compile(None)
    }

    fn failed(&self, action: &'static str, key: &str, reason: String) -> ServiceError {
        ServiceError::SharedStore {
            action,
            key: key.to_owned(),
            store: self.tier.name().to_owned(),
            reason,
        }
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Shared").field(&self.tier.name()).finish()
    }
}
