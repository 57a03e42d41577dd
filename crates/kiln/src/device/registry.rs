//! The devices registered in this process, in order. None is ever removed, so a key always means the same device.

use super::entry::DeviceEntry;
use super::key;
use crate::error::{Error, Failure};
use kiln_fork_lock::{ForkLazy, ForkLock};
use std::sync::Arc;

static ENTRIES: ForkLazy<ForkLock<Vec<Arc<dyn DeviceEntry>>>> = ForkLazy::new(ForkLock::default);

/// All registered devices.
pub(super) fn all() -> Vec<Arc<dyn DeviceEntry>> {
    ENTRIES.lock().clone()
}

/// Adds a device, whose key must be new and not among `taken`.
pub(super) fn add(entry: Arc<dyn DeviceEntry>, taken: &[&str]) -> Result<(), Error> {
    let name = entry.key().to_owned();
    let refuse = |problem| {
        Error::from(Failure::DeviceKey {
            name: name.escape_debug().to_string(),
            problem,
        })
    };
    if !key::is_allowed(&name) {
        return Err(refuse(
            "expected lower-case letters, digits and `-`, starting with a letter",
        ));
    }
    let mut entries = ENTRIES.lock();
    let is_there = entries.iter().any(|known| known.key() == name);
    if is_there || taken.contains(&name.as_str()) {
        return Err(refuse("another device has this key"));
    }
    entries.push(entry);
    Ok(())
}
