//! Why a region cannot be lowered to one kernel. Fusion reports these as reasons.

use kiln_ir::{OpId, ValueId};
use kiln_kernel::KernelError;
use kiln_symbolic_shape::DimError;

/// Why a region cannot be one kernel.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LowerError {
    /// E0401: an operation, or a form of it, that no kernel computes.
    #[error("expected operations that a kernel computes, found `{mnemonic}` ({op}): {why}")]
    Unsupported {
        /// The op.
        op: OpId,
        /// Its mnemonic.
        mnemonic: &'static str,
        /// The obstacle.
        why: &'static str,
    },
    /// E0402: a value that is not a tensor.
    #[error("expected tensors, found {value} of another type")]
    NotTensor {
        /// The value.
        value: ValueId,
    },
    /// E0403: outputs whose points do not correspond.
    #[error(
        "expected outputs over the same points, found {left} over {left_shape} and {right} over {right_shape}"
    )]
    Domains {
        /// One output.
        left: ValueId,
        /// The sizes it is computed over.
        left_shape: String,
        /// The other.
        right: ValueId,
        /// The sizes it is computed over.
        right_shape: String,
    },
    /// E0404: a reduction's result is read at computed positions, so that it would be recomputed for each position.
    #[error(
        "expected {value} to be read along its axes, found a computed position on axis {axis}; compute it in a kernel of its own"
    )]
    Recompute {
        /// The reduction's result.
        value: ValueId,
        /// The axis.
        axis: usize,
    },
    /// E0405: positions that are data, into a value that is not in memory, so that they could not be checked.
    #[error(
        "expected {value} in memory where positions are data, found it computed in the same kernel"
    )]
    CheckedPosition {
        /// The value read.
        value: ValueId,
    },
    /// E0406: too much for one kernel.
    #[error(
        "expected at most {limit} {what} in a kernel, found {given}; lower fewer operations at once"
    )]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The given number.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// E0407: a size that cannot be expressed.
    #[error("a size of the kernel cannot be expressed: {0}")]
    Size(#[from] DimError),
    /// E0408: the kernel is not well formed.
    #[error("the kernel is not well formed: {0}")]
    Kernel(#[from] KernelError),
    /// E0409: a scatter whose result is used within the kernel, or next to other outputs.
    #[error("expected a scatter to be the kernel's only output, found {value} used otherwise")]
    Scatter {
        /// The scatter's result.
        value: ValueId,
    },
    /// E0410: sizes that an op requires and never has.
    #[error("expected {what}, which never holds")]
    Impossible {
        /// The requirement.
        what: String,
    },
    /// E0411: an output that the region does not compute.
    #[error("expected outputs that the region computes, found {value}")]
    Output {
        /// The output.
        value: ValueId,
    },
}

impl LowerError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unsupported { .. } => "E0401",
            Self::NotTensor { .. } => "E0402",
            Self::Domains { .. } => "E0403",
            Self::Recompute { .. } => "E0404",
            Self::CheckedPosition { .. } => "E0405",
            Self::Limit { .. } => "E0406",
            Self::Size(_) => "E0407",
            Self::Kernel(_) => "E0408",
            Self::Scatter { .. } => "E0409",
            Self::Impossible { .. } => "E0410",
            Self::Output { .. } => "E0411",
        }
    }
}
