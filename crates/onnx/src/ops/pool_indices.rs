//! The position in the operand of each result of a pool.

use kiln_ir::{Extremum, Integers, Op, PadMode, ValueId, Window};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

use crate::{Error, NodeContext};

/// The maximum number of elements of a window.
const WINDOW_LIMIT: i64 = 4096;

/// The index of the maximum element of each window, counted over the whole operand: with the innermost axis first, or the
/// outermost if `column_major`.
pub(super) fn largest_indices(
    ctx: &mut NodeContext<'_>,
    x: ValueId,
    y: ValueId,
    size: &Integers,
    window: &Window,
    column_major: bool,
) -> Result<ValueId, Error> {
    let elements = size
        .iter()
        .try_fold(1_i64, |all, &size| all.checked_mul(size));
    let Some(elements) = elements.filter(|&elements| elements <= WINDOW_LIMIT) else {
        let what = format!("indices of windows of more than {WINDOW_LIMIT} elements");
        return Err(ctx.unsupported(what));
    };
    let dims = ctx.shape(x)?;
    let results = ctx.shape(y)?;
    let padded = padded(ctx, x, window)?;
    // Every element of a window, the outermost axis slowest.
    let offsets = |element: i64| {
        let mut rest = element;
        let mut offsets = Integers::from_elem(0, size.len());
        for (offset, &size) in offsets.iter_mut().zip(size).rev() {
            (*offset, rest) = (rest % size, rest / size);
        }
        offsets
    };
    let mut candidates = Vec::new();
    let mut steps = Integers::from_slice(&[1, 1]);
    steps.extend_from_slice(&window.strides);
    for element in 0..elements {
        let mut starts = vec![ctx.size(0); 2];
        for (&offset, &dilation) in offsets(element).iter().zip(&window.dilations) {
            starts.push(ctx.size(offset.saturating_mul(dilation)));
        }
        candidates.push(ctx.build(|builder| builder.slice(padded, &starts, &results, &steps))?);
    }
    let candidates = ctx.build(|builder| builder.stack(&candidates, dims.len()))?;
    let largest = Op::ArgReduce {
        extremum: Extremum::Max,
        axis: dims.len(),
        keep_dims: false,
        last: false,
    };
    let mut element = ctx.op(largest, &[candidates])?;

    let unit = ctx.size(1);
    let along = |axis: usize, dim: DimId| {
        let mut along = vec![unit; dims.len()];
        along[axis] = dim;
        along
    };
    let mut place: Vec<Option<ValueId>> = vec![None; size.len()];
    for (axis, &size) in size.iter().enumerate().rev() {
        let size = ctx.integer(size)?;
        let offset = ctx.map("rem", &[element, size])?;
        element = ctx.div(element, size)?;
        let reach = ctx.scaled(offset, window.dilations[axis] as f64)?;
        let start = ctx.positions(DType::I64, &along(axis + 2, results[axis + 2]), axis + 2)?;
        let start = ctx.scaled(start, window.strides[axis] as f64)?;
        let low = ctx.dim_as_data(window.low[axis])?;
        let start = ctx.sub(start, low)?;
        place[axis] = Some(ctx.add(start, reach)?);
    }
    let mut order: Vec<usize> = (0..size.len()).collect();
    if column_major {
        order.reverse();
    }
    let (batch, channel) = (
        ctx.positions(DType::I64, &along(0, dims[0]), 0)?,
        ctx.positions(DType::I64, &along(1, dims[1]), 1)?,
    );
    let channels = ctx.dim_as_data(dims[1])?;
    let picture = ctx.mul(batch, channels)?;
    let mut index = ctx.add(picture, channel)?;
    for axis in order {
        let size = ctx.dim_as_data(dims[axis + 2])?;
        index = ctx.mul(index, size)?;
        if let Some(place) = place[axis] {
            index = ctx.add(index, place)?;
        }
    }
    Ok(index)
}

/// The operand within a border that is never the maximum.
fn padded(ctx: &mut NodeContext<'_>, x: ValueId, window: &Window) -> Result<ValueId, Error> {
    let dtype = ctx.dtype(x)?;
    let least = match dtype {
        dtype if dtype.is_float() => f64::NEG_INFINITY,
        dtype if dtype.is_signed() => -(2_f64.powi(dtype.bits() as i32 - 1)),
        _ => 0.0,
    };
    let least = ctx.scalar(dtype, least)?;
    let zero = ctx.size(0);
    let (mut low, mut high) = (vec![zero; 2], vec![zero; 2]);
    low.extend_from_slice(&window.low);
    high.extend_from_slice(&window.high);
    ctx.build(|builder| builder.pad(x, least, &low, &high, PadMode::Constant))
}
