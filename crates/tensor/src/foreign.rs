//! Memory with another owner: a user's buffer, a pool, a mapped device.
//!
//! Apart from range checks in `storage`'s callers, all `unsafe` code of this crate is in this file: the creator's
//! guarantee, and the only read through the pointer. The memory may be unaligned and is never written through a tensor.

#![allow(unsafe_code, reason = "foreign memory can only be vouched for")]

use std::ptr::NonNull;
use std::slice;

use crate::layout::Layout;
use crate::storage::Storage;
use crate::{DType, Tensor, TensorError};

/// A piece of memory and its release hook, called when it is no longer used.
///
/// The hook runs exactly once: when the last tensor over the memory is dropped, or when the tensor
/// could not be made. It may run on any thread.
pub struct Foreign {
    pointer: NonNull<u8>,
    bytes: usize,
    release: Option<Box<dyn FnOnce() + Send>>,
}

impl Foreign {
    /// Describes `bytes` bytes starting at `pointer`. They are not read until [`Tensor::foreign`] vouches for the
    /// memory.
    pub fn new(
        pointer: NonNull<u8>,
        bytes: usize,
        release: impl FnOnce() + Send + 'static,
    ) -> Foreign {
        Foreign {
            pointer,
            bytes,
            release: Some(Box::new(release)),
        }
    }

    /// The memory. Called only for storage made by [`Tensor::foreign`].
    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: a `Foreign` is read only as part of a `Storage`, which only `Tensor::foreign`
        // makes; its caller promised that these bytes are valid and unchanging until `release`
        // runs, which happens in `drop`, after the last borrow of `self`.
        unsafe { slice::from_raw_parts(self.pointer.as_ptr(), self.bytes) }
    }
}

// SAFETY: the memory is only read, which `Tensor::foreign`'s caller promised to be fine from any
// thread; the hook is `Send` and is touched only by `drop`, which has exclusive access.
unsafe impl Send for Foreign {}
// SAFETY: as above; a shared reference gives access only to the bytes.
unsafe impl Sync for Foreign {}

impl Drop for Foreign {
    fn drop(&mut self) {
        if let Some(release) = self.release.take() {
            release();
        }
    }
}

impl Tensor {
    /// A tensor over foreign memory, without a copy.
    ///
    /// `strides` and `offset` are in elements; `offset` is the position of the element at index zero. The layout is checked
    /// to stay within the memory, and zero-size memory is never read.
    ///
    /// # Safety
    /// Until the release hook has run, the `bytes` bytes at `pointer` must be one initialised allocation of at most
    /// `isize::MAX` bytes that any thread may read and that is not written.
    pub unsafe fn foreign(
        dtype: DType,
        shape: &[usize],
        strides: &[isize],
        offset: usize,
        memory: Foreign,
    ) -> Result<Tensor, TensorError> {
        let layout = Layout::checked(
            dtype,
            shape,
            strides,
            offset,
            memory.bytes / dtype.size_in_bytes(),
        )?;
        Ok(Tensor::from_parts(dtype, layout, Storage::Foreign(memory)))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    /// Bytes of the elements 0, 1, 2, … of `i32`, from an address that is `shift` off alignment.
    fn memory(n: usize, shift: usize) -> (Foreign, Arc<AtomicUsize>) {
        let mut buffer: Vec<u64> = vec![0; n + 1];
        let start = {
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(&mut buffer);
            for i in 0..n {
                bytes[shift + 4 * i..][..4].copy_from_slice(&(i as i32).to_le_bytes());
            }
            NonNull::from(&mut bytes[shift])
        };
        let released = Arc::new(AtomicUsize::new(0));
        let count = released.clone();
        let foreign = Foreign::new(start, 4 * n, move || {
            count.fetch_add(1, Ordering::SeqCst);
            drop(buffer);
        });
        (foreign, released)
    }

    #[test]
    fn the_release_hook_runs_once_on_the_last_drop() {
        let (foreign, released) = memory(6, 0);
        // SAFETY: `memory` keeps its buffer alive until the hook runs, and it is not written.
        let tensor = unsafe { Tensor::foreign(DType::I32, &[2, 3], &[3, 1], 0, foreign) }.unwrap();
        let view = tensor.transpose(&[1, 0]).unwrap();
        assert_eq!(tensor.as_slice::<i32>().unwrap(), [0, 1, 2, 3, 4, 5]);
        drop(tensor);
        assert_eq!(released.load(Ordering::SeqCst), 0);
        assert_eq!(view.to_vec::<i32>().unwrap(), [0, 3, 1, 4, 2, 5]);
        std::thread::spawn(move || drop(view)).join().unwrap();
        assert_eq!(released.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn a_refused_layout_releases_the_memory() {
        let (foreign, released) = memory(6, 0);
        // SAFETY: as in `the_release_hook_runs_once_on_the_last_drop`.
        let refused = unsafe { Tensor::foreign(DType::I32, &[7], &[1], 0, foreign) };
        assert_eq!(refused.unwrap_err().code(), "E0353");
        assert_eq!(released.load(Ordering::SeqCst), 1);
    }

    #[test]
    fn unaligned_memory_is_readable_and_writing_copies_it() {
        let (foreign, released) = memory(4, 1);
        // SAFETY: as in `the_release_hook_runs_once_on_the_last_drop`.
        let mut tensor = unsafe { Tensor::foreign(DType::I32, &[4], &[-1], 3, foreign) }.unwrap();
        assert_eq!(tensor.to_vec::<i32>().unwrap(), [3, 2, 1, 0]);
        let forward = tensor.reverse(0).unwrap();
        assert_eq!(forward.as_slice::<i32>().unwrap_err().code(), "E0352");
        assert_eq!(forward.to_vec::<i32>().unwrap(), [0, 1, 2, 3]);
        drop(forward);
        tensor.as_mut_slice::<i32>().unwrap()[0] = 9;
        assert_eq!(released.load(Ordering::SeqCst), 1);
        assert_eq!(tensor.as_slice::<i32>().unwrap(), [9, 2, 1, 0]);
    }

    #[test]
    fn a_byte_that_is_no_bool_is_an_error() {
        static BYTES: [u8; 3] = [0, 1, 7];
        let foreign = Foreign::new(NonNull::from(&BYTES[0]), 3, || ());
        // SAFETY: the bytes live forever and are never written.
        let tensor = unsafe { Tensor::foreign(DType::Bool, &[3], &[1], 0, foreign) }.unwrap();
        assert_eq!(tensor.as_slice::<bool>().unwrap_err().code(), "E0354");
        assert_eq!(tensor.to_vec::<bool>().unwrap_err().code(), "E0354");
    }
}
