//! The key of a folder whose entries are authenticated: [`SealKey`].
//!
//! The authentication code of an entry is a keyed BLAKE3 of its front and content. Invariant: the key's bytes are never
//! printed, and codes are compared in constant time.

use std::fmt;
use std::path::Path;

use crate::error::CacheError;
use crate::fs::{FileKind, Fs, SystemFs};
use crate::miss::Miss;

/// The derivation contexts of keys for different uses.
const CONTEXT: &str = "kiln cache entries, authentication key, 1";

/// The minimum length of a secret: shorter ones are too easily guessed.
const MIN_BYTES: u64 = 32;

/// The maximum length of a key file.
const MAX_BYTES: u64 = 4096;

/// The mode bits that give other users access to a file.
const OTHERS: u32 = 0o077;

/// A secret that authenticates entries: those without a valid code are misses, so another writer to the folder cannot
/// plant one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SealKey([u8; 32]);

impl SealKey {
    /// The key derived from a secret of at least 32 bytes from a random number generator.
    pub fn of_secret(secret: &[u8]) -> Self {
        Self(blake3::derive_key(CONTEXT, secret))
    }

    /// The key from a file of 32 to 4096 bytes, for example from `head -c 32 /dev/urandom`.
    ///
    /// # Errors
    /// E0710 if the file is missing, is not a regular file of this user, is accessible to others, or has too few or
    /// many bytes.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, CacheError> {
        let path = path.as_ref();
        Self::try_read(path).map_err(|problem| CacheError::KeyFile {
            path: path.to_owned(),
            problem,
        })
    }

    fn try_read(path: &Path) -> Result<Self, String> {
        let system = |error: std::io::Error| error.to_string();
        let name = path.file_name().and_then(|name| name.to_str());
        let name = name.ok_or_else(|| "expected the path of a file".to_owned())?;
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let fs = SystemFs::new(parent);
        let folder = fs.open().map_err(system)?;
        // Does not follow links or block on pipes.
        let mut file = folder.open(name).map_err(system)?;
        let info = file.info().map_err(system)?;
        if info.kind != FileKind::Regular {
            return Err(format!(
                "expected a regular file, found a {}",
                info.kind.name()
            ));
        }
        if info.owner != fs.user() {
            let (expected, found) = (fs.user(), info.owner);
            return Err(format!(
                "expected a file of user {expected}, found one of user {found}"
            ));
        }
        if info.mode & OTHERS != 0 {
            let mode = info.mode & 0o777;
            return Err(format!(
                "expected mode 600, found {mode:03o}; `chmod 600` it"
            ));
        }
        if !(MIN_BYTES..=MAX_BYTES).contains(&info.bytes) {
            let found = info.bytes;
            return Err(format!(
                "expected {MIN_BYTES} to {MAX_BYTES} bytes, found {found}"
            ));
        }
        let secret = file.read(info.bytes as usize).map_err(system)?;
        if secret.len() as u64 != info.bytes {
            return Err("the file changed while it was read".to_owned());
        }
        Ok(Self::of_secret(&secret))
    }

    /// Starts a code.
    pub(crate) fn hasher(&self) -> blake3::Hasher {
        blake3::Hasher::new_keyed(&self.0)
    }
}

/// Compares a code with that of the hashed bytes, in constant time.
pub(crate) fn check_code(hasher: &blake3::Hasher, code: &[u8]) -> Result<(), Miss> {
    let code = <[u8; 32]>::try_from(code).map_err(|_| Miss::Unauthenticated)?;
    match hasher.finalize() == blake3::Hash::from_bytes(code) {
        true => Ok(()),
        false => Err(Miss::Unauthenticated),
    }
}

impl fmt::Debug for SealKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SealKey(…)")
    }
}
