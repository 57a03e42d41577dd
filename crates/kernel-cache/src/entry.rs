//! The byte format of an entry: framing, and the checks made before any content is trusted.
//!
//! ```text
//! prelude   8 magic, 4 format, 32 digest of the key, 4 length of the head, 4 signed, 8 length of the content
//! head      kind, compile time, fields of the key
//!           32 BLAKE3 of prelude and head
//! content
//!           32 authentication code, where the prelude's second last number is 1: keyed BLAKE3 of everything before
//!           32 BLAKE3 of everything before
//! ```
//! Numbers are little-endian. Nothing depends on the file's location, the machine or the time, so an entry can be
//! copied. Every length is checked against the bytes available.

mod head;
#[cfg(test)]
mod tests;

use std::time::Duration;

use crate::key::{CacheKey, KeyDigest, KeyField, differences};
use crate::miss::{Miss, NotStored};
use crate::payload::Payload;
use crate::seal::{SealKey, check_code};

/// The magic number of every entry: not text, and broken by any line-ending conversion.
const MAGIC: [u8; 8] = *b"\x89KILN\r\n\x1a";

/// The version of entries: raised when their layout changes, or the meaning of what they hold. It is part of the names of
/// entries in every store, so that versions neither read nor replace each other's entries.
pub const FORMAT: u32 = 2;

/// Size of the prelude in bytes.
pub(crate) const PRELUDE: usize = 60;

/// Size of a digest in bytes.
pub(crate) const DIGEST: usize = 32;

/// The maximum size of a head.
pub(crate) const HEAD_LIMIT: usize = 1 << 16;

/// The metadata of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHead {
    /// The digest of the key.
    pub digest: KeyDigest,
    /// The kind of content.
    pub kind: String,
    /// How long the compile took.
    pub compile_time: Duration,
    /// The key's fields, the subject first.
    pub fields: Vec<KeyField>,
    /// Size of the content in bytes.
    pub content_bytes: u64,
}

/// An entry as a tier returns it.
#[derive(Clone, Debug)]
pub struct StoredEntry {
    /// How long its compile took.
    pub compile_time: Duration,
    /// The content.
    pub payload: Payload,
}

/// Everything before the content of an entry.
pub(crate) fn front(
    key: &CacheKey,
    compile_time: Duration,
    content_bytes: usize,
    is_signed: bool,
) -> Result<Vec<u8>, NotStored> {
    let head = head::write(key, compile_time);
    let too_large = NotStored::TooLarge {
        bytes: head.len() as u64,
        limit: HEAD_LIMIT as u64,
    };
    let head_bytes = match u32::try_from(head.len()) {
        Ok(bytes) if head.len() <= HEAD_LIMIT => bytes,
        _ => return Err(too_large),
    };
    let mut front = Vec::with_capacity(PRELUDE + head.len() + DIGEST);
    front.extend(MAGIC);
    front.extend(FORMAT.to_le_bytes());
    front.extend(key.digest().as_bytes());
    front.extend(head_bytes.to_le_bytes());
    front.extend(u32::from(is_signed).to_le_bytes());
    front.extend((content_bytes as u64).to_le_bytes());
    front.extend(head);
    let digest = blake3::hash(&front);
    front.extend(digest.as_bytes());
    Ok(front)
}

/// Checks content against its trailer, piece by piece.
pub(crate) struct Checker {
    digest: blake3::Hasher,
    /// The hasher of the authentication code; present if entries are signed.
    code: Option<blake3::Hasher>,
}

impl Checker {
    /// Starts after everything before the content.
    pub(crate) fn new(front: &[u8], key: Option<&SealKey>) -> Self {
        let mut checker = Self {
            digest: blake3::Hasher::new(),
            code: key.map(SealKey::hasher),
        };
        checker.update(front);
        checker
    }

    /// The next piece.
    pub(crate) fn update(&mut self, piece: &[u8]) {
        self.digest.update(piece);
        if let Some(code) = &mut self.code {
            code.update(piece);
        }
    }

    /// The trailer: the authentication code of a signed entry, and the digest.
    pub(crate) fn finish(mut self, seal: &[u8]) -> Result<(), Miss> {
        let (code, digest) = seal.split_at(seal.len().saturating_sub(DIGEST));
        self.digest.update(code);
        if self.digest.finalize().as_bytes() != digest {
            return Err(Miss::Digest { part: "content" });
        }
        // Intact, but the author is unverified: without a key, signed entries are read like others.
        match &self.code {
            Some(hasher) => check_code(hasher, code),
            None => Ok(()),
        }
    }
}

/// The trailer: with a key, the authentication code, then the digest.
pub(crate) fn seal(front: &[u8], content: &[u8], key: Option<&SealKey>) -> Vec<u8> {
    let mut seal = Vec::with_capacity(2 * DIGEST);
    if let Some(key) = key {
        let code = key.hasher().update(front).update(content).finalize();
        seal.extend(code.as_bytes());
    }
    let mut hasher = blake3::Hasher::new();
    hasher.update(front).update(content).update(&seal);
    seal.extend(hasher.finalize().as_bytes());
    seal
}

/// The length of the trailer, from the prelude.
pub(crate) fn seal_bytes(prelude: &[u8]) -> Result<usize, Miss> {
    Prelude::read(prelude).map(|prelude| prelude.seal_bytes())
}

/// Whether an entry is signed, from the prelude.
pub(crate) fn is_signed(prelude: &[u8]) -> bool {
    Prelude::read(prelude).is_ok_and(|prelude| prelude.is_signed)
}

/// The length of everything before the content, from the prelude; for reading only the head.
pub(crate) fn front_bytes(prelude: &[u8]) -> Result<usize, Miss> {
    Prelude::read(prelude).map(|prelude| PRELUDE + prelude.head_bytes + DIGEST)
}

/// The head of a file of `file_bytes`; `front` is everything before its content.
pub(crate) fn read_head(front: &[u8], file_bytes: u64) -> Result<EntryHead, Miss> {
    let prelude = Prelude::read(front)?;
    if prelude.file_bytes() != Some(file_bytes) {
        return Err(Miss::Length {
            expected: prelude.file_bytes().unwrap_or(u64::MAX),
            found: file_bytes,
        });
    }
    let end = PRELUDE + prelude.head_bytes;
    let (Some(before), Some(digest)) = (front.get(..end), front.get(end..end + DIGEST)) else {
        return Err(Miss::Length {
            expected: (end + DIGEST) as u64,
            found: front.len() as u64,
        });
    };
    if blake3::hash(before).as_bytes() != digest {
        return Err(Miss::Digest { part: "head" });
    }
    let head = before.get(PRELUDE..).unwrap_or_default();
    let (kind, compile_time, fields) = head::read(head).map_err(|what| Miss::Head { what })?;
    Ok(EntryHead {
        digest: prelude.digest,
        kind,
        compile_time,
        fields,
        content_bytes: prelude.content_bytes,
    })
}

/// A whole file, checked; with a key, accepted only if signed with it.
pub(crate) fn read(file: Vec<u8>, key: Option<&SealKey>) -> Result<(EntryHead, Payload), Miss> {
    let head = read_head(&file, file.len() as u64)?;
    let begin = front_bytes(&file)?;
    let end = file.len().saturating_sub(seal_bytes(&file)?);
    let (Some(before), Some(seal)) = (file.get(..end), file.get(end..)) else {
        return Err(Miss::NotAnEntry);
    };
    Checker::new(before, key).finish(seal)?;
    Ok((head, Payload::of_range(file, begin..end)))
}

/// Whether a checked entry belongs to a key.
pub(crate) fn matches(head: &EntryHead, key: &CacheKey) -> Result<(), Miss> {
    if head.digest != key.digest() {
        return Err(Miss::Key {
            expected: key.digest(),
            found: head.digest,
        });
    }
    if head.kind != key.kind().name() {
        return Err(Miss::Kind {
            expected: key.kind(),
            found: head.kind.clone(),
        });
    }
    match differences(key.fields(), &head.fields).into_iter().next() {
        None => Ok(()),
        Some(difference) => Err(Miss::Field {
            field: difference.name,
        }),
    }
}

struct Prelude {
    digest: KeyDigest,
    head_bytes: usize,
    is_signed: bool,
    content_bytes: u64,
}

impl Prelude {
    fn read(bytes: &[u8]) -> Result<Self, Miss> {
        let Some((magic, rest)) = bytes.split_first_chunk::<8>() else {
            return Err(too_short(bytes));
        };
        if *magic != MAGIC {
            return Err(Miss::NotAnEntry);
        }
        let mut reader = head::Reader(rest);
        let mut number = || reader.number().ok_or_else(|| too_short(bytes));
        let format = number()?;
        if format != FORMAT {
            return Err(Miss::Format {
                expected: FORMAT,
                found: format,
            });
        }
        let digest = reader.array::<32>().ok_or_else(|| too_short(bytes))?;
        let mut number = || reader.number().ok_or_else(|| too_short(bytes));
        let (head_bytes, signed) = (number()? as usize, number()?);
        let content_bytes = reader.array::<8>().ok_or_else(|| too_short(bytes))?;
        if head_bytes > HEAD_LIMIT || signed > 1 {
            return Err(Miss::Head {
                what: "numbers of the prelude",
            });
        }
        Ok(Self {
            digest: KeyDigest::from(digest),
            head_bytes,
            is_signed: signed == 1,
            content_bytes: u64::from_le_bytes(content_bytes),
        })
    }

    fn seal_bytes(&self) -> usize {
        match self.is_signed {
            true => 2 * DIGEST,
            false => DIGEST,
        }
    }

    fn file_bytes(&self) -> Option<u64> {
        let around = PRELUDE + self.head_bytes + DIGEST + self.seal_bytes();
        self.content_bytes.checked_add(around as u64)
    }
}

fn too_short(bytes: &[u8]) -> Miss {
    Miss::Length {
        expected: PRELUDE as u64,
        found: bytes.len() as u64,
    }
}
