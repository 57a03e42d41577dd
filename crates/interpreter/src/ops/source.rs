//! Ops that make tensors from sizes alone.

use crate::element::Number;
use crate::evaluate::EvaluateContext;
use crate::fault::OpFault;
use kiln_ir::Dims;
use kiln_tensor::{DType, Tensor, match_dtype};

/// The index along `axis`, wrapping around in narrow integers, rounded in narrow floats.
pub(crate) fn iota(
    ctx: &EvaluateContext<'_>,
    dims: &Dims,
    axis: usize,
    dtype: DType,
) -> Result<Tensor, OpFault> {
    let shape = ctx.sizes("a size", dims)?;
    let Some(&size) = shape.get(axis) else {
        return Err(OpFault::malformed(format!(
            "axis {axis} of a tensor of rank {}",
            shape.len()
        )));
    };
    let mut line_shape = shape.clone();
    for (at, dim) in line_shape.iter_mut().enumerate() {
        *dim = if at == axis { size } else { 1 };
    }
    let mut line = Tensor::zeros(ctx.dtype(dtype), &line_shape)?;
    match_dtype!(line.dtype(), T => {
        for (index, element) in line.as_mut_slice::<T>()?.iter_mut().enumerate() {
            *element = T::of_index(index);
        }
    });
    Ok(line.broadcast_to(&shape)?)
}

/// Sizes as data.
pub(crate) fn dims(ctx: &EvaluateContext<'_>, sizes: &Dims) -> Result<Tensor, OpFault> {
    let values = sizes
        .iter()
        .map(|&dim| ctx.integer(dim))
        .collect::<Result<Vec<i64>, _>>()?;
    Ok(Tensor::from_vec(&[values.len()], values)?)
}
