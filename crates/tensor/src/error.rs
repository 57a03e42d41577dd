//! Errors of host tensors.

use std::fmt;
use std::io;

use crate::DType;

/// An error of this crate. Each variant names its code.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TensorError {
    /// E0180: a name that is not a dtype.
    #[error("unknown dtype `{}`, expected one of {}", .name.escape_default(), DTypeNames)]
    UnknownDType {
        /// The name, cut at 32 characters.
        name: String,
    },

    /// E0181: the name of a dtype that a later version will define.
    #[error("dtype `{name}` is reserved for a later version")]
    ReservedDType {
        /// The name.
        name: String,
    },

    /// E0340: a shape whose size in bytes does not fit the address space.
    #[error(
        "shape {shape:?} of {dtype} is too large: the product of its non-zero dims must stay within {} bytes",
        isize::MAX
    )]
    SizeOverflow {
        /// The requested shape, cut at 16 dims.
        shape: Vec<usize>,
        /// The element type.
        dtype: DType,
    },

    /// E0341: data whose length differs from the shape's.
    #[error("expected {expected} {unit}, found {found}")]
    LengthMismatch {
        /// The shape's number.
        expected: usize,
        /// The given number.
        found: usize,
        /// What is counted: elements, bytes, strides.
        unit: &'static str,
    },

    /// E0342: elements of a different type than the tensor's.
    #[error("expected elements of {expected}, found {found}")]
    DTypeMismatch {
        /// The requested type, or that of the other operand.
        expected: DType,
        /// The tensor's type.
        found: DType,
    },

    /// E0343: an axis that the tensor does not have.
    #[error("axis {axis} is out of range for rank {rank}")]
    AxisOutOfRange {
        /// The axis.
        axis: usize,
        /// The tensor's rank.
        rank: usize,
    },

    /// E0344: a transposition that does not name each axis once.
    #[error("expected a permutation of the axes 0..{rank}, found {permutation:?}")]
    NotAPermutation {
        /// What was given, cut at 16 axes.
        permutation: Vec<usize>,
        /// The tensor's rank.
        rank: usize,
    },

    /// E0345: a slice that exceeds its axis.
    #[error("slice of {len} from {start} by step {step} leaves axis {axis} of size {size}")]
    SliceOutOfRange {
        /// The axis.
        axis: usize,
        /// First index.
        start: usize,
        /// Number of indices.
        len: usize,
        /// Distance between indices.
        step: isize,
        /// The axis's size.
        size: usize,
    },

    /// E0346: a shape that cannot be broadcast to another.
    #[error(
        "shape {from:?} cannot be broadcast to {to:?}: each dim must be 1 or equal, counted from the last"
    )]
    BroadcastMismatch {
        /// The tensor's shape.
        from: Vec<usize>,
        /// The requested shape.
        to: Vec<usize>,
    },

    /// E0347: a reshape that changes the number of elements.
    #[error(
        "shape {from:?} cannot be reshaped to {to:?}: expected {expected} elements, found {found}"
    )]
    ReshapeMismatch {
        /// The tensor's shape.
        from: Vec<usize>,
        /// The requested shape.
        to: Vec<usize>,
        /// Elements of the tensor.
        expected: usize,
        /// Elements of the requested shape.
        found: usize,
    },

    /// E0348: an axis to be removed whose size is not 1.
    #[error("axis {axis} cannot be squeezed: expected size 1, found {size}")]
    NotSqueezable {
        /// The axis.
        axis: usize,
        /// Its size.
        size: usize,
    },

    /// E0349: tensors to be concatenated that differ on an axis other than the concatenated one.
    #[error(
        "operand {operand} of the concatenation along axis {axis}: expected {expected:?} (any size on that axis), found {found:?}"
    )]
    ConcatMismatch {
        /// Which operand, counted from 0.
        operand: usize,
        /// The axis.
        axis: usize,
        /// Shape of the first operand.
        expected: Vec<usize>,
        /// Shape of this operand.
        found: Vec<usize>,
    },

    /// E0350: nothing to concatenate.
    #[error("expected at least one tensor to concatenate, found none")]
    NothingToConcat,

    /// E0351: a slice was requested of a tensor whose elements are not contiguous.
    #[error("the elements of this view are not contiguous: call `contiguous` first")]
    NotContiguous,

    /// E0352: a slice was requested of foreign memory that is not aligned for the element type.
    #[error(
        "this foreign memory is not aligned to {align} bytes: call `to_vec`, or copy the tensor"
    )]
    Unaligned {
        /// The element type's alignment.
        align: usize,
    },

    /// E0353: strides that address elements outside the given memory.
    #[error(
        "shape {shape:?} with strides {strides:?} and offset {offset} does not fit in memory of {elements} elements"
    )]
    StridesOutOfRange {
        /// The shape.
        shape: Vec<usize>,
        /// The strides, in elements.
        strides: Vec<isize>,
        /// The first element.
        offset: usize,
        /// The memory's size, in elements.
        elements: usize,
    },

    /// E0354: a byte that is neither 0 nor 1 where a `bool` was expected.
    #[error("expected bytes 0 and 1 for elements of bool, found another value")]
    NotABool,

    /// E0840: a failed allocation.
    #[error("cannot allocate {bytes} bytes for a tensor: free memory or use smaller shapes")]
    Allocation {
        /// The requested size.
        bytes: usize,
    },

    /// E0940: bytes that are not a `.npy` file or `.npz` archive as the format defines it.
    #[error("not a valid {format} file: {reason}")]
    Malformed {
        /// `.npy` or `.npz`.
        format: &'static str,
        /// What is wrong.
        reason: String,
    },

    /// E0941: a valid file with content that has no counterpart here.
    #[error("unsupported {format} content: {what}")]
    Unsupported {
        /// `.npy` or `.npz`.
        format: &'static str,
        /// The content.
        what: String,
    },

    /// E0942: the underlying reader or writer failed.
    #[error("reading or writing a tensor failed")]
    Io(#[from] io::Error),

    /// E0943: elements that are loaded on first use could not be loaded.
    #[error("the elements cannot be loaded: {0}")]
    Deferred(Box<dyn std::error::Error + Send + Sync>),
}

impl From<TensorError> for io::Error {
    /// For readers and writers of files, whose errors are the system's.
    fn from(error: TensorError) -> Self {
        match error {
            TensorError::Io(error) => error,
            TensorError::Allocation { .. } => Self::new(io::ErrorKind::OutOfMemory, error),
            error => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

impl TensorError {
    /// The code of a slice that exceeds its axis.
    pub const SLICE_OUT_OF_RANGE: &str = "E0345";
    /// The code of a shape that cannot be broadcast to another.
    pub const BROADCAST_MISMATCH: &str = "E0346";
    /// The code of a shape with a different number of elements.
    pub const RESHAPE_MISMATCH: &str = "E0347";

    /// The error's stable code.
    pub fn code(&self) -> &'static str {
        match self {
            TensorError::UnknownDType { .. } => "E0180",
            TensorError::ReservedDType { .. } => "E0181",
            TensorError::SizeOverflow { .. } => "E0340",
            TensorError::LengthMismatch { .. } => "E0341",
            TensorError::DTypeMismatch { .. } => "E0342",
            TensorError::AxisOutOfRange { .. } => "E0343",
            TensorError::NotAPermutation { .. } => "E0344",
            TensorError::SliceOutOfRange { .. } => Self::SLICE_OUT_OF_RANGE,
            TensorError::BroadcastMismatch { .. } => Self::BROADCAST_MISMATCH,
            TensorError::ReshapeMismatch { .. } => Self::RESHAPE_MISMATCH,
            TensorError::NotSqueezable { .. } => "E0348",
            TensorError::ConcatMismatch { .. } => "E0349",
            TensorError::NothingToConcat => "E0350",
            TensorError::NotContiguous => "E0351",
            TensorError::Unaligned { .. } => "E0352",
            TensorError::StridesOutOfRange { .. } => "E0353",
            TensorError::NotABool => "E0354",
            TensorError::Allocation { .. } => "E0840",
            TensorError::Malformed { .. } => "E0940",
            TensorError::Unsupported { .. } => "E0941",
            TensorError::Io(_) => "E0942",
            TensorError::Deferred(_) => "E0943",
        }
    }
}

/// Dims for a message: at most 16 of them.
pub(crate) fn excerpt<T: Copy>(dims: &[T]) -> Vec<T> {
    dims.iter().copied().take(16).collect()
}

struct DTypeNames;

impl fmt::Display for DTypeNames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        f.write_str(&names.join(", "))
    }
}
