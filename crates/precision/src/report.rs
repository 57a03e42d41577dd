//! The report of a rewrite: which products it changed, and which it left unchanged.

use crate::format::Format;
use kiln_ir::ValueId;
use std::fmt;

/// The result of [`reduce_precision`](crate::reduce_precision), product by product.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct PrecisionReport {
    /// The products that were rewritten, in the order of the graph.
    pub changes: Vec<Change>,
    /// The products that were not, although a format was set for them.
    pub unchanged: Vec<Unchanged>,
}

/// A rewritten product.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Change {
    /// Its name.
    pub op: String,
    /// Its result, in the graph that was rewritten.
    pub value: ValueId,
    /// Its format.
    pub format: Format,
    /// Bytes of its weights before; 0 if no operand is constant.
    pub bytes_before: usize,
    /// Bytes of its weights with their scales and zero points.
    pub bytes_after: usize,
    /// The error of the weights: the norm of the differences over the norm of the weights. None if no operand is constant.
    pub weight_error: Option<f64>,
}

/// A product that was left unchanged.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Unchanged {
    /// Its name.
    pub op: String,
    /// The format that was set for it.
    pub format: Format,
    /// Why it was not rewritten.
    pub reason: Reason,
}

/// Why a product was not rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// No operand on the right is constant.
    NoWeights,
    /// Groups and 4-bit codes are only for matmuls.
    Convolution,
    /// An element of the weights is NaN or infinite.
    NotFinite,
    /// The weights are empty.
    Empty,
    /// A sum of this many products might not fit in i32.
    TooDeep,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoWeights => "its right operand is no constant",
            Self::Convolution => "weights of convolutions have 8 bits and a scale per channel",
            Self::NotFinite => "its weights are not finite",
            Self::Empty => "its weights are empty",
            Self::TooDeep => "its sums are too long for i32",
        })
    }
}

impl PrecisionReport {
    /// Bytes of all rewritten weights before.
    pub fn bytes_before(&self) -> usize {
        let bytes = self.changes.iter().map(|change| change.bytes_before);
        bytes.fold(0, usize::saturating_add)
    }

    /// Bytes of all rewritten weights after.
    pub fn bytes_after(&self) -> usize {
        let bytes = self.changes.iter().map(|change| change.bytes_after);
        bytes.fold(0, usize::saturating_add)
    }
}
