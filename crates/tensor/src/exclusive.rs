//! The unshared memory of a tensor, without the tensor.

use std::fmt;
use std::sync::Arc;

use crate::layout::Layout;
use crate::storage::Storage;
use crate::{DType, Tensor, TensorError, element_count};

/// Memory that belonged to a single tensor, to be written by code without knowledge of shapes, and turned into a tensor
/// again.
///
/// ```
/// use kiln_tensor::{DType, Tensor};
///
/// let x = Tensor::from_slice(&[2], &[1.0f32, 2.0])?;
/// let mut memory = x.into_exclusive().unwrap_or_else(|_| unreachable!("it is not shared"));
/// memory.bytes_mut().fill(0);
/// let x = Tensor::of_exclusive(DType::F32, &[2], memory)?;
/// assert_eq!(x.to_vec::<f32>()?, [0.0, 0.0]);
/// # Ok::<(), kiln_tensor::TensorError>(())
/// ```
pub struct Exclusive(Arc<Storage>);

impl Exclusive {
    /// All bytes of the memory.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        let bytes = Arc::get_mut(&mut self.0).and_then(Storage::bytes_mut);
        bytes.unwrap_or_else(|| unreachable!("it was seen to be unshared, and is never shared"))
    }
}

impl Tensor {
    /// Takes the memory of a tensor.
    ///
    /// # Errors
    /// The tensor, if its memory is shared or foreign, has more than its elements or has them in a different order, and
    /// for `bool`, for which not every byte is valid.
    #[allow(
        clippy::result_large_err,
        reason = "on refusal the caller keeps the tensor, and a box would be an allocation"
    )]
    pub fn into_exclusive(mut self) -> Result<Exclusive, Self> {
        let length = self.byte_len();
        let is_plain = self.dtype() != DType::Bool && self.is_contiguous();
        let storage = self.storage_mut();
        let bytes = Arc::get_mut(storage).and_then(Storage::bytes_mut);
        let is_own = bytes.is_some_and(|bytes| bytes.len() == length);
        if is_plain && is_own {
            return Ok(Exclusive(self.into_storage()));
        }
        Err(self)
    }

    /// The tensor whose elements a memory holds in row-major order.
    ///
    /// # Errors
    /// When the memory's length differs from that of the elements; `bool`.
    pub fn of_exclusive(
        dtype: DType,
        shape: &[usize],
        mut memory: Exclusive,
    ) -> Result<Self, TensorError> {
        let expected = element_count(dtype, shape)? * dtype.size_in_bytes();
        let found = memory.bytes_mut().len();
        if expected != found || dtype == DType::Bool {
            return Err(TensorError::LengthMismatch {
                expected,
                found,
                unit: "bytes",
            });
        }
        Ok(Self::of_shared(dtype, Layout::row_major(shape), memory.0))
    }
}

impl fmt::Debug for Exclusive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Exclusive")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_uniquely_owned_whole_memory_is_given_away() {
        let x = Tensor::from_slice(&[2, 2], &[1i32, 2, 3, 4]).unwrap();
        let start = x.as_bytes().unwrap().as_ptr();
        let part = x.narrow(0, 0, 1).unwrap().into_exclusive().unwrap_err();
        assert!(part.into_exclusive().is_err());
        assert!(x.clone().into_exclusive().is_err());
        let turned = x.transpose(&[1, 0]).unwrap();
        drop(x);
        let turned = turned.into_exclusive().unwrap_err();
        let back = turned.transpose(&[1, 0]).unwrap();
        drop(turned);
        let memory = back.into_exclusive().unwrap();
        assert_eq!(format!("{memory:?}"), "Exclusive");
        let flat = Tensor::of_exclusive(DType::U16, &[8], memory).unwrap();
        assert_eq!(flat.as_bytes().unwrap().as_ptr(), start);
        let memory = flat.into_exclusive().unwrap();
        let error = Tensor::of_exclusive(DType::U16, &[3], memory).unwrap_err();
        assert!(matches!(
            error,
            TensorError::LengthMismatch {
                expected: 6,
                found: 16,
                ..
            }
        ));
        let first = Tensor::from_slice(&[2], &[1u8, 2]).unwrap().narrow(0, 0, 1);
        assert!(first.unwrap().into_exclusive().is_err());
        assert!(Tensor::full(&[2], true).unwrap().into_exclusive().is_err());
    }
}
