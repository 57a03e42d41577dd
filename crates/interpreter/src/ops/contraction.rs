//! The product of two matrices of accumulators, which matmul and both convolutions come down to.

use crate::element::Accumulator;
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2};

/// The sizes of a product: `[m, k]` times `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// Writes `left * right` over `result`, all row-major, by loops; integers wrap.
pub(crate) fn exact_product<A: Accumulator>(
    Product { m, k, n }: Product,
    left: &[A],
    right: &[A],
    result: &mut [A],
) {
    result[..m * n].fill(A::ZERO);
    if k == 0 || n == 0 {
        return;
    }
    for (row, result) in left.chunks_exact(k).zip(result.chunks_exact_mut(n)).take(m) {
        for (&factor, right) in row.iter().zip(right.chunks_exact(n)) {
            for (sum, &element) in result.iter_mut().zip(right) {
                *sum = sum.plus(factor.times(element));
            }
        }
    }
}

/// The same for `f64`, through a library, one thread; the order of summation is the library's.
pub(crate) fn float_product(
    Product { m, k, n }: Product,
    left: &[f64],
    right: &[f64],
    result: &mut [f64],
) {
    let left = ArrayView2::from_shape((m, k), &left[..m * k]);
    let right = ArrayView2::from_shape((k, n), &right[..k * n]);
    let result = ArrayViewMut2::from_shape((m, n), &mut result[..m * n]);
    match (left, right, result) {
        (Ok(left), Ok(right), Ok(mut result)) => {
            general_mat_mul(1.0, &left, &right, 0.0, &mut result)
        }
        _ => unreachable!("the slices were cut to the sizes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_agree_and_overwrite() {
        for (m, k, n) in [
            (0, 2, 3),
            (2, 0, 3),
            (2, 3, 0),
            (1, 1, 1),
            (3, 4, 5),
            (17, 9, 33),
        ] {
            let left: Vec<f64> = (0..m * k).map(|i| (i % 7) as f64 - 3.0).collect();
            let right: Vec<f64> = (0..k * n).map(|i| (i % 5) as f64 - 2.0).collect();
            let (mut exact, mut float) = (vec![f64::NAN; m * n], vec![f64::NAN; m * n]);
            exact_product(Product { m, k, n }, &left, &right, &mut exact);
            float_product(Product { m, k, n }, &left, &right, &mut float);
            assert_eq!(exact, float);
        }
    }
}
