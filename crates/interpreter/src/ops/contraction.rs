//! The product of two matrices of accumulators, to which matmul and both convolutions are reduced.

use crate::element::Accumulator;
use crate::fault::OpFault;
use crate::interrupt::{Interrupt, PIECE};
use ndarray::linalg::general_mat_mul;
use ndarray::{ArrayView2, ArrayViewMut2, Axis};

/// The sizes of a product: `[m, k]` times `[k, n]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Product {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// Multiplications between two stop checks.
const ASKED: usize = 1 << 22;

/// The maximum number of columns of a block of the result, and of indices of a block of the summed axis.
const BLOCK: usize = 1 << 12;

/// The number of columns that the library multiplies at once, and of indices that it sums over.
const PACKED: usize = 64;

/// The largest block of a product that is computed without a stop check: rows are split first. The right factor is
/// split only if the product of one row with all of it is too large.
pub(crate) fn block_of(Product { m, k, n }: Product) -> Product {
    let (depth, width) = match k.saturating_mul(n) <= ASKED {
        true => (k, n),
        false => (k.min(BLOCK), n.min(ASKED / k.min(BLOCK)).max(1)),
    };
    let rows = ASKED / depth.saturating_mul(width).max(1);
    Product {
        m: rows.clamp(1, m.max(1)),
        k: depth,
        n: width,
    }
}

/// Writes `left * right` over `result`, all row-major, in blocks of rows and columns, and of the summed axis if it is
/// long; checks between blocks whether to stop.
pub(crate) fn product<A: Accumulator>(
    interrupt: Interrupt<'_>,
    Product { m, k, n }: Product,
    left: &[A],
    right: &[A],
    result: &mut [A],
) -> Result<(), OpFault> {
    let whole = m.saturating_mul(k).saturating_mul(n);
    if whole <= ASKED {
        interrupt.work(whole >> 6)?;
        A::product(Product { m, k, n }, left, right, result);
        return Ok(());
    }
    let Product {
        m: rows,
        k: depth,
        n: width,
    } = block_of(Product { m, k, n });
    let is_cut = depth < k || width < n;
    let mut part = interrupt.filled(if is_cut { rows * width } else { 0 }, A::ZERO)?;
    let mut left_block = interrupt.filled(if is_cut { rows * depth } else { 0 }, A::ZERO)?;
    let mut right_block = interrupt.filled(if is_cut { depth * width } else { 0 }, A::ZERO)?;
    for (left, result) in left[..m * k]
        .chunks(rows * k)
        .zip(result.chunks_mut(rows * n))
    {
        let rows = left.len() / k;
        if !is_cut {
            interrupt.work(PIECE)?;
            A::product(Product { m: rows, k, n }, left, right, result);
            continue;
        }
        for column in (0..n).step_by(width) {
            let columns = column..n.min(column + width);
            for first in (0..k).step_by(depth) {
                interrupt.work(PIECE)?;
                let summed = first..k.min(first + depth);
                let size = Product {
                    m: rows,
                    k: summed.len(),
                    n: columns.len(),
                };
                let lefts = left.chunks_exact(k);
                for (to, from) in left_block.chunks_exact_mut(size.k).zip(lefts) {
                    to.copy_from_slice(&from[summed.clone()]);
                }
                let rights = right[summed.start * n..summed.end * n].chunks_exact(n);
                for (to, from) in right_block.chunks_exact_mut(size.n).zip(rights) {
                    to.copy_from_slice(&from[columns.clone()]);
                }
                A::product(size, &left_block, &right_block, &mut part);
                let parts = part.chunks_exact(size.n).take(rows);
                for (result, part) in result.chunks_exact_mut(n).zip(parts) {
                    let result = &mut result[columns.clone()];
                    for (sum, &part) in result.iter_mut().zip(part) {
                        *sum = if first == 0 { part } else { sum.plus(part) };
                    }
                }
            }
        }
    }
    Ok(())
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

/// The same for `f64`, with a library, on one thread; the order of summation is the library's.
///
/// The library packs both factors into a buffer that it allocates itself, and aborts the process if it cannot. It is
/// given blocks for which that buffer takes at most 64 KiB, for all sizes.
pub(crate) fn float_product(
    Product { m, k, n }: Product,
    left: &[f64],
    right: &[f64],
    result: &mut [f64],
) {
    let left = ArrayView2::from_shape((m, k), &left[..m * k]);
    let right = ArrayView2::from_shape((k, n), &right[..k * n]);
    let result = ArrayViewMut2::from_shape((m, n), &mut result[..m * n]);
    let (Ok(left), Ok(right), Ok(mut result)) = (left, right, result) else {
        unreachable!("the slices were cut to the sizes");
    };
    result.fill(0.0);
    let lefts = left.axis_chunks_iter(Axis(1), PACKED);
    for (left, right) in lefts.zip(right.axis_chunks_iter(Axis(0), PACKED)) {
        let results = result.axis_chunks_iter_mut(Axis(1), PACKED);
        for (right, mut result) in right.axis_chunks_iter(Axis(1), PACKED).zip(results) {
            general_mat_mul(1.0, &left, &right, 1.0, &mut result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_blocked_product_equals_the_plain_product() {
        for (m, k, n) in [
            (3, 3 * BLOCK + 7, 401),
            (1, 2, ASKED),
            (5000, 40, 33),
            (2, ASKED, 1),
        ] {
            let left: Vec<i64> = (0..m * k).map(|i| (i % 7) as i64 - 3).collect();
            let right: Vec<i64> = (0..k * n).map(|i| (i % 5) as i64 - 2).collect();
            let (mut whole, mut blocks) = (vec![7; m * n], vec![9; m * n]);
            exact_product(Product { m, k, n }, &left, &right, &mut whole);
            let size = Product { m, k, n };
            product(Interrupt::default(), size, &left, &right, &mut blocks).unwrap();
            assert!(whole == blocks, "{m} {k} {n}");
        }
    }

    #[test]
    fn exact_and_float_products_agree_and_overwrite_the_output() {
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
