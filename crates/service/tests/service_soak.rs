//! The service over a long time: kernels are compiled, stored, evicted and loaded again, and nothing grows.
//!
//! `KILN_SOAK_MINUTES` sets how long the ignored test runs; `cargo xtask soak --serve` runs it. The other test takes
//! seconds.

#![cfg(target_os = "linux")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    missing_docs,
    reason = "a test may panic, and prints what it measured"
)]

mod support;

use kiln::Tensor;
use kiln_service::{KernelRequest, KernelService, PackageStore, ServiceOptions};
use std::fs;
use std::sync::Arc;
use std::time::{Duration, Instant};
use support::{compiler, scaled, validator};

/// Blueprints that are requested in turn; all but a few are evicted from memory in the meantime.
const BLUEPRINTS: u32 = 6;

/// Resident bytes, open files and threads of this process.
fn held() -> (u64, usize, usize) {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident
        .unwrap()
        .trim()
        .trim_end_matches(" kB")
        .parse::<u64>();
    let count = |name: &str| fs::read_dir(format!("/proc/self/{name}")).unwrap().count();
    (resident.unwrap() << 10, count("fd"), count("task"))
}

fn soak(time: Duration) {
    let folder = tempfile::tempdir().unwrap();
    let options = ServiceOptions {
        max_kernels: 2,
        ..ServiceOptions::default()
    };
    let store = PackageStore::open(folder.path()).unwrap();
    let service = KernelService::start(compiler(validator(2)), store, options).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let blueprints: Vec<_> = (1..=BLUEPRINTS).map(scaled).collect();
    let x = Tensor::from_slice(&[3], &[1.0f32, -2.0, 0.5]).unwrap();
    let mut rounds = 0u64;
    let mut run = |time: Duration| {
        let begin = Instant::now();
        while begin.elapsed() < time {
            for (factor, blueprint) in (1..).zip(&blueprints) {
                let kernel =
                    runtime.block_on(service.get(KernelRequest::new("a", Arc::clone(blueprint))));
                let y = kernel.unwrap().model.run(std::slice::from_ref(&x)).unwrap();
                let factor = factor as f32;
                assert_eq!(
                    y[0].as_slice::<f32>().unwrap(),
                    [factor, -2.0 * factor, 0.5 * factor]
                );
            }
            // From time to time a package is lost, and compiled again.
            if rounds.is_multiple_of(16) {
                let keys = service.store().keys().unwrap();
                service.store().remove(&keys[0]).unwrap();
            }
            rounds += 1;
        }
    };
    run(time / 4);
    let before = held();
    run(time * 3 / 4);
    let after = held();
    println!(
        "{rounds} rounds: {before:?}, then {after:?}; {:?}",
        service.metrics()
    );
    assert!(service.metrics().compiles >= u64::from(BLUEPRINTS));
    assert_eq!(service.metrics().failures, 0);
    assert!(
        after.1 <= before.1 + 2 && after.2 <= before.2 + 2,
        "{before:?} {after:?}"
    );
    assert!(
        after.0 <= before.0 + before.0 / 10 + (16 << 20),
        "{before:?} {after:?}"
    );
}

#[test]
fn kernels_that_come_and_go_leave_nothing_behind() {
    soak(Duration::from_secs(12));
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak --serve`"]
fn a_long_soak_of_the_service() {
    let minutes = std::env::var("KILN_SOAK_MINUTES")
        .ok()
        .and_then(|text| text.parse().ok());
    soak(Duration::from_secs(60 * minutes.unwrap_or(10)));
}
