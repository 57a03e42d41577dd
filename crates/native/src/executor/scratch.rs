//! Aligned, owned memory of this process: the pieces of a memory pool.
#![allow(unsafe_code, reason = "the standard collections do not align")]

use kiln_tensor::{Pages, TensorError, alignment_of};
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ptr::NonNull;

/// The default alignment of the system's allocator.
const SYSTEM_ALIGNMENT: usize = 16;

/// A small aligned value, for the address of empty memory.
#[repr(align(64))]
struct Aligned;

/// Bytes aligned according to [`alignment_of`]; initially zeros, so that reading them is always valid.
#[derive(Debug)]
pub(crate) struct AlignedBytes {
    allocated: Allocated,
    start: NonNull<u8>,
    bytes: usize,
}

/// The allocation.
#[derive(Debug)]
enum Allocated {
    /// No bytes.
    Nothing,
    /// By the allocator.
    Block(NonNull<u8>, Layout),
    /// By the system.
    Mapped(#[allow(dead_code, reason = "held for its drop")] Pages),
    /// By the system, next to guard pages.
    #[cfg(feature = "guard-pages")]
    Guarded(#[allow(dead_code, reason = "held for its drop")] crate::guard::GuardedPages),
}

impl AlignedBytes {
    /// No bytes.
    pub(crate) const fn empty() -> Self {
        Self {
            allocated: Allocated::Nothing,
            start: NonNull::<Aligned>::dangling().cast(),
            bytes: 0,
        }
    }

    /// Zeros. Large pieces come from the system as zeros, and their pages are first touched by the code that uses them.
    pub(crate) fn zeroed(bytes: usize) -> Result<Self, TensorError> {
        if bytes == 0 {
            return Ok(Self::empty());
        }
        #[cfg(feature = "guard-pages")]
        if let Some(side) = crate::guard::side() {
            let pages = crate::guard::GuardedPages::zeroed(bytes, side)?;
            return Ok(Self {
                start: pages.pointer(),
                allocated: Allocated::Guarded(pages),
                bytes,
            });
        }
        if let Some(mut pages) = Pages::zeroed(bytes)? {
            let start = pages.pointer();
            return Ok(Self {
                allocated: Allocated::Mapped(pages),
                start,
                bytes,
            });
        }
        let short = || TensorError::Allocation { bytes };
        // With its default alignment, the allocator gets zeros directly from the system; with a larger one, it would
        // write them.
        let alignment = alignment_of(bytes);
        let padded = bytes
            .checked_add(alignment - SYSTEM_ALIGNMENT)
            .ok_or_else(short)?;
        let layout = Layout::from_size_align(padded, SYSTEM_ALIGNMENT).map_err(|_| short())?;
        // SAFETY: the layout's size is not zero.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) }).ok_or_else(short)?;
        let skipped = allocated.as_ptr().align_offset(alignment);
        // SAFETY: the allocation is aligned to 16, so at most `alignment - 16` bytes come before a multiple of `alignment`,
        // and that many were requested beyond `bytes`.
        let start = unsafe { allocated.add(skipped) };
        Ok(Self {
            allocated: Allocated::Block(allocated, layout),
            start,
            bytes,
        })
    }

    /// Its start: aligned even when there are no bytes.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.start
    }

    /// The number of bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes
    }

    /// All the bytes.
    pub(crate) fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the bytes are initialised, inside the allocation, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.bytes) }
    }
}

// SAFETY: the memory belongs to this value, whichever thread holds it.
unsafe impl Send for AlignedBytes {}
// SAFETY: a shared reference gives only an address and a length.
unsafe impl Sync for AlignedBytes {}

impl Drop for AlignedBytes {
    fn drop(&mut self) {
        if let Allocated::Block(allocated, layout) = self.allocated {
            // SAFETY: it was allocated with this layout and is freed once.
            unsafe { dealloc(allocated.as_ptr(), layout) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_size_is_aligned_and_zero() {
        for bytes in [0, 1, 63, 64, 65, 4096, 65_536, 1 << 20] {
            let mut memory = AlignedBytes::zeroed(bytes).unwrap();
            assert!(
                memory
                    .pointer()
                    .addr()
                    .get()
                    .is_multiple_of(alignment_of(bytes))
            );
            assert_eq!(memory.len(), bytes);
            assert!(memory.as_mut_slice().iter().all(|&byte| byte == 0));
            memory.as_mut_slice().fill(1);
        }
    }

    #[test]
    fn a_failed_allocation_is_an_error() {
        for bytes in [usize::MAX, isize::MAX as usize, isize::MAX as usize - 4096] {
            let error = AlignedBytes::zeroed(bytes).unwrap_err();
            assert!(matches!(error, TensorError::Allocation { bytes: given } if given == bytes));
        }
    }
}
