//! A forked child has copies of the parent's locks, and none of its threads: it must work without both.

use std::sync::mpsc;
use std::time::Duration;

use kiln_kernel_cache::{Begin, Source};

use crate::support::children::fork;
use crate::support::{LONG, TestCache, cache_at, content, disk_at, key};
use kiln_kernel_cache::Tier;

/// What the child does; returns the number of errors.
fn use_in_child(cache: &TestCache) -> i32 {
    // In the parent's memory tier, and in the folder.
    match cache.get_or_compile(&key("stored"), LONG, || Err("it is stored".to_owned())) {
        Ok(found) if matches!(found.source, Source::Tier { .. }) => {}
        _ => return 1,
    }
    // Led by a thread of the parent, which does not exist in the child.
    match cache.get_or_compile(&key("led"), LONG, || Ok(content("led"))) {
        Ok(found) if *found.value == content("led") => {}
        _ => return 2,
    }
    if cache.get(&key("stored")).is_some() || cache.n_compiling() > 0 {
        return 3;
    }
    cache.clear_memory();
    cache.set(&key("child"), content("child"), Duration::ZERO);
    match cache.lookup(&key("child")) {
        Ok(found) if *found.value == content("child") => {}
        _ => return 4,
    }
    cache.remove(&key("child"));
    if cache.contains(&key("child")) || cache.stats().kernels > 0 {
        return 5;
    }
    0
}

#[test]
fn a_forked_child_compiles_and_looks_up_and_never_hangs() {
    let folder = tempfile::tempdir().expect("there is room");
    let cache = cache_at(folder.path());
    cache.set(&key("stored"), content("stored"), Duration::ZERO);
    // Another thread is compiling at the time of the fork, and holds no lock that another process can see.
    let Begin::Lead(ticket) = cache.begin(&key("led")) else {
        panic!("it is not being compiled");
    };
    let (done, is_done) = mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        is_done.recv().expect("the test says when");
        ticket.compile(LONG, || Ok(content("led")))
    });
    let child = fork(|| use_in_child(&cache));
    assert_eq!(child.wait(), Some(0));
    // The child's entry is stored, and the parent continues.
    assert!(disk_at(folder.path()).get(&key("led")).is_ok());
    done.send(()).expect("the thread listens");
    let found = thread
        .join()
        .expect("it is no panic")
        .expect("it is stored");
    assert!(matches!(found.source, Source::Tier { .. }));
    assert_eq!(cache.n_compiling(), 0);
}
