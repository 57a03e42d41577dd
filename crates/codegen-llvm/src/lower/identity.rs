//! The identity element and the combining operation of each reduction.

use inkwell::{FloatPredicate, IntPredicate};
use kiln_kernel::Reduction;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_tensor::DType;

use super::context::KernelLowering;
use crate::emit::Value;
use crate::error::LlvmError;
use crate::scalar_ops;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The initial value of a reduction: its identity, or zero for an arg-reduction.
    pub(super) fn identity(&self, reduction: Reduction, dtype: DType) -> Value<'ctx> {
        let zero = ScalarValue::zero(dtype);
        let identity = match reduction {
            Reduction::Max if is_on(Fault::WrongIdentity) => zero,
            _ => reduction.identity(dtype).unwrap_or(zero),
        };
        self.literal(identity)
    }

    /// Combines two values of a dtype as a reduction does; not for arg-reductions.
    pub(super) fn join(
        &self,
        reduction: Reduction,
        dtype: DType,
        a: Value<'ctx>,
        b: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let op = match reduction {
            Reduction::Add if dtype == DType::Bool => ScalarOp::Or,
            Reduction::Add => ScalarOp::Add,
            Reduction::Mul if dtype == DType::Bool => ScalarOp::And,
            Reduction::Mul => ScalarOp::Mul,
            Reduction::Min if dtype == DType::Bool => ScalarOp::And,
            Reduction::Min => ScalarOp::Min,
            Reduction::Max if dtype == DType::Bool => ScalarOp::Or,
            Reduction::Max => ScalarOp::Max,
            Reduction::And => ScalarOp::And,
            Reduction::Or => ScalarOp::Or,
            Reduction::ArgMin { .. } | Reduction::ArgMax { .. } => {
                unreachable!("arg-reductions join values and indices")
            }
        };
        Ok(scalar_ops::emit(&self.emit, op, &[dtype, dtype], &[a, b])?.value)
    }

    /// Whether a value replaces the best one so far in an arg-reduction.
    pub(super) fn is_better(
        &self,
        reduction: Reduction,
        dtype: DType,
        value: Value<'ctx>,
        best: Value<'ctx>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let emit = &self.emit;
        let (larger, last) = match reduction {
            Reduction::ArgMax { last } => (true, last),
            Reduction::ArgMin { last } => (false, last),
            _ => unreachable!("only arg-reductions have a best value"),
        };
        let last = last != is_on(Fault::WrongArgTie);
        if dtype.is_float() {
            // 16-bit floats are compared as the floats they encode.
            let widened = |value| {
                if dtype == DType::F32 || dtype == DType::F64 {
                    return Ok(value);
                }
                let cast = ScalarOp::Cast(DType::F32);
                scalar_ops::emit(emit, cast, &[dtype], &[value]).map(|outcome| outcome.value)
            };
            let (value, best) = (widened(value)?, widened(best)?);
            let predicate = match (larger, last) {
                (true, false) => FloatPredicate::OGT,
                (true, true) => FloatPredicate::OGE,
                (false, false) => FloatPredicate::OLT,
                (false, true) => FloatPredicate::OLE,
            };
            let beyond = emit.fcmp(predicate, value, best);
            let (value_nan, best_nan) = (emit.is_nan(value), emit.is_nan(best));
            let first_nan = if last {
                value_nan
            } else {
                emit.and(value_nan, emit.not(best_nan))
            };
            return Ok(emit.or(beyond, first_nan));
        }
        let signed = dtype.is_signed() && dtype != DType::Bool;
        let predicate = match (larger, last, signed) {
            (true, false, true) => IntPredicate::SGT,
            (true, true, true) => IntPredicate::SGE,
            (false, false, true) => IntPredicate::SLT,
            (false, true, true) => IntPredicate::SLE,
            (true, false, false) => IntPredicate::UGT,
            (true, true, false) => IntPredicate::UGE,
            (false, false, false) => IntPredicate::ULT,
            (false, true, false) => IntPredicate::ULE,
        };
        Ok(emit.icmp(predicate, value, best))
    }
}
