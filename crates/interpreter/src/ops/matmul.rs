//! Matrix products: floats in `f64`, rounded once; integers exactly, wrapping in the result's dtype.

use super::contraction::{self, Product};
use super::elementwise::cast;
use crate::context::{EvaluateContext, Shape};
use crate::element::{Accumulator, Number};
use crate::fault::OpFault;
use crate::interrupt::Interrupt;
use kiln_tensor::{DType, Offsets, Tensor, match_dtype, row_major_strides};
use std::ops::Range;

/// The number of rows of the left operand that are widened at a time.
const ROWS: usize = 1024;

/// `[batch.., M, K], [batch.., K, N] -> [batch.., M, N]`.
pub(crate) fn matmul(
    ctx: &EvaluateContext<'_>,
    left: &Tensor,
    right: &Tensor,
    out: DType,
) -> Result<Tensor, OpFault> {
    let ([left_batch @ .., m, k], [right_batch @ .., right_k, n]) = (left.shape(), right.shape())
    else {
        let ranks = (left.rank(), right.rank());
        return Err(OpFault::malformed(format!(
            "expected operands of rank 2 or more, found {} and {}",
            ranks.0, ranks.1
        )));
    };
    if k != right_k {
        return Err(OpFault::SizeMismatch {
            what: "inner axes",
            left: ctx.describe(0, left),
            left_size: *k,
            right: ctx.describe(1, right),
            right_size: *right_k,
        });
    }
    let batch = broadcast_batch(left_batch, right_batch).ok_or_else(|| OpFault::Broadcast {
        left: ctx.describe(0, left),
        right: ctx.describe(1, right),
    })?;
    let shape: Shape = batch.iter().copied().chain([*m, *n]).collect();
    let mut result = Tensor::zeros(ctx.dtype(out), &shape)?;
    if result.is_empty() || *k == 0 {
        return Ok(result);
    }
    // A single matrix on the right is multiplied with all rows of the left at once.
    let (batch, m) = if right_batch.iter().all(|&size| size == 1) {
        (Shape::new(), left.len() / k)
    } else {
        (batch, *m)
    };
    let product = Product { m, k: *k, n: *n };
    let left_starts = Offsets::new(&batch, &batch_strides(&batch, left.shape()), 0);
    let right_starts = Offsets::new(&batch, &batch_strides(&batch, right.shape()), 0);
    let (left, right) = (
        ctx.dense(&cast(ctx, left, out)?)?,
        ctx.dense(&cast(ctx, right, out)?)?,
    );
    match_dtype!(result.dtype(), T => {
        let pairs = left_starts.zip(right_starts);
        multiply_pairs::<T>(ctx.interrupt(), product, left.as_slice::<T>()?, right.as_slice::<T>()?, pairs, result.as_mut_slice::<T>()?)?;
    });
    Ok(result)
}

/// The product of each pair of matrices, given by their offsets; block by block, so that little is widened at a time.
fn multiply_pairs<T: Number>(
    interrupt: Interrupt<'_>,
    product: Product,
    left: &[T],
    right: &[T],
    pairs: impl Iterator<Item = (usize, usize)>,
    result: &mut [T],
) -> Result<(), OpFault> {
    let Product { m, k, n } = product;
    let block = contraction::block_of(Product {
        m: m.min(ROWS),
        ..product
    });
    let mut wide_left = interrupt.filled(block.m * block.k, T::Wide::ZERO)?;
    let mut wide_right = interrupt.filled(block.k * block.n, T::Wide::ZERO)?;
    let mut part = interrupt.filled(block.m * block.n, T::Wide::ZERO)?;
    let mut sums = interrupt.filled(block.m * block.n, T::Wide::ZERO)?;
    for ((left_start, right_start), result) in pairs.zip(result.chunks_exact_mut(m * n)) {
        let (left, right) = (&left[left_start..], &right[right_start..]);
        let has_all_of_right = block.k == k && block.n == n;
        if has_all_of_right {
            interrupt.widen(&mut wide_right, &right[..k * n])?;
        }
        for row in (0..m).step_by(block.m) {
            for column in (0..n).step_by(block.n) {
                let (rows, columns) = (row..m.min(row + block.m), column..n.min(column + block.n));
                for first in (0..k).step_by(block.k) {
                    let summed = first..k.min(first + block.k);
                    let size = Product {
                        m: rows.len(),
                        k: summed.len(),
                        n: columns.len(),
                    };
                    widen_block(interrupt, &mut wide_left, left, k, &rows, &summed)?;
                    if !has_all_of_right {
                        widen_block(interrupt, &mut wide_right, right, n, &summed, &columns)?;
                    }
                    let to = if first == 0 { &mut sums } else { &mut part };
                    contraction::product(interrupt, size, &wide_left, &wide_right, to)?;
                    if first > 0 {
                        let parts = part.iter().take(size.m * size.n);
                        for (sum, &part) in sums.iter_mut().zip(parts) {
                            *sum = sum.plus(part);
                        }
                    }
                }
                let sums = sums.chunks_exact(columns.len());
                let results = result[rows.start * n..rows.end * n].chunks_exact_mut(n);
                for (result, sums) in results.zip(sums) {
                    interrupt.narrow(&mut result[columns.clone()], sums)?;
                }
            }
        }
    }
    Ok(())
}

/// Widens some rows and columns of a row-major matrix of `width` columns.
fn widen_block<T: Number>(
    interrupt: Interrupt<'_>,
    to: &mut [T::Wide],
    from: &[T],
    width: usize,
    rows: &Range<usize>,
    columns: &Range<usize>,
) -> Result<(), OpFault> {
    if columns.len() == width {
        let elements = &from[rows.start * width..rows.end * width];
        return interrupt.widen(&mut to[..elements.len()], elements);
    }
    let from = from[rows.start * width..rows.end * width].chunks_exact(width);
    for (to, from) in to.chunks_exact_mut(columns.len()).zip(from) {
        interrupt.widen(to, &from[columns.clone()])?;
    }
    Ok(())
}

/// All elements, widened.
pub(crate) fn widened<T: Number>(
    interrupt: Interrupt<'_>,
    elements: &[T],
) -> Result<Vec<T::Wide>, OpFault> {
    interrupt.collect(
        elements.len(),
        elements.iter().map(|element| element.to_wide()),
    )
}

fn broadcast_batch(left: &[usize], right: &[usize]) -> Option<Shape> {
    let rank = left.len().max(right.len());
    let size = |batch: &[usize], axis: usize| {
        (axis + batch.len())
            .checked_sub(rank)
            .map_or(1, |at| batch[at])
    };
    let sizes = (0..rank).map(|axis| match (size(left, axis), size(right, axis)) {
        (1, size) | (size, 1) => Some(size),
        (left, right) => (left == right).then_some(left),
    });
    sizes.collect()
}

/// The distance between an operand's matrices along each batch axis, 0 where they repeat.
fn batch_strides(batch: &[usize], shape: &[usize]) -> Vec<isize> {
    let strides = row_major_strides(shape);
    let stride = |axis: usize| {
        let at = (axis + shape.len() - 2).checked_sub(batch.len())?;
        (shape[at] != 1).then_some(strides[at])
    };
    (0..batch.len())
        .map(|axis| stride(axis).unwrap_or(0))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::testing::{TestSizes, counting, tensor};
    use kiln_ir::Op;
    use kiln_tensor::f16;
    use proptest::prelude::*;

    fn run(left: &Tensor, right: &Tensor, out: DType) -> Result<Tensor, OpFault> {
        TestSizes::new().run(&Op::Matmul { out }, &[left.clone(), right.clone()])
    }

    #[test]
    fn integers_are_exact_and_wrap() {
        let left = tensor(&[1, 2], &[100i8, 100]);
        let right = tensor(&[2, 1], &[100i8, 27]);
        assert_eq!(
            run(&left, &right, DType::I32)
                .unwrap()
                .to_vec::<i32>()
                .unwrap(),
            [12700]
        );
        assert_eq!(
            run(&left, &right, DType::I8)
                .unwrap()
                .to_vec::<i8>()
                .unwrap(),
            [12700i32 as i8]
        );
        let big = tensor(&[1, 1], &[i64::MAX]);
        assert_eq!(
            run(&big, &big, DType::I64)
                .unwrap()
                .to_vec::<i64>()
                .unwrap(),
            [1]
        );
    }

    #[test]
    fn floats_are_rounded_once() {
        let left = tensor(&[1, 3], &[f16::from_f32(2048.0), f16::ONE, f16::ONE]);
        let right = Tensor::full(&[3, 1], f16::ONE).unwrap();
        assert_eq!(
            run(&left, &right, DType::F16)
                .unwrap()
                .to_vec::<f16>()
                .unwrap(),
            [f16::from_f32(2050.0)]
        );
        let left = tensor(&[1, 2], &[f32::INFINITY, 1.0]);
        let right = tensor(&[2, 2], &[0.0f32, 1.0, 1.0, 1.0]);
        let product = run(&left, &right, DType::F32)
            .unwrap()
            .to_vec::<f32>()
            .unwrap();
        assert!(product[0].is_nan() && product[1] == f32::INFINITY);
    }

    #[test]
    fn matmul_of_empty_operands() {
        let empty = |shape: &[usize]| Tensor::zeros(DType::F32, shape).unwrap();
        assert_eq!(
            run(&empty(&[2, 0]), &empty(&[0, 3]), DType::F32)
                .unwrap()
                .to_vec::<f32>()
                .unwrap(),
            [0.0; 6]
        );
        assert_eq!(
            run(&empty(&[0, 2]), &empty(&[2, 3]), DType::F32)
                .unwrap()
                .shape(),
            [0, 3]
        );
        assert_eq!(
            run(&empty(&[0, 2, 2]), &empty(&[1, 2, 3]), DType::F32)
                .unwrap()
                .shape(),
            [0, 2, 3]
        );
    }

    #[test]
    fn matmul_errors_name_the_mismatched_sizes() {
        let fault = run(&counting(&[2, 3]), &counting(&[2, 3]), DType::F32).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "expected inner axes of equal size, found 3 in operand 0 f32[2, 3] and 2 in operand 1 f32[2, 3]"
        );
        let fault = run(&counting(&[2, 2, 3]), &counting(&[4, 3, 2]), DType::F32).unwrap_err();
        assert_eq!(
            fault.to_string(),
            "cannot broadcast operand 0 f32[2, 2, 3] with operand 1 f32[4, 3, 2]"
        );
        assert_eq!(
            run(&counting(&[3]), &counting(&[3]), DType::F32)
                .unwrap_err()
                .code(),
            "E0829"
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn products_equal_the_definition(
            batch in prop::collection::vec((1usize..3, 0usize..3), 0..3),
            (m, k, n) in (0usize..4, 0usize..4, 0usize..4),
            transposed: bool,
        ) {
            // Each batch axis: a size, and which operand has 1 there instead.
            let side = |which| -> Vec<usize> {
                batch.iter().map(|&(size, one)| if one == which { 1 } else { size }).collect()
            };
            let left = counting(&[side(1), vec![m, k]].concat());
            let mut right = counting(&[side(2), if transposed { vec![n, k] } else { vec![k, n] }].concat());
            if transposed {
                let rank = right.rank();
                let permutation: Vec<usize> = (0..rank - 2).chain([rank - 1, rank - 2]).collect();
                right = right.transpose(&permutation).unwrap();
            }
            let result = run(&left, &right, DType::F32).unwrap();
            let full: Vec<usize> = batch.iter().map(|&(size, _)| size).collect();
            prop_assert_eq!(result.shape(), &[full.clone(), vec![m, n]].concat()[..]);
            let left = left.broadcast_to(&[full.clone(), vec![m, k]].concat()).unwrap().to_vec::<f32>().unwrap();
            let right = right.broadcast_to(&[full, vec![k, n]].concat()).unwrap().to_vec::<f32>().unwrap();
            for (index, found) in result.to_vec::<f32>().unwrap().into_iter().enumerate() {
                let (matrix, row, column) = (index / (m * n), index / n % m, index % n);
                let expected: f32 = (0..k)
                    .map(|at| left[(matrix * m + row) * k + at] * right[(matrix * k + at) * n + column])
                    .sum();
                prop_assert_eq!(found, expected);
            }
        }
    }
}
