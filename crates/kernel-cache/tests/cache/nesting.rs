//! Compiles inside compiles, and inside the tasks of a work-stealing pool: slower at worst, but never a deadlock.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use kiln_kernel_cache::Begin;

use crate::support::{LONG, cache_at, cache_of, content, key};

/// Runs a test that must not deadlock.
fn within_twenty_seconds(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        test();
        done.send(()).expect("the watchdog listens");
    });
    let watched = is_done.recv_timeout(Duration::from_secs(20));
    assert_ne!(watched, Err(mpsc::RecvTimeoutError::Timeout), "stuck");
    thread.join().expect("it passes");
}

#[test]
fn a_compile_that_requests_its_own_key_compiles_it_recursively() {
    within_twenty_seconds(|| {
        let folder = tempfile::tempdir().expect("there is room");
        let cache = cache_at(folder.path());
        let outer = cache.get_or_compile(&key("a"), LONG, || {
            let inner = cache.get_or_compile(&key("a"), LONG, || Ok(content("a")));
            inner
                .map(|found| found.value.to_vec())
                .map_err(|error| error.to_string())
        });
        assert_eq!(*outer.expect("it compiles").value, content("a"));
        // In parallel to the leading thread, and despite its claim.
        assert_eq!(cache.stats().reentrant, 2);
    });
}

#[test]
fn work_stealing_compiles_do_not_deadlock() {
    within_twenty_seconds(|| {
        let folder = tempfile::tempdir().expect("there is room");
        let cache = cache_at(folder.path());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let pool = pool.expect("there are threads");
        let n_compiles = AtomicUsize::new(0);
        let names = ["a", "b", "c"];
        // A compile that splits its work into parts, which need the other kernels.
        fn compile(
            cache: &crate::support::TestCache,
            names: &[&'static str],
            position: usize,
            depth: usize,
            n_compiles: &AtomicUsize,
        ) -> Vec<u8> {
            let name = names[position % names.len()];
            let found = cache.get_or_compile(&key(name), LONG, || {
                n_compiles.fetch_add(1, Ordering::SeqCst);
                if depth > 0 {
                    rayon::join(
                        || compile(cache, names, position + 1, depth - 1, n_compiles),
                        || compile(cache, names, position + 2, depth - 1, n_compiles),
                    );
                }
                Ok(content(name))
            });
            found.expect("it compiles").value.to_vec()
        }
        for _ in 0..20 {
            cache.clear_memory();
            pool.scope(|scope| {
                for position in 0..3 {
                    let (cache, n_compiles) = (&cache, &n_compiles);
                    scope.spawn(move |_| {
                        let value = compile(cache, &names, position, 2, n_compiles);
                        assert_eq!(value, content(names[position]));
                    });
                }
            });
        }
        assert!(n_compiles.load(Ordering::SeqCst) >= 3);
    });
}

#[test]
fn a_ticket_can_be_used_on_another_thread() {
    let cache = cache_of(Vec::new());
    let Begin::Lead(ticket) = cache.begin(&key("a")) else {
        panic!("it is not being compiled");
    };
    let Begin::Follow(waiter) = cache.begin(&key("a")) else {
        panic!("another caller compiles it");
    };
    let background = std::thread::spawn(move || ticket.compile(LONG, || Ok(content("a"))));
    assert_eq!(*waiter.wait(LONG).expect("it compiles").value, content("a"));
    background
        .join()
        .expect("it is no panic")
        .expect("it compiles");
    assert!(matches!(cache.begin(&key("a")), Begin::Ready(_)));
}
