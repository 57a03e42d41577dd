//! Many entries in one file: everything a program needs to run elsewhere, written once and then only read.
//!
//! ```text
//! prelude   8 magic, 4 format, 4 number of entries, 8 length of the manifest, 8 length of the file, 8 whether it is sealed
//! manifest  free text of the maker
//! index     per entry: 32 digest of its key, 8 offset, 8 length
//!           32 BLAKE3 of everything so far
//!           32 authentication code, where it is sealed: keyed BLAKE3 of everything before
//! entries   as in a cache folder, signed where the bundle is sealed, one after another
//! ```
//! Numbers are little-endian. Nothing depends on the file's location. Damage to a bundle is an error and not a miss.
//! The file is read, never mapped, so later changes to it cannot affect checked bytes.
//!
//! Digests detect accidents, not attacks: the maker of a bundle can compute them. So code in a bundle is returned as
//! code only if the caller vouches for the file, or it was sealed with the caller's key; otherwise it is returned as
//! data.

mod tier;
mod trust;
mod write;

use crate::fs::{extend_with_zeros, open_regular};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use crate::entry::DIGEST;
use crate::error::CacheError;
use crate::key::KeyDigest;
use crate::miss::Miss;
use crate::seal::check_code;

use trust::Trust;

/// The magic number of a bundle.
const MAGIC: [u8; 8] = *b"\x89KILB\r\n\x1a";

/// The format version read and written.
const FORMAT: u32 = 3;

/// Size of the prelude in bytes.
const PRELUDE: usize = 40;

/// Size of an index entry in bytes.
const INDEXED: usize = DIGEST + 16;

/// The maximum size of manifest and index.
const FRONT_LIMIT: u64 = 1 << 30;

/// An open bundle; entries are read on request.
///
/// Safe code cannot run a bundle's code without a key:
///
/// ```compile_fail,E0133
/// let bundle = kiln_kernel_cache::Bundle::open_trusted("model.kiln-bundle");
/// ```
#[derive(Debug)]
pub struct Bundle {
    file: File,
    path: PathBuf,
    manifest: Vec<u8>,
    index: BTreeMap<KeyDigest, Indexed>,
    trust: Trust,
}

/// The location of an entry.
#[derive(Clone, Copy, Debug)]
struct Indexed {
    offset: u64,
    bytes: u64,
}

impl Bundle {
    /// Opens a bundle for reading: checks its manifest, index and file length. Its code is treated as data.
    ///
    /// # Errors
    /// The file cannot be read, is not a bundle, has a different format, or is damaged.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, CacheError> {
        Self::open_with(path.as_ref(), Trust::None)
    }

    fn open_with(path: &Path, trust: Trust) -> Result<Self, CacheError> {
        let io = |doing| {
            move |error: std::io::Error| CacheError::BundleIo {
                path: path.to_owned(),
                doing,
                kind: error.kind(),
                message: error.to_string(),
            }
        };
        let damaged = |part: &str, problem: String| damaged(path, part, problem);
        let file = open_regular(path).map_err(io("opening"))?;
        let found = file.metadata().map_err(io("looking at"))?;
        let short = |expected: u64| {
            let found = found.len();
            damaged(
                "its length",
                format!("expected {expected} bytes, found {found}"),
            )
        };
        if found.len() < PRELUDE as u64 {
            return Err(short(PRELUDE as u64));
        }
        let mut front = vec![0; PRELUDE];
        file.read_exact_at(&mut front, 0).map_err(io("reading"))?;
        let prelude = Prelude::read(&front, path)?;
        if prelude.file_bytes != found.len() {
            return Err(short(prelude.file_bytes));
        }
        let front_bytes = prelude.front_bytes();
        let Some(front_bytes) = front_bytes.filter(|&bytes| bytes <= found.len().min(FRONT_LIMIT))
        else {
            return Err(damaged("its prelude", "invalid lengths".to_owned()));
        };
        // Bounded by the length of the file, checked above.
        let front_bytes = usize::try_from(front_bytes).unwrap_or(usize::MAX);
        extend_with_zeros(&mut front, front_bytes - PRELUDE).map_err(io("reading"))?;
        file.read_exact_at(&mut front[PRELUDE..], PRELUDE as u64)
            .map_err(io("reading"))?;
        let (digested, code) = front.split_at(front_bytes - prelude.code_bytes());
        let (before, digest) = digested.split_at(digested.len() - DIGEST);
        if blake3::hash(before).as_bytes() != digest {
            let problem = "the digest does not match".to_owned();
            return Err(damaged("its manifest or index", problem));
        }
        if let Trust::Key(key) = &trust {
            let found = match prelude.is_sealed {
                false => Some("one without a seal"),
                true => match check_code(key.hasher().update(digested), code) {
                    Ok(()) => None,
                    Err(_) => Some("one with another seal"),
                },
            };
            if let Some(found) = found {
                let path = path.to_owned();
                return Err(CacheError::BundleSeal { path, found });
            }
        }
        let (manifest, index) = before[PRELUDE..].split_at(prelude.manifest_bytes);
        Ok(Self {
            manifest: manifest.to_vec(),
            index: read_index(index, found.len())
                .ok_or_else(|| damaged("its index", "missing entries".to_owned()))?,
            file,
            path: path.to_owned(),
            trust,
        })
    }

    /// The manifest.
    pub fn manifest(&self) -> &[u8] {
        &self.manifest
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The number of entries.
    pub fn n_entries(&self) -> usize {
        self.index.len()
    }

    /// Reads and checks the entries whose kind `which` accepts.
    ///
    /// # Errors
    /// The first damaged entry.
    pub fn verify(&self, which: impl Fn(&str) -> bool) -> Result<(), CacheError> {
        for (&digest, &place) in &self.index {
            let checked = self
                .read_head(place)
                .and_then(|head| match which(&head.kind) {
                    true => self.read_entry(place).map(drop),
                    false => Ok(()),
                });
            checked.map_err(|miss| self.damaged_entry(digest, place, &miss))?;
        }
        Ok(())
    }

    /// The error for a damaged entry.
    fn damaged_entry(&self, digest: KeyDigest, place: Indexed, miss: &Miss) -> CacheError {
        let Indexed { offset, bytes } = place;
        let part = format!(
            "entry {} at byte {offset}, {bytes} bytes long",
            digest.short()
        );
        damaged(&self.path, &part, miss.to_string())
    }
}

fn damaged(path: &Path, part: &str, problem: String) -> CacheError {
    CacheError::Bundle {
        path: path.to_owned(),
        part: part.to_owned(),
        problem,
    }
}

struct Prelude {
    n_entries: u32,
    manifest_bytes: usize,
    file_bytes: u64,
    is_sealed: bool,
}

impl Prelude {
    fn read(bytes: &[u8], path: &Path) -> Result<Self, CacheError> {
        let number = |at: usize| {
            let bytes = bytes
                .get(at..at + 8)
                .and_then(|bytes| bytes.try_into().ok());
            u64::from_le_bytes(bytes.unwrap_or_default())
        };
        if bytes.get(..8) != Some(&MAGIC) {
            let problem = "it does not start with the magic bytes of a bundle".to_owned();
            return Err(damaged(path, "its prelude", problem));
        }
        // Two 32-bit numbers: the format and the number of entries.
        let (format, n_entries) = (number(8) as u32, (number(8) >> 32) as u32);
        if format != FORMAT {
            return Err(CacheError::BundleFormat {
                path: path.to_owned(),
                expected: FORMAT,
                found: format,
            });
        }
        let manifest_bytes = usize::try_from(number(16)).ok();
        let (Some(manifest_bytes), sealed @ 0..=1) = (manifest_bytes, number(32)) else {
            let problem = "invalid numbers".to_owned();
            return Err(damaged(path, "its prelude", problem));
        };
        Ok(Self {
            n_entries,
            manifest_bytes,
            file_bytes: number(24),
            is_sealed: sealed == 1,
        })
    }

    /// The length of the authentication code after the index.
    fn code_bytes(&self) -> usize {
        match self.is_sealed {
            true => DIGEST,
            false => 0,
        }
    }

    /// The bytes before the first entry.
    fn front_bytes(&self) -> Option<u64> {
        let index = u64::from(self.n_entries).checked_mul(INDEXED as u64)?;
        let around = index.checked_add((PRELUDE + DIGEST + self.code_bytes()) as u64)?;
        around.checked_add(self.manifest_bytes as u64)
    }
}

fn read_index(bytes: &[u8], file_bytes: u64) -> Option<BTreeMap<KeyDigest, Indexed>> {
    let mut index = BTreeMap::new();
    for entry in bytes.chunks_exact(INDEXED) {
        let (digest, rest) = entry.split_first_chunk::<DIGEST>()?;
        let (offset, bytes) = rest.split_first_chunk::<8>()?;
        let offset = u64::from_le_bytes(*offset);
        let bytes = u64::from_le_bytes(bytes.try_into().ok()?);
        if offset.checked_add(bytes)? > file_bytes {
            return None;
        }
        index.insert(KeyDigest::from(*digest), Indexed { offset, bytes });
    }
    Some(index)
}

#[cfg(test)]
mod tests;
