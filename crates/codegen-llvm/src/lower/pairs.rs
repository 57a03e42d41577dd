//! Products of 16-bit integers or bf16, two steps of a reduced axis at once.
//!
//! The elements of two steps alternate in a vector; one instruction multiplies them and adds adjacent products. Sums of
//! integers have the same bits: wrapping additions can be reordered.

use kiln_kernel::{AxisId, NodeId};
use kiln_schedule_cpu::{bf16_factors, narrow_factors};
use kiln_tensor::DType;

use super::adjacent_steps::Known;
use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::{Elem, Value, elem, lanes};
use crate::error::LlvmError;
use crate::scalar_ops::resize;

/// Steps per instruction.
const STEPS: u32 = 2;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The factors whose products are summed in pairs, if vectors have an instruction for it.
    pub(super) fn paired_factors(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
    ) -> Option<(NodeId, NodeId)> {
        let vectors = scope.vectors?;
        let emit = &self.emit;
        // Sums that all lanes share are scalars.
        if !self.loops_of(reduce.stage).pairs || !self.varies(scope, reduce.value) {
            return None;
        }
        let stage = self.kernel.stage(reduce.stage);
        let (operation, value) = (&stage.operation, stage.value);
        let integers = narrow_factors(self.kernel, operation, value)
            .filter(|_| emit.sums_pairs(vectors.lanes));
        let floats = || bf16_factors(self.kernel, operation, value);
        integers.or_else(|| floats().filter(|_| emit.sums_bf16_pairs(vectors.lanes)))
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
        self.in_groups_of_steps(
            scope,
            reduce,
            (axis, STEPS),
            (points, carried),
            |base, carried| {
                let steps =
                    [base, emit.iadd(base, emit.i64(1))].map(|index| scope.with_axis(axis, index));
                let mut known = Known::new();
                let mut sums = Vec::with_capacity(carried.len());
                for (&point, &sum) in points.iter().zip(carried) {
                    let mut pair = |node| {
                        let compute = || self.pair_of(&steps, (node, axis), point);
                        self.at_steps((&steps[0], &mut known), node, point, compute)
                    };
                    let (left, right) = (pair(factors.0)?, pair(factors.1)?);
                    sums.push(match self.kernel.dtype(factors.0) {
                        DType::BF16 => emit.sum_bf16_pairs(sum, left, right),
                        _ => emit.iadd(sum, emit.sum_pairs(left, right)),
                    });
                }
                Ok(sums)
            },
        )
    }

    /// The values of a factor at two steps of an axis, which alternate in the lanes of 16 bits.
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
        if let Some(both) = self.adjacent_elements(scope, (node, axis), at, STEPS)? {
            // It is repeated before it is widened: two instructions, one of which is the load.
            let both = emit.regrouped(both, Elem::integer(elem(both).bits() * 2));
            let repeated = self.widened(scope, both);
            return Ok(widened(
                emit.regrouped(repeated, Elem::of(self.kernel.dtype(node))),
            ));
        }
        if let Some(both) = self.packed_group(scope, (node, axis), at, STEPS)? {
            return Ok(emit.regrouped(both, Elem::I16));
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
}
