//! Data movement: each transpose moves the cotangent back.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::{keep_where, place_along, scatter_along, sum_to};
use kiln_ir::{Dims, PadMode, ValueId};
use kiln_symbolic_shape::DimId;
use kiln_tensor::DType;

impl GradientContext<'_, '_> {
    pub(super) fn reshape(&mut self) -> Result<Cotangents> {
        let (g, dims) = (self.cotangent(0)?, self.dims(self.operand(0))?);
        Ok(vec![Some(self.builder.reshape(g, &dims)?)])
    }

    pub(super) fn broadcast(&mut self) -> Result<Cotangents> {
        let (g, dims) = (self.cotangent(0)?, self.dims(self.operand(0))?);
        Ok(vec![Some(sum_to(self.builder, g, &dims)?)])
    }

    pub(super) fn transpose(&mut self, permutation: &[usize]) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let mut inverse = vec![0; permutation.len()];
        for (to, &from) in permutation.iter().enumerate() {
            inverse[from] = to;
        }
        Ok(vec![Some(self.builder.transpose(g, &inverse)?)])
    }

    pub(super) fn slice(&mut self, starts: &[DimId], steps: &[i64]) -> Result<Cotangents> {
        let mut g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        for (axis, ((&size, &start), &step)) in dims.iter().zip(starts).zip(steps).enumerate() {
            g = place_along(self.builder, g, axis, (start, step), size)?;
        }
        Ok(vec![Some(g)])
    }

    pub(super) fn pad(
        &mut self,
        low: &[DimId],
        high: &[DimId],
        mode: PadMode,
    ) -> Result<Cotangents> {
        let mut g = self.cotangent(0)?;
        let dims = self.dims(self.operand(0))?;
        if mode == PadMode::Constant {
            let steps = vec![1; dims.len()];
            let inner = match self.is_wanted(0) {
                true => Some(self.builder.slice(g, low, &dims, &steps)?),
                false => None,
            };
            let border = match self.is_wanted(1) {
                true => Some(self.border_sum(g, &dims, low, high)?),
                false => None,
            };
            return Ok(vec![inner, border]);
        }
        let zero = self.builder.size(0);
        for axis in 0..dims.len() {
            if low[axis] == zero && high[axis] == zero {
                continue;
            }
            // The source of each element of the padded axis: the axis' indices, padded in the same way.
            let sources = self.builder.iota(DType::I64, &[dims[axis]], 0)?;
            let fill = self.builder.scalar(DType::I64, 0.0)?;
            let sources = self
                .builder
                .pad(sources, fill, &[low[axis]], &[high[axis]], mode)?;
            let mut placed = self.dims(g)?;
            placed[axis] = dims[axis];
            g = scatter_along(self.builder, g, sources, axis, &placed)?;
        }
        Ok(vec![Some(g), None])
    }

    /// The sum of a cotangent over the border of a padding.
    fn border_sum(
        &mut self,
        g: ValueId,
        dims: &[DimId],
        low: &[DimId],
        high: &[DimId],
    ) -> Result<ValueId> {
        let b = &mut *self.builder;
        let (inside, outside) = (b.scalar(DType::Bool, 0.0)?, b.scalar(DType::Bool, 1.0)?);
        let inside = b.broadcast_to(inside, dims)?;
        let is_border = b.pad(inside, outside, low, high, PadMode::Constant)?;
        let border = keep_where(b, is_border, g)?;
        let axes: Vec<usize> = (0..dims.len()).collect();
        Ok(b.reduce_sum(border, &axes, false)?)
    }

    pub(super) fn concat(&mut self, axis: usize) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let mut start = self.builder.size(0);
        let mut cotangents = Vec::with_capacity(self.operands().len());
        for (index, &operand) in self.operands().iter().enumerate() {
            let dims: Dims = self.dims(operand)?;
            cotangents.push(match self.is_wanted(index) {
                true => Some(self.builder.slice_axis(g, axis, start, dims[axis])?),
                false => None,
            });
            start = self.builder.dims_mut().add(start, dims[axis])?;
        }
        Ok(cotangents)
    }
}
