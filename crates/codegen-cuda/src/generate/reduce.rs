//! Reductions in one thread: accumulators, and how values are combined into them.

use kiln_kernel::{AxisId, Node, NodeId, Reduction, StageId, StageOperation};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_tensor::DType;

use super::c_type::{c_type, literal};
use super::lowering::Lowering;
use super::scope::Scope;

/// A stage that reduces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reduce<'k> {
    pub(super) reduction: Reduction,
    /// The reduced axes, outermost first.
    pub(super) axes: &'k [AxisId],
    pub(super) accumulator: DType,
    pub(super) value: NodeId,
}

/// The variables of a reduction: the value so far and, for an arg-reduction, its index.
#[derive(Clone, Debug)]
pub(super) struct Accumulator {
    pub(super) value: String,
    pub(super) at: Option<String>,
}

impl<'k> Lowering<'k> {
    /// The reduction of a stage, if it is one.
    pub(super) fn reduction(&self, stage: StageId) -> Option<Reduce<'k>> {
        let stage = self.kernel.stage(stage);
        match &stage.operation {
            StageOperation::Map => None,
            StageOperation::Reduce {
                reduction,
                axes,
                accumulator,
            } => Some(Reduce {
                reduction: *reduction,
                axes,
                accumulator: *accumulator,
                value: stage.value,
            }),
        }
    }

    /// Declares an accumulator with the reduction's neutral element.
    pub(super) fn begin(&self, reduce: &Reduce<'_>) -> Accumulator {
        let ty = c_type(reduce.accumulator);
        let value = self.fresh("acc");
        if reduce.reduction.is_arg() {
            let at = self.fresh("at");
            self.line(format_args!("{ty} {value} = {ty}();"));
            self.line(format_args!("k_i64 {at} = -1;"));
            return Accumulator {
                value,
                at: Some(at),
            };
        }
        let identity = match reduce.reduction.identity(reduce.accumulator) {
            Some(identity) => identity,
            None => ScalarValue::zero(reduce.accumulator),
        };
        self.line(format_args!("{ty} {value} = {};", literal(identity)));
        Accumulator { value, at: None }
    }

    /// Accumulates the value at the current point, in a lane.
    pub(super) fn join(
        &self,
        scope: &mut Scope,
        reduce: &Reduce<'_>,
        acc: &Accumulator,
        lane: u32,
    ) {
        let ty = c_type(reduce.accumulator);
        if reduce.reduction == Reduction::Add
            && reduce.accumulator.is_float()
            && let Some([left, right]) = self.factors(reduce)
        {
            let left = self.value(scope, left, lane);
            let right = self.value(scope, right, lane);
            self.line(format_args!(
                "{0} = k_fused({left}, {right}, {0});",
                acc.value
            ));
            return;
        }
        let mut value = self.value(scope, reduce.value, lane);
        if self.kernel.dtype(reduce.value) != reduce.accumulator {
            value = self.declare(ty, format_args!("k_cast<{ty}>({value})"));
        }
        match (&acc.at, reduce.axes) {
            (Some(at), &[axis]) => {
                let mut index = scope.axis(axis).to_owned();
                if scope.lanes.is_some_and(|lanes| lanes.axis == axis) && lane > 0 {
                    index = format!("{index} + {lane}");
                }
                let (smallest, last) = arg_flags(reduce.reduction);
                self.line(format_args!(
                    "if ({at} < 0 || k_precedes<{smallest}, {last}>({value}, {0})) {{ {0} = {value}; {at} = {index}; }}",
                    acc.value
                ));
            }
            _ => {
                let word = reduce.reduction.as_word();
                self.line(format_args!("{0} = k_{word}({0}, {value});", acc.value));
            }
        }
    }

    /// The result of a reduction.
    pub(super) fn result(&self, acc: &Accumulator) -> String {
        match &acc.at {
            Some(at) => self.declare("k_i64", format_args!("{at} < 0 ? 0ll : {at}")),
            None => acc.value.clone(),
        }
    }

    /// The factors of a product in the accumulator's type, which is fused with the addition.
    fn factors(&self, reduce: &Reduce<'_>) -> Option<[NodeId; 2]> {
        match self.kernel.node(reduce.value) {
            Node::Apply {
                op: ScalarOp::Mul,
                operands,
            } if self.kernel.dtype(reduce.value) == reduce.accumulator => {
                match operands.as_slice() {
                    &[left, right] => Some([left, right]),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether an arg-reduction selects the smallest value, and whether the last of equal values.
fn arg_flags(reduction: Reduction) -> (bool, bool) {
    match reduction {
        Reduction::ArgMin { last } => (true, last),
        Reduction::ArgMax { last } => (false, last),
        _ => (false, false),
    }
}

/// The name of a reduction's operation in the prelude.
pub(super) fn operation(reduction: Reduction) -> &'static str {
    match reduction {
        Reduction::Add => "k_op_add",
        Reduction::Mul => "k_op_mul",
        Reduction::Min => "k_op_min",
        Reduction::Max => "k_op_max",
        Reduction::And => "k_op_and",
        Reduction::Or => "k_op_or",
        Reduction::ArgMin { .. } | Reduction::ArgMax { .. } => best_operation(reduction),
    }
}

/// The name of the operation that picks the better of two values with their indices.
pub(super) fn best_operation(reduction: Reduction) -> &'static str {
    match arg_flags(reduction) {
        (true, true) => "k_last_smallest",
        (true, false) => "k_first_smallest",
        (false, true) => "k_last_largest",
        (false, false) => "k_first_largest",
    }
}
