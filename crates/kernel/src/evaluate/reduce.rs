//! Reductions, in the order of the axes.

use kiln_scalar::{Mode, ScalarOp, ScalarValue, evaluate_op};
use kiln_tensor::DType;

use super::{EvaluateError, Evaluator};
use crate::form::{AxisId, NodeId, Reduction};

impl Evaluator<'_> {
    /// `value` reduced over `axes` at the current point.
    pub(super) fn reduce(
        &mut self,
        reduction: Reduction,
        axes: &[AxisId],
        accumulator: DType,
        value: NodeId,
    ) -> Result<ScalarValue, EvaluateError> {
        if let Reduction::ArgMin { last } | Reduction::ArgMax { last } = reduction {
            let smallest = matches!(reduction, Reduction::ArgMin { .. });
            return self.arg_reduce(smallest, last, axes, accumulator, value);
        }
        let op = match reduction {
            Reduction::Add => ScalarOp::Add,
            Reduction::Mul => ScalarOp::Mul,
            Reduction::Min => ScalarOp::Min,
            Reduction::Max => ScalarOp::Max,
            Reduction::And => ScalarOp::And,
            _ => ScalarOp::Or,
        };
        let stored = self.mode.stored(accumulator);
        let none =
            || EvaluateError::unverified(format!("`reduce {}` of {stored}", reduction.as_word()));
        let mut acc = reduction.identity(stored).ok_or_else(none)?;
        self.for_each_point(axes, &mut |evaluator, moved| {
            let value = evaluator.value_after(value, moved)?;
            let value = cast(value, accumulator, evaluator.mode)?;
            acc = evaluate_op(op, &[acc, value], evaluator.mode)?;
            Ok(())
        })?;
        Ok(acc)
    }

    fn arg_reduce(
        &mut self,
        smallest: bool,
        last: bool,
        axes: &[AxisId],
        accumulator: DType,
        value: NodeId,
    ) -> Result<ScalarValue, EvaluateError> {
        let &[axis] = axes else {
            return Err(EvaluateError::unverified(
                "an arg-reduction over several axes",
            ));
        };
        let mut best: Option<(ScalarValue, i64)> = None;
        self.for_each_point(axes, &mut |evaluator, moved| {
            let value = evaluator.value_after(value, moved)?;
            let value = cast(value, accumulator, evaluator.mode)?;
            let at = evaluator.positions[axis].unwrap_or_default();
            let is_better = match best {
                None => true,
                Some((held, _)) => precedes(value, held, smallest, last)?,
            };
            if is_better {
                best = Some((value, at));
            }
            Ok(())
        })?;
        Ok(ScalarValue::I64(best.map_or(0, |(_, at)| at)))
    }
}

/// Whether a later value replaces the current one.
fn precedes(
    value: ScalarValue,
    held: ScalarValue,
    smallest: bool,
    last: bool,
) -> Result<bool, EvaluateError> {
    let is_nan = |value: ScalarValue| value.dtype().is_float() && value.to_f64().is_nan();
    match (is_nan(value), is_nan(held)) {
        (true, true) => return Ok(last),
        (is_extreme, false) if is_extreme => return Ok(true),
        (false, true) => return Ok(false),
        _ => {}
    }
    let op = if smallest { ScalarOp::Lt } else { ScalarOp::Gt };
    let is = |op| {
        evaluate_op(op, &[value, held], Mode::Declared)
            .map(|result| result == ScalarValue::Bool(true))
    };
    Ok(is(op)? || (last && is(ScalarOp::Eq)?))
}

fn cast(value: ScalarValue, to: DType, mode: Mode) -> Result<ScalarValue, EvaluateError> {
    if value.dtype() == mode.stored(to) {
        return Ok(value);
    }
    Ok(evaluate_op(ScalarOp::Cast(to), &[value], mode)?)
}
