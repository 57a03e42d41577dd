//! Builtins: program steps that are not kernels and are implemented by the executor itself.

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

/// An operation on whole tensors that the kernel form does not express. Operands and results are row-major.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Builtin {
    /// `x -> values, indices: i64`: the first `results[0].shape[axis]` elements along `axis`, sorted; a NaN counts as
    /// larger than all; of equal elements, the earlier is first. With a result as long as the operand, this is a sort.
    TopK {
        /// The axis.
        axis: usize,
        /// Whether the order is descending.
        largest: bool,
    },
    /// `x -> indices: i64[rank, capacity], count: i64[]`: the positions of the nonzero elements, in row-major order; the
    /// count is also the resulting size. Entries beyond the count are 0.
    NonZero,
    /// `boxes: f32[N, B, 4], scores: f32[N, C, B], overlap: f32[], least: f32[] -> selected: i64[N * C * k, 3], count:
    /// i64[]`: non-maximum suppression. Of each class, at most `k` boxes are kept, in descending order of their scores,
    /// as defined by `TopK`. Boxes are dropped if their score is not above `least`, unless that is NaN, or if their
    /// intersection with a kept box is more than `overlap` times the union. A box is given by two opposite corners. The
    /// first `count` rows are the batch, class and box of each box that is kept; the others are 0.
    Suppress,
    /// `x -> x`: copies the elements. Shapes may differ if the number of elements is equal.
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
