//! Pairs of products: two steps of a reduced axis at once, whose factors are integers of 16 bits.
//!
//! The elements of two steps alternate in a vector; one instruction multiplies them and adds each two products. The sums are
//! the same bits: wrapping additions have any order.

use kiln_kernel::{AxisId, IndexClass, Load, LoadGuard, Node, NodeId};
use kiln_scalar::ScalarOp;
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
        // Sums that all lanes share are scalars.
        let fits = self.loops_of(reduce.stage).pairs
            && self.emit.sums_pairs(vectors.lanes)
            && self.varies(scope, reduce.value);
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
        if let Some(both) = self.adjacent_elements(scope, (node, axis), at, 2)? {
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

    /// Elements at this many steps of an axis that are loaded as one: adjacent ones that all lanes share, whose conditions
    /// are the same at all steps.
    pub(super) fn adjacent_elements(
        &self,
        scope: &Scope<'ctx>,
        (node, axis): (NodeId, AxisId),
        at: Coordinate,
        count: u32,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let Node::Load(load) = self.kernel.node(node) else {
            return Ok(None);
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        if !self.is_adjacent(load, axis) || self.varies(scope, node) {
            return Ok(None);
        }
        let mut inside = None;
        for (place, &index) in load.indices.iter().enumerate() {
            let is_known =
                self.class(node, place) == IndexClass::Proved || scope.is_inside(node, place);
            match &load.guard {
                _ if is_known => {}
                Some(guard) if guard.inside && !self.dependence.depends(index, axis) => {
                    let here = self.in_range(scope, load.buffer, place, index, at, Form::First)?;
                    inside = Some(self.both(inside, here));
                }
                _ => return Ok(None),
            }
        }
        let address = self.buffer_address(scope, load.buffer, &load.indices, at, Form::First)?;
        let (Some(inside), Some(guard)) = (inside, &load.guard) else {
            return Ok(Some(emit.load_dtype(dtype, count, address.pointer())));
        };
        // The dummy holds zeros.
        let pointer = emit.select(inside, address.pointer(), self.dummy());
        let loaded = emit.load_dtype(dtype, count, pointer);
        if self.is_zero(guard.otherwise) {
            return Ok(Some(loaded));
        }
        let otherwise = self.value(scope, guard.otherwise, at, Form::First)?;
        Ok(Some(emit.select(
            inside,
            loaded,
            emit.splat(otherwise, count),
        )))
    }

    /// Whether an index is an axis, or the sum of it and of what does not vary along it.
    fn steps_by_one(&self, mut index: NodeId, axis: AxisId) -> bool {
        loop {
            index = match self.kernel.node(index) {
                Node::Axis(found) => return *found == axis,
                Node::Apply {
                    op: ScalarOp::Add,
                    operands,
                } => {
                    let varies = |index: &&NodeId| self.dependence.depends(**index, axis);
                    let mut varying = operands.iter().filter(varies);
                    match (varying.next(), varying.next()) {
                        (Some(&varying), None) => varying,
                        _ => return false,
                    }
                }
                _ => return false,
            };
        }
    }

    /// Whether a load reads adjacent elements along an axis, if it is performed at all.
    fn is_adjacent(&self, load: &Load, axis: AxisId) -> bool {
        let Some((last, others)) = load.indices.split_last() else {
            return false;
        };
        let varies = |&node: &NodeId| self.dependence.depends(node, axis);
        let is_unconditional =
            |guard: &LoadGuard| guard.when.is_none() && !varies(&guard.otherwise);
        self.steps_by_one(*last, axis)
            && !others.iter().any(varies)
            && load.guard.as_ref().is_none_or(is_unconditional)
            && self.kernel.buffer(load.buffer).strides.is_none()
            && self.layout.pack(load.buffer).is_none()
    }
}
