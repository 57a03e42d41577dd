//! Moments of the distributions, and rejected arguments.

use super::Initial;
use kiln::DType;
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn drawn(initial: Initial, shape: &[usize]) -> Vec<f64> {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let tensor = initial.tensor(DType::F64, shape, &mut random);
    tensor
        .expect("its numbers make sense")
        .expect("it has memory")
        .to_vec()
        .expect("it is f64")
}

fn variance(elements: &[f64]) -> f64 {
    let mean = elements.iter().sum::<f64>() / elements.len() as f64;
    assert!(mean.abs() < 0.02, "mean {mean}");
    let squares = elements.iter().map(|element| (element - mean).powi(2));
    squares.sum::<f64>() / elements.len() as f64
}

#[test]
fn variances_are_those_of_the_papers() {
    let (fan_in, fan_out) = (20, 12);
    let cases = [
        (Initial::Uniform(0.5), 0.25 / 3.0),
        (Initial::Normal(0.5), 0.25),
        (Initial::Glorot { fan_in, fan_out }, 2.0 / 32.0),
        (Initial::GlorotNormal { fan_in, fan_out }, 2.0 / 32.0),
        (Initial::He { fan_in }, 0.1),
        (Initial::HeUniform { fan_in }, 0.1),
        // 1 - 2 a phi(a) / (2 Phi(a) - 1) with a = 2.
        (
            Initial::TruncatedNormal {
                deviation: 1.0,
                limit: 2.0,
            },
            0.7737,
        ),
        // Nearly uniform.
        (
            Initial::TruncatedNormal {
                deviation: 2.0,
                limit: 0.1,
            },
            0.04 / 3.0,
        ),
    ];
    for (initial, expected) in cases {
        let found = variance(&drawn(initial, &[200, 200]));
        assert!(
            (found / expected - 1.0).abs() < 0.04,
            "{initial:?}: {found}, expected {expected}"
        );
    }
    let limit = drawn(
        Initial::TruncatedNormal {
            deviation: 3.0,
            limit: 2.0,
        },
        &[10_000],
    );
    assert!(limit.iter().all(|element| element.abs() <= 6.0));
    assert_eq!(drawn(Initial::ZEROS, &[2]), [0.0, 0.0]);
    assert_eq!(drawn(Initial::ONES, &[2]), [1.0, 1.0]);
}

#[test]
fn orthogonal_rows_or_columns_are_orthonormal() {
    for shape in [[5, 5], [3, 8], [8, 3], [1, 4], [0, 3]] {
        let [rows, columns] = shape;
        let matrix = drawn(Initial::Orthogonal(2.0), &shape);
        let along = |index: usize, at: usize| match rows <= columns {
            true => matrix[index * columns + at],
            false => matrix[at * columns + index],
        };
        for left in 0..rows.min(columns) {
            for right in 0..rows.min(columns) {
                let product: f64 = (0..rows.max(columns))
                    .map(|at| along(left, at) * along(right, at))
                    .sum();
                let expected = if left == right { 4.0 } else { 0.0 };
                assert!((product - expected).abs() < 1e-12, "{shape:?}: {product}");
            }
        }
    }
    // A convolution's kernel is one row per output channel.
    assert_eq!(drawn(Initial::Orthogonal(1.0), &[4, 2, 3, 3]).len(), 72);
}

#[test]
fn numbers_without_a_meaning_are_refused() {
    let mut random = ChaCha8Rng::seed_from_u64(7);
    let mut refused = |initial: Initial, shape: &[usize]| {
        initial.tensor(DType::F32, shape, &mut random).map(|_| ())
    };
    let number = Err("a finite number of 0 or more");
    assert_eq!(refused(Initial::Normal(-1.0), &[2]), number);
    assert_eq!(refused(Initial::Uniform(f64::NAN), &[2]), number);
    assert_eq!(refused(Initial::Orthogonal(f64::INFINITY), &[2, 2]), number);
    let truncated = Initial::TruncatedNormal {
        deviation: 1.0,
        limit: 0.0,
    };
    assert_eq!(
        refused(truncated, &[2]),
        Err("a finite limit of more than 0")
    );
    let axes = Err("a parameter of two axes or more");
    assert_eq!(refused(Initial::Orthogonal(1.0), &[2]), axes);
    assert_eq!(refused(Initial::Orthogonal(1.0), &[]), axes);
}
