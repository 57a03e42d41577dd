//! Maxima, sums and means over windows of several axes.

use crate::peephole::{Rewrite, Site};
use kiln_ir::{Op, PoolFunction, Window};
use kiln_tensor::DType;

/// The minimum factor by which fewer elements must be read, since the intermediate results are written and read again.
const FEWER: i64 = 2;

/// Splits the maximum of a large window into maxima along one axis each: 5 x 5 elements become 5 and 5.
pub(super) fn separate_maximum(site: &mut Site<'_>) -> Option<Rewrite> {
    match function_of(site)? {
        PoolFunction::Max => separate(site),
        _ => None,
    }
}

/// Sums are split likewise, and means, whose elements are counted along each axis; but not those of 16-bit floats,
/// which would be rounded in between, nor means of integers, for the same reason.
pub(super) fn separate_sum(site: &mut Site<'_>) -> Option<Rewrite> {
    let is_wide = matches!(site.ty().dtype, DType::F32 | DType::F64);
    match function_of(site)? {
        PoolFunction::Max => None,
        _ if is_wide => separate(site),
        _ => None,
    }
}

fn function_of(site: &Site<'_>) -> Option<PoolFunction> {
    match site.op() {
        Op::Pool { function, .. } => Some(*function),
        _ => None,
    }
}

/// Outer axes come first, so that the contiguous one, whose strides would cost most, is left for the fewest elements.
fn separate(site: &mut Site<'_>) -> Option<Rewrite> {
    let (
        Op::Pool {
            function,
            size,
            window,
        },
        Some(operand),
    ) = (site.op(), site.operand())
    else {
        return None;
    };
    let first = size.iter().position(|&taps| taps > 1)?;
    let others = |numbers: &[i64]| {
        let others = numbers.iter().enumerate();
        product(others.filter(|(axis, _)| *axis != first).map(|(_, n)| *n))
    };
    // Per element of the result: before it, a maximum along the first axis for each step along the others.
    let before = size.get(first)?.checked_mul(others(&window.strides)?)?;
    let separate = before.checked_add(others(size)?)?.checked_mul(FEWER)?;
    if separate > product(size.iter().copied())? {
        return None;
    }
    let zero = site.dims_mut().constant(0);
    let mut ty = site.tensor(operand)?.clone();
    let spatial = ty.dims.len().checked_sub(size.len())? + first;
    *ty.dims.get_mut(spatial)? = *site.ty().dims.get(spatial)?;
    // The window only along the first axis, or only along the others.
    let part = |is_first: bool| {
        let (mut taps, mut part) = (size.clone(), window.clone());
        for axis in 0..taps.len() {
            if (axis == first) != is_first {
                taps[axis] = 1;
                part = without_axis(part, axis, zero);
            }
        }
        Op::Pool {
            function: *function,
            size: taps,
            window: part,
        }
    };
    let along_first = site.emit(part(true), [operand], ty);
    Some(Rewrite::op(part(false), [along_first]))
}

fn product(mut factors: impl Iterator<Item = i64>) -> Option<i64> {
    factors.try_fold(1_i64, |product, factor| product.checked_mul(factor))
}

/// A window that does not extend or move along an axis.
fn without_axis(mut window: Window, axis: usize, zero: kiln_symbolic_shape::DimId) -> Window {
    window.strides[axis] = 1;
    window.dilations[axis] = 1;
    window.low[axis] = zero;
    window.high[axis] = zero;
    window
}
