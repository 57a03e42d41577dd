//! Gathers, whose transposes are scatters that add, and `top_k`.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::{scatter_along, scatter_lines, zeros_like};
use kiln_ir::{Combine, Dims, ValueId};
use kiln_shape_inference::GraphBuilder;

impl GradientContext<'_, '_> {
    pub(super) fn gather(&mut self, axis: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        let indices = self.operand(1);
        let placed = scatter_along(self.builder, g, indices, axis, &dims)?;
        Ok(vec![Some(placed), None])
    }

    pub(super) fn gather_elements(&mut self, axis: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        let indices = self.operand(1);
        let placed = scatter_lines(self.builder, g, indices, axis, &dims)?;
        Ok(vec![Some(placed), None])
    }

    pub(super) fn gather_nd(&mut self, batch_axes: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let zeros = zeros_like(self.builder, self.operand(0))?;
        let indices = with_batch_indices(self.builder, self.operand(1), batch_axes)?;
        let placed = self.builder.scatter_nd(zeros, indices, g, Combine::Add)?;
        Ok(vec![Some(placed), None])
    }

    pub(super) fn top_k(&mut self, axis: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        let indices = self.result(1);
        let placed = scatter_lines(self.builder, g, indices, axis, &dims)?;
        Ok(vec![Some(placed)])
    }
}

/// Converts indices of a gather with batch axes to those of a gather without: each address begins with its position
/// along the batch axes.
fn with_batch_indices(
    b: &mut GraphBuilder,
    indices: ValueId,
    batch_axes: usize,
) -> Result<ValueId> {
    if batch_axes == 0 {
        return Ok(indices);
    }
    let dtype = b.dtype(indices)?;
    let mut dims: Dims = b.shape(indices)?;
    let last = dims.len() - 1;
    dims[last] = b.size(1);
    let mut parts = Vec::with_capacity(batch_axes + 1);
    for axis in 0..batch_axes {
        parts.push(b.iota(dtype, &dims, axis)?);
    }
    parts.push(indices);
    Ok(b.concat(&parts, last)?)
}
