//! Tokens are sampled with the probabilities that the options specify, and compiled code makes the same choices as the
//! interpreter.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::decode::{Sampler, Sampling};
use kiln::{Cache, Device, Options, Tensor};

fn sampler(sampling: Sampling, device: Device) -> Sampler {
    let options = Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off());
    Sampler::new(sampling, &options).unwrap()
}

/// Irregular logits between -4 and 4.
fn logits(rows: usize, vocabulary: usize) -> Tensor {
    let elements = (0..rows * vocabulary).map(|k| (k * 7919 + 13) as u64 % 1009);
    let elements = elements.map(|k| k as f32 / 126.0 - 4.0).collect();
    Tensor::from_vec(&[rows, vocabulary], elements).unwrap()
}

/// The share of draws of each token, given these probabilities.
fn shares(sampling: Sampling, probabilities: &[f32]) -> Vec<f64> {
    const DRAWS: usize = 40_000;
    let row: Vec<f32> = probabilities.iter().map(|p| p.ln()).collect();
    let all = Tensor::from_vec(&[DRAWS, row.len()], row.repeat(DRAWS)).unwrap();
    let mut counts = vec![0_usize; row.len()];
    for token in sampler(sampling, Device::cpu()).sample(&all).unwrap() {
        counts[usize::try_from(token).unwrap()] += 1;
    }
    counts
        .iter()
        .map(|&count| count as f64 / DRAWS as f64)
        .collect()
}

/// Six standard deviations of a share over 40,000 draws are less than this.
const TOLERANCE: f64 = 0.015;

fn check(sampling: Sampling, expected: &[f64]) {
    let found = shares(sampling, &[0.4, 0.3, 0.2, 0.08, 0.02]);
    for (found, &expected) in found.iter().zip(expected) {
        assert!(
            (found - expected).abs() < TOLERANCE,
            "{sampling:?}: {found} for {expected}"
        );
        assert_eq!(
            expected == 0.0,
            *found == 0.0,
            "{sampling:?}: {found} for {expected}"
        );
    }
}

#[test]
fn tokens_come_with_their_probabilities() {
    check(Sampling::new(), &[0.4, 0.3, 0.2, 0.08, 0.02]);
    check(Sampling::new().seed(99), &[0.4, 0.3, 0.2, 0.08, 0.02]);
    // The probabilities squared, and normalised.
    let sum = 0.16 + 0.09 + 0.04 + 0.0064 + 0.0004;
    let squared = [0.16, 0.09, 0.04, 0.0064, 0.0004].map(|p: f64| p / sum);
    check(Sampling::new().temperature(0.5), &squared);
}

#[test]
fn only_what_is_kept_is_drawn() {
    check(
        Sampling::new().top_k(2),
        &[4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0],
    );
    check(Sampling::new().top_k(9), &[0.4, 0.3, 0.2, 0.08, 0.02]);
    // With the third one, the sum reaches 0.8.
    check(
        Sampling::new().top_p(0.8),
        &[4.0 / 9.0, 3.0 / 9.0, 2.0 / 9.0, 0.0, 0.0],
    );
    check(Sampling::new().top_p(0.0), &[1.0, 0.0, 0.0, 0.0, 0.0]);
    // Of the two that are kept, 0.57 and 0.43, both are needed to reach 0.6.
    check(
        Sampling::new().top_k(2).top_p(0.6),
        &[4.0 / 7.0, 3.0 / 7.0, 0.0, 0.0, 0.0],
    );
    check(
        Sampling::new().top_k(2).top_p(0.5),
        &[1.0, 0.0, 0.0, 0.0, 0.0],
    );
    check(Sampling::greedy(), &[1.0, 0.0, 0.0, 0.0, 0.0]);
    check(
        Sampling::new().temperature(f32::NAN),
        &[1.0, 0.0, 0.0, 0.0, 0.0],
    );
}

#[test]
fn compiled_code_chooses_as_the_interpreter() {
    let ways = [
        Sampling::greedy(),
        Sampling::new().seed(1),
        Sampling::new().temperature(2.0).seed(2),
        Sampling::new().top_k(5).seed(3),
        Sampling::new().top_p(0.7).seed(4),
        Sampling::new().temperature(0.7).top_k(7).top_p(0.9).seed(5),
    ];
    for sampling in ways {
        let mut compiled = sampler(sampling, Device::cpu());
        let mut interpreted = sampler(sampling, Device::interpreter());
        for (rows, vocabulary) in [(1, 1), (1, 2), (3, 7), (2, 33), (1, 1000), (0, 5)] {
            let logits = logits(rows, vocabulary);
            let expected = interpreted.sample(&logits).unwrap();
            assert_eq!(compiled.sample(&logits).unwrap(), expected, "{sampling:?}");
            assert_eq!(expected.len(), rows);
        }
    }
}

#[test]
fn the_seed_and_the_number_of_the_draw_decide() {
    let logits = logits(1, 1000);
    let draw = |seed| {
        let mut sampler = sampler(Sampling::new().seed(seed), Device::cpu());
        let tokens = (0..8).map(|_| sampler.sample(&logits).unwrap()[0]);
        tokens.collect::<Vec<i64>>()
    };
    assert_eq!(draw(7), draw(7));
    assert_ne!(draw(7), draw(8));
    let first = draw(7);
    assert!(first.iter().any(|token| *token != first[0]));
}

#[test]
fn tokens_that_are_ruled_out_are_never_chosen() {
    let row = [f32::NEG_INFINITY, 0.0, f32::NEG_INFINITY, 1.0];
    let all = Tensor::from_vec(&[500, 4], row.repeat(500)).unwrap();
    for sampling in [
        Sampling::new(),
        Sampling::new().top_k(3),
        Sampling::new().top_p(0.99),
    ] {
        let tokens = sampler(sampling, Device::cpu()).sample(&all).unwrap();
        assert!(tokens.iter().all(|token| token % 2 == 1), "{sampling:?}");
    }
}
