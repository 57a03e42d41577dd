//! Packing of a constant operand according to a [`PackSpec`], and its inverse. Applied once per constant, not per launch.

#[cfg(test)]
mod tests;

use kiln_tensor::{DType, Tensor, TensorError};
use serde::{Deserialize, Serialize};

/// How a constant operand is packed: row-major over the listed axes, with partial blocks padded with zeros.
///
/// Each axis of the operand is named once, whole, or twice, as the number of a block and the index within it.
///
/// ```
/// use kiln_backend::{PackAxis, PackSpec};
/// use kiln_tensor::Tensor;
///
/// // Columns in blocks of two, the blocks outermost.
/// let spec = PackSpec {
///     buffer: 0,
///     axes: vec![PackAxis::Outer { axis: 1, block: 2 }, PackAxis::Whole(0), PackAxis::Inner { axis: 1, block: 2 }],
/// };
/// let packed = spec.apply(&Tensor::from_slice(&[2, 3], &[1, 2, 3, 4, 5, 6])?)?;
/// assert_eq!(packed.shape(), [2, 2, 2]);
/// assert_eq!(packed.to_vec::<i32>()?, [1, 2, 4, 5, 3, 0, 6, 0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PackSpec {
    /// The buffer, by position.
    pub buffer: usize,
    /// The axes of the packed array, outermost first.
    pub axes: Vec<PackAxis>,
}

/// An axis of a packed array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PackAxis {
    /// A whole axis of the operand.
    Whole(usize),
    /// The number of the block, of an axis divided into blocks.
    Outer {
        /// The axis of the operand.
        axis: usize,
        /// Elements per block.
        block: usize,
    },
    /// The index within the block.
    Inner {
        /// The axis of the operand.
        axis: usize,
        /// Elements per block.
        block: usize,
    },
}

/// Why an operand cannot be packed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PackError {
    /// E0246: an axis that the operand does not have.
    #[error("expected an axis below {rank} to pack, found {axis}")]
    Axis {
        /// The axis named.
        axis: usize,
        /// The operand's rank.
        rank: usize,
    },
    /// E0247: an axis that does not occur exactly once, whole or as blocks of one size.
    #[error(
        "expected axis {axis} to be packed whole, or as the number of a block and the index within it, once each"
    )]
    Parts {
        /// The axis.
        axis: usize,
    },
    /// E0248: the packed array cannot be made.
    #[error("cannot make the packed array: {0}")]
    Tensor(#[from] TensorError),
    /// E0249: the packed array does not fit the address space.
    #[error("expected a packed array that fits in memory, found {0:?}")]
    TooLarge(Vec<usize>),
    /// E0268: memory that is not a packed array of the operand.
    #[error("expected a packed array of {expected} bytes, found {found}")]
    Length {
        /// Bytes of the packed operand.
        expected: usize,
        /// Bytes given.
        found: usize,
    },
}

impl PackError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Axis { .. } => "E0246",
            Self::Parts { .. } => "E0247",
            Self::Tensor(_) => "E0248",
            Self::TooLarge(_) => "E0249",
            Self::Length { .. } => "E0268",
        }
    }
}

/// A loop over the packed array: an axis of the operand and its step along it.
#[derive(Clone, Copy)]
struct Loop {
    axis: usize,
    extent: usize,
    step: usize,
}

impl PackSpec {
    /// The shape of the packed array of an operand of this shape.
    ///
    /// # Errors
    /// If the specification does not fit the shape.
    pub fn packed_shape(&self, shape: &[usize]) -> Result<Vec<usize>, PackError> {
        Ok(self.loops(shape)?.iter().map(|part| part.extent).collect())
    }

    /// The packed operand.
    ///
    /// # Errors
    /// If the specification does not fit the operand, or memory cannot be allocated.
    pub fn apply(&self, tensor: &Tensor) -> Result<Tensor, PackError> {
        let loops = self.loops(tensor.shape())?;
        let (shape, _) = packed_size(&loops, tensor.dtype())?;
        let element = tensor.dtype().size_in_bytes();
        let source = tensor.contiguous()?;
        // Directly into its final place: weights are large.
        let packed = Tensor::filled_by(tensor.dtype(), &shape, |packed| {
            copy(source.as_bytes()?, tensor.shape(), &loops, element, packed);
            Ok(())
        });
        Ok(packed?)
    }

    /// The operand, of this dtype and shape, that was packed: the inverse of [`apply`](Self::apply). Only the bytes of
    /// `packed` matter.
    ///
    /// # Errors
    /// If the specification does not fit the shape, `packed` is not as large as the packed operand, or memory cannot be
    /// allocated.
    ///
    /// ```
    /// use kiln_backend::{PackAxis, PackSpec};
    /// use kiln_tensor::{DType, Tensor};
    ///
    /// let spec = PackSpec { buffer: 0, axes: vec![PackAxis::Whole(1), PackAxis::Whole(0)] };
    /// let packed = Tensor::from_slice(&[6], &[1, 4, 2, 5, 3, 6])?;
    /// let operand = spec.undo(&packed, DType::I32, &[2, 3])?;
    /// assert_eq!(operand.to_vec::<i32>()?, [1, 2, 3, 4, 5, 6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn undo(
        &self,
        packed: &Tensor,
        dtype: DType,
        shape: &[usize],
    ) -> Result<Tensor, PackError> {
        let loops = self.loops(shape)?;
        let (_, expected) = packed_size(&loops, dtype)?;
        let packed = packed.contiguous()?;
        let bytes = packed.as_bytes()?;
        if bytes.len() != expected {
            return Err(PackError::Length {
                expected,
                found: bytes.len(),
            });
        }
        let element = dtype.size_in_bytes();
        let operand = Tensor::filled_by(dtype, shape, |operand| {
            for_each_run(shape, &loops, element, |run| {
                for (from, to) in run.elements(element) {
                    operand[to..to + element].copy_from_slice(&bytes[from..from + element]);
                }
            });
            Ok(())
        });
        Ok(operand?)
    }

    fn loops(&self, shape: &[usize]) -> Result<Vec<Loop>, PackError> {
        for axis in 0..shape.len() {
            let mut outer = None;
            let mut inner = None;
            let mut whole = 0;
            for part in &self.axes {
                let found = match *part {
                    PackAxis::Whole(own) if own == axis => {
                        whole += 1;
                        continue;
                    }
                    PackAxis::Outer { axis: own, block } if own == axis => outer.replace(block),
                    PackAxis::Inner { axis: own, block } if own == axis => inner.replace(block),
                    _ => continue,
                };
                if found.is_some() {
                    return Err(PackError::Parts { axis });
                }
            }
            let is_right = match (whole, outer, inner) {
                (1, None, None) => true,
                (0, Some(outer), Some(inner)) => outer == inner && outer > 0,
                _ => false,
            };
            if !is_right {
                return Err(PackError::Parts { axis });
            }
        }
        let size = |axis: usize| {
            shape.get(axis).copied().ok_or(PackError::Axis {
                axis,
                rank: shape.len(),
            })
        };
        let parts = self.axes.iter().map(|part| {
            Ok(match *part {
                PackAxis::Whole(axis) => Loop {
                    axis,
                    extent: size(axis)?,
                    step: 1,
                },
                PackAxis::Outer { axis, block } => Loop {
                    axis,
                    extent: size(axis)?.div_ceil(block),
                    step: block,
                },
                PackAxis::Inner { axis, block } => {
                    size(axis)?;
                    Loop {
                        axis,
                        extent: block,
                        step: 1,
                    }
                }
            })
        });
        parts.collect()
    }
}

/// The shape of a packed array, and its bytes.
fn packed_size(loops: &[Loop], dtype: DType) -> Result<(Vec<usize>, usize), PackError> {
    let shape: Vec<usize> = loops.iter().map(|part| part.extent).collect();
    let bytes = shape
        .iter()
        .try_fold(dtype.size_in_bytes(), |bytes, &extent| {
            bytes.checked_mul(extent)
        });
    match bytes.filter(|&bytes| isize::try_from(bytes).is_ok()) {
        Some(bytes) => Ok((shape, bytes)),
        None => Err(PackError::TooLarge(shape)),
    }
}

/// Copies run by run in the packed order into zeros: elements beyond the operand stay zero.
fn copy(source: &[u8], shape: &[usize], loops: &[Loop], element: usize, packed: &mut [u8]) {
    for_each_run(shape, loops, element, |run| {
        if run.stride == element {
            let bytes = run.count * element;
            let (to, from) = (run.packed, run.operand);
            packed[to..to + bytes].copy_from_slice(&source[from..from + bytes]);
            return;
        }
        for (to, from) in run.elements(element) {
            packed[to..to + element].copy_from_slice(&source[from..from + element]);
        }
    });
}

/// A run of elements of an operand that are adjacent when packed, in bytes.
struct Run {
    /// The offset of the first element when packed.
    packed: usize,
    /// Its offset in the operand.
    operand: usize,
    /// The distance between elements in the operand.
    stride: usize,
    count: usize,
}

impl Run {
    /// The place of each element, packed and in the operand.
    fn elements(&self, element: usize) -> impl Iterator<Item = (usize, usize)> {
        let (packed, operand, stride) = (self.packed, self.operand, self.stride);
        (0..self.count).map(move |number| (packed + number * element, operand + number * stride))
    }
}

/// Visits the operand's elements in the packed order, a run being the part of an innermost loop that is inside the operand.
fn for_each_run(shape: &[usize], loops: &[Loop], element: usize, mut visit: impl FnMut(Run)) {
    let mut strides = vec![element; shape.len()];
    for axis in (1..shape.len()).rev() {
        strides[axis - 1] = strides[axis].saturating_mul(shape[axis]);
    }
    if loops.iter().any(|part| part.extent == 0) {
        return;
    }
    let Some((run, around)) = loops.split_last() else {
        // A scalar.
        return visit(Run {
            packed: 0,
            operand: 0,
            stride: element,
            count: 1,
        });
    };
    let mut counters = vec![0_usize; around.len()];
    let mut indices = vec![0_usize; shape.len()];
    let runs: usize = around.iter().map(|part| part.extent).product();
    for number in 0..runs {
        let is_inside = indices.iter().zip(shape).all(|(index, size)| index < size);
        if is_inside {
            let inside = (shape[run.axis] - indices[run.axis]).div_ceil(run.step);
            let starts = indices.iter().zip(&strides);
            visit(Run {
                packed: number * run.extent * element,
                operand: starts.map(|(index, stride)| index * stride).sum(),
                stride: strides[run.axis] * run.step,
                count: inside.min(run.extent),
            });
        }
        // Advances to the next run: the innermost surrounding counter that has not ended, with those inside it reset.
        for (counter, part) in counters.iter_mut().zip(around).rev() {
            *counter += 1;
            indices[part.axis] += part.step;
            if *counter < part.extent {
                break;
            }
            indices[part.axis] -= part.step * part.extent;
            *counter = 0;
        }
    }
}
