//! Elements that are loaded on first use, such as weights in a file of which a program may need only a few.
//!
//! Dtype and shape are known from the start; copies and views share what is loaded. A failed load is an error of that
//! access, and the next access tries again. The current owner of the elements, such as the memory of a device, can be
//! queried: see `resident`.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use kiln_fork_lock::ForkCell;

use crate::layout::Layout;
use crate::storage::Storage;
use crate::{DType, Tensor, TensorError, element_count};

type Load = dyn Fn() -> Result<Tensor, TensorError> + Send + Sync;

/// Bytes that may not be loaded yet.
pub(crate) struct Deferred {
    loaded: ForkCell<Tensor>,
    load: Box<Load>,
    dtype: DType,
    len: usize,
    /// The owner of the elements, in row-major order, which keeps them unchanged.
    owner: Option<Arc<dyn Any + Send + Sync>>,
}

impl Deferred {
    pub(crate) fn owner(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.owner.as_deref()
    }

    pub(crate) fn bytes(&self) -> Result<&[u8], TensorError> {
        self.loaded.get_or_try_init(|| self.load())?.as_bytes()
    }

    pub(crate) fn is_loaded(&self) -> bool {
        self.loaded.get().is_some()
    }

    fn load(&self) -> Result<Tensor, TensorError> {
        let tensor = (self.load)()?.contiguous()?;
        if tensor.dtype() != self.dtype {
            return Err(TensorError::DTypeMismatch {
                expected: self.dtype,
                found: tensor.dtype(),
            });
        }
        if tensor.len() != self.len {
            return Err(TensorError::LengthMismatch {
                expected: self.len,
                found: tensor.len(),
                unit: "elements",
            });
        }
        Ok(tensor)
    }
}

impl fmt::Debug for Deferred {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Deferred(loaded: {})", self.is_loaded())
    }
}

impl Tensor {
    /// A tensor whose elements `load` provides on first use: a tensor of that dtype with as many elements, in row-major
    /// order. A failure is [`TensorError::Deferred`], or another error that `load` returns.
    ///
    /// # Errors
    /// When the shape is too large. Nothing is loaded.
    ///
    /// ```
    /// use kiln_tensor::{DType, Tensor};
    ///
    /// let weights = Tensor::deferred(DType::F32, &[2, 2], || Tensor::full(&[4], 1.5f32))?;
    /// let row = weights.reshape(&[4])?; // loads nothing
    /// assert_eq!(row.to_vec::<f32>()?, [1.5; 4]);
    /// # Ok::<(), kiln_tensor::TensorError>(())
    /// ```
    pub fn deferred(
        dtype: DType,
        shape: &[usize],
        load: impl Fn() -> Result<Tensor, TensorError> + Send + Sync + 'static,
    ) -> Result<Tensor, TensorError> {
        Self::deferred_of(dtype, shape, None, Box::new(load))
    }

    pub(crate) fn deferred_of(
        dtype: DType,
        shape: &[usize],
        owner: Option<Arc<dyn Any + Send + Sync>>,
        load: Box<Load>,
    ) -> Result<Tensor, TensorError> {
        let len = element_count(dtype, shape)?;
        let deferred = Deferred {
            loaded: ForkCell::new(),
            load,
            dtype,
            len,
            owner,
        };
        let layout = Layout::row_major(shape);
        Ok(Tensor::from_parts(
            dtype,
            layout,
            Storage::Deferred(Box::new(deferred)),
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn elements_are_loaded_once_and_shared_by_views() {
        let loads = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&loads);
        let tensor = Tensor::deferred(DType::I32, &[2, 3], move || {
            counted.fetch_add(1, Ordering::Relaxed);
            Tensor::from_slice(&[6], &[0, 1, 2, 3, 4, 5])
        })
        .unwrap();
        let mut columns = tensor.transpose(&[1, 0]).unwrap();
        assert_eq!((loads.load(Ordering::Relaxed), tensor.byte_len()), (0, 24));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| assert_eq!(tensor.as_slice::<i32>().unwrap()[5], 5));
            }
        });
        assert_eq!(columns.to_vec::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
        columns.as_mut_slice::<i32>().unwrap()[0] = 9;
        assert_eq!(tensor.as_slice::<i32>().unwrap()[0], 0);
        assert_eq!(loads.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_failed_load_is_an_error_of_each_access_and_is_retried() {
        let tries = AtomicUsize::new(0);
        let tensor = Tensor::deferred(DType::F32, &[2], move || {
            match tries.fetch_add(1, Ordering::Relaxed) {
                0 => Err(TensorError::Deferred("the file is gone".into())),
                1 => Tensor::full(&[3], 1.0f32),
                2 | 3 => Tensor::full(&[2], 1u8),
                _ => Tensor::full(&[2], 1.0f32),
            }
        })
        .unwrap();
        let error = tensor.as_bytes().unwrap_err();
        assert_eq!(
            error.to_string(),
            "the elements cannot be loaded: the file is gone"
        );
        assert_eq!(error.code(), "E0943");
        assert_eq!(
            tensor
                .reverse(0)
                .unwrap()
                .to_vec::<f32>()
                .unwrap_err()
                .code(),
            "E0341"
        );
        assert!(!tensor.bit_equal(&tensor.reverse(0).unwrap()));
        assert_eq!(tensor.to_vec::<f32>().unwrap(), [1.0; 2]);
    }
}
