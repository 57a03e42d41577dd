//! Softmax, which graphs spell `exp(x) / sum(exp(x))`: the cotangent of `x` in closed form.
//!
//! The rules of the quotient, the sum and the exponential give the same, but need the exponentials and their quotients by the
//! sum besides the results, and an array for each of the two ways from the results to `x`. The closed form, `y * (g - sum(y *
//! g))`, reads the results and their cotangent alone.

use crate::Result;
use crate::adjoint::Adjoint;
use crate::context::Context;
use crate::emit::times;
use kiln_ir::{Definition, Op, OpData, OpId, ReduceFunction, RegionId, ValueId};
use kiln_shape_inference::GraphBuilder;

/// The quotient of a softmax, in the source graph.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Softmax<'g> {
    /// The operand of the exponential.
    pub(crate) exponent: ValueId,
    axes: &'g [usize],
}

impl<'g> Softmax<'g> {
    /// Recognises the quotient. The exponential is an op of the same region, so that its operand is reversed after the
    /// quotient.
    pub(crate) fn of(context: &Context<'g>, region: RegionId, data: &OpData) -> Option<Self> {
        let graph = context.source;
        let defined = |value: ValueId| match graph.value(value).definition {
            Definition::Result { op, .. } => Some((op, graph.op(op))),
            Definition::Parameter { .. } => None,
        };
        let [powers, total] = *applied(data, "div")? else {
            return None;
        };
        let (exponential, power) = defined(powers)?;
        let [exponent] = *applied(power, "exp")? else {
            return None;
        };
        let Op::Reduce {
            function: ReduceFunction::Sum,
            axes,
            keep_dims: true,
        } = &defined(total)?.1.op
        else {
            return None;
        };
        let is_their_sum = defined(total)?.1.operands.as_slice() == [powers];
        let is_here = |op: &OpId| graph.region(region).ops.contains(op);
        (is_their_sum && is_here(&exponential)).then_some(Self { exponent, axes })
    }

    /// The cotangent of the exponent, given the results and their cotangent.
    pub(crate) fn cotangent(
        self,
        b: &mut GraphBuilder,
        result: ValueId,
        upstream: Adjoint,
    ) -> Result<Adjoint> {
        let Adjoint { value, is_masked } = upstream;
        let weighted = times(b, value, result, is_masked)?;
        let total = b.reduce_sum(weighted, self.axes, true)?;
        let rest = b.sub(value, total)?;
        Ok(Adjoint {
            value: times(b, rest, result, is_masked)?,
            is_masked,
        })
    }
}

/// The operands of a scalar function of this name.
fn applied<'a>(data: &'a OpData, name: &str) -> Option<&'a [ValueId]> {
    match &data.op {
        Op::Map { function, .. } if function.name() == name => Some(data.operands.as_slice()),
        _ => None,
    }
}
