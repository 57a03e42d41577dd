//! The protocols of S3, Azure and Google: entries, claims and faults.
//!
//! The bucket is in the tests' own server, which implements as much of each protocol as the store uses. If `KILN_S3` or
//! `KILN_AZURE` is the address of another server (`cargo xtask stores`), the bucket is there, and the faults are
//! injected in between.
#![cfg(all(feature = "aws", feature = "azure", feature = "gcp"))]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test may panic"
)]

mod support;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use kiln_kernel_cache::{
    BytesCodec, CacheKey, CacheOptions, Claim, Content, EntryKind, Miss, SealKey, Tier, TieredCache,
};
use kiln_remote_store::{BreakerOptions, RemoteOptions, RemoteTier};
use support::{Manner, Protocol, Server};

/// A bucket, and its protocol.
struct Bucket {
    protocol: Protocol,
    server: Server,
}

fn key(model: &str) -> CacheKey {
    CacheKey::of_fields(EntryKind::PROGRAM, [("model", model)])
}

/// A real server takes longer than one in memory.
fn options() -> RemoteOptions {
    RemoteOptions {
        deadline: Duration::from_secs(2),
        poll: Duration::from_millis(20),
        absent_for: Duration::ZERO,
        max_entry_bytes: 1 << 20,
        drain: Duration::from_millis(500),
        breaker: BreakerOptions {
            failures: 1000,
            ..BreakerOptions::default()
        },
        ..RemoteOptions::default()
    }
}

impl Bucket {
    fn of(protocol: Protocol) -> Self {
        let server = protocol.server();
        Self { protocol, server }
    }

    /// A machine's own view of the bucket; each test uses a separate folder.
    fn machine(&self, test: &str, options: RemoteOptions) -> RemoteTier {
        let settings = self.protocol.settings(&self.server);
        let seal = SealKey::of_secret(&[7; 32]);
        RemoteTier::open(&self.protocol.address(test), settings, seal, options).unwrap()
    }

    fn behave(&self, manner: Manner) {
        self.server.behave(manner);
    }
}

fn store(tier: &RemoteTier, model: &str, content: &[u8]) {
    let took = Duration::from_millis(9);
    tier.put(&key(model), took, Content::data(content)).unwrap();
    assert!(tier.flush(Duration::from_secs(20)));
}

fn an_entry_stored_by_one_machine_is_read_by_another_and_removed(protocol: Protocol) {
    let bucket = Bucket::of(protocol);
    let one = bucket.machine("entry", options());
    let two = bucket.machine("entry", options());
    assert_eq!(one.get(&key("mlp")).unwrap_err(), Miss::Absent);
    assert!(!two.contains(&key("mlp")));
    store(&one, "mlp", b"compiled");
    assert_eq!(&*two.get(&key("mlp")).unwrap().payload, b"compiled");
    assert!(two.contains(&key("mlp")));
    one.remove(&key("mlp"));
    assert!(one.flush(Duration::from_secs(20)));
    assert_eq!(two.get(&key("mlp")).unwrap_err(), Miss::Absent);
    assert_eq!((one.stats().failed, two.stats().failed), (0, 0));
}

fn claims_are_exclusive_and_told_apart_when_they_are_made_again(protocol: Protocol) {
    let bucket = Bucket::of(protocol);
    let short = RemoteOptions {
        poll: Duration::ZERO,
        lease: Duration::from_millis(300),
        ..options()
    };
    let one = bucket.machine("claims", short);
    let two = bucket.machine("claims", short);
    let three = bucket.machine("claims", short);
    // Renewed all the time, so that no version of it outlives its lease, and no machine takes over from one that is
    // working.
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(900) {
        let claim = one.try_claim(&key("mlp"));
        assert!(matches!(claim, Claim::Held(_)), "{claim:?}");
        assert!(matches!(two.try_claim(&key("mlp")), Claim::Busy));
        drop(claim);
        assert!(one.flush(Duration::from_secs(20)));
    }
    // Never released: exactly one of the waiting machines takes over, whatever the server's clock says.
    bucket.behave(Manner::Ahead);
    std::mem::forget(one.try_claim(&key("mlp")));
    let begin = Instant::now();
    let mut held = Vec::new();
    while held.is_empty() {
        assert!(begin.elapsed() < Duration::from_secs(20));
        thread::scope(|scope| {
            let tries = [&two, &three].map(|tier| scope.spawn(|| tier.try_claim(&key("mlp"))));
            for tried in tries.map(|tried| tried.join().unwrap()) {
                held.extend(matches!(tried, Claim::Held(_)).then_some(tried));
            }
        });
    }
    assert_eq!(held.len(), 1, "two machines took over one claim");
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(two.stats().taken_over + three.stats().taken_over, 1);
}

/// The number of compiles when a fleet of machines needs the same kernel at once; each gets the correct result in the
/// end.
fn fleet(bucket: &Bucket, test: &str, options: RemoteOptions) -> usize {
    let compiles = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let tiers: Vec<Arc<dyn Tier>> = vec![Arc::new(bucket.machine(test, options))];
                let begin = Instant::now();
                let clock = Arc::new(move || begin.elapsed());
                let cache = TieredCache::<Vec<u8>, Infallible>::with_tiers(
                    BytesCodec,
                    clock,
                    CacheOptions::default(),
                    tiers,
                );
                let found = cache.get_or_compile(&key("mlp"), Duration::from_secs(60), || {
                    compiles.fetch_add(1, Ordering::Relaxed);
                    thread::sleep(Duration::from_millis(300));
                    Ok(b"compiled".to_vec())
                });
                assert_eq!(*found.unwrap().value, b"compiled");
            });
        }
    });
    compiles.into_inner()
}

/// All faults of the connection and the server.
const FAULTS: [Manner; 9] = [
    Manner::Late(Duration::from_secs(3)),
    Manner::Stalling,
    Manner::Cut,
    Manner::Lying,
    Manner::Boasting,
    Manner::Overloaded,
    Manner::Down,
    Manner::Garbled,
    Manner::Skewed,
];

fn a_fleet_compiles_once_and_the_next_compiles_nothing(protocol: Protocol) {
    let bucket = Bucket::of(protocol);
    assert_eq!(fleet(&bucket, "fleet", options()), 1);
    assert_eq!(fleet(&bucket, "fleet", options()), 0);
    bucket.behave(Manner::Ahead);
    assert_eq!(
        fleet(&bucket, "fleet", options()),
        0,
        "the server's clock is a year ahead"
    );
    bucket.behave(Manner::Good);
    let impatient = RemoteOptions {
        deadline: Duration::from_millis(300),
        lease: Duration::from_millis(600),
        ..options()
    };
    for manner in FAULTS {
        bucket.behave(manner);
        let begin = Instant::now();
        let compiles = fleet(&bucket, "fleet", impatient);
        let took = begin.elapsed();
        assert!(
            (1..=4).contains(&compiles),
            "{manner:?}: {compiles} compiles"
        );
        assert!(took < Duration::from_secs(20), "{manner:?}: {took:?}");
        bucket.behave(Manner::Good);
        assert_eq!(fleet(&bucket, "fleet", options()), 0, "after {manner:?}");
    }
}

fn every_fault_is_a_miss_in_time(protocol: Protocol) {
    let bucket = Bucket::of(protocol);
    let content: Vec<u8> = (0..100_000_u32).map(|position| position as u8).collect();
    store(&bucket.machine("faults", options()), "mlp", &content);
    let impatient = RemoteOptions {
        deadline: Duration::from_millis(300),
        ..options()
    };
    for manner in FAULTS {
        bucket.behave(manner);
        let tier = bucket.machine("faults", impatient);
        let begin = Instant::now();
        let miss = tier.get(&key("mlp")).unwrap_err();
        let took = begin.elapsed();
        assert!(took < Duration::from_millis(1500), "{manner:?}: {took:?}");
        assert_ne!(miss, Miss::Absent, "{manner:?}");
        bucket.behave(Manner::Good);
        let tier = bucket.machine("faults", options());
        assert_eq!(
            &*tier.get(&key("mlp")).unwrap().payload,
            &*content,
            "{manner:?}"
        );
    }
}

/// The tests of a protocol.
macro_rules! tests {
    ($module:ident, $protocol:ident) => {
        mod $module {
            use super::Protocol::$protocol;

            #[test]
            fn an_entry_stored_by_one_machine_is_read_by_another_and_removed() {
                super::an_entry_stored_by_one_machine_is_read_by_another_and_removed($protocol);
            }

            #[test]
            fn claims_are_exclusive_and_told_apart_when_they_are_made_again() {
                super::claims_are_exclusive_and_told_apart_when_they_are_made_again($protocol);
            }

            #[test]
            fn a_fleet_compiles_once_and_the_next_compiles_nothing() {
                super::a_fleet_compiles_once_and_the_next_compiles_nothing($protocol);
            }

            #[test]
            fn every_fault_is_a_miss_in_time() {
                super::every_fault_is_a_miss_in_time($protocol);
            }
        }
    };
}

tests!(s3, S3);
tests!(azure, Azure);
tests!(google, Google);
