//! Scatters and updates of slices.
//!
//! Both scatters use the same pair of operations: *read* gathers a tensor at the updates' positions, *place* scatters
//! into one.

use super::{Cotangents, GradientContext};
use crate::Result;
use crate::emit::{equal_mask, keep_where, zeros, zeros_like};
use kiln_ir::{Combine, Op, ValueId};
use kiln_tensor::DType;

impl GradientContext<'_, '_> {
    pub(super) fn scatter(&mut self, combine: Combine) -> Result<Cotangents> {
        match combine {
            Combine::Set => self.scatter_set(),
            Combine::Add => {
                let g = self.cotangent(0)?;
                let read = self.read(g)?;
                Ok(vec![Some(g), None, Some(read)])
            }
            Combine::Mul => self.scatter_product(),
            Combine::Min | Combine::Max => self.scatter_extremum(),
        }
    }

    /// The cotangent of replaced elements is zero; of several updates of one element, the last gets the whole
    /// cotangent.
    fn scatter_set(&mut self) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let updates = self.operand(2);
        let kept = match self.is_wanted(0) {
            true => {
                let nothing = zeros_like(self.builder, updates)?;
                Some(self.place(g, nothing, Combine::Set)?)
            }
            false => None,
        };
        let read = match self.is_wanted(2) {
            true => {
                let read = self.read(g)?;
                let wins = self.is_last()?;
                Some(keep_where(self.builder, wins, read)?)
            }
            false => None,
        };
        Ok(vec![kept, None, read])
    }

    /// Whether each update is the last one of its element.
    fn is_last(&mut self) -> Result<ValueId> {
        let dims = self.dims(self.operand(2))?;
        let b = &mut *self.builder;
        let count = b.dims_mut().product(&dims)?;
        let numbers = b.iota(DType::I64, &[count], 0)?;
        let numbers = b.reshape(numbers, &dims)?;
        let own = b.shape(self.rule.operands[0])?;
        let base = zeros(self.builder, DType::I64, &own)?;
        let winners = self.place(base, numbers, Combine::Set)?;
        let winners = self.read(winners)?;
        Ok(self.builder.equal(winners, numbers)?)
    }

    /// The product of the other factors of an element: exact where at most one factor is zero, without dividing by zero.
    fn scatter_product(&mut self) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let (x, updates) = (self.operand(0), self.operand(2));
        let dtype = self.builder.dtype(x)?;
        let (zero, one) = (
            self.builder.scalar(dtype, 0.0)?,
            self.builder.scalar(dtype, 1.0)?,
        );
        let x_is_zero = equal_mask(self.builder, x, zero)?;
        let update_is_zero = equal_mask(self.builder, updates, zero)?;
        let x_factor = self.builder.select(x_is_zero, one, x)?;
        let update_factor = self.builder.select(update_is_zero, one, updates)?;
        let product = self.place(x_factor, update_factor, Combine::Mul)?;
        let (x_zeros, update_zeros) = (
            self.builder.cast(x_is_zero, DType::I64)?,
            self.builder.cast(update_is_zero, DType::I64)?,
        );
        let zeros = self.place(x_zeros, update_zeros, Combine::Add)?;

        let of_x = {
            let others = self.builder.sub(zeros, x_zeros)?;
            let quotient = self.builder.div(product, x_factor)?;
            self.cotangent_of_factor(g, quotient, others)?
        };
        let (product, zeros, g) = (self.read(product)?, self.read(zeros)?, self.read(g)?);
        let others = self.builder.sub(zeros, update_zeros)?;
        let quotient = self.builder.div(product, update_factor)?;
        let of_updates = self.cotangent_of_factor(g, quotient, others)?;
        Ok(vec![Some(of_x), None, Some(of_updates)])
    }

    /// `g` times the product of the other factors, which is zero if one of them is.
    fn cotangent_of_factor(
        &mut self,
        g: ValueId,
        product: ValueId,
        other_zeros: ValueId,
    ) -> Result<ValueId> {
        let none = self.builder.scalar(DType::I64, 0.0)?;
        let nonzero = self.builder.equal(other_zeros, none)?;
        let product = keep_where(self.builder, nonzero, product)?;
        Ok(self.builder.mul(g, product)?)
    }

    /// The element and those updates that equal the extremum share the cotangent equally.
    fn scatter_extremum(&mut self) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let (x, updates, y) = (self.operand(0), self.operand(2), self.result(0));
        let dtype = self.builder.dtype(x)?;
        let x_wins = equal_mask(self.builder, x, y)?;
        let y_read = self.read(y)?;
        let update_wins = equal_mask(self.builder, updates, y_read)?;
        let (x_count, update_count) = (
            self.builder.cast(x_wins, dtype)?,
            self.builder.cast(update_wins, dtype)?,
        );
        let winners = self.place(x_count, update_count, Combine::Add)?;
        let share = self.builder.div(g, winners)?;
        let of_x = keep_where(self.builder, x_wins, share)?;
        let share = self.read(share)?;
        let of_updates = keep_where(self.builder, update_wins, share)?;
        Ok(vec![Some(of_x), None, Some(of_updates)])
    }

    /// The cotangent of the replaced part is zero; the update gets its part.
    pub(super) fn update_slice(&mut self, axes: &[usize]) -> Result<Cotangents> {
        let g = self.cotangent(0)?;
        let (at, update) = (self.operand(1), self.operand(2));
        let kept = match self.is_wanted(0) {
            true => {
                let nothing = zeros_like(self.builder, update)?;
                Some(self.builder.update_slice(g, at, nothing, axes)?)
            }
            false => None,
        };
        let dims = self.dims(update)?;
        let b = &mut *self.builder;
        let dtype = b.dtype(at)?;
        let mut part = g;
        for (index, &axis) in axes.iter().enumerate() {
            let position = b.size(i64::try_from(index).unwrap_or(i64::MAX));
            let one = b.size(1);
            let start = b.slice_axis(at, 0, position, one)?;
            let offsets = b.iota(dtype, &[dims[axis]], 0)?;
            let indices = b.add(offsets, start)?;
            part = b.gather(part, indices, axis)?;
        }
        Ok(vec![kept, None, Some(part)])
    }

    /// Gathers `into` at the positions of the updates.
    fn read(&mut self, into: ValueId) -> Result<ValueId> {
        let indices = self.operand(1);
        Ok(match *self.op() {
            Op::ScatterElements { axis, .. } => {
                self.builder.gather_elements(into, indices, axis)?
            }
            _ => self.builder.gather_nd(into, indices, 0)?,
        })
    }

    /// Scatters `updates` to their positions in `into`.
    fn place(&mut self, into: ValueId, updates: ValueId, combine: Combine) -> Result<ValueId> {
        let indices = self.operand(1);
        Ok(match *self.op() {
            Op::ScatterElements { axis, .. } => self
                .builder
                .scatter_elements(into, indices, updates, axis, combine)?,
            _ => self.builder.scatter_nd(into, indices, updates, combine)?,
        })
    }
}
