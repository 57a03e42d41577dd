//! Pooled values moved back to their positions.

use kiln_ir::{Combine, Op, PadMode};
use kiln_symbolic_shape::DimId;

use super::support::{Imported, one, operator};
use super::window::Moves;
use crate::NodeContext;
use crate::import::Operator;

pub(super) const OPERATORS: &[Operator] = &[operator("MaxUnpool", &[9, 11], max_unpool)];

/// Indices count the elements of the whole result implied by the window; an `output_shape` adds zeros after it.
fn max_unpool(ctx: &mut NodeContext<'_>) -> Imported {
    let (x, indices) = (ctx.input(0)?, ctx.input(1)?);
    let dims = ctx.shape(x)?;
    let kernel = ctx.attributes().require::<&[i64]>("kernel_shape")?;
    let spatial = dims.len().saturating_sub(2);
    if kernel.len() != spatial || kernel.iter().any(|&size| size < 1) {
        let expected = format!("{spatial} positive sizes, one per spatial axis");
        return Err(ctx.attribute_error("kernel_shape", expected, format!("{kernel:?}")));
    }
    let kernel: Vec<DimId> = kernel.iter().map(|&size| ctx.size(size)).collect();
    let window = Moves::read(ctx, spatial)?.window(ctx, &dims[2..], &kernel)?;
    let mut implied = dims.to_vec();
    for axis in 0..spatial {
        let stride = window.strides[axis];
        let (low, high) = (window.low[axis], window.high[axis]);
        implied[axis + 2] = ctx.sizes(|table| {
            let (one, stride) = (table.constant(1), table.constant(stride));
            let steps = table.sub(dims[axis + 2], one)?;
            let steps = table.mul(steps, stride)?;
            let full = table.add(steps, kernel[axis])?;
            let padding = table.add(low, high)?;
            table.sub(full, padding)
        })?;
    }
    let count = ctx.product(&implied)?;
    let dtype = ctx.dtype(x)?;
    let empty = ctx.filled(dtype, 0.0, &[count])?;
    let (flat, indices) = (ctx.flat(x)?, ctx.flat(indices)?);
    let scatter = Op::ScatterElements {
        axis: 0,
        combine: Combine::Set,
    };
    let placed = ctx.op(scatter, &[empty, indices, flat])?;
    let placed = ctx.reshape(placed, &implied)?;
    if ctx.optional(2).is_none() {
        return one(placed);
    }
    let target = ctx.sizes_of(2)?;
    if target.len() != implied.len() {
        let expected = format!("{} sizes", implied.len());
        return Err(ctx.operand_error(2, expected, target.len().to_string()));
    }
    let zero = ctx.size(0);
    let pairs = target.iter().zip(&implied);
    let high = ctx.sizes(|table| {
        pairs
            .map(|(&target, &implied)| table.sub(target, implied))
            .collect::<Result<Vec<DimId>, _>>()
    })?;
    let low = vec![zero; implied.len()];
    let value = ctx.scalar(dtype, 0.0)?;
    one(ctx.build(|builder| builder.pad(placed, value, &low, &high, PadMode::Constant))?)
}
