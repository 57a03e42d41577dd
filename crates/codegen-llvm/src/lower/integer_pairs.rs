//! Pairs of products: two steps of a reduced axis at once, whose factors are integers of 16 bits.
//!
//! The elements of two steps alternate in a vector; one instruction multiplies them and adds each two products. The sums are
//! the same bits: wrapping additions have any order.

use kiln_kernel::{AxisId, IndexClass, Node, NodeId};
use kiln_schedule_cpu::narrow_factors;

use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::{Elem, Value, elem, lanes};
use crate::error::LlvmError;
use crate::scalar_ops::resize;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The factors whose products are summed in pairs, where vectors have an instruction for it.
    pub(super) fn paired_factors(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
    ) -> Option<(NodeId, NodeId)> {
        let vectors = scope.vectors?;
        let fits = self.loops_of(reduce.stage).pairs && self.emit.sums_pairs(vectors.lanes);
        let stage = self.kernel.stage(reduce.stage);
        let factors = || narrow_factors(self.kernel, &stage.operation, stage.value);
        fits.then(factors)?
    }

    /// Sums products along an axis, two steps at a time.
    pub(super) fn sums_of_pairs(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        (axis, factors): (AxisId, (NodeId, NodeId)),
        points: &[Coordinate],
        carried: &[Value<'ctx>],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let extent = self.extent(scope, axis)?;
        // The remainder comes first, so that the loop over pairs ends with the axis.
        let rest = emit.isub(extent, self.multiple_below(extent, 2));
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let first = self.counted_up_to(Some(1), (zero, rest, one), carried, |index, carried| {
            self.accumulate(&scope.with_axis(axis, index), reduce, points, carried)
        })?;
        self.counted(rest, extent, emit.i64(2), &first, |base, carried| {
            let steps = [base, emit.iadd(base, one)].map(|index| scope.with_axis(axis, index));
            let mut sums = Vec::with_capacity(carried.len());
            for (&point, &sum) in points.iter().zip(carried) {
                let left = self.pair_of(&steps, (factors.0, axis), point)?;
                let right = self.pair_of(&steps, (factors.1, axis), point)?;
                sums.push(emit.iadd(sum, emit.sum_pairs(left, right)));
            }
            Ok(sums)
        })
    }

    /// The values of an integer at two steps of an axis, which alternate in the lanes of 16 bits.
    fn pair_of(
        &self,
        steps: &[Scope<'ctx>; 2],
        (node, axis): (NodeId, AxisId),
        at: Coordinate,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let is_signed = self.kernel.dtype(node).is_signed();
        let [scope, next] = steps;
        let widened = |value| resize(emit, value, is_signed, Elem::I16);
        if let Some(both) = self.adjacent_pair(scope, (node, axis), at)? {
            // Repeated before it is widened: two instructions, one of them the load.
            let both = emit.regrouped(both, Elem::integer(elem(both).bits() * 2));
            let repeated = self.widened(scope, both);
            return Ok(widened(
                emit.regrouped(repeated, Elem::of(self.kernel.dtype(node))),
            ));
        }
        let first = self.value(scope, node, at, Form::Lanes)?;
        let second = self.value(next, node, at, Form::Lanes)?;
        if lanes(first) == 1 && lanes(second) == 1 {
            let low = emit.zext(widened(first), Elem::I32);
            let high = emit.zext(widened(second), Elem::I32);
            let both = emit.or(low, emit.shl(high, emit.int(high, 16)));
            return Ok(emit.regrouped(self.widened(scope, both), Elem::I16));
        }
        let [first, second] = [first, second].map(|value| self.widened(scope, value));
        let n_lanes = lanes(first);
        let picks: Vec<u32> = (0..n_lanes)
            .flat_map(|lane| [lane, n_lanes + lane])
            .collect();
        Ok(widened(emit.shuffle(first, second, &picks)))
    }

    /// Two elements, at a step of an axis and at the next, that are loaded as one: adjacent ones that all lanes share.
    fn adjacent_pair(
        &self,
        scope: &Scope<'ctx>,
        (node, axis): (NodeId, AxisId),
        at: Coordinate,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let Node::Load(load) = self.kernel.node(node) else {
            return Ok(None);
        };
        let buffer = self.kernel.buffer(load.buffer);
        let Some((last, others)) = load.indices.split_last() else {
            return Ok(None);
        };
        let is_adjacent = matches!(self.kernel.node(*last), Node::Axis(index) if *index == axis)
            && !others
                .iter()
                .any(|&index| self.dependence.depends(index, axis))
            && buffer.strides.is_none()
            && self.layout.pack(load.buffer).is_none();
        let is_safe = load.guard.is_none()
            && (0..load.indices.len()).all(|place| self.class(node, place) == IndexClass::Proved);
        if !is_adjacent || !is_safe || self.varies(scope, node) {
            return Ok(None);
        }
        let address = self.buffer_address(scope, load.buffer, &load.indices, at, Form::First)?;
        Ok(Some(self.emit.load_dtype(
            buffer.dtype,
            2,
            address.pointer(),
        )))
    }
}
