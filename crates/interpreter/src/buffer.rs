//! Access to elements and allocation of buffers, with failed allocation as an error.

use kiln_tensor::{Tensor, TensorError, match_dtype};

/// The tensor itself, or an aligned, row-major copy of it.
pub(crate) fn dense(tensor: &Tensor) -> Result<Tensor, TensorError> {
    let tensor = tensor.contiguous()?;
    let unaligned = match_dtype!(tensor.dtype(), T => {
        matches!(tensor.as_slice::<T>(), Err(TensorError::Unaligned { .. }))
    });
    if unaligned {
        tensor.copied()
    } else {
        Ok(tensor)
    }
}

/// An empty vector with room for `len` items.
pub(crate) fn reserved<T>(len: usize) -> Result<Vec<T>, TensorError> {
    let mut buffer = Vec::new();
    let bytes = len.saturating_mul(size_of::<T>());
    buffer
        .try_reserve_exact(len)
        .map_err(|_| TensorError::Allocation { bytes })?;
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strided_tensors_are_copied_and_others_shared() {
        let x = Tensor::from_slice(&[2, 2], &[1i32, 2, 3, 4]).unwrap();
        let start = |x: &Tensor| x.as_slice::<i32>().unwrap().as_ptr();
        assert_eq!(start(&dense(&x).unwrap()), start(&x));
        let columns = x.transpose(&[1, 0]).unwrap();
        assert_eq!(
            dense(&columns).unwrap().as_slice::<i32>().unwrap(),
            [1, 3, 2, 4]
        );
    }

    #[test]
    fn a_failed_allocation_is_an_error() {
        assert!(matches!(
            reserved::<u64>(usize::MAX / 4),
            Err(TensorError::Allocation { bytes: usize::MAX })
        ));
        assert!(matches!(
            reserved::<u8>(isize::MAX as usize),
            Err(TensorError::Allocation { .. })
        ));
    }
}
