//! Program steps that are not kernels: an executor implements them itself.

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

/// An operation on whole tensors that the kernel form does not express. Operands and results are row-major.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Builtin {
    /// `x -> values, indices: i64`: the first `results[0].shape[axis]` elements along `axis`, sorted; a NaN counts as
    /// larger than all; of equal ones the earlier first. With a result as long as the operand it sorts.
    TopK {
        /// The axis.
        axis: usize,
        /// Largest first, or smallest.
        largest: bool,
    },
    /// `x -> indices: i64[rank, capacity], count: i64[]`: where elements are not zero, in row-major order; the count is
    /// also the size found. What lies beyond the count is 0.
    NonZero,
    /// `x -> x`: the same elements elsewhere. Shapes may differ where the number of elements does not.
    Copy,
}

/// A tensor that a builtin reads or writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuiltinOperand<'a> {
    /// The elements.
    pub dtype: DType,
    /// The sizes.
    pub shape: &'a [usize],
}
