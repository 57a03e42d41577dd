//! A bundle as a read-only tier; damage in it is an error.

use std::io::ErrorKind;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crate::entry::{self, Checker, EntryHead, PRELUDE, StoredEntry};
use crate::error::CacheError;
use crate::fs::extend_with_zeros;
use crate::key::CacheKey;
use crate::miss::{Miss, NotStored};
use crate::payload::Content;
use crate::tier::{Stored, Tier};

use super::{Bundle, Indexed};

/// Content is read and checked in pieces of this many bytes.
const PIECE: usize = 1 << 18;

impl Bundle {
    fn place(&self, key: &CacheKey) -> Result<Indexed, Miss> {
        let place = self.index.get(&key.digest());
        place.copied().ok_or(Miss::Absent)
    }

    fn read_at(&self, target: &mut [u8], offset: u64) -> Result<(), Miss> {
        let read = self.file.read_exact_at(target, offset);
        read.map_err(|error| match error.kind() {
            // The file was truncated during the read.
            ErrorKind::UnexpectedEof => Miss::Digest { part: "content" },
            _ => Miss::io("reading the bundle")(error),
        })
    }

    fn read_some(&self, offset: u64, n_bytes: u64) -> Result<Vec<u8>, Miss> {
        let too_large = || Miss::TooLarge {
            bytes: n_bytes,
            limit: usize::MAX as u64,
        };
        let n_bytes = usize::try_from(n_bytes).map_err(|_| too_large())?;
        let mut bytes = Vec::new();
        extend_with_zeros(&mut bytes, n_bytes).map_err(Miss::io("reading the bundle"))?;
        self.read_at(&mut bytes, offset)?;
        Ok(bytes)
    }

    pub(super) fn read_entry(&self, place: Indexed) -> Result<StoredEntry, Miss> {
        let bytes = self.read_some(place.offset, place.bytes)?;
        let (head, payload) = entry::read(bytes, self.trust.key())?;
        Ok(StoredEntry {
            compile_time: head.compile_time,
            payload: self.trust.vouch(&head.kind, payload),
        })
    }

    /// Everything before the content of an entry.
    fn read_front(&self, place: Indexed) -> Result<(Vec<u8>, EntryHead), Miss> {
        let prelude = self.read_some(place.offset, place.bytes.min(PRELUDE as u64))?;
        let front = entry::front_bytes(&prelude)? as u64;
        let front = self.read_some(place.offset, front.min(place.bytes))?;
        let head = entry::read_head(&front, place.bytes)?;
        Ok((front, head))
    }

    pub(super) fn read_head(&self, place: Indexed) -> Result<EntryHead, Miss> {
        self.read_front(place).map(|(_, head)| head)
    }

    fn read_into(
        &self,
        place: Indexed,
        key: &CacheKey,
        content: &mut [u8],
    ) -> Result<Duration, Miss> {
        let (front, head) = self.read_front(place)?;
        entry::matches(&head, key)?;
        if head.content_bytes != content.len() as u64 {
            return Err(Miss::Length {
                expected: content.len() as u64,
                found: head.content_bytes,
            });
        }
        let mut checker = Checker::new(&front, self.trust.key());
        let mut offset = place.offset + front.len() as u64;
        for piece in content.chunks_mut(PIECE) {
            self.read_at(piece, offset)?;
            checker.update(piece);
            offset += piece.len() as u64;
        }
        let mut seal = vec![0; entry::seal_bytes(&front)?];
        self.read_at(&mut seal, offset)?;
        checker.finish(&seal)?;
        Ok(head.compile_time)
    }
}

impl Tier for Bundle {
    fn name(&self) -> &str {
        "bundle"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        let place = self.place(key)?;
        entry::matches(&self.read_head(place)?, key)?;
        self.read_entry(place)
    }

    fn get_into(&self, key: &CacheKey, content: &mut [u8]) -> Result<Duration, Miss> {
        self.read_into(self.place(key)?, key, content)
    }

    fn put(&self, _: &CacheKey, _: Duration, _: Content<'_>) -> Result<Stored, NotStored> {
        Err(NotStored::ReadOnly)
    }

    fn remove(&self, _: &CacheKey) {}

    fn contains(&self, key: &CacheKey) -> bool {
        self.index.contains_key(&key.digest())
    }

    fn heads(&self, limit: usize) -> Vec<EntryHead> {
        let places = self.index.values().take(limit);
        places
            .filter_map(|&place| self.read_head(place).ok())
            .collect()
    }

    fn damage(&self, key: &CacheKey, miss: &Miss) -> Option<CacheError> {
        let place = self.place(key).ok()?;
        match miss {
            Miss::Absent => None,
            Miss::Io {
                doing: _,
                kind,
                message,
            } => Some(CacheError::BundleIo {
                path: self.path.clone(),
                doing: "reading",
                kind: *kind,
                message: message.clone(),
            }),
            _ => Some(self.damaged_entry(key.digest(), place, miss)),
        }
    }
}
