//! Bundles: round trips, and damage of every kind.

use std::fs;
use std::time::Duration;

use super::*;
use crate::collected::{Collected, CollectingTier};
use crate::key::{CacheKey, EntryKind};
use crate::miss::NotStored;
use crate::payload::Content;
use crate::tier::Tier;

fn key(name: &str) -> CacheKey {
    CacheKey::of_fields(EntryKind::PROGRAM, [("kernel", name)])
}

fn entries() -> Vec<Collected> {
    let collected = CollectingTier::new();
    for (name, n_bytes) in [("a", 0), ("b", 40)] {
        let content: Vec<u8> = (0..n_bytes).map(|i| (i * 7) as u8).collect();
        let time = Duration::from_millis(n_bytes);
        collected
            .put(&key(name), time, Content::data(&content))
            .unwrap();
    }
    collected.entries()
}

/// A bundle of two entries.
fn bundle(folder: &Path) -> PathBuf {
    let path = folder.join("x.kiln-bundle");
    let bytes = Bundle::write(&path, b"made by a test", &entries(), None).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), bytes);
    path
}

#[test]
fn bundles_round_trip() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path());
    let first = fs::read(&path).unwrap();
    bundle(folder.path());
    assert!(
        fs::read(&path).unwrap() == first,
        "equal entries, equal files"
    );
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    let bundle = Bundle::open(&path).unwrap();
    assert_eq!(
        (bundle.manifest(), bundle.n_entries()),
        (&b"made by a test"[..], 2)
    );
    assert_eq!((bundle.name(), bundle.path()), ("bundle", &*path));
    bundle.verify(|_| true).unwrap();
    for Collected { key, time, content } in entries() {
        let entry = bundle.get(&key).unwrap();
        assert_eq!(
            (entry.payload.to_vec(), entry.compile_time),
            (content.to_vec(), time)
        );
        let mut read = vec![0; content.len()];
        assert_eq!(bundle.get_into(&key, &mut read), Ok(time));
        assert_eq!(read, *content);
    }
    assert_eq!((bundle.heads(1).len(), bundle.heads(9).len()), (1, 2));
    assert!(bundle.contains(&key("a")) && !bundle.contains(&key("z")));
    assert_eq!(bundle.get(&key("z")).unwrap_err(), Miss::Absent);
    assert!(bundle.damage(&key("z"), &Miss::Absent).is_none());
    bundle.remove(&key("a"));
    assert_eq!(
        bundle.put(&key("z"), Duration::ZERO, Content::data(b"")),
        Err(NotStored::ReadOnly)
    );
    let miss = bundle.get_into(&key("b"), &mut [0; 41]).unwrap_err();
    let error = bundle.damage(&key("b"), &miss).unwrap();
    assert!(
        error.to_string().contains("expected 41 bytes, found 40"),
        "{error}"
    );
}

/// Every way of reading a bundle, and the first error of it.
fn read_all(path: &Path) -> Result<(), CacheError> {
    let bundle = Bundle::open(path)?;
    for Collected { key, content, .. } in entries() {
        let mut read = vec![0; content.len()];
        let into = bundle.get_into(&key, &mut read).map(drop);
        let whole = bundle.get(&key).map(drop);
        assert_eq!(into.is_ok(), whole.is_ok());
        if let Err(miss) = into.and(whole) {
            return Err(bundle
                .damage(&key, &miss)
                .unwrap_or_else(|| damaged(path, "its index", "an entry is missing".to_owned())));
        }
    }
    Ok(())
}

#[test]
fn every_truncation_and_every_flipped_bit_is_an_error_that_says_where() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path());
    read_all(&path).unwrap();
    let whole = fs::read(&path).unwrap();
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let error = read_all(&path).unwrap_err();
        assert_eq!(error.code(), "E0707", "{length}: {error}");
    }
    for bit in 0..8 * whole.len() {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).unwrap();
        let error = read_all(&path).unwrap_err();
        let expected = if (64..96).contains(&bit) {
            "E0708"
        } else {
            "E0707"
        };
        assert_eq!(error.code(), expected, "{bit}: {error}");
    }
}

#[test]
fn errors_name_the_file_and_the_place() {
    let folder = tempfile::tempdir().unwrap();
    let path = bundle(folder.path());
    let mut bytes = fs::read(&path).unwrap();
    let last = bytes.len() - 40;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let error = read_all(&path).unwrap_err().to_string();
    assert!(
        error.contains("x.kiln-bundle") && error.contains(" at byte "),
        "{error}"
    );
    let error = Bundle::open(folder.path().join("none")).unwrap_err();
    assert_eq!(error.code(), "E0709");
    let error = Bundle::write(folder.path(), b"", &[], None).unwrap_err();
    assert_eq!(error.code(), "E0709");
    assert_eq!(
        fs::read_dir(folder.path()).unwrap().count(),
        1,
        "no draft is left"
    );
}

#[test]
fn a_collecting_tier_keeps_stored_entries() {
    let collected = CollectingTier::new();
    assert_eq!(collected.get(&key("a")).unwrap_err(), Miss::Absent);
    collected
        .put(&key("a"), Duration::ZERO, Content::data(b"1"))
        .unwrap();
    collected
        .put(&key("a"), Duration::ZERO, Content::data(b"22"))
        .unwrap();
    assert_eq!(&*collected.get(&key("a")).unwrap().payload, b"22");
    assert!(collected.contains(&key("a")) && collected.name() == "collected");
    collected.remove(&key("a"));
    assert!(collected.entries().is_empty());
}
