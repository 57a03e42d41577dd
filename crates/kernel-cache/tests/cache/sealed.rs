//! Sealed folders: entries not signed with the key are misses, and processes without the key only read.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kiln_kernel_cache::{
    Content, DiskOptions, DiskTier, Miss, MissCategory, NotStored, SealKey, Source, Tier,
};

use crate::support::{LONG, cache_of, content, disk_at, key, only_entry};

fn sealed(folder: &Path, secret: u8) -> DiskTier {
    let options = DiskOptions {
        key: Some(SealKey::of_secret(&[secret; 32])),
        ..DiskOptions::default()
    };
    DiskTier::at(folder, options)
}

#[test]
fn an_entry_not_signed_with_the_key_is_a_counted_miss_and_recompiled() {
    let folder = tempfile::tempdir().expect("there is room");
    // Planted entries: intact and with correct digests, by a writer without the key and by one with another key.
    for planter in [disk_at(folder.path()), sealed(folder.path(), 2)] {
        fs::remove_dir_all(folder.path()).expect("it is ours");
        planter
            .put(&key("a"), Duration::ZERO, Content::data(b"evil"))
            .expect("there is room");
        let disk = sealed(folder.path(), 1);
        let (bad, verified) = (disk.get_into(&key("a"), &mut [0; 4]), disk.verify(false));
        assert_eq!(bad, Err(Miss::Unauthenticated));
        assert_eq!(verified.expect("it is fine").whole, 0);
        planter
            .put(&key("a"), Duration::ZERO, Content::data(b"evil"))
            .expect("there is room");
        let cache = cache_of(vec![Arc::new(disk)]);
        let found = cache.get_or_compile(&key("a"), LONG, || Ok(content("a")));
        let found = found.expect("it compiles");
        let Source::Compiled { misses, .. } = &found.source else {
            panic!("the planted entry is not believed");
        };
        assert_eq!(misses[0].miss.category(), MissCategory::Rejected);
        assert_eq!(cache.stats().rejected, 1);
        let again = sealed(folder.path(), 1)
            .get(&key("a"))
            .expect("it was made again");
        assert_eq!(*again.payload, *content("a"));
    }
}

#[test]
fn every_change_of_a_signed_entry_is_a_miss() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = sealed(folder.path(), 1);
    disk.put(&key("a"), Duration::ZERO, Content::data(b"code"))
        .expect("there is room");
    let path = only_entry(folder.path());
    let whole = fs::read(&path).expect("it is there");
    for at in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        // The part that an attacker can fix: the digest of everything before it.
        let end = damaged.len() - 32;
        let digest = blake3::hash(&damaged[..end]);
        for is_mended in [false, true] {
            if is_mended && at < end {
                damaged[end..].copy_from_slice(digest.as_bytes());
            }
            fs::write(&path, &damaged).expect("it is ours");
            assert!(
                disk.get(&key("a")).is_err(),
                "byte {at}, mended: {is_mended}"
            );
        }
    }
}

#[test]
fn processes_without_the_key_read_but_never_replace_or_remove() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = sealed(folder.path(), 1);
    disk.put(&key("a"), Duration::ZERO, Content::data(b"code"))
        .expect("there is room");
    let keyless = disk_at(folder.path());
    let read = keyless.get(&key("a")).expect("it is whole");
    assert_eq!(*read.payload, *b"code");
    let mut into = [0; 4];
    keyless.get_into(&key("a"), &mut into).expect("it is whole");
    assert_eq!(into, *b"code");
    let put = keyless.put(&key("a"), Duration::ZERO, Content::data(b"other"));
    assert!(matches!(put, Err(NotStored::ReadOnly)), "{put:?}");
    keyless.remove(&key("a"));
    assert_eq!(*disk.get(&key("a")).expect("it stays").payload, *b"code");
    // A damaged entry is a miss, and stays for a process with the key to repair.
    let path = only_entry(folder.path());
    let mut damaged = fs::read(&path).expect("it is there");
    *damaged.last_mut().expect("it has bytes") ^= 1;
    fs::write(&path, damaged).expect("it is ours");
    assert!(keyless.get(&key("a")).is_err() && path.exists());
    assert!(disk.get(&key("a")).is_err() && !path.exists());
}

#[test]
fn a_key_file_that_is_world_readable_or_weak_is_refused() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().join("cache.key");
    let refused = |expected: &str| {
        let error = SealKey::read(&path).expect_err("it is refused");
        assert_eq!(error.code(), "E0710");
        assert!(error.to_string().contains(expected), "{error}");
    };
    let set = |mode| {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    refused("No such file");
    fs::write(&path, [1; 32]).expect("there is room");
    for mode in [0o644, 0o640, 0o660] {
        set(mode);
        refused("expected mode 600");
    }
    set(0o600);
    let read = SealKey::read(&path).expect("it is a key");
    assert_eq!(read, SealKey::of_secret(&[1; 32]));
    assert_eq!(format!("{read:?}"), "SealKey(…)");
    for bytes in [0, 31, 4097] {
        fs::write(&path, vec![1; bytes]).expect("there is room");
        refused("expected 32 to 4096 bytes");
    }
    fs::remove_file(&path).expect("it is ours");
    std::os::unix::fs::symlink("elsewhere", &path).expect("there is room");
    assert!(SealKey::read(&path).is_err());
}
