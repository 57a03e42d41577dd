//! Damaged entries, entries of other versions, power cuts: a miss with a reason, and a compile that repairs it.

use std::fs;
use std::path::Path;

use kiln_kernel_cache::{Content, Miss, MissCategory, Source, Tier, Verified};

use crate::support::{LONG, cache_at, content, disk_at, files, key, only_entry};

/// Compiles `a` through a new cache; returns the folder's reason.
fn miss_of(folder: &Path) -> Option<Miss> {
    let cache = cache_at(folder);
    let found = cache
        .get_or_compile(&key("a"), LONG, || Ok(content("a")))
        .expect("it compiles");
    assert_eq!(*found.value, content("a"));
    match found.source {
        Source::Tier { .. } => None,
        Source::Compiled { misses, .. } => misses.into_iter().next().map(|miss| miss.miss),
        other => panic!("it is a new cache: {other:?}"),
    }
}

#[test]
fn an_entry_truncated_anywhere_is_a_miss_is_removed_and_is_compiled_again() {
    let folder = tempfile::tempdir().expect("there is room");
    assert_eq!(miss_of(folder.path()), Some(Miss::Absent));
    let path = only_entry(folder.path());
    let whole = fs::read(&path).expect("it is there");
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).expect("it is ours");
        let disk = disk_at(folder.path());
        let miss = disk.get(&key("a")).expect_err("it is short");
        assert_eq!(miss.category(), MissCategory::Corrupt, "{length}: {miss}");
        assert!(!path.exists(), "what is damaged is removed");
        fs::write(&path, &whole[..length]).expect("it is ours");
        assert!(matches!(miss_of(folder.path()), Some(Miss::Length { .. })));
        assert_eq!(miss_of(folder.path()), None);
    }
}

#[test]
fn any_flipped_bit_on_disk_is_a_miss_and_is_counted() {
    let folder = tempfile::tempdir().expect("there is room");
    miss_of(folder.path());
    let path = only_entry(folder.path());
    let whole = fs::read(&path).expect("it is there");
    for bit in 0..8 * whole.len() {
        let mut damaged = whole.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        fs::write(&path, &damaged).expect("it is ours");
        let cache = cache_at(folder.path());
        let misses = cache.lookup(&key("a")).expect_err("it is damaged");
        let stats = cache.stats();
        assert_eq!((misses.len(), stats.corrupt + stats.skewed), (1, 1));
        assert!(!path.exists(), "what is damaged is removed");
    }
    assert_eq!(miss_of(folder.path()), Some(Miss::Absent));
    assert_eq!(miss_of(folder.path()), None);
}

#[test]
fn content_read_into_caller_memory_is_checked() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = disk_at(folder.path());
    // Several pieces, the last one short.
    let whole: Vec<u8> = (0..700_001u32).map(|i| ((i * 7) >> 3) as u8).collect();
    let time = std::time::Duration::from_millis(5);
    let mut read = vec![0; whole.len()];
    assert_eq!(disk.get_into(&key("a"), &mut read), Err(Miss::Absent));
    disk.put(&key("a"), time, Content::data(&whole))
        .expect("there is room");
    assert_eq!(disk.get_into(&key("a"), &mut read), Ok(time));
    assert!(read == whole);
    let path = only_entry(folder.path());
    let file = fs::read(&path).expect("it is there");
    let begin = file.len() - whole.len() - 32;
    for at in [
        0,
        40,
        70,
        begin - 1,
        begin,
        begin + 300_000,
        file.len() - 33,
        file.len() - 1,
    ] {
        let mut damaged = file.clone();
        damaged[at] ^= 4;
        fs::write(&path, &damaged).expect("it is ours");
        let miss = disk
            .get_into(&key("a"), &mut read)
            .expect_err("it is damaged");
        assert!(
            miss.category() == MissCategory::Corrupt || at == 40,
            "{at}: {miss}"
        );
        assert!(!path.exists(), "what is damaged is removed");
        fs::write(&path, &file[..at]).expect("it is ours");
        let miss = disk
            .get_into(&key("a"), &mut read)
            .expect_err("it is short");
        assert_eq!(miss.category(), MissCategory::Corrupt, "{at}: {miss}");
    }
    // Space with a different number of bytes.
    disk.put(&key("a"), time, Content::data(&whole))
        .expect("there is room");
    let miss = disk.get_into(&key("a"), &mut read[1..]);
    assert!(matches!(
        miss,
        Err(Miss::Length {
            expected: 700_000,
            found: 700_001
        })
    ));
}

#[test]
fn entries_of_another_format_or_key_are_not_loaded() {
    let folder = tempfile::tempdir().expect("there is room");
    miss_of(folder.path());
    let path = only_entry(folder.path());
    let whole = fs::read(&path).expect("it is there");
    for (at, category) in [(8, MissCategory::Skewed), (0, MissCategory::Corrupt)] {
        let mut other = whole.clone();
        other[at] += 1;
        fs::write(&path, &other).expect("it is ours");
        let miss = miss_of(folder.path()).expect("it is of another version");
        assert_eq!(miss.category(), category, "{miss}");
    }
    // An intact entry under another entry's name.
    let name = format!("{}.kiln2", key("b").digest());
    fs::copy(&path, folder.path().join(name)).expect("there is room");
    let disk = disk_at(folder.path());
    let miss = disk.get(&key("b")).expect_err("it is another's");
    assert!(matches!(miss, Miss::Key { .. }) && miss.category() == MissCategory::Rejected);
    assert_eq!(files(folder.path(), ".kiln2").len(), 1);
}

#[test]
fn two_versions_share_a_folder_without_interference() {
    let folder = tempfile::tempdir().expect("there is room");
    miss_of(folder.path());
    // The next format uses other names, so neither version opens the other's files.
    let path = only_entry(folder.path());
    let newer = path.with_extension("kiln3");
    fs::write(&newer, b"of another format").expect("there is room");
    let compiler = |version: &str| {
        let fields = [("kernel", "a"), ("compiler", version)];
        kiln_kernel_cache::CacheKey::of_fields(kiln_kernel_cache::EntryKind::PROGRAM, fields)
    };
    for round in 0..3 {
        for version in ["llvm 19.1.6", "llvm 20.1.0"] {
            let cache = cache_at(folder.path());
            let compile = || Ok(version.as_bytes().to_vec());
            let found = cache.get_or_compile(&compiler(version), LONG, compile);
            let found = found.expect("it compiles");
            assert_eq!(*found.value, version.as_bytes());
            assert_eq!(matches!(found.source, Source::Compiled { .. }), round == 0);
        }
        assert_eq!(miss_of(folder.path()), None);
    }
    assert_eq!(fs::read(&newer).expect("it is there"), b"of another format");
    let disk = disk_at(folder.path());
    let usage = disk.usage().expect("it is fine");
    assert_eq!(
        (usage.entries, usage.foreign_entries, usage.foreign_bytes),
        (3, 1, 17)
    );
    assert_eq!(disk.verify(true).expect("it is fine").whole, 3);
    assert!(newer.exists());
    assert_eq!(disk.clear().expect("it is fine").entries, 4);
}

#[test]
fn an_entry_damaged_by_a_power_cut_is_a_miss() {
    let folder = tempfile::tempdir().expect("there is room");
    miss_of(folder.path());
    let path = only_entry(folder.path());
    let whole = fs::read(&path).expect("it is there");
    // The rename reached the disk, but some blocks of the content did not.
    for begin in (0..whole.len()).step_by(64) {
        let mut torn = whole.clone();
        let end = (begin + 64).min(whole.len());
        if torn[begin..end].iter().all(|byte| *byte == 0) {
            continue;
        }
        torn[begin..end].fill(0);
        fs::write(&path, &torn).expect("it is ours");
        assert!(miss_of(folder.path()).is_some());
    }
    fs::write(&path, []).expect("it is ours");
    assert!(matches!(miss_of(folder.path()), Some(Miss::Length { .. })));
}

#[test]
fn verify_lists_damaged_entries_and_removes_them_on_request() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    for name in ["a", "b", "c"] {
        cache.set(&key(name), content(name), std::time::Duration::ZERO);
    }
    let bad = folder.path().join(format!("{}.kiln2", key("b").digest()));
    let mut bytes = fs::read(&bad).expect("it is there");
    // In the value of a field.
    bytes[60 + 4 + 6 + 8 + 4 + 6 + 1 + 4] ^= 1;
    fs::write(&bad, bytes).expect("it is ours");
    let other = folder.path().join(format!("{}.kiln2", key("x").digest()));
    let whole = folder.path().join(format!("{}.kiln2", key("a").digest()));
    fs::copy(&whole, &other).expect("there is room");
    let disk = disk_at(folder.path());
    let entries = disk.entries().expect("it is fine");
    let listed = entries
        .iter()
        .find(|entry| entry.digest == key("b").digest());
    let head = &listed.expect("it is listed").head;
    assert_eq!(*head, Err(Miss::Digest { part: "head" }));
    for remove in [false, true] {
        let verified = disk.verify(remove).expect("it is fine");
        assert_eq!(verified.whole, 2);
        let mut names: Vec<_> = verified.bad.iter().map(|(digest, _)| *digest).collect();
        let mut expected = [key("b").digest(), key("x").digest()];
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
    }
    assert!(!bad.exists() && !other.exists());
    let clean = Verified {
        whole: 2,
        bad: Vec::new(),
    };
    assert_eq!(disk.verify(true).expect("it is fine"), clean);
}
