//! NCCL in users' environments: without the library, and, if there are GPUs, with it.

#![cfg(feature = "nccl")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test may panic and print"
)]

use kiln_train::parallel::nccl::{Nccl, UniqueId};
use kiln_train::parallel::{Collective, LocalGroup, Numbers};
use std::process::Command;

/// A location without the library.
const PLACE: &str = "KILN_NCCL";

/// Set in the process that has no library.
const WITHOUT: &str = "KILN_TEST_WITHOUT_NCCL";

#[test]
fn a_missing_library_is_an_error_that_names_the_places_and_the_next_step() {
    if std::env::var_os(WITHOUT).is_none() {
        let test = "a_missing_library_is_an_error_that_names_the_places_and_the_next_step";
        let status = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(WITHOUT, "1")
            .env(PLACE, "/does/not/exist")
            .status();
        assert!(status.unwrap().success());
        return;
    }
    let id = UniqueId::from_bytes([1; 128]);
    let group = LocalGroup::ranks(1).remove(0);
    let errors = [
        Nccl::unique_id().unwrap_err(),
        Nccl::start(&id, 0, 1, 0).unwrap_err(),
        Nccl::start_over(&group, 0).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(
            error.to_string(),
            "expected NCCL (libnccl.so.2), found none that can be used: /does/not/exist (does not exist); install \
             `nvidia-nccl-cu12` with pip or the package `libnccl2`, or set KILN_NCCL to the library"
        );
    }
}

/// Sums and broadcasts over all GPUs that are present, up to eight.
#[test]
fn gpus_that_are_there_sum_and_broadcast() {
    let id = match Nccl::unique_id() {
        Ok(id) => id,
        Err(error) => return eprintln!("skipped: {error}"),
    };
    if let Err(error) = Nccl::start(&id, 0, 1, 0) {
        return eprintln!("skipped: {error}");
    }
    // A number that no machine has is an error too.
    assert!(Nccl::start(&id, 0, 1, 1 << 20).is_err());
    let is_there = |device: &u32| {
        let id = Nccl::unique_id().unwrap();
        Nccl::start(&id, 0, 1, *device).is_ok()
    };
    let size = (0..8).take_while(is_there).count();
    let id = Nccl::unique_id().unwrap();
    std::thread::scope(|threads| {
        for rank in 0..size {
            let id = &id;
            threads.spawn(move || {
                let nccl = Nccl::start(id, rank, size, rank as u32).unwrap();
                let count = (5 << 20) + 3;
                let mut numbers = vec![rank as f32 + 0.5; count];
                nccl.all_reduce(Numbers::F32(&mut numbers)).unwrap();
                let sum = (0..size).map(|rank| rank as f32 + 0.5).sum::<f32>();
                assert!(numbers.iter().all(|&number| number == sum));
                let mut bytes = vec![rank as u8; 100];
                nccl.broadcast(&mut bytes, size - 1).unwrap();
                assert_eq!(bytes, vec![(size - 1) as u8; 100]);
            });
        }
    });
}
