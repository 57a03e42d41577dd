//! A store that machines share: code compiled by one machine is loaded by the others. In a folder, and in an S3 bucket
//! with faults injected.
//!
//! If `KILN_S3` is the address of a server with the bucket `fleet` (`cargo xtask stores`), that bucket is used.

use super::server::{Manner, Protocol, Server};
use super::support::Workshop;
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

/// Where the machines of a fleet look for code: an address, and environment variables.
struct Store {
    address: String,
    settings: Vec<(String, String)>,
}

impl Store {
    fn folder(workshop: &Workshop) -> Self {
        Self {
            address: format!("file://{}", workshop.path("store").display()),
            settings: Vec::new(),
        }
    }

    fn bucket(server: &Server) -> Self {
        let upper = |(name, value): (String, String)| (name.to_uppercase(), value);
        let settings = Protocol::S3.settings(server);
        Self {
            address: Protocol::S3.address("command"),
            settings: settings.into_iter().map(upper).collect(),
        }
    }
}

/// The counters that a machine prints after its first call; it shares only the store with other machines.
fn machine(
    workshop: &Workshop,
    store: &Store,
    extra: &[&str],
    expected: bool,
) -> serde_json::Value {
    let arguments = [
        "bench",
        "model.kiln",
        "--device",
        "cpu",
        "--cases",
        "cases",
        "--once",
        "--json",
        "--cache",
        "off",
        "--store",
        &store.address,
        "--cache-key",
        "key",
    ];
    let mut command = workshop.command(&[&arguments[..], extra].concat());
    let output = command.envs(store.settings.clone()).output().unwrap();
    assert_eq!(output.status.success(), expected, "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(printed.lines().next().unwrap_or("null")).unwrap()
}

/// The number of kernels that each machine of a fleet compiles, all started at once.
fn fleet(workshop: &Workshop, store: &Store) -> Vec<u64> {
    thread::scope(|scope| {
        let machines = (0..3).map(|_| scope.spawn(|| machine(workshop, store, &[], true)));
        let machines: Vec<_> = machines.collect();
        let lines = machines.into_iter().map(|machine| machine.join().unwrap());
        lines.map(|line| compiles(&line)).collect()
    })
}

fn compiles(line: &serde_json::Value) -> u64 {
    line["compiles"].as_u64().unwrap()
}

/// A fleet that compiles each kernel once, and a machine that is not allowed to compile and finds all of them.
fn first_and_second(workshop: &Workshop, store: &Store) {
    let first = fleet(workshop, store);
    let second = machine(workshop, store, &["--no-compile"], true);
    assert_eq!(compiles(&second), 0, "{second}");
    let kernels = second["disk_hits"].as_u64().unwrap();
    assert!(kernels > 0, "{second}");
    let total: u64 = first.iter().sum();
    assert_eq!(total, kernels, "each kernel is compiled on one machine");
    println!(
        "{}: the first fleet compiled {first:?} of {kernels} kernels, the next machine 0",
        store.address
    );
}

fn with_key() -> Workshop {
    let workshop = Workshop::new();
    std::fs::create_dir(workshop.path("store")).unwrap();
    let key = workshop.path("key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).unwrap();
    workshop
}

#[test]
fn a_fleet_compiles_each_kernel_once_and_the_next_compiles_nothing() {
    let workshop = with_key();
    let store = Store::folder(&workshop);
    machine(&workshop, &store, &["--no-compile"], false);
    first_and_second(&workshop, &store);
}

#[test]
fn a_fleet_with_a_bucket_survives_every_fault_between() {
    let workshop = with_key();
    let server = Protocol::S3.server();
    let store = Store::bucket(&server);
    machine(&workshop, &store, &["--no-compile"], false);
    first_and_second(&workshop, &store);
    for manner in [
        Manner::Late(Duration::from_secs(1)),
        Manner::Cut,
        Manner::Lying,
        Manner::Overloaded,
        Manner::Skewed,
    ] {
        server.behave(manner);
        let begin = Instant::now();
        let compiled = fleet(&workshop, &store);
        println!("{manner:?}: compiled {compiled:?} in {:?}", begin.elapsed());
        assert!(
            compiled.iter().all(|compiles| *compiles > 0),
            "{manner:?}: {compiled:?}"
        );
        server.behave(Manner::Good);
        assert_eq!(fleet(&workshop, &store), [0, 0, 0], "after {manner:?}");
    }
    server.behave(Manner::Ahead);
    assert_eq!(
        fleet(&workshop, &store),
        [0, 0, 0],
        "the server's clock is a year ahead"
    );
}

#[test]
fn code_that_another_key_signed_is_compiled_again() {
    let workshop = with_key();
    let store = Store::folder(&workshop);
    let first = machine(&workshop, &store, &[], true);
    std::fs::write(workshop.path("key"), [8; 32]).unwrap();
    let other = machine(&workshop, &store, &[], true);
    assert_eq!(other["compiles"], first["compiles"]);
}

#[test]
fn a_store_needs_a_key_and_an_address() {
    let workshop = with_key();
    let run = |arguments: &[&str]| {
        let output =
            workshop.kiln(&[&["run", "model.kiln", "--cases", "cases"], arguments].concat());
        assert!(!output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run(&["--store", "file:///store"]).contains("--cache-key"));
    let error = run(&["--store", "ftp://host/x", "--cache-key", "key"]);
    assert!(error.contains("error[E0730]"), "{error}");
}
