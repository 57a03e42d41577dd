//! Building blocks of gradients: zeros, sums to a smaller shape, transposes of slices and gathers.

use crate::Result;
use kiln_ir::{Combine, Dims, PadMode, ValueId};
use kiln_shape_inference::{GraphBuilder, InferError};
use kiln_symbolic_shape::{DimId, Predicate, Proof};
use kiln_tensor::DType;

/// Zeros of these sizes.
pub(crate) fn zeros(b: &mut GraphBuilder, dtype: DType, dims: &[DimId]) -> Result<ValueId> {
    let zero = b.scalar(dtype, 0.0)?;
    Ok(b.broadcast_to(zero, dims)?)
}

/// Zeros of a value's type.
pub(crate) fn zeros_like(b: &mut GraphBuilder, value: ValueId) -> Result<ValueId> {
    let ty = b.tensor(value)?;
    zeros(b, ty.dtype, &ty.dims)
}

/// `x` where the condition is true, otherwise zero.
pub(crate) fn keep_where(
    b: &mut GraphBuilder,
    condition: ValueId,
    x: ValueId,
) -> Result<ValueId, InferError> {
    let zero = b.scalar(b.dtype(x)?, 0.0)?;
    b.select(condition, x, zero)
}

/// A cotangent times a slope; `guard` keeps a zero of the cotangent zero where the slope may be infinite.
pub(crate) fn times(
    b: &mut GraphBuilder,
    cotangent: ValueId,
    slope: ValueId,
    guard: bool,
) -> Result<ValueId, InferError> {
    match guard {
        true => b.map("mul_no_nan", &[cotangent, slope]),
        false => b.mul(cotangent, slope),
    }
}

/// Whether two sizes are proved to be equal.
pub(crate) fn is_same(b: &GraphBuilder, left: DimId, right: DimId) -> bool {
    left == right || b.dims().equal(left, right) == Proof::Proved
}

/// A product of sizes as a scalar of a dtype.
pub(crate) fn number_of(b: &mut GraphBuilder, sizes: &[DimId], dtype: DType) -> Result<ValueId> {
    let product = b.dims_mut().product(sizes)?;
    let vector = b.dims_tensor(&[product])?;
    let scalar = b.reshape(vector, &[])?;
    Ok(b.cast(scalar, dtype)?)
}

/// The transpose of a broadcast: `x` summed to sizes that broadcast to its own, whether or not it is known which are 1.
pub(crate) fn sum_to(b: &mut GraphBuilder, x: ValueId, dims: &[DimId]) -> Result<ValueId> {
    let from = b.shape(x)?;
    let one = b.size(1);
    let missing = from.len().saturating_sub(dims.len());
    let mut split = Dims::new();
    let mut summed: Vec<usize> = Vec::new();
    for (axis, &size) in from.iter().enumerate() {
        let target = axis.checked_sub(missing).and_then(|axis| dims.get(axis));
        match target.copied() {
            None => {
                summed.push(split.len());
                split.push(size);
            }
            Some(target) if is_same(b, target, size) => split.push(size),
            Some(target) if is_same(b, target, one) => {
                summed.push(split.len());
                split.push(size);
            }
            // The size is equal or 1, which only a call decides: the axis is split into `target` parts of `size /
            // target` elements.
            Some(target) => {
                let divisor = b.dims_mut().max(target, one)?;
                let part = b.dims_mut().floor_div(size, divisor)?;
                split.push(target);
                summed.push(split.len());
                split.push(part);
            }
        }
    }
    let x = b.reshape(x, &split)?;
    let x = if summed.is_empty() {
        x
    } else {
        b.reduce_sum(x, &summed, false)?
    };
    Ok(b.reshape(x, dims)?)
}

/// The transpose of a slice of one axis: `x` at `start`, `start + step`, … of an axis of `size` zeros.
pub(crate) fn place_along(
    b: &mut GraphBuilder,
    x: ValueId,
    axis: usize,
    (start, step): (DimId, i64),
    size: DimId,
) -> Result<ValueId> {
    let own = b.shape(x)?;
    let count = own[axis];
    let (zero, one) = (b.size(0), b.size(1));
    if start == zero && step == 1 && is_same(b, count, size) {
        return Ok(x);
    }
    let steps = b.dims_mut().sub(count, one)?;
    let (mut x, mut start) = (x, start);
    if step < 0 {
        x = b.reverse(x, axis)?;
        let each = b.size(step);
        let reach = b.dims_mut().mul(steps, each)?;
        start = b.dims_mut().add(start, reach)?;
    }
    let stride = step.saturating_abs();
    let mut span = count;
    if stride != 1 {
        let each = b.size(stride);
        let reach = b.dims_mut().mul(steps, each)?;
        let reach = b.dims_mut().add(reach, one)?;
        span = b.dims_mut().max(reach, zero)?;
        x = dilate(b, x, axis, stride, span)?;
    }
    let end = b.dims_mut().add(start, span)?;
    let dims = b.dims();
    let is_inside = dims.prove(&Predicate::LessEqual(zero, start)) == Proof::Proved
        && dims.prove(&Predicate::LessEqual(end, size)) == Proof::Proved;
    if !is_inside {
        // A slice of no elements may start anywhere.
        let last = b.dims_mut().sub(size, span)?;
        let start_below = b.dims_mut().min(start, last)?;
        start = b.dims_mut().max(start_below, zero)?;
    }
    let end = b.dims_mut().add(start, span)?;
    let rest = b.dims_mut().sub(size, end)?;
    pad_axis(b, x, axis, start, rest)
}

/// Dilates an axis: inserts zeros so that its elements are `stride` apart, and truncates it to `span` elements.
fn dilate(
    b: &mut GraphBuilder,
    x: ValueId,
    axis: usize,
    stride: i64,
    span: DimId,
) -> Result<ValueId> {
    let own = b.shape(x)?;
    let zero = b.size(0);
    let split = b.unsqueeze(x, &[axis + 1])?;
    let gap = b.size(stride - 1);
    let padded = pad_axis(b, split, axis + 1, zero, gap)?;
    let each = b.size(stride);
    let mut merged = own.clone();
    merged[axis] = b.dims_mut().mul(own[axis], each)?;
    let merged = b.reshape(padded, &merged)?;
    Ok(b.slice_axis(merged, axis, zero, span)?)
}

/// Pads an axis with zeros before and after its elements.
pub(crate) fn pad_axis(
    b: &mut GraphBuilder,
    x: ValueId,
    axis: usize,
    low: DimId,
    high: DimId,
) -> Result<ValueId> {
    let zero = b.size(0);
    if low == zero && high == zero {
        return Ok(x);
    }
    let rank = b.rank(x)?;
    let mut lows: Dims = (0..rank).map(|_| zero).collect();
    let mut highs = lows.clone();
    lows[axis] = low;
    highs[axis] = high;
    let value = b.scalar(b.dtype(x)?, 0.0)?;
    Ok(b.pad(x, value, &lows, &highs, PadMode::Constant)?)
}

/// The transpose of a gather along `axis`: zeros of `dims`, to which the parts of `x` are added at `indices: int[i..]`. `x`
/// has the axes of `indices` in place of `axis`.
pub(crate) fn scatter_along(
    b: &mut GraphBuilder,
    x: ValueId,
    indices: ValueId,
    axis: usize,
    dims: &[DimId],
) -> Result<ValueId> {
    let n_indices = b.rank(indices)?;
    // The indexed axis is moved to the front, since scatters address leading axes.
    let rank = b.rank(x)?;
    let front: Vec<usize> = (axis..axis + n_indices)
        .chain(0..axis)
        .chain(axis + n_indices..rank)
        .collect();
    let updates = b.transpose(x, &front)?;
    let mut front_dims = Dims::new();
    front_dims.push(dims[axis]);
    front_dims.extend(
        (0..dims.len())
            .filter(|&other| other != axis)
            .map(|other| dims[other]),
    );
    let target = zeros(b, b.dtype(x)?, &front_dims)?;
    let addresses = b.unsqueeze(indices, &[n_indices])?;
    let placed = b.scatter_nd(target, addresses, updates, Combine::Add)?;
    let back: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..dims.len()).collect();
    Ok(b.transpose(placed, &back)?)
}

/// The identity matrix of a size.
pub(crate) fn identity(b: &mut GraphBuilder, dtype: DType, size: DimId) -> Result<ValueId> {
    let rows = b.iota(DType::I64, &[size, size], 0)?;
    let columns = b.iota(DType::I64, &[size, size], 1)?;
    let equal = b.equal(rows, columns)?;
    Ok(b.cast(equal, dtype)?)
}

/// A transpose that exchanges the last two axes.
pub(crate) fn swap_last(b: &mut GraphBuilder, x: ValueId) -> Result<ValueId> {
    let rank = b.rank(x)?;
    let mut axes: Vec<usize> = (0..rank).collect();
    axes.swap(rank - 1, rank - 2);
    Ok(b.transpose(x, &axes)?)
}

/// `[batch.., M, K] -> [batch * M, K]`.
pub(crate) fn flatten_batch(b: &mut GraphBuilder, x: ValueId) -> Result<ValueId> {
    let dims = b.shape(x)?;
    let Some((&columns, rows)) = dims.split_last() else {
        unreachable!("a matrix has two axes or more")
    };
    let rows = b.dims_mut().product(rows)?;
    Ok(b.reshape(x, &[rows, columns])?)
}

/// Zeros of `dims`, to which each element of `x` is added at its index along `axis`.
pub(crate) fn scatter_lines(
    b: &mut GraphBuilder,
    x: ValueId,
    indices: ValueId,
    axis: usize,
    dims: &[DimId],
) -> Result<ValueId> {
    let target = zeros(b, b.dtype(x)?, dims)?;
    Ok(b.scatter_elements(target, indices, x, axis, Combine::Add)?)
}

/// A value whose gradient is zero on purpose: an operand of a mask that a rule emits.
pub(crate) fn stopped(b: &mut GraphBuilder, x: ValueId) -> Result<ValueId, InferError> {
    match b.dtype(x)?.is_float() {
        true => b.map("stop_gradient", &[x]),
        false => Ok(x),
    }
}

/// Whether elements of two tensors are equal, as a mask.
pub(crate) fn equal_mask(
    b: &mut GraphBuilder,
    left: ValueId,
    right: ValueId,
) -> Result<ValueId, InferError> {
    let (left, right) = (stopped(b, left)?, stopped(b, right)?);
    b.equal(left, right)
}
