//! Scalar functions and casts: nodes over the operands' elements.

use std::cmp::Reverse;

use kiln_ir::{OpData, ValueId};
use kiln_kernel::{NodeId, Nodes};
use kiln_scalar::{Function, ScalarOp};
use kiln_tensor::DType;
use smallvec::SmallVec;

use super::context::{Demand, RegionLowering, Step, compute_dtype};
use super::guard::GuardId;

impl RegionLowering<'_> {
    pub(super) fn map(
        &mut self,
        data: &OpData,
        function: Function,
        parameters: &[f64],
        demand: &Demand,
    ) -> Step<NodeId> {
        let result = self.shape(demand.value)?;
        let mut operands = Nodes::new();
        for operand in self.in_order(function, &data.operands) {
            let indices = self.broadcast_indices(operand, &result, &demand.indices)?;
            operands.push(self.get(operand, indices, demand.guard)?);
        }
        if demand.guard != GuardId::NONE {
            self.keep_from_faulting(function, &mut operands, demand.guard);
        }
        Ok(self.b.call(function, parameters, operands))
    }

    /// The operands of a function; those of a commutative one in an order that depends only on what the kernel computes:
    /// the operand with the longer chain of ops in the region first.
    fn in_order(&self, function: Function, operands: &[ValueId]) -> SmallVec<[ValueId; 4]> {
        let mut operands = SmallVec::from_slice(operands);
        if function.is_commutative() {
            operands.sort_by_key(|&operand| Reverse(self.depth(operand)));
        }
        operands
    }

    pub(super) fn cast(&mut self, data: &OpData, to: DType, demand: &Demand) -> Step<NodeId> {
        let x = self.get(data.operands[0], demand.indices.clone(), demand.guard)?;
        let computed = compute_dtype(to);
        // An explicit cast to f16 or bf16 rounds, although the following ops compute in f32.
        let x = if computed == to {
            x
        } else {
            self.b.cast(x, to)
        };
        Ok(self.b.cast(x, computed))
    }

    /// Where the guard is false, loads return zeros, by which integers cannot be divided: the last operand is 1 there.
    fn keep_from_faulting(&mut self, function: Function, operands: &mut Nodes, guard: GuardId) {
        let faults = matches!(
            function.primitive(),
            Some(
                ScalarOp::Div
                    | ScalarOp::FloorDiv
                    | ScalarOp::Rem
                    | ScalarOp::FloorMod
                    | ScalarOp::Pow
            )
        );
        let guard = self.guards.get(guard).clone();
        let Some(divisor) = operands.last_mut().filter(|_| faults) else {
            return;
        };
        let dtype = self.b.kernel().dtype(*divisor);
        if dtype.is_integer()
            && let Some(condition) = self.condition(&guard.tests, &guard.conditions)
        {
            let one = self.b.number(1.0, dtype);
            *divisor = self.b.apply(ScalarOp::Select, [condition, *divisor, one]);
        }
    }
}
