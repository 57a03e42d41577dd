//! Slices and concatenations. Reshapes, broadcasts and transposes are the tensor's own views.

use crate::evaluate::EvaluateContext;
use crate::fault::OpFault;
use kiln_ir::{Dims, Integers};
use kiln_tensor::{AxisSlice, Tensor, TensorError};

/// `result[i..] = x[starts + steps * i]`, a view.
pub(crate) fn slice(
    ctx: &EvaluateContext<'_>,
    x: &Tensor,
    starts: &Dims,
    sizes: &Dims,
    steps: &Integers,
) -> Result<Tensor, OpFault> {
    if [starts.len(), sizes.len(), steps.len()]
        .iter()
        .any(|&n| n != x.rank())
    {
        return Err(OpFault::malformed(format!(
            "expected a start, a size and a step for each of {} axes",
            x.rank()
        )));
    }
    let sizes = ctx.sizes("the size of a slice", sizes)?;
    let mut slices = Vec::with_capacity(x.rank());
    for (axis, (((&start, &len), &step), &size)) in starts
        .iter()
        .zip(&sizes)
        .zip(steps)
        .zip(x.shape())
        .enumerate()
    {
        let start = ctx.integer(start)?;
        // A start that leaves the axis is harmless as long as nothing is read from it.
        let start = if len == 0 {
            0
        } else {
            usize::try_from(start).map_err(|_| OpFault::Negative {
                what: "the start of a slice",
                value: start.into(),
            })?
        };
        let step = isize::try_from(step).map_err(|_| TensorError::SliceOutOfRange {
            axis,
            start,
            len,
            step: isize::MAX,
            size,
        })?;
        slices.push(AxisSlice {
            axis,
            start,
            len,
            step,
        });
    }
    Ok(x.slice(&slices)?)
}

/// Operands one after another.
pub(crate) fn concat(
    ctx: &EvaluateContext<'_>,
    operands: &[Tensor],
    axis: usize,
) -> Result<Tensor, OpFault> {
    let sizes_elsewhere = |x: &Tensor| {
        let mut shape = x.shape().to_vec();
        if let Some(size) = shape.get_mut(axis) {
            *size = 0;
        }
        shape
    };
    if let Some((first, rest)) = operands.split_first() {
        for (index, operand) in rest.iter().enumerate() {
            let pairs = sizes_elsewhere(first)
                .into_iter()
                .zip(sizes_elsewhere(operand));
            if let Some((left_size, right_size)) =
                pairs.into_iter().find(|(left, right)| left != right)
            {
                return Err(OpFault::SizeMismatch {
                    what: "axes beside the concatenated one",
                    left: ctx.describe(0, first),
                    left_size,
                    right: ctx.describe(index + 1, operand),
                    right_size,
                });
            }
        }
    }
    Ok(Tensor::concat(&operands.iter().collect::<Vec<_>>(), axis)?)
}
