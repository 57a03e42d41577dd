//! Recomputes digests of damaged cache entries and bundles, so that mutations reach the code behind a digest.
//!
//! The layouts are those in the headers of `kiln_kernel_cache`'s `entry` and `bundle`. Lengths are read from the
//! damaged bytes, and anything that is inconsistent is left unchanged.

/// Bytes of a digest.
const DIGEST: usize = 32;

/// Bytes of the prelude of an entry, and the offset of the head's length.
const ENTRY_PRELUDE: usize = 60;
const HEAD_LENGTH: usize = 44;

/// Bytes of the prelude of a bundle, and the offsets of its numbers.
const BUNDLE_PRELUDE: usize = 40;
const N_ENTRIES: usize = 12;
const MANIFEST_LENGTH: usize = 16;
const FILE_LENGTH: usize = 24;

/// Bytes of an entry in a bundle's index.
const INDEXED: usize = DIGEST + 16;

/// Writes the digest of the head, and then that of everything, in their places in an entry.
pub fn reseal_entry(entry: &mut [u8]) {
    if let Some(end) = number(entry, HEAD_LENGTH, 4).and_then(|n| n.checked_add(ENTRY_PRELUDE)) {
        seal(entry, end);
    }
    if let Some(end) = entry.len().checked_sub(DIGEST) {
        seal(entry, end);
    }
}

/// Writes the length and every digest of a bundle in their places, including those of its entries.
pub fn reseal_bundle(bundle: &mut [u8]) {
    let length = bundle.len() as u64;
    if let Some(place) = bundle.get_mut(FILE_LENGTH..FILE_LENGTH + 8) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    let (n_entries, manifest) = (
        number(bundle, N_ENTRIES, 4),
        number(bundle, MANIFEST_LENGTH, 8),
    );
    let (Some(n_entries), Some(manifest)) = (n_entries, manifest) else {
        return;
    };
    // An index that begins past the end of the file has no entries.
    let index = manifest.checked_add(BUNDLE_PRELUDE);
    let Some(mut at) = index.filter(|&index| index <= bundle.len()) else {
        return;
    };
    for _ in 0..n_entries {
        let (offset, bytes) = (
            number(bundle, at + DIGEST, 8),
            number(bundle, at + DIGEST + 8, 8),
        );
        let (Some(offset), Some(bytes)) = (offset, bytes) else {
            return;
        };
        let end = offset.saturating_add(bytes);
        if let Some(entry) = bundle.get_mut(offset..end) {
            reseal_entry(entry);
        }
        at += INDEXED;
    }
    seal(bundle, at);
}

/// Writes the digest of everything before `end` there, if it fits.
fn seal(bytes: &mut [u8], end: usize) {
    let Some(place) = end.checked_add(DIGEST) else {
        return;
    };
    let Some(digest) = bytes.get(..end).map(blake3::hash) else {
        return;
    };
    if let Some(place) = bytes.get_mut(end..place) {
        place.copy_from_slice(digest.as_bytes());
    }
}

fn number(bytes: &[u8], at: usize, length: usize) -> Option<usize> {
    let mut word = [0; 8];
    let found = bytes.get(at..at.checked_add(length)?)?;
    word.get_mut(..length)?.copy_from_slice(found);
    usize::try_from(u64::from_le_bytes(word)).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::targets::{example_bundle, example_entry};

    #[test]
    fn resealing_valid_files_changes_nothing() {
        let (entry, bundle) = (example_entry(&[1; 9]), example_bundle(&[3; 64]));
        let (mut first, mut second) = (entry.clone(), bundle.clone());
        reseal_entry(&mut first);
        reseal_bundle(&mut second);
        assert!(first == entry && second == bundle);
    }

    #[test]
    fn resealing_accepts_any_bytes() {
        for length in 0..200 {
            reseal_entry(&mut vec![0xff; length]);
            reseal_bundle(&mut vec![0xff; length]);
            reseal_bundle(&mut vec![1; length]);
        }
    }
}
