//! Many threads and processes on one cold key.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};

use crate::support::children::{job, start};
use crate::support::{LONG, TestCache, cache_at, cache_of, content, files, key};

const CHILD: &str = "storm::child_that_joins_the_storm";

/// Every compile creates a file, so that those of all processes can be counted, and lasts until a condition holds.
fn compile_marked(
    cache: &TestCache,
    name: &str,
    marks: &Path,
    may_end: impl Fn() -> bool,
) -> Vec<u8> {
    let compile = || {
        let mark = tempfile::Builder::new().suffix(".mark").tempfile_in(marks);
        mark.expect("there is room").keep().expect("there is room");
        while !may_end() {
            std::thread::yield_now();
        }
        Ok(content(name))
    };
    let found = cache.get_or_compile(&key(name), LONG, compile);
    found.expect("it compiles").value.to_vec()
}

fn storm_of_threads(cache: &TestCache, n_threads: usize, name: &str, marks: &Path) {
    let barrier = Barrier::new(n_threads);
    let n_come = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..n_threads {
            scope.spawn(|| {
                barrier.wait();
                n_come.fetch_add(1, Ordering::Relaxed);
                let all_came = || n_come.load(Ordering::Relaxed) == n_threads;
                let found = compile_marked(cache, name, marks, all_came);
                assert_eq!(found, content(name));
            });
        }
    });
}

#[test]
fn sixty_four_threads_on_one_cold_key_compile_it_once() {
    let folder = tempfile::tempdir().expect("there is room");
    let marks = tempfile::tempdir().expect("there is room");
    let caches = [cache_of(Vec::new()), cache_at(folder.path())];
    for (position, cache) in caches.iter().enumerate() {
        for round in 0..3 {
            storm_of_threads(cache, 64, &format!("k{position}{round}"), marks.path());
        }
        let stats = cache.stats();
        assert_eq!((stats.compiles, stats.misses, stats.hits()), (3, 3, 3 * 63));
        assert_eq!(
            (stats.timeout, stats.takeovers, cache.n_compiling()),
            (0, 0, 0)
        );
    }
    assert_eq!(files(marks.path(), ".mark").len(), 6);
}

#[test]
#[ignore = "a job for a child"]
fn child_that_joins_the_storm() {
    let Some(job) = job() else { return };
    let [folder, marks, n_keys] = &job[..] else {
        panic!("three words: {job:?}");
    };
    let (cache, marks) = (cache_at(Path::new(folder)), Path::new(marks));
    // The parent's file releases all processes at once.
    crate::support::children::wait_for(&marks.join("go"));
    for number in 0..n_keys.parse().expect("it is a number") {
        storm_of_threads(&cache, 8, &format!("k{number}"), marks);
    }
}

/// The number of compiles by this many processes; `meanwhile` runs repeatedly, given the cache's folder.
fn storm_of_processes(n_processes: usize, n_keys: usize, meanwhile: impl Fn(&Path)) -> usize {
    let folder = tempfile::tempdir().expect("there is room");
    let marks = tempfile::tempdir().expect("there is room");
    let paths = [folder.path(), marks.path()].map(|path| path.to_str().expect("it is text"));
    let n_keys = n_keys.to_string();
    let mut children: Vec<_> = (0..n_processes)
        .map(|_| start(CHILD, &[paths[0], paths[1], &n_keys]))
        .collect();
    std::fs::write(marks.path().join("go"), "").expect("there is room");
    for child in &mut children {
        let status = loop {
            match child.try_wait().expect("it is ours") {
                Some(status) => break status,
                None => meanwhile(folder.path()),
            }
        };
        assert!(status.success());
    }
    assert_eq!(files(folder.path(), ".draft").len(), 0);
    let claims = files(folder.path(), ".claim");
    assert!(
        claims.iter().all(|path| path.ends_with("eviction.claim")),
        "{claims:?}"
    );
    files(marks.path(), ".mark").len()
}

fn idle(_: &Path) {
    std::thread::yield_now();
}

#[test]
fn eight_processes_of_eight_threads_on_one_cold_key_compile_it_once() {
    assert_eq!(storm_of_processes(8, 1, idle), 1);
}

#[test]
fn eight_processes_compile_each_of_many_keys_once() {
    assert_eq!(storm_of_processes(8, 5, idle), 5);
}

#[test]
fn concurrent_compiles_during_clearing_give_right_values() {
    let n_compiles = storm_of_processes(4, 5, |folder| {
        let disk = crate::support::disk_at(folder);
        disk.clear().expect("nothing is wrong");
        std::thread::yield_now();
    });
    assert!((5..=4 * 5).contains(&n_compiles), "{n_compiles}");
}

#[test]
fn twenty_processes_agree_on_the_key_of_fields() {
    use kiln_kernel_cache::{CacheKey, EntryKind};
    let digest = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp"), ("level", "avx2")]);
    let folder = tempfile::tempdir().expect("there is room");
    let path = Arc::new(folder.path().to_str().expect("it is text").to_owned());
    let mut children: Vec<_> = (0..20)
        .map(|_| start("storm::child_that_writes_a_key", &[&path]))
        .collect();
    for child in &mut children {
        assert!(child.wait().expect("it is ours").success());
    }
    let names = files(folder.path(), ".key");
    assert_eq!(names.len(), 1, "{names:?}");
    assert!(names[0].ends_with(format!("{}.key", digest.digest())));
}

#[test]
#[ignore = "a job for a child"]
fn child_that_writes_a_key() {
    use kiln_kernel_cache::{CacheKey, EntryKind};
    let Some(job) = job() else { return };
    let key = CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp"), ("level", "avx2")]);
    let path = Path::new(&job[0]).join(format!("{}.key", key.digest()));
    std::fs::write(path, "").expect("there is room");
}
