//! Random numbers: in range, distributed as specified, and determined by the key.

use super::{one, run};
use crate::{ArgumentType, Var, trace};
use kiln_tensor::{DType, Tensor};

const COUNT: usize = 10_000;

fn key(low: u64, high: u64) -> Tensor {
    Tensor::from_slice(&[2], &[low, high]).unwrap()
}

fn integers(low: i64, high: i64) -> Vec<i64> {
    let draw = |key: Var| key.random_integers([COUNT], low, high);
    run(&draw, &[&key(1, 2)]).remove(0).to_vec().unwrap()
}

#[test]
fn integers_reach_every_number_of_their_range_alone() {
    let drawn = integers(-2, 5);
    for number in -2..5 {
        let found = drawn.iter().filter(|&&other| other == number).count();
        // Within 6 standard deviations.
        assert!(found.abs_diff(COUNT / 7) < 210, "{number}: {found}");
    }
    assert!(drawn.iter().all(|number| (-2..5).contains(number)));
    assert_eq!(integers(9, 10), vec![9; COUNT]);
    let wide = integers(0, i64::MAX);
    assert!(wide.iter().any(|&number| number > i64::MAX / 2));
    assert!(wide.iter().any(|&number| number % 2 == 1));
}

#[test]
fn an_empty_range_is_a_mistake() {
    for (low, high) in [(3, 3), (3, -3), (i64::MIN, i64::MAX)] {
        let draw = |key: Var| key.random_integers([4], low, high);
        let types = [ArgumentType::new(DType::U64, 1)];
        let error = trace("f", &draw, &types).unwrap_err();
        assert_eq!(error.code(), "E0333");
        assert!(error.to_string().contains("random.rs:"), "{error}");
    }
}

#[test]
fn normal_numbers_have_their_moments() {
    let draw = |key: Var| key.random_normal([COUNT]);
    let drawn = one(&draw, &[&key(7, 0)]);
    let moment = |power: i32| {
        let powers = drawn.iter().map(|&x| f64::from(x).powi(power));
        powers.sum::<f64>() / COUNT as f64
    };
    assert!(drawn.iter().all(|x| x.is_finite()));
    // The deviations of these means are 0.01, 0.014, 0.039 and 0.098.
    assert!(moment(1).abs() < 0.05, "{}", moment(1));
    assert!((moment(2) - 1.0).abs() < 0.07, "{}", moment(2));
    assert!(moment(3).abs() < 0.2, "{}", moment(3));
    assert!((moment(4) - 3.0).abs() < 0.5, "{}", moment(4));
}

#[test]
fn keys_made_of_a_key_differ_and_are_always_the_same() {
    let split = |key: Var| key.split_key(64);
    let keys = run(&split, &[&key(1, 2)]).remove(0);
    assert_eq!((keys.dtype(), keys.shape()), (DType::U64, &[64, 2][..]));
    let words: Vec<u64> = keys.to_vec().unwrap();
    let mut sorted = words.clone();
    sorted.sort_unstable();
    sorted.dedup();
    assert_eq!(sorted.len(), 128);
    let again: Vec<u64> = run(&split, &[&key(1, 2)]).remove(0).to_vec().unwrap();
    assert_eq!(words, again);
    let other: Vec<u64> = run(&split, &[&key(1, 3)]).remove(0).to_vec().unwrap();
    assert!(words.iter().all(|word| !other.contains(word)));
    let draw = |key: Var| {
        let keys = key.split_key(2);
        let draw = |at: i64| keys.index(0, at).random_uniform([8]);
        (draw(0), draw(1))
    };
    let drawn = run(&draw, &[&key(1, 2)]);
    assert!(!drawn[0].bit_equal(&drawn[1]));
}
