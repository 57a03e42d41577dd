//! Whether code in a bundle may be run: the caller vouches for the file, or provides the key that sealed it.
#![allow(
    unsafe_code,
    reason = "the code of a bundle that is trusted is vouched for here"
)]

use std::path::Path;

use crate::error::CacheError;
use crate::key::EntryKind;
use crate::payload::Payload;
use crate::seal::SealKey;

use super::Bundle;

/// The party that vouches for the code of a bundle.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trust {
    /// No one.
    None,
    /// The caller.
    Caller,
    /// The key that sealed it.
    Key(SealKey),
}

impl Trust {
    /// The key that must have signed every part.
    pub(super) fn key(&self) -> Option<&SealKey> {
        match self {
            Self::None | Self::Caller => None,
            Self::Key(key) => Some(key),
        }
    }

    /// The content of an entry checked with this [`key`](Self::key), as code if its kind is code.
    pub(super) fn vouch(&self, kind: &str, payload: Payload) -> Payload {
        match (kind == EntryKind::KERNEL.name(), self) {
            // SAFETY: the caller of `open_trusted` promised it; and a holder of the key writes bundles with
            // `Bundle::write`, which accepts only code under this kind.
            (true, Self::Caller | Self::Key(_)) => unsafe { payload.into_code() },
            (false, _) | (_, Self::None) => payload,
        }
    }
}

impl Bundle {
    /// Opens a bundle whose code may be run.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    ///
    /// # Safety
    /// The file was made by [`write`](Self::write) from entries whose code came from a compiler, and was not tampered
    /// with. Otherwise arbitrary bytes are run as code.
    pub unsafe fn open_trusted(path: impl AsRef<Path>) -> Result<Self, CacheError> {
        Self::open_with(path.as_ref(), Trust::Caller)
    }

    /// Opens a sealed bundle. Its code may be run: only a holder of the key can have made it.
    ///
    /// # Errors
    /// As [`open`](Self::open); E0711 for a bundle without a seal, or sealed with a different key.
    pub fn open_sealed(path: impl AsRef<Path>, key: &SealKey) -> Result<Self, CacheError> {
        Self::open_with(path.as_ref(), Trust::Key(*key))
    }
}
