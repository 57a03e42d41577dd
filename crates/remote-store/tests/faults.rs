//! A store that is slow, truncated, corrupted or down: a look-up ends in time with a miss, and nothing wrong is
//! returned.
#![cfg(feature = "http")]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    missing_docs,
    reason = "a test may panic"
)]

mod support;

use std::time::{Duration, Instant};

use kiln_kernel_cache::{CacheKey, Claim, Content, EntryKind, Miss, SealKey, Tier};
use kiln_remote_store::{BreakerOptions, RemoteOptions, RemoteTier};
use support::{Manner, Server};

const DEADLINE: Duration = Duration::from_millis(500);

/// The most that a busy machine adds to a deadline.
const SLACK: Duration = Duration::from_secs(5);

/// The delay of a late server: longer than any limit in a test.
const LATE: Duration = Duration::from_secs(30);

fn key(model: &str) -> CacheKey {
    CacheKey::of_fields(EntryKind::PROGRAM, [("model", model)])
}

fn options() -> RemoteOptions {
    RemoteOptions {
        deadline: DEADLINE,
        max_entry_bytes: 1 << 20,
        absent_for: Duration::ZERO,
        drain: Duration::from_millis(200),
        breaker: BreakerOptions {
            failures: 3,
            first: Duration::from_secs(2),
            longest: Duration::from_secs(5),
        },
        ..RemoteOptions::default()
    }
}

fn tier(server: &Server, options: RemoteOptions) -> RemoteTier {
    let seal = SealKey::of_secret(&[7; 32]);
    RemoteTier::open(&server.address(), Vec::new(), seal, options).unwrap()
}

fn store(tier: &RemoteTier, model: &str, content: &[u8]) {
    tier.put(
        &key(model),
        Duration::from_millis(9),
        Content::data(content),
    )
    .unwrap();
    assert!(tier.flush(Duration::from_secs(10)));
}

#[test]
fn an_entry_stored_by_one_machine_is_read_by_another() {
    let server = Server::start();
    let one = tier(&server, options());
    assert_eq!(one.get(&key("mlp")).unwrap_err(), Miss::Absent);
    store(&one, "mlp", b"compiled");
    let two = tier(&server, options());
    let entry = two.get(&key("mlp")).unwrap();
    assert_eq!(&*entry.payload, b"compiled");
    assert_eq!(entry.compile_time, Duration::from_millis(9));
    assert_eq!(two.stats().hits, 1);
    assert!(server.names()[0].starts_with("/fleet/kiln/2/program/"));
    // A plain server has no conditional writes.
    assert!(matches!(two.try_claim(&key("mlp")), Claim::Unavailable));
}

#[test]
fn every_fault_is_a_miss_in_time() {
    let server = Server::start();
    let content: Vec<u8> = (0..100_000_u32).map(|position| position as u8).collect();
    store(&tier(&server, options()), "mlp", &content);
    let manners = [
        Manner::Late(LATE),
        Manner::Stalling,
        Manner::Cut,
        Manner::Lying,
        Manner::Boasting,
        Manner::Overloaded,
        Manner::Down,
        Manner::Garbled,
    ];
    for manner in manners {
        server.behave(manner);
        let tier = tier(&server, options());
        let begin = Instant::now();
        let miss = tier.get(&key("mlp")).unwrap_err();
        let took = begin.elapsed();
        assert!(took < DEADLINE + SLACK, "{manner:?}: {took:?}");
        let is_rejected = matches!(manner, Manner::Lying | Manner::Boasting);
        let is_unavailable = matches!(miss, Miss::Unavailable { .. });
        assert_eq!(is_unavailable, !is_rejected, "{manner:?}: {miss}");
        server.behave(Manner::Good);
        assert_eq!(
            &*tier.get(&key("mlp")).unwrap().payload,
            &*content,
            "{manner:?}"
        );
    }
}

#[test]
fn a_store_that_is_down_is_left_alone_and_tried_again() {
    let server = Server::start();
    let tier = tier(&server, options());
    store(&tier, "mlp", b"compiled");
    server.behave(Manner::Late(LATE));
    for _ in 0..3 {
        tier.get(&key("mlp")).unwrap_err();
    }
    let before = server.requests();
    let begin = Instant::now();
    for _ in 0..100 {
        tier.get(&key("mlp")).unwrap_err();
    }
    assert!(begin.elapsed() < Duration::from_secs(1), "no look-up waits");
    assert_eq!(server.requests(), before);
    assert_eq!(tier.stats().opened, 1);
    assert!(tier.stats().left_alone >= 100);
    server.behave(Manner::Good);
    std::thread::sleep(Duration::from_millis(2200));
    assert_eq!(&*tier.get(&key("mlp")).unwrap().payload, b"compiled");
}

#[test]
fn entries_of_strangers_are_rejected() {
    let server = Server::start();
    let stranger = SealKey::of_secret(&[8; 32]);
    let theirs = RemoteTier::open(&server.address(), Vec::new(), stranger, options()).unwrap();
    store(&theirs, "mlp", b"malicious");
    let ours = tier(&server, options());
    assert_eq!(ours.get(&key("mlp")).unwrap_err(), Miss::Unauthenticated);
    assert_eq!(ours.stats().rejected, 1);
    // Cut, grown, emptied, replaced by noise.
    let changes: [fn(&mut Vec<u8>); 4] = [
        |file| file.truncate(file.len() / 2),
        |file| file.push(0),
        Vec::clear,
        |file| file.fill(0x5a),
    ];
    for change in changes {
        store(&ours, "mlp", b"compiled");
        server.rewrite(change);
        ours.get(&key("mlp")).unwrap_err();
    }
}

#[test]
fn an_absent_entry_is_not_asked_for_again_soon() {
    let server = Server::start();
    let options = RemoteOptions {
        absent_for: Duration::from_secs(60),
        ..options()
    };
    let tier = tier(&server, options);
    tier.get(&key("mlp")).unwrap_err();
    let before = server.requests();
    tier.get(&key("mlp")).unwrap_err();
    assert_eq!(server.requests(), before);
    assert_eq!(tier.stats().believed_absent, 1);
    store(&tier, "mlp", b"compiled");
    tier.get(&key("mlp")).unwrap();
}

#[test]
fn writes_never_wait_and_are_dropped_beyond_the_limit() {
    let server = Server::start();
    server.behave(Manner::Late(LATE));
    let options = RemoteOptions {
        queue_bytes: 5_000,
        ..options()
    };
    let tier = tier(&server, options);
    let begin = Instant::now();
    let stored = (0..10)
        .filter(|number| {
            let key = key(&number.to_string());
            tier.put(&key, Duration::ZERO, Content::data(&[0; 1_000]))
                .is_ok()
        })
        .count();
    assert!(begin.elapsed() < SLACK);
    assert!((3..=5).contains(&stored), "{stored}");
    assert_eq!(tier.stats().dropped, 10 - stored as u64);
    assert!(!tier.flush(Duration::from_millis(10)));
}

#[test]
fn a_reader_stores_nothing() {
    let server = Server::start();
    let options = RemoteOptions {
        read_only: true,
        ..options()
    };
    let tier = tier(&server, options);
    let stored = tier.put(&key("mlp"), Duration::ZERO, Content::data(b"x"));
    assert!(stored.is_err());
    tier.remove(&key("mlp"));
    assert!(matches!(tier.try_claim(&key("mlp")), Claim::Unavailable));
    assert!(tier.flush(Duration::from_secs(1)));
    assert_eq!(server.requests(), 0);
}
