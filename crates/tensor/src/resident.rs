//! Tensors whose elements are not in host memory but elsewhere, such as on a device, until the host reads them.
//!
//! They are deferred tensors with an owner: loading is downloading. The owner is opaque here; the code that created it
//! recognises it, and needs no download. It keeps its memory unchanged as long as a tensor or a view of one refers to
//! it.

use std::any::Any;
use std::sync::Arc;

use crate::storage::Storage;
use crate::{DType, Tensor, TensorError};

impl Tensor {
    /// A tensor whose elements are kept by `owner`, in row-major order. `load` copies them to the host on the host's
    /// first access: a tensor of that dtype with as many elements. A failure is [`TensorError::Deferred`], or another
    /// error that `load` returns, and the next access tries again.
    ///
    /// # Errors
    /// When the shape is too large. Nothing is loaded.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use kiln_tensor::{DType, Tensor};
    ///
    /// struct Board([u8; 4]);
    ///
    /// let board = Arc::new(Board([1, 2, 3, 4]));
    /// let x = Tensor::resident(DType::U8, &[2, 2], board, |board| Tensor::from_slice(&[4], &board.0))?;
    /// let row = x.narrow(0, 1, 1)?;
    /// let (board, first) = row.owner::<Board>().ok_or(kiln_tensor::TensorError::NotContiguous)?;
    /// assert_eq!((board.0[first], x.is_loaded()), (3, false));
    /// assert_eq!(row.to_vec::<u8>()?, [3, 4]);
    /// # Ok::<(), kiln_tensor::TensorError>(())
    /// ```
    pub fn resident<T: Any + Send + Sync>(
        dtype: DType,
        shape: &[usize],
        owner: Arc<T>,
        load: impl Fn(&T) -> Result<Tensor, TensorError> + Send + Sync + 'static,
    ) -> Result<Tensor, TensorError> {
        let kept = Arc::clone(&owner);
        let load = Box::new(move || load(&kept));
        Tensor::deferred_of(dtype, shape, Some(owner), load)
    }

    /// The owner of the elements of a [resident](Tensor::resident) tensor, and the byte offset in the owner's memory at
    /// which those of this tensor begin, in row-major order. `None` for other tensors, for an owner of a different
    /// type, and for a view whose elements are not contiguous. This does not load the elements.
    pub fn owner<T: Any>(&self) -> Option<(&T, usize)> {
        let Storage::Deferred(deferred) = self.storage_ref() else {
            return None;
        };
        let owner = deferred.owner()?.downcast_ref()?;
        self.is_contiguous()
            .then(|| (owner, self.byte_range().start))
    }

    /// Whether only its owner has the elements.
    pub(crate) fn is_elsewhere(&self) -> bool {
        match self.storage_ref() {
            Storage::Deferred(deferred) => deferred.owner().is_some() && !deferred.is_loaded(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    struct Away {
        loads: AtomicUsize,
        dropped: Arc<AtomicUsize>,
    }

    impl Drop for Away {
        fn drop(&mut self) {
            self.dropped.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn six() -> (Tensor, Arc<AtomicUsize>) {
        let dropped = Arc::new(AtomicUsize::new(0));
        let away = Arc::new(Away {
            loads: AtomicUsize::new(0),
            dropped: Arc::clone(&dropped),
        });
        let load = |away: &Away| {
            away.loads.fetch_add(1, Ordering::SeqCst);
            Tensor::from_slice(&[6], &[0i32, 1, 2, 3, 4, 5])
        };
        let tensor = Tensor::resident(DType::I32, &[3, 2], away, load).unwrap();
        (tensor, dropped)
    }

    fn loads(tensor: &Tensor) -> usize {
        let (away, _) = tensor.owner::<Away>().unwrap();
        away.loads.load(Ordering::SeqCst)
    }

    #[test]
    fn only_row_major_views_have_an_owner() {
        let (x, _) = six();
        let at = |tensor: &Tensor| tensor.owner::<Away>().map(|(_, first)| first);
        assert_eq!(at(&x), Some(0));
        assert_eq!(at(&x.narrow(0, 2, 1).unwrap()), Some(16));
        assert_eq!(at(&x.reshape(&[2, 3]).unwrap()), Some(0));
        assert_eq!(at(&x.transpose(&[1, 0]).unwrap()), None);
        assert_eq!(at(&x.narrow(0, 3, 0).unwrap()), Some(0));
        assert!(x.owner::<String>().is_none() && !x.is_loaded());
        assert_eq!(at(&Tensor::scalar(1.0f32)), None);
        assert!(
            x.dense_while(&mut |_| true)
                .unwrap()
                .owner::<Away>()
                .is_some()
        );
        assert!(!x.is_loaded());
    }

    #[test]
    fn concurrent_readers_load_once() {
        let (x, _) = six();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| assert_eq!(x.to_vec::<i32>().unwrap(), [0, 1, 2, 3, 4, 5]));
            }
        });
        assert_eq!((loads(&x), x.is_loaded()), (1, true));
    }

    #[test]
    fn writing_copies_and_drops_the_owner() {
        let (x, dropped) = six();
        let mut y = x.clone();
        y.as_mut_slice::<i32>().unwrap()[0] = 7;
        assert!(y.owner::<Away>().is_none());
        assert_eq!(x.to_vec::<i32>().unwrap()[0], 0);
        drop(x.clone());
        assert_eq!(dropped.load(Ordering::SeqCst), 0);
        drop(x);
        assert_eq!(dropped.load(Ordering::SeqCst), 1);
        assert_eq!(y.to_vec::<i32>().unwrap()[..2], [7, 1]);
    }
}
