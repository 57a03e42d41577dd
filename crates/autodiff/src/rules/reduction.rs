//! Reductions.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::{equal_mask, keep_where, number_of};
use kiln_ir::{CumulateFunction, Dims, Op, ReduceFunction, ValueId};
use kiln_symbolic_shape::DimId;

impl GradientContext<'_, '_> {
    pub(super) fn reduce(
        &mut self,
        function: ReduceFunction,
        axes: &[usize],
    ) -> Result<Cotangents> {
        let x = self.operand(0);
        let dims = self.dims(x)?;
        let g = self.cotangent(0)?;
        let g = self.with_kept_dims(g, &dims, axes)?;
        Ok(vec![Some(match function {
            ReduceFunction::Sum => self.builder.broadcast_to(g, &dims)?,
            ReduceFunction::Mean => {
                let reduced: Vec<DimId> = axes.iter().map(|&axis| dims[axis]).collect();
                let dtype = self.builder.dtype(g)?;
                let count = number_of(self.builder, &reduced, dtype)?;
                let share = self.builder.div(g, count)?;
                self.builder.broadcast_to(share, &dims)?
            }
            ReduceFunction::Max | ReduceFunction::Min => {
                let y = self.result(0);
                let y = self.with_kept_dims(y, &dims, axes)?;
                self.extremum(g, y, &dims, axes)?
            }
            ReduceFunction::Product => self.product(g, &dims, axes)?,
            ReduceFunction::Any | ReduceFunction::All => {
                unreachable!("a bool has no cotangent")
            }
        })])
    }

    /// Restores the reduced axes of a value of the result's sizes, with size 1.
    fn with_kept_dims(
        &mut self,
        value: ValueId,
        dims: &[DimId],
        axes: &[usize],
    ) -> Result<ValueId> {
        let one = self.builder.size(1);
        let size = |(axis, &dim): (usize, &DimId)| if axes.contains(&axis) { one } else { dim };
        let kept: Dims = dims.iter().enumerate().map(size).collect();
        Ok(self.builder.reshape(value, &kept)?)
    }

    /// The elements that are the extremum share the cotangent equally.
    fn extremum(
        &mut self,
        g: ValueId,
        y: ValueId,
        dims: &[DimId],
        axes: &[usize],
    ) -> Result<ValueId> {
        let x = self.operand(0);
        let b = &mut *self.builder;
        let y = b.broadcast_to(y, dims)?;
        let is_extreme = equal_mask(b, x, y)?;
        let ones = b.cast(is_extreme, b.dtype(x)?)?;
        let count = b.reduce_sum(ones, axes, true)?;
        let share = b.div(g, count)?;
        let share = b.broadcast_to(share, dims)?;
        Ok(keep_where(b, is_extreme, share)?)
    }

    /// Each element's cotangent is the product of the others: of those before it and those after it, so that nothing is divided
    /// and zeros are exact.
    fn product(&mut self, g: ValueId, dims: &[DimId], axes: &[usize]) -> Result<ValueId> {
        let x = self.operand(0);
        let b = &mut *self.builder;
        let others: Vec<usize> = (0..dims.len())
            .filter(|axis| !axes.contains(axis))
            .collect();
        let last: Vec<usize> = others.iter().chain(axes).copied().collect();
        let reduced: Vec<DimId> = axes.iter().map(|&axis| dims[axis]).collect();
        let mut flat: Dims = others.iter().map(|&axis| dims[axis]).collect();
        flat.push(b.dims_mut().product(&reduced)?);
        let moved = b.transpose(x, &last)?;
        let moved_dims = b.shape(moved)?;
        let lines = b.reshape(moved, &flat)?;
        let mut running = |reverse: bool| {
            let op = Op::Cumulate {
                function: CumulateFunction::Product,
                axis: flat.len() - 1,
                exclusive: true,
                reverse,
            };
            b.op1(op, &[lines])
        };
        let (before, after) = (running(false)?, running(true)?);
        let rest = b.mul(before, after)?;
        let rest = b.reshape(rest, &moved_dims)?;
        let mut back = vec![0; last.len()];
        for (to, &from) in last.iter().enumerate() {
            back[from] = to;
        }
        let rest = b.transpose(rest, &back)?;
        Ok(b.mul(g, rest)?)
    }
}
