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
        let mut acc = identity(reduction, self.mode.stored(accumulator))?;
        self.for_each_point(axes, &mut |evaluator| {
            let value = evaluator.value(value)?;
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
        self.for_each_point(axes, &mut |evaluator| {
            let value = evaluator.value(value)?;
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

/// Whether a later value takes the place of the one held.
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

/// The reduction of nothing, in a dtype.
fn identity(reduction: Reduction, dtype: DType) -> Result<ScalarValue, EvaluateError> {
    let none = || EvaluateError::unverified(format!("`reduce {}` of {dtype}", reduction.as_word()));
    match reduction {
        Reduction::Add if dtype != DType::Bool => Ok(ScalarValue::zero(dtype)),
        Reduction::Mul => ScalarValue::from_number(1.0, dtype).ok_or_else(none),
        Reduction::Min => extreme(dtype, true).ok_or_else(none),
        Reduction::Max => extreme(dtype, false).ok_or_else(none),
        Reduction::And if dtype == DType::Bool => Ok(true.into()),
        Reduction::Or if dtype == DType::Bool => Ok(false.into()),
        _ => Err(none()),
    }
}

/// The largest or the smallest value of a dtype.
fn extreme(dtype: DType, largest: bool) -> Option<ScalarValue> {
    macro_rules! of {
        ($ty:ty) => {
            Some(if largest { <$ty>::MAX } else { <$ty>::MIN }.into())
        };
    }
    match dtype {
        DType::I64 => of!(i64),
        DType::I32 => of!(i32),
        DType::I16 => of!(i16),
        DType::I8 => of!(i8),
        DType::U64 => of!(u64),
        DType::U32 => of!(u32),
        DType::U16 => of!(u16),
        DType::U8 => of!(u8),
        _ if dtype.is_float() => ScalarValue::from_number(
            if largest {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            },
            dtype,
        ),
        _ => None,
    }
}
