//! A store that machines share: what one compiled, the others load.

use super::support::Workshop;
use std::os::unix::fs::PermissionsExt;
use std::thread;

/// The numbers that a machine prints after its first call; it shares nothing with others but the store.
fn machine(workshop: &Workshop, extra: &[&str], expected: bool) -> serde_json::Value {
    let address = format!("file://{}", workshop.path("store").display());
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
        &address,
        "--cache-key",
        "key",
    ];
    let output = workshop.kiln(&[&arguments[..], extra].concat());
    assert_eq!(output.status.success(), expected, "{output:?}");
    let printed = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(printed.lines().next().unwrap_or("null")).unwrap()
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
    machine(&workshop, &["--no-compile"], false);
    let fleet: Vec<serde_json::Value> = thread::scope(|scope| {
        let machines = (0..3).map(|_| scope.spawn(|| machine(&workshop, &[], true)));
        let machines: Vec<_> = machines.collect();
        machines
            .into_iter()
            .map(|machine| machine.join().unwrap())
            .collect()
    });
    let compiles = |line: &serde_json::Value| line["compiles"].as_u64().unwrap();
    let total: u64 = fleet.iter().map(compiles).sum();
    let second = machine(&workshop, &["--no-compile"], true);
    assert_eq!(compiles(&second), 0, "{second}");
    let kernels = second["disk_hits"].as_u64().unwrap();
    assert!(kernels > 0, "{second}");
    assert_eq!(total, kernels, "each kernel is compiled on one machine");
}

#[test]
fn code_that_another_key_signed_is_compiled_again() {
    let workshop = with_key();
    let first = machine(&workshop, &[], true);
    std::fs::write(workshop.path("key"), [8; 32]).unwrap();
    let other = machine(&workshop, &[], true);
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
