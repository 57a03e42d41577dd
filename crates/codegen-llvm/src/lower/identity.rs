//! The identity element and the combining operation of each reduction.

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
}
