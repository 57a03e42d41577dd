//! Shared ownership of a tensor's memory, without the tensor.

use std::fmt;
use std::sync::Arc;

use crate::Tensor;
use crate::storage::Storage;

/// Keeps the memory of a tensor alive and unchanged: writing to a tensor whose memory is shared writes to a copy.
///
/// Smaller than a clone of the tensor, which carries a shape and strides as well.
///
/// ```
/// use kiln_tensor::Tensor;
///
/// let mut x = Tensor::from_slice(&[2], &[1.0f32, 2.0])?;
/// let before = x.as_bytes()?.as_ptr();
/// let share = x.share();
/// x.as_mut_slice::<f32>()?.fill(0.0);
/// assert_ne!(x.as_bytes()?.as_ptr(), before);
/// drop(share);
/// # Ok::<(), kiln_tensor::TensorError>(())
/// ```
#[derive(Clone)]
pub struct Share(#[allow(dead_code, reason = "held for its drop")] Arc<Storage>);

impl Tensor {
    /// A share of the tensor's memory.
    pub fn share(&self) -> Share {
        Share(self.storage())
    }
}

impl fmt::Debug for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Share")
    }
}
