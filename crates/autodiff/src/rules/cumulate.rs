//! Running reductions along an axis.

use super::{Cotangents, GradientContext};
use crate::emit::{equal_mask, keep_where, number_of, scatter_lines, zeros};
use crate::{GradientError, Result};
use kiln_ir::{CumulateFunction, Op, ValueId};
use kiln_tensor::DType;

impl GradientContext<'_, '_> {
    pub(super) fn cumulate(
        &mut self,
        function: CumulateFunction,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        Ok(vec![Some(match function {
            CumulateFunction::Sum => self.running(function, g, axis, exclusive, !reverse)?,
            CumulateFunction::Product => self.running_product(g, axis, exclusive, reverse)?,
            CumulateFunction::Max | CumulateFunction::Min => {
                self.running_extremum(function, g, axis, exclusive, reverse)?
            }
        })])
    }

    fn running(
        &mut self,
        function: CumulateFunction,
        x: ValueId,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<ValueId> {
        let op = Op::Cumulate {
            function,
            axis,
            exclusive,
            reverse,
        };
        Ok(self.builder.op1(op, &[x])?)
    }

    /// The cotangent of `x_j` for `y_i = x_0 ... x_i`: `(x_0 ... x_(j-1)) * s_j` with `s_j = g_j + x_(j+1) * s_(j+1)`,
    /// a recurrence from the end, so that nothing is divided and zeros are exact.
    fn running_product(
        &mut self,
        g: ValueId,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<ValueId> {
        let x = self.operand(0);
        let before = self.running(CumulateFunction::Product, x, axis, true, reverse)?;
        // The recurrence's order, with the axis outermost.
        let rank = self.dims(x)?.len();
        let first: Vec<usize> = [axis]
            .into_iter()
            .chain(0..axis)
            .chain(axis + 1..rank)
            .collect();
        let last: Vec<usize> = (1..=axis).chain([0]).chain(axis + 1..rank).collect();
        let b = &mut *self.builder;
        let (mut factors, mut terms) = (x, g);
        if !reverse {
            factors = b.reverse(factors, axis)?;
            terms = b.reverse(terms, axis)?;
        }
        let factors = b.transpose(factors, &first)?;
        let terms = b.transpose(terms, &first)?;
        let dims = b.shape(factors)?;
        let trips = number_of(b, &[dims[0]], DType::I64)?;
        let zero = zeros(b, b.dtype(x)?, &dims[1..])?;
        // Carried: the sum so far without this element's own term, as the next element multiplies it.
        let stacks = b.repeat(
            trips,
            &[zero],
            &[factors, terms],
            |b, round, carried, captures| {
                let (factor, term) = (
                    b.gather(captures[0], round, 0)?,
                    b.gather(captures[1], round, 0)?,
                );
                let sum = b.add(term, carried[0])?;
                let next = b.mul(factor, if exclusive { carried[0] } else { sum })?;
                let next = if exclusive { b.add(term, next)? } else { next };
                let own = if exclusive { carried[0] } else { sum };
                Ok::<_, GradientError>((vec![next], vec![own]))
            },
        )?;
        let Some(&sums) = stacks.get(1) else {
            unreachable!("the loop carries one value and stacks one")
        };
        let mut sums = b.transpose(sums, &last)?;
        if !reverse {
            sums = b.reverse(sums, axis)?;
        }
        Ok(b.mul(before, sums)?)
    }

    /// Each cotangent goes to the element that is the extremum so far; of equal elements, to the latest.
    fn running_extremum(
        &mut self,
        function: CumulateFunction,
        g: ValueId,
        axis: usize,
        exclusive: bool,
        reverse: bool,
    ) -> Result<ValueId> {
        let x = self.operand(0);
        let dims = self.dims(x)?;
        let inclusive = match exclusive {
            true => self.running(function, x, axis, false, reverse)?,
            false => self.result(0),
        };
        let b = &mut *self.builder;
        let positions = b.iota(DType::I64, &dims, axis)?;
        // In a reverse scan, the latest element has the lowest position; a position outside the axis stands for none.
        let size = number_of(b, &[dims[axis]], DType::I64)?;
        let before = b.scalar(DType::I64, -1.0)?;
        let nowhere = if reverse { size } else { before };
        let is_extreme = equal_mask(b, x, inclusive)?;
        let candidates = b.select(is_extreme, positions, nowhere)?;
        let latest = match reverse {
            true => CumulateFunction::Min,
            false => CumulateFunction::Max,
        };
        let selected = self.running(latest, candidates, axis, exclusive, reverse)?;
        let b = &mut *self.builder;
        let zero = b.scalar(DType::I64, 0.0)?;
        let (from_start, before_end) = (b.map("ge", &[selected, zero])?, b.less(selected, size)?);
        let is_any = b.and(from_start, before_end)?;
        let g = keep_where(b, is_any, g)?;
        let selected = b.select(is_any, selected, zero)?;
        scatter_lines(b, g, selected, axis, &dims)
    }
}
