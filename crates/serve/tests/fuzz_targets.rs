//! The corpus of the fuzz targets, run again, as are damaged inputs.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod targets;

use proptest::prelude::*;
use std::path::Path;

/// The corpus of a target.
fn kept(target: &str) -> Vec<Vec<u8>> {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz");
    let mut inputs = Vec::new();
    for kind in ["seeds", "regressions"] {
        let entries = std::fs::read_dir(fuzz.join(kind).join(target)).unwrap();
        inputs.extend(entries.map(|entry| std::fs::read(entry.unwrap().path()).unwrap()));
    }
    assert!(inputs.len() >= 3, "{target} has seeds to start from");
    inputs.sort();
    inputs
}

#[test]
fn requests_that_were_kept_get_answers_of_the_protocol() {
    let answered = |target: fn(&[u8]) -> bool, name: &str| {
        let inputs = kept(name);
        inputs.iter().filter(|bytes| target(bytes)).count()
    };
    // Some inputs are valid, so that damage is not limited to the first few bytes.
    assert!(answered(targets::serve_http, "serve_http") >= 4);
    assert!(answered(targets::serve_grpc, "serve_grpc") >= 4);
}

/// An input with some bytes replaced and a range removed.
fn damaged() -> impl Strategy<Value = (usize, Vec<(usize, u8)>, usize)> {
    let bytes = prop::collection::vec((any::<usize>(), any::<u8>()), 0..4);
    (any::<usize>(), bytes, any::<usize>())
}

fn damage(inputs: &[Vec<u8>], (choice, bytes, cut): (usize, Vec<(usize, u8)>, usize)) -> Vec<u8> {
    let mut input = inputs[choice % inputs.len()].clone();
    for (place, byte) in bytes {
        let length = input.len().max(1);
        if let Some(found) = input.get_mut(place % length) {
            *found = byte;
        }
    }
    if cut % 4 == 0 {
        input.truncate(cut % (input.len() + 1));
    }
    input
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn damaged_requests_over_http_get_answers_of_the_protocol(choices in damaged()) {
        targets::serve_http(&damage(&kept("serve_http"), choices));
    }

    #[test]
    fn damaged_requests_over_grpc_get_answers_of_the_protocol(choices in damaged()) {
        targets::serve_grpc(&damage(&kept("serve_grpc"), choices));
    }

    #[test]
    fn any_bytes_get_answers_of_the_protocol(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        targets::serve_http(&bytes);
        targets::serve_grpc(&bytes);
    }
}
