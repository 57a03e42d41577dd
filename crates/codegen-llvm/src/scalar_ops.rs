//! Code for every scalar operation of `kiln_scalar`'s table, for any number of lanes.
//!
//! The entry point is [`emit`]. Operands have the register forms of the module `emit`. Nothing traps: an integer
//! division by zero yields an arbitrary number and a mask of the faulting lanes; the caller reports those that are in
//! range.

mod cast;
mod float;
mod half;
mod integer;

pub(crate) use cast::{resize, to_integer_in_range};

use kiln_scalar::{ScalarOp, Signature};
use kiln_tensor::DType;

use crate::emit::{Emitter, Value};
use crate::error::LlvmError;

/// The result of an operation.
#[derive(Clone, Copy)]
pub(crate) struct Outcome<'ctx> {
    pub(crate) value: Value<'ctx>,
    /// The lanes that divided an integer by zero, for operations that can.
    pub(crate) fault: Option<Value<'ctx>>,
}

impl<'ctx> From<Value<'ctx>> for Outcome<'ctx> {
    fn from(value: Value<'ctx>) -> Outcome<'ctx> {
        Outcome { value, fault: None }
    }
}

/// Emits an operation on operands of these dtypes.
///
/// All operands have the same number of lanes.
pub(crate) fn emit<'ctx>(
    e: &Emitter<'_, 'ctx>,
    op: ScalarOp,
    dtypes: &[DType],
    operands: &[Value<'ctx>],
) -> Result<Outcome<'ctx>, LlvmError> {
    let unsupported = || LlvmError::Unsupported {
        what: format!("`{}` on {dtypes:?}", op.name()),
    };
    op.signature().result_type(dtypes).ok_or_else(unsupported)?;
    let outcome = match (op.signature(), dtypes, operands) {
        (Signature::Cast(to), &[from], &[a]) => cast::emit(e, a, from, to).into(),
        (Signature::Select, _, &[condition, a, b]) => e.select(condition, a, b).into(),
        (Signature::Logical1, _, &[a]) => e.not(a).into(),
        (Signature::Logical2, _, &[a, b]) => match op {
            ScalarOp::And => e.and(a, b).into(),
            ScalarOp::Or => e.or(a, b).into(),
            _ => e.xor(a, b).into(),
        },
        (_, &[.., dtype], _) if dtype.is_float() => float::emit(e, op, dtype, operands)
            .ok_or_else(unsupported)?
            .into(),
        (_, &[.., dtype], _) => integer::emit(e, op, dtype, operands).ok_or_else(unsupported)?,
        _ => return Err(unsupported()),
    };
    Ok(outcome)
}

#[cfg(test)]
mod tests;
