//! Padding rows of a window, read from a block of zeros.
//!
//! A window above or below the image reads zeros in every lane and at every tap of the row. Instead of selecting at each
//! load, the address of the row is selected once: outside the image it is that of a block of zeros, as long as the tile's
//! loads reach.

use kiln_kernel::analysis::GuardedIndex;
use kiln_kernel::{Load, NodeId};

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::{Elem, Value};
use crate::error::LlvmError;

/// The maximum size of a block of zeros; larger ones are not worth their stack space.
const ZEROS_LIMIT: i64 = 2048;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The address of consecutive elements of a row if `inside`, otherwise of zeros; `None` if the load does not move
    /// along rows as required, or moves too far.
    pub(super) fn row_or_zeros(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        load: &Load,
        inside: Value<'ctx>,
        at: Coordinate,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let Some(vectors) = scope
            .vectors
            .filter(|_| self.layout.pack(load.buffer).is_none())
        else {
            return Ok(None);
        };
        let moves = |index: NodeId| self.dependence.depends(index, vectors.axis);
        let mut moving = (0..).zip(&load.indices).filter(|(_, index)| moves(**index));
        let (Some((position, &along)), None) = (moving.next(), moving.next()) else {
            return Ok(None);
        };
        if self.layout.stride(load.buffer, position).as_constant() != Some(1) {
            return Ok(None);
        }
        let of = GuardedIndex {
            load: node,
            position,
            index: along,
        };
        let outside = scope.outside_of_loops(self.kernel.outer());
        let Some(span) = self.span(&outside, of) else {
            return Ok(None);
        };
        let emit = &self.emit;
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let bytes = span
            .reach
            .below
            .checked_add(span.reach.above)
            .and_then(|reach| {
                reach
                    .checked_add(1)?
                    .checked_mul(dtype.size_in_bytes() as i64)
            });
        let Some(bytes) = bytes.filter(|bytes| (1..=ZEROS_LIMIT).contains(bytes)) else {
            return Ok(None);
        };
        let mut element = emit.i64(0);
        for (other, &index) in load.indices.iter().enumerate() {
            if other != position {
                let index = self.value(scope, index, at, Form::First)?;
                let stride = self.quantity(&self.layout.stride(load.buffer, other));
                element = emit.iadd(element, emit.imul(index, stride));
            }
        }
        let row = emit.element(self.base(load.buffer), dtype, element);
        // The zeros start where the first tap of the tile's first point would be in the row.
        let inner = span.reach.inner.iter();
        let at_zero = inner.fold(outside, |scope, &axis| scope.with_axis(axis, emit.i64(0)));
        let first = self.value(&at_zero, along, Coordinate::default(), Form::First)?;
        let zeros = emit.element(
            self.zeros(bytes as u32),
            dtype,
            emit.isub(emit.i64(span.reach.below), first),
        );
        let row = emit.select(inside, row, zeros);
        let along = self.value(scope, along, at, Form::First)?;
        Ok(Some(emit.element(row, dtype, along)))
    }

    /// A block of zeros of this size in bytes.
    pub(crate) fn zeros(&self, bytes: u32) -> Value<'ctx> {
        let bytes = bytes.next_multiple_of(64);
        *self.zeros.borrow_mut().entry(bytes).or_insert_with(|| {
            self.emit.at_entry(|| {
                let zeros = self.emit.stack(bytes);
                for start in (0..bytes).step_by(64) {
                    let line = self.emit.offset(zeros, self.emit.i64(start.into()));
                    let zero = self.emit.int_of(Elem::I64, 8, 0);
                    self.emit.store(line, zero, 64);
                }
                // If LLVM knew that they are zeros, it would turn loads into branches around them.
                self.emit.opaque(zeros)
            })
        })
    }
}
