//! Races with other processes, one interleaving at a time.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kiln_kernel_cache::{
    CacheKey, Claim, Content, DiskOptions, DiskTier, Fs, Miss, NotStored, Source, Stored,
    StoredEntry, SystemFs, Tier,
};

use crate::support::children::fork;
use crate::support::faulty::{FaultyFs, Plan};
use crate::support::{LONG, cache_of, content, disk_at, disk_with, files, key};

#[test]
fn a_lock_on_a_replaced_claim_file_claims_nothing() {
    let folder = tempfile::tempdir().expect("there is room");
    let claim = || disk_at(folder.path()).try_claim(&key("a"));
    let Claim::Held(first) = claim() else {
        panic!("no store has it");
    };
    let path = folder.path().to_owned();
    let (keep, kept) = std::sync::mpsc::channel();
    // The second has opened the file of the first, which is then finished; then the third arrives.
    let plan = Plan::meanwhile(move |_| {
        drop(first);
        keep.send(disk_at(&path).try_claim(&key("a")))
            .expect("the test listens");
    });
    let second = disk_with(FaultyFs::new(folder.path(), &plan), DiskOptions::default());
    let second = second.try_claim(&key("a"));
    let third = kept.recv().expect("it is sent");
    assert!(matches!(third, Claim::Held(_)), "{third:?}");
    assert!(matches!(second, Claim::Busy), "{second:?}");
    assert!(matches!(claim(), Claim::Busy));
    drop(third);
    assert!(matches!(claim(), Claim::Held(_)));
}

#[test]
fn a_draft_swept_before_it_is_locked_is_rewritten() {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().to_owned();
    let plan = Plan::meanwhile(move |name| {
        assert!(name.ends_with(".draft"));
        fs::remove_file(path.join(name)).expect("it was made just now");
    });
    let disk = disk_with(FaultyFs::new(folder.path(), &plan), DiskOptions::default());
    disk.put(&key("a"), Duration::ZERO, Content::data(&[1]))
        .expect("there is room");
    assert!(disk_at(folder.path()).get(&key("a")).is_ok());
}

#[test]
fn a_lock_ends_with_its_holder_even_if_a_forked_child_keeps_the_file_open() {
    let folder = tempfile::tempdir().expect("there is room");
    let open = SystemFs::new(folder.path()).open().expect("it is there");
    let file = || open.open_or_create("lock").expect("there is room");
    let held = file();
    assert!(held.try_lock().expect("there are locks"));
    let child = fork(|| {
        loop {
            std::thread::park();
        }
    });
    assert!(!file().try_lock().expect("there are locks"));
    drop(held);
    let is_free = file().try_lock().expect("there are locks");
    child.kill();
    assert!(is_free);
}

#[test]
fn a_child_closing_a_file_keeps_the_lock_of_its_parent() {
    let folder = tempfile::tempdir().expect("there is room");
    let open = SystemFs::new(folder.path()).open().expect("it is there");
    let mut held = Some(open.open_or_create("lock").expect("there is room"));
    assert!(
        held.as_ref()
            .is_some_and(|file| matches!(file.try_lock(), Ok(true)))
    );
    let child = fork(|| {
        held = None;
        0
    });
    assert_eq!(child.wait(), Some(0));
    let again = open.open_or_create("lock").expect("it is there");
    assert!(!again.try_lock().expect("there are locks"));
}

#[test]
fn drafts_and_claims_of_live_processes_are_kept() {
    let folder = tempfile::tempdir().expect("there is room");
    let disk = disk_at(folder.path());
    let Claim::Held(claim) = disk.try_claim(&key("a")) else {
        panic!("no store has it");
    };
    let open = SystemFs::new(folder.path()).open().expect("it is there");
    let draft = open
        .create("0123456789abcdef.draft")
        .expect("there is room");
    assert!(draft.try_lock().expect("there are locks"));
    // Both ways of removing leftovers: explicitly, and by eviction.
    assert_eq!(disk.clear().expect("nothing is wrong").leftovers, 0);
    disk_at(folder.path())
        .put(&key("b"), Duration::ZERO, Content::data(&[1]))
        .expect("there is room");
    assert_eq!(
        (
            files(folder.path(), ".draft").len(),
            files(folder.path(), ".claim").len()
        ),
        (1, 2)
    );
    drop(draft);
    assert_eq!(disk.clear().expect("nothing is wrong").leftovers, 1);
    drop(claim);
    assert_eq!(
        files(folder.path(), ".claim").len(),
        1,
        "that of evictors alone"
    );
}

/// A tier whose entry is stored by another process between the first look-up and the claim.
struct Late {
    disk: DiskTier,
    is_stored: AtomicBool,
}

impl Tier for Late {
    fn name(&self) -> &str {
        "late"
    }

    fn get(&self, key: &CacheKey) -> Result<StoredEntry, Miss> {
        self.disk.get(key)
    }

    fn put(
        &self,
        key: &CacheKey,
        time: Duration,
        content: Content<'_>,
    ) -> Result<Stored, NotStored> {
        self.disk.put(key, time, content)
    }

    fn remove(&self, key: &CacheKey) {
        self.disk.remove(key);
    }

    fn contains(&self, key: &CacheKey) -> bool {
        self.disk.contains(key)
    }

    fn try_claim(&self, key: &CacheKey) -> Claim {
        if !self.is_stored.swap(true, Ordering::SeqCst) {
            let stored = self
                .disk
                .put(key, Duration::ZERO, Content::data(&content("a")));
            stored.expect("there is room");
        }
        self.disk.try_claim(key)
    }
}

#[test]
fn an_entry_stored_just_before_the_claim_is_not_recompiled() {
    let folder = tempfile::tempdir().expect("there is room");
    let late = Late {
        disk: disk_at(folder.path()),
        is_stored: AtomicBool::new(false),
    };
    let cache = cache_of(vec![Arc::new(late)]);
    let found = cache.get_or_compile(&key("a"), LONG, || panic!("it is stored"));
    let found = found.expect("it is stored");
    assert!(matches!(found.source, Source::Tier { .. }));
    assert_eq!(*found.value, content("a"));
    assert_eq!(
        files(folder.path(), &format!("{}.claim", key("a").digest())).len(),
        0
    );
}
