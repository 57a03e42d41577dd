//! Entries as bytes for a store that anyone may write to: signed with a key, and verified before use.
#![allow(
    unsafe_code,
    reason = "code that is signed with the key is vouched for here"
)]

use std::time::Duration;

use crate::entry::{self, StoredEntry};
use crate::key::CacheKey;
use crate::miss::{Miss, NotStored};
use crate::payload::Content;
use crate::seal::SealKey;

/// The bytes of an entry, signed with `seal`.
///
/// # Errors
/// Data under the kind of code; fields of the key above the limit on heads.
pub fn seal_entry(
    key: &CacheKey,
    compile_time: Duration,
    content: Content<'_>,
    seal: &SealKey,
) -> Result<Vec<u8>, NotStored> {
    let content = content.for_key(key)?;
    let mut file = entry::front(key, compile_time, content.len(), true)?;
    let trailer = entry::seal(&file, content, Some(seal));
    file.reserve_exact(content.len() + trailer.len());
    file.extend(content);
    file.extend(trailer);
    Ok(file)
}

/// The entry of a key from bytes that [`seal_entry`] returned, which may have been stored anywhere in the meantime.
///
/// # Errors
/// When the bytes are not those of an entry of this key, signed with `seal` and unchanged since.
pub fn open_entry(key: &CacheKey, file: Vec<u8>, seal: &SealKey) -> Result<StoredEntry, Miss> {
    let (head, payload) = entry::read(file, Some(seal))?;
    entry::matches(&head, key)?;
    let payload = match key.kind().is_code() {
        // SAFETY: the authentication code shows that a holder of the key signed the bytes, and `seal_entry` signs only code
        // under a key of code.
        true => unsafe { payload.into_code() },
        false => payload,
    };
    Ok(StoredEntry {
        compile_time: head.compile_time,
        payload,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::EntryKind;

    fn key(model: &str) -> CacheKey {
        CacheKey::of_fields(EntryKind::PROGRAM, [("model", model)])
    }

    fn sealed(content: &[u8], seal: &SealKey) -> Vec<u8> {
        let time = Duration::from_millis(7);
        seal_entry(&key("mlp"), time, Content::data(content), seal).unwrap()
    }

    #[test]
    fn what_was_sealed_is_opened_by_holders_of_the_key_alone() {
        let [seal, other] = [[1; 32], [2; 32]].map(|secret| SealKey::of_secret(&secret));
        for content in [&b""[..], b"x", &[7; 4099]] {
            let file = sealed(content, &seal);
            let entry = open_entry(&key("mlp"), file.clone(), &seal).unwrap();
            assert_eq!(&*entry.payload, content);
            assert_eq!(entry.compile_time, Duration::from_millis(7));
            let foreign = open_entry(&key("mlp"), file.clone(), &other).unwrap_err();
            assert_eq!(foreign, Miss::Unauthenticated);
            let moved = open_entry(&key("cnn"), file, &seal).unwrap_err();
            assert!(matches!(moved, Miss::Key { .. }), "{moved}");
        }
    }

    #[test]
    fn any_changed_or_missing_byte_is_noticed() {
        let seal = SealKey::of_secret(&[1; 32]);
        let file = sealed(b"content", &seal);
        for position in 0..file.len() {
            let mut changed = file.clone();
            changed[position] ^= 1;
            assert!(
                open_entry(&key("mlp"), changed, &seal).is_err(),
                "byte {position}"
            );
            let cut = file[..position].to_vec();
            assert!(
                open_entry(&key("mlp"), cut, &seal).is_err(),
                "cut at {position}"
            );
        }
    }

    #[test]
    fn data_is_not_signed_as_code() {
        let seal = SealKey::of_secret(&[1; 32]);
        let key = CacheKey::of_fields(EntryKind::KERNEL, [("kernel", "k")]);
        let refused = seal_entry(&key, Duration::ZERO, Content::data(b"x"), &seal);
        assert_eq!(refused, Err(NotStored::NotCode));
    }
}
