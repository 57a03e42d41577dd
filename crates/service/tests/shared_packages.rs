//! Servers that share packages in a bucket, with injected faults: a package compiled and checked by one is loaded by
//! the others.

#![allow(clippy::unwrap_used, missing_docs, reason = "a test may panic")]

#[path = "../../remote-store/tests/support/mod.rs"]
mod server;
mod support;

use kiln::{SealKey, Tensor};
use kiln_remote_store::{BreakerOptions, RemoteOptions, RemoteTier};
use kiln_service::{
    BlueprintCompiler, CompileTarget, KernelRequest, KernelService, PackageStore, ServiceMetrics,
    ServiceOptions,
};
use server::{Manner, Server};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use support::scaled;

fn compiler() -> BlueprintCompiler {
    support::compiler(support::validator(2))
}

/// A server's own view of the bucket, with limits for a busy machine.
fn tier(server: &Server, secret: u8) -> Arc<RemoteTier> {
    tier_within(server, secret, Duration::from_secs(10))
}

/// The same, giving up after `deadline`.
fn tier_within(server: &Server, secret: u8, deadline: Duration) -> Arc<RemoteTier> {
    let settings = [
        ("aws_endpoint", format!("http://{}", server.socket())),
        ("aws_allow_http", "true".to_owned()),
        ("aws_region", "us-east-1".to_owned()),
        ("aws_access_key_id", "test".to_owned()),
        ("aws_secret_access_key", "test".to_owned()),
    ];
    let settings = settings.map(|(name, value)| (name.to_owned(), value));
    let options = RemoteOptions {
        deadline,
        lease: Duration::from_secs(30),
        absent_for: Duration::ZERO,
        drain: Duration::from_millis(200),
        breaker: BreakerOptions {
            failures: 1000,
            ..BreakerOptions::default()
        },
        ..RemoteOptions::default()
    };
    let seal = SealKey::of_secret(&[secret; 32]);
    Arc::new(RemoteTier::open("s3://fleet/packages", settings, seal, options).unwrap())
}

/// A server's counters after one request for the kernel, whose results must be correct.
fn ask(folder: &Path, tier: &Arc<RemoteTier>) -> ServiceMetrics {
    let store = PackageStore::open(folder)
        .unwrap()
        .shared_in(Arc::clone(tier) as _);
    let service = KernelService::start(compiler(), store, ServiceOptions::default()).unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_time()
        .build()
        .unwrap();
    let kernel = runtime
        .block_on(service.get(KernelRequest::new("a", scaled(2))))
        .unwrap();
    let x = Tensor::from_slice(&[3], &[1.0f32, -2.0, 0.5]).unwrap();
    let y = kernel.model.run(&[x]).unwrap();
    assert_eq!(y[0].as_slice::<f32>().unwrap(), [2.0, -4.0, 1.0]);
    let metrics = service.metrics();
    drop((kernel, service));
    tier.flush(Duration::from_secs(10));
    metrics
}

/// The same with a separate folder and view of the bucket.
fn ask_new(server: &Server) -> ServiceMetrics {
    let folder = tempfile::tempdir().unwrap();
    ask(folder.path(), &tier(server, 7))
}

#[test]
fn one_server_compiles_and_the_others_load() {
    let server = Server::start();
    let first = ask_new(&server);
    assert_eq!(
        (first.compiles, first.shared_hits, first.shared_failures),
        (1, 0, 0)
    );
    let folder = tempfile::tempdir().unwrap();
    let second = ask(folder.path(), &tier(&server, 7));
    assert_eq!(
        (second.compiles, second.store_hits, second.shared_hits),
        (0, 1, 1)
    );
    // What was read from the bucket is stored in the folder.
    server.behave(Manner::Down);
    let again = ask(folder.path(), &tier(&server, 7));
    assert_eq!(
        (again.compiles, again.store_hits, again.shared_hits),
        (0, 1, 0)
    );
    assert_eq!(again.shared_failures, 0);
}

#[test]
fn servers_that_start_together_compile_once() {
    let server = Server::start();
    let compiles: u64 = std::thread::scope(|scope| {
        let servers = [0; 3].map(|_| scope.spawn(|| ask_new(&server).compiles));
        servers
            .into_iter()
            .map(|server| server.join().unwrap())
            .sum()
    });
    assert_eq!(compiles, 1);
}

#[test]
fn a_shared_store_that_fails_costs_a_compile_and_is_counted() {
    let server = Server::start();
    ask_new(&server);
    let impatient = || tier_within(&server, 7, Duration::from_millis(400));
    let key = compiler().key(&scaled(2), &CompileTarget::Cpu);
    // Each fault, and whether it delivers bytes that are rejected.
    for (manner, is_refused) in [
        (Manner::Late(Duration::from_secs(1)), false),
        (Manner::Cut, false),
        (Manner::Overloaded, false),
        (Manner::Skewed, false),
        (Manner::Lying, true),
    ] {
        server.behave(manner);
        let folder = tempfile::tempdir().unwrap();
        let store = PackageStore::open(folder.path()).unwrap();
        let error = store.shared_in(impatient()).get(&key).unwrap_err();
        assert_eq!(
            error.code(),
            if is_refused { "E1425" } else { "E1427" },
            "{manner:?}: {error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let metrics = ask(folder.path(), &impatient());
        assert_eq!(metrics.compiles, 1, "{manner:?}");
        assert_eq!(
            (metrics.packages_refused > 0, metrics.shared_failures > 0),
            (is_refused, !is_refused),
            "{manner:?}"
        );
        server.behave(Manner::Good);
        assert_eq!(ask_new(&server).compiles, 0, "after {manner:?}");
    }
}

#[test]
fn packages_of_strangers_are_refused_and_removed_ones_are_made_again() {
    let server = Server::start();
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(ask(folder.path(), &tier(&server, 8)).compiles, 1);
    let ours = ask_new(&server);
    assert_eq!((ours.compiles, ours.packages_refused), (1, 1));
    let tier = tier(&server, 7);
    let folder = tempfile::tempdir().unwrap();
    let store = PackageStore::open(folder.path())
        .unwrap()
        .shared_in(Arc::clone(&tier) as _);
    let key = compiler().key(&scaled(2), &CompileTarget::Cpu);
    assert!(store.get(&key).unwrap().is_some());
    assert!(store.remove(&key).unwrap());
    assert!(tier.flush(Duration::from_secs(10)));
    assert!(store.get(&key).unwrap().is_none());
}
