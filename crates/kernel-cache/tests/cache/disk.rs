//! The folder as seen by users, and how its size is bounded.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kiln_kernel_cache::{
    CacheKey, Content, DiskOptions, DiskTier, EntryKind, Miss, NotStored, Source, Tier,
};

use crate::support::{LONG, cache_at, cache_of, content, disk_at, files, key};

fn small(folder: &Path, max_bytes: u64) -> DiskTier {
    let options = DiskOptions {
        max_bytes,
        ..DiskOptions::default()
    };
    DiskTier::at(folder, options)
}

fn put(disk: &DiskTier, name: &str, bytes: usize) -> u64 {
    let stored = disk.put(&key(name), Duration::ZERO, Content::data(&vec![7; bytes]));
    stored.expect("there is room").evicted
}

fn bytes_in(folder: &Path) -> u64 {
    let sizes = files(folder, ".kiln2");
    sizes
        .iter()
        .map(|path| fs::metadata(path).map_or(0, |info| info.len()))
        .sum()
}

#[test]
fn entries_are_listed_with_their_heads_counted_and_cleared() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = disk_at(folder.path());
    assert_eq!(disk.entries().expect("nothing is wrong"), []);
    let program = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp")]);
    disk.put(
        &program,
        Duration::from_millis(9),
        Content::data(&[1, 2, 3]),
    )
    .expect("there is room");
    put(&disk, "a", 100);
    fs::write(folder.path().join("notes.txt"), "mine").expect("there is room");
    let bad = folder.path().join(format!("{}.kiln2", key("bad").digest()));
    fs::write(&bad, "no entry").expect("there is room");
    let entries = disk.entries().expect("nothing is wrong");
    assert_eq!(entries.len(), 3);
    let of_program = entries
        .iter()
        .find(|entry| entry.digest == program.digest());
    let head = of_program
        .expect("it is listed")
        .head
        .as_ref()
        .expect("it is whole");
    assert_eq!((head.kind.as_str(), head.content_bytes), ("program", 3));
    assert_eq!(head.compile_time, Duration::from_millis(9));
    assert_eq!(head.fields, program.fields());
    let bad_head = entries
        .iter()
        .find(|entry| entry.digest == key("bad").digest());
    let miss = bad_head
        .expect("it is listed")
        .head
        .as_ref()
        .expect_err("it is no entry");
    assert!(
        matches!(miss, Miss::NotAnEntry | Miss::Length { .. }),
        "{miss}"
    );
    let usage = disk.usage().expect("nothing is wrong");
    assert_eq!(
        (usage.entries, usage.bytes, usage.drafts),
        (3, bytes_in(folder.path()), 0)
    );
    assert_eq!(disk.heads(10).len(), 2);
    let cleared = disk.clear().expect("nothing is wrong");
    assert_eq!(
        (cleared.entries, cleared.bytes, cleared.failed),
        (3, usage.bytes, 0)
    );
    assert!(folder.path().join("notes.txt").exists());
    assert_eq!(disk.usage().expect("nothing is wrong").entries, 0);
}

#[test]
fn the_folder_stays_below_its_limit_and_keeps_recently_used_entries() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = small(folder.path(), 20_000);
    let mut evicted = 0;
    for number in 0..200 {
        evicted += put(&disk, &format!("k{number}"), 800);
        let first = disk.get(&key("k0"));
        assert!(first.is_ok(), "used each time, gone after {number}");
        assert!(bytes_in(folder.path()) <= 20_000 + 20_000 / 16 + 1000);
    }
    let left = files(folder.path(), ".kiln2").len() as u64;
    assert_eq!(evicted + left, 200);
    assert!(disk.contains(&key("k199")));
}

#[test]
fn an_entry_over_the_limit_is_not_stored() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = small(folder.path(), 5000);
    let refused = disk.put(&key("a"), Duration::ZERO, Content::data(&[0; 5000]));
    assert!(matches!(
        refused,
        Err(NotStored::TooLarge { limit: 5000, .. })
    ));
    let cache = cache_of(vec![Arc::new(small(folder.path(), 100))]);
    let found = cache.get_or_compile(&key("a"), LONG, || Ok(content("a")));
    assert!(matches!(
        found.expect("it compiles").source,
        Source::Compiled { .. }
    ));
    assert_eq!((cache.stats().stored, cache.stats().not_stored), (0, 1));
    // An existing entry above another reader's limit is neither read nor removed.
    put(&disk_at(folder.path()), "b", 9000);
    let options = DiskOptions {
        max_entry_bytes: 5000,
        ..DiskOptions::default()
    };
    let miss = DiskTier::at(folder.path(), options).get(&key("b"));
    assert!(matches!(miss, Err(Miss::TooLarge { .. })));
    assert!(disk_at(folder.path()).get(&key("b")).is_ok());
}

#[test]
fn concurrent_readers_and_evictors_give_whole_values_and_no_errors() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || {
                let disk: Arc<dyn Tier> = Arc::new(small(path, 6000));
                for round in 0..40 {
                    // There is no memory tier, so each get reads the file.
                    let cache = cache_of(vec![Arc::clone(&disk)]);
                    let name = format!("k{}", (round * 7 + thread) % 15);
                    let compile = || Ok(content(&name));
                    let found = cache.get_or_compile(&key(&name), LONG, compile);
                    assert_eq!(*found.expect("it compiles").value, content(&name));
                    let stats = cache.stats();
                    assert_eq!((stats.corrupt, stats.rejected, stats.io_error), (0, 0, 0));
                }
            });
        }
        scope.spawn(move || {
            for _ in 0..20 {
                disk_at(path).clear().expect("nothing is wrong");
            }
        });
    });
    assert!(bytes_in(path) <= 6000 + 4 * 6000 / 16 + 1000);
    assert_eq!(files(path, ".draft").len(), 0);
    assert_eq!(files(path, ".claim").len(), 1, "that of evictors alone");
}

#[test]
fn an_entry_removed_during_a_read_is_read_completely() {
    use kiln_kernel_cache::{Fs, SystemFs};
    let folder = tempfile::tempdir().expect("there is room");
    let disk = disk_at(folder.path());
    put(&disk, "a", 100_000);
    let open = SystemFs::new(folder.path()).open().expect("it is there");
    let name = format!("{}.kiln2", key("a").digest());
    let mut file = open.open(&name).expect("it is there");
    let bytes = file.info().expect("it is open").bytes as usize;
    let mut content = file.read(1000).expect("it is open");
    disk.clear().expect("nothing is wrong");
    content.extend(file.read(bytes).expect("it is open"));
    assert_eq!(
        (content.len(), file.info().expect("it is open").links),
        (bytes, 0)
    );
}

#[test]
fn a_folder_removed_during_use_is_recreated() {
    let parent = tempfile::tempdir().expect("there is room");
    let folder = parent.path().join("deep/below/cache");
    let cache = cache_at(&folder);
    for name in ["a", "b"] {
        let found = cache.get_or_compile(&key(name), LONG, || Ok(content(name)));
        assert!(matches!(
            found.expect("it compiles").source,
            Source::Compiled { .. }
        ));
        assert!(disk_at(&folder).get(&key(name)).is_ok());
        fs::remove_dir_all(&folder).expect("it is ours");
    }
    assert_eq!((cache.stats().stored, cache.stats().io_error), (2, 0));
    let disk = disk_at(&folder);
    assert!(disk.problem().is_none() && !disk.contains(&key("a")));
    assert_eq!(disk.clear().expect("nothing is wrong").entries, 0);
}

#[test]
fn entries_written_with_sync_read_and_remove_normally() {
    let folder = tempfile::tempdir().expect("there is room");
    let options = DiskOptions {
        sync: true,
        ..DiskOptions::default()
    };
    let disk = DiskTier::at(folder.path(), options);
    put(&disk, "a", 10);
    assert_eq!(*disk.get(&key("a")).expect("it is there").payload, [7; 10]);
    disk.remove(&key("a"));
    assert!(!disk.contains(&key("a")));
}
