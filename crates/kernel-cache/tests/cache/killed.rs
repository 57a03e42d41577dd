//! Writers killed at any moment: every entry is whole, nobody waits for the dead, and what they left is swept up.

use std::path::Path;
use std::time::Duration;

use kiln_kernel_cache::{Claim, DiskOptions, DiskTier, Tier};

use crate::support::children::{job, start, wait_for};
use crate::support::{LONG, cache_at, content, disk_at, files, key};

const WRITER: &str = "killed::child_that_writes_until_it_is_killed";
const HOLDER: &str = "killed::child_that_compiles_for_ever";

/// Large enough that writing takes a while.
fn large(name: &str) -> Vec<u8> {
    content(name).repeat(3000)
}

#[test]
#[ignore = "a job for a child"]
fn child_that_writes_until_it_is_killed() {
    let Some(job) = job() else { return };
    let folder = Path::new(&job[0]);
    for round in 0.. {
        // Of two keys, each written over and over.
        let name = ["a", "b"][round % 2];
        let cache = cache_at(folder);
        cache.set(&key(name), large(name), Duration::ZERO);
    }
}

fn kill_writers(rounds: u32) {
    let folder = tempfile::tempdir().expect("there is room");
    let path = folder.path().to_str().expect("it is text");
    let mut n_drafts = 0;
    for round in 0..rounds {
        let mut child = start(WRITER, &[path]);
        // It has begun to write once there is an entry of its own making; then any moment will do.
        if round == 0 {
            let entry = folder.path().join(format!("{}.kiln1", key("a").digest()));
            wait_for(&entry);
        }
        let microseconds = 15_000 + u64::from(round) * 7919 % 25_000;
        std::thread::sleep(Duration::from_micros(microseconds));
        child.kill().expect("it runs");
        child.wait().expect("it is ours");
        n_drafts += files(folder.path(), ".draft").len();
        let verified = disk_at(folder.path()).verify(false).expect("it is fine");
        assert_eq!(verified.bad, [], "round {round}");
        for name in ["a", "b"] {
            if let Ok(entry) = disk_at(folder.path()).get(&key(name)) {
                assert_eq!(*entry.payload, large(name));
            }
        }
        // Whoever makes room sweeps up.
        let options = DiskOptions::default();
        let disk = DiskTier::at(folder.path(), options);
        disk.put(&key("c"), Duration::ZERO, &[1])
            .expect("there is room");
        assert_eq!(files(folder.path(), ".draft").len(), 0);
    }
    println!("{n_drafts} drafts were left by {rounds} writers");
}

#[test]
fn writers_killed_at_random_leave_whole_entries() {
    kill_writers(25);
}

#[test]
#[ignore = "takes a minute or two"]
fn a_thousand_writers_killed_at_random_leave_whole_entries() {
    kill_writers(1000);
}

#[test]
#[ignore = "a job for a child"]
fn child_that_compiles_for_ever() {
    let Some(job) = job() else { return };
    let cache = cache_at(Path::new(&job[0]));
    let compile = || {
        std::fs::write(&job[1], "").expect("there is room");
        std::thread::sleep(LONG);
        Ok(Vec::new())
    };
    let _ = cache.get_or_compile(&key("a"), LONG, compile);
}

#[test]
fn a_compiler_killed_at_work_is_not_waited_for() {
    let folder = tempfile::tempdir().expect("there is room");
    let (cache, marks) = (folder.path().join("cache"), folder.path().join("begun"));
    let paths = [&cache, &marks].map(|path| path.to_str().expect("it is text"));
    let mut child = start(HOLDER, &paths);
    wait_for(&marks);
    // It lives: the key is claimed, and the wait has a limit.
    assert!(matches!(disk_at(&cache).try_claim(&key("a")), Claim::Busy));
    let limit = Duration::from_millis(30);
    let failure = cache_at(&cache).get_or_compile(&key("a"), limit, || Ok(content("a")));
    let failure = failure.expect_err("another process is at it");
    assert!(
        failure
            .to_string()
            .starts_with("waited 30ms for somebody else's compile")
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
        panic!("nobody has it");
    };
    assert!(matches!(disk_at(&cache).try_claim(&key("a")), Claim::Busy));
    drop(claim);
}
