//! Zeroed bytes outside tensors: buffers for file contents before they are parsed.

use crate::TensorError;

/// `n` zeros.
///
/// # Errors
/// [`TensorError::Allocation`] if memory for them cannot be allocated.
///
/// ```
/// assert_eq!(kiln_tensor::zeroed_bytes(3)?, [0; 3]);
/// assert_eq!(kiln_tensor::zeroed_bytes(usize::MAX).unwrap_err().code(), "E0840");
/// # Ok::<(), kiln_tensor::TensorError>(())
/// ```
pub fn zeroed_bytes(bytes: usize) -> Result<Vec<u8>, TensorError> {
    let mut zeroed = Vec::new();
    zeroed
        .try_reserve_exact(bytes)
        .map_err(|_| TensorError::Allocation { bytes })?;
    zeroed.resize(bytes, 0);
    Ok(zeroed)
}
