//! One compile among machines that share nothing but the store.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test may panic"
)]

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kiln_kernel_cache::{
    BytesCodec, CacheKey, CacheOptions, Claim, EntryKind, SealKey, Tier, TieredCache,
};
use kiln_remote_store::{RemoteOptions, RemoteTier};

fn key() -> CacheKey {
    CacheKey::of_fields(EntryKind::PROGRAM, [("model", "mlp")])
}

/// A machine's own view of the store in a folder.
fn machine(folder: &std::path::Path, options: RemoteOptions) -> Arc<RemoteTier> {
    let address = format!("file://{}", folder.display());
    let seal = SealKey::of_secret(&[7; 32]);
    Arc::new(RemoteTier::open(&address, Vec::new(), seal, options).unwrap())
}

#[test]
fn machines_that_start_together_compile_once() {
    let folder = tempfile::tempdir().unwrap();
    let compiles = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let tier = machine(folder.path(), RemoteOptions::default());
                let begin = Instant::now();
                let clock = Arc::new(move || begin.elapsed());
                let options = CacheOptions::default();
                let tiers: Vec<Arc<dyn Tier>> = vec![tier];
                let cache = TieredCache::<Vec<u8>, Infallible>::with_tiers(
                    BytesCodec, clock, options, tiers,
                );
                let found = cache.get_or_compile(&key(), Duration::from_secs(20), || {
                    compiles.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(300));
                    Ok(b"compiled".to_vec())
                });
                assert_eq!(*found.unwrap().value, b"compiled");
            });
        }
    });
    assert_eq!(compiles.into_inner(), 1);
}

#[test]
fn a_claim_is_exclusive_until_it_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let options = RemoteOptions {
        poll: Duration::ZERO,
        ..RemoteOptions::default()
    };
    let (one, two) = (
        machine(folder.path(), options),
        machine(folder.path(), options),
    );
    let claim = one.try_claim(&key());
    assert!(matches!(claim, Claim::Held(_)), "{claim:?}");
    assert!(matches!(two.try_claim(&key()), Claim::Busy));
    drop(claim);
    assert!(one.flush(Duration::from_secs(5)));
    assert!(matches!(two.try_claim(&key()), Claim::Held(_)));
    assert_eq!(two.stats().taken_over, 0);
}

#[test]
fn the_claim_of_a_machine_that_died_is_taken_over() {
    let folder = tempfile::tempdir().unwrap();
    let options = RemoteOptions {
        poll: Duration::from_millis(10),
        lease: Duration::from_millis(300),
        ..RemoteOptions::default()
    };
    let (one, two) = (
        machine(folder.path(), options),
        machine(folder.path(), options),
    );
    // Never dropped, as when the machine loses power.
    std::mem::forget(one.try_claim(&key()));
    let begin = Instant::now();
    while !matches!(two.try_claim(&key()), Claim::Held(_)) {
        assert!(begin.elapsed() < Duration::from_secs(20));
        thread::sleep(Duration::from_millis(20));
    }
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(two.stats().taken_over, 1);
}
