//! Writers killed at any moment: every entry is intact, no process waits for a dead one, and leftover files are
//! removed.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use kiln_kernel_cache::{Claim, Content, DiskOptions, Tier};

use crate::support::children::{fork, job, start, wait_for};
use crate::support::faulty::{FaultyFs, Plan};
use crate::support::{LONG, cache_at, cache_of, content, disk_at, disk_with, files, key};

const HOLDER: &str = "killed::child_that_compiles_forever";

/// Large enough that writing takes some time.
fn large(name: &str) -> Vec<u8> {
    content(name).repeat(100)
}

/// Writes two keys repeatedly, forever.
fn write_for_ever(folder: &Path, plan: &Arc<Plan>) -> i32 {
    let disk = disk_with(FaultyFs::new(folder, plan), DiskOptions::default());
    let cache = cache_of(vec![Arc::new(disk)]);
    let values = ["a", "b"].map(|name| (key(name), large(name)));
    loop {
        for (key, value) in &values {
            cache.set(key, value.clone(), Duration::ZERO);
        }
    }
}

/// Every entry in the folder is intact, and has the content that was written.
fn expect_whole(folder: &Path, round: usize) {
    let disk = disk_at(folder);
    let verified = disk.verify(false).expect("it is fine");
    assert_eq!(verified.bad, [], "round {round}");
    for name in ["a", "b"] {
        if let Ok(entry) = disk.get(&key(name)) {
            assert_eq!(*entry.payload, large(name), "round {round}");
        }
    }
}

#[test]
fn a_thousand_writers_killed_at_random_leave_whole_entries() {
    let folder = tempfile::tempdir().expect("there is room");
    // There is an entry from the first round on, which each later writer replaces.
    disk_at(folder.path())
        .put(&key("a"), Duration::ZERO, Content::data(&large("a")))
        .expect("there is room");
    let (mut n_drafts, mut random) = (0, 1_u64);
    for round in 0..1000 {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let chance = random >> 33;
        if round % 2 == 0 {
            // Killed by its own signal, at a system call or in the middle of a write.
            let plan = Plan::killing(chance as usize % 100);
            let child = fork(|| write_for_ever(folder.path(), &plan));
            assert_eq!(child.wait(), None, "it was killed");
        } else {
            // Killed by this process, at any moment.
            let never = Plan::new(usize::MAX, 0, 0);
            let child = fork(|| write_for_ever(folder.path(), &never));
            // The random delay is the injected fault; the test does not wait for anything.
            std::thread::sleep(Duration::from_micros(chance % 2000));
            child.kill();
        }
        n_drafts += files(folder.path(), ".draft").len();
        expect_whole(folder.path(), round);
        // The next eviction removes leftovers.
        disk_at(folder.path())
            .put(&key("c"), Duration::ZERO, Content::data(&[1]))
            .expect("there is room");
        assert_eq!(files(folder.path(), ".draft").len(), 0, "round {round}");
    }
    // Otherwise no writer was killed while writing.
    println!("{n_drafts} drafts were left");
    assert!(n_drafts > 100, "{n_drafts}");
}

#[test]
fn a_writer_killed_at_any_call_to_the_system_leaves_whole_entries_and_no_lock() {
    let mut n_killed = 0;
    for call in 0.. {
        let folder = tempfile::tempdir().expect("there is room");
        let path = folder.path().join("cache");
        // A compile, one more that replaces its entry, and a hit.
        let child = fork(|| {
            let options = DiskOptions {
                sync: true,
                ..DiskOptions::default()
            };
            let plan = Plan::killing(call);
            let disk = Arc::new(disk_with(FaultyFs::new(&path, &plan), options));
            let cache = cache_of(vec![disk.clone()]);
            let found = cache.get_or_compile(&key("a"), LONG, || Ok(large("a")));
            let found = found.is_ok_and(|found| *found.value == large("a"));
            cache.set(&key("a"), large("a"), Duration::ZERO);
            i32::from(!found || disk.get(&key("a")).is_err())
        });
        if let Some(result) = child.wait() {
            assert_eq!(result, 0);
            break;
        }
        n_killed += 1;
        expect_whole(&path, call);
        // No process waits for a dead one, whatever locks it held.
        let cache = cache_at(&path);
        let found = cache.get_or_compile(&key("a"), Duration::ZERO, || Ok(large("a")));
        assert_eq!(*found.expect("it compiles").value, large("a"));
        let stats = cache.stats();
        assert_eq!(
            (stats.corrupt, stats.takeovers, stats.timeout),
            (0, 0, 0),
            "{call}"
        );
        disk_at(&path)
            .put(&key("c"), Duration::ZERO, Content::data(&[1]))
            .expect("there is room");
        assert_eq!(files(&path, ".draft").len(), 0, "{call}");
    }
    assert!(n_killed > 25, "{n_killed}");
}

#[test]
#[ignore = "a job for a child"]
fn child_that_compiles_forever() {
    let Some(job) = job() else { return };
    let cache = cache_at(Path::new(&job[0]));
    let compile = || {
        std::fs::write(&job[1], "").expect("there is room");
        loop {
            std::thread::park();
        }
    };
    let _ = cache.get_or_compile(&key("a"), LONG, compile);
}

#[test]
fn waiters_do_not_wait_for_a_killed_compiler() {
    let folder = tempfile::tempdir().expect("there is room");
    let (cache, marks) = (folder.path().join("cache"), folder.path().join("begun"));
    let paths = [&cache, &marks].map(|path| path.to_str().expect("it is text"));
    let mut child = start(HOLDER, &paths);
    wait_for(&marks);
    // The holder is alive: the key is claimed, and the wait has a limit.
    assert!(matches!(disk_at(&cache).try_claim(&key("a")), Claim::Busy));
    let limit = Duration::from_millis(30);
    let failure = cache_at(&cache).get_or_compile(&key("a"), limit, || Ok(content("a")));
    let failure = failure.expect_err("another process is at it");
    assert!(
        failure
            .to_string()
            .starts_with("waited 30ms for another compile")
    );
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| {
            let ours = cache_at(&cache);
            let found = ours.get_or_compile(&key("a"), LONG, || Ok(content("a")));
            (found.expect("it compiles"), ours.stats())
        });
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        let (found, stats) = waiter.join().expect("it is no panic");
        assert_eq!(*found.value, content("a"));
        assert_eq!((stats.compiles, stats.takeovers), (1, 0));
    });
    assert_eq!(
        files(&cache, &format!("{}.claim", key("a").digest())).len(),
        0
    );
    let Claim::Held(claim) = disk_at(&cache).try_claim(&key("a")) else {
        panic!("no store has it");
    };
    assert!(matches!(disk_at(&cache).try_claim(&key("a")), Claim::Busy));
    drop(claim);
}
