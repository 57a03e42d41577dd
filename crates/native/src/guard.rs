//! A switch for tests: allocates device memory and scratch next to guard pages.
//!
//! Only with the feature `guard-pages`. Compiled kernels are not covered by sanitizers; an access outside memory that
//! was allocated under the switch ends the process at that instruction. The two sides are tested one at a time, since
//! the length of an allocation is not a multiple of a page.
#![allow(unsafe_code, reason = "mappings are what this file is for")]

use crate::memory::page_size;
use kiln_tensor::{Foreign, Tensor, TensorError, row_major_strides};
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::cell::Cell;
use std::ffi::c_void;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The minimum alignment of an executor's memory, in bytes.
pub const ALIGNMENT: usize = 64;

/// The side on which memory adjoins the guard page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Memory starts where the page ends.
    Before,
    /// The page starts where memory ends, rounded up to [`ALIGNMENT`].
    After,
}

thread_local! {
    static SIDE: Cell<Option<Side>> = const { Cell::new(None) };
}

/// Runs `body`; device memory and scratch allocated by this thread meanwhile adjoin a guard page on that side, and have
/// another one on the other.
pub fn with_guard_pages<R>(side: Side, body: impl FnOnce() -> R) -> R {
    struct Reset(Option<Side>);
    impl Drop for Reset {
        fn drop(&mut self) {
            SIDE.set(self.0);
        }
    }
    let _reset = Reset(SIDE.replace(Some(side)));
    body()
}

/// The number of guarded pieces of memory of this process that are not freed yet: after all their users are dropped,
/// the number that leaked.
pub fn live() -> usize {
    LIVE.load(Ordering::SeqCst)
}

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// A copy of a tensor, row-major, that touches a guard page on that side with its first or last byte.
///
/// # Errors
/// When memory cannot be allocated.
pub fn guarded_tensor(tensor: &Tensor, side: Side) -> Result<Tensor, TensorError> {
    let dense = tensor.contiguous()?;
    let content = dense.as_bytes()?;
    if content.is_empty() {
        return Ok(dense);
    }
    let bytes = content.len();
    let pages = GuardedPages::zeroed(bytes, side)?;
    let start = match side {
        Side::Before => pages.start,
        // SAFETY: the piece is rounded up to the alignment, so moving it by what was added keeps it inside.
        Side::After => unsafe { pages.start.add(bytes.next_multiple_of(ALIGNMENT) - bytes) },
    };
    // SAFETY: the piece is inside the open pages, to which nothing else refers.
    unsafe { start.copy_from_nonoverlapping(NonNull::from(content).cast(), bytes) };
    let shape = dense.shape();
    let foreign = Foreign::new(start, bytes, move || drop(pages));
    // SAFETY: the bytes are initialised, inside pages that the hook keeps, and written by nothing.
    unsafe { Tensor::foreign(dense.dtype(), shape, &row_major_strides(shape), 0, foreign) }
}

/// The side requested by this thread.
pub(crate) fn side() -> Option<Side> {
    SIDE.get()
}

/// Zeros between two guards.
#[derive(Debug)]
pub(crate) struct GuardedPages {
    mapping: NonNull<c_void>,
    mapped: usize,
    start: NonNull<u8>,
}

impl GuardedPages {
    /// `bytes` zeros, aligned to [`ALIGNMENT`].
    pub(crate) fn zeroed(bytes: usize, side: Side) -> Result<Self, TensorError> {
        let short = || TensorError::Allocation { bytes };
        let page = page_size();
        let inner = bytes.checked_next_multiple_of(page).ok_or_else(short)?;
        let mapped = inner.checked_add(2 * page).ok_or_else(short)?;
        // SAFETY: no address is requested, so no other mapping is replaced.
        let mapping = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                mapped,
                ProtFlags::empty(),
                MapFlags::PRIVATE,
            )
        };
        let mapping = NonNull::new(mapping.map_err(|_| short())?).ok_or_else(short)?;
        LIVE.fetch_add(1, Ordering::SeqCst);
        let mut pages = Self {
            mapping,
            mapped,
            start: mapping.cast(),
        };
        let open = mapping.as_ptr().wrapping_byte_add(page);
        // SAFETY: the range is inside the mapping, to which there is no reference yet.
        unsafe { rustix::mm::mprotect(open, inner, MprotectFlags::READ | MprotectFlags::WRITE) }
            .map_err(|_| short())?;
        let skipped = match side {
            Side::Before => 0,
            Side::After => inner - bytes.next_multiple_of(ALIGNMENT),
        };
        // SAFETY: the offset is at most that of the second guard, inside the mapping.
        pages.start = unsafe { mapping.cast::<u8>().add(page + skipped) };
        Ok(pages)
    }

    /// The start of the zeros.
    pub(crate) fn pointer(&self) -> NonNull<u8> {
        self.start
    }
}

impl Drop for GuardedPages {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what was mapped, and every pointer into it borrows the owner.
        let _ = unsafe { rustix::mm::munmap(self.mapping.as_ptr(), self.mapped) };
        LIVE.fetch_sub(1, Ordering::SeqCst);
    }
}

// SAFETY: the memory belongs to this value, whichever thread drops it.
unsafe impl Send for GuardedPages {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::AlignedBytes;

    #[test]
    fn guarded_memory_touches_its_guard_page() {
        let page = page_size();
        for bytes in [1, 63, 64, 100, page, page + 1, 3 * page - 64] {
            for side in [Side::Before, Side::After] {
                let mut memory =
                    with_guard_pages(side, || AlignedBytes::zeroed(bytes)).expect("memory");
                let start = memory.pointer().addr().get();
                let flush = match side {
                    Side::Before => start,
                    Side::After => start + bytes.next_multiple_of(ALIGNMENT),
                };
                assert!(flush.is_multiple_of(page) && start.is_multiple_of(ALIGNMENT));
                assert!(memory.as_mut_slice().iter().all(|&byte| byte == 0));
                memory.as_mut_slice().fill(1);
            }
        }
        assert_eq!(side(), None);
    }

    /// The variable that makes the next test access a guard page.
    const TOUCH: &str = "KILN_TEST_TOUCH_GUARD";

    #[test]
    fn an_access_outside_guarded_memory_ends_the_process() {
        use std::os::unix::process::ExitStatusExt;
        const SEGMENTATION_FAULT: i32 = 11;
        let touched = |side: Side| {
            let memory = with_guard_pages(side, || AlignedBytes::zeroed(128)).expect("memory");
            let outside = match side {
                Side::Before => memory.pointer().as_ptr().wrapping_sub(1),
                Side::After => memory.pointer().as_ptr().wrapping_add(128),
            };
            // SAFETY: there is none; the process that does this is expected to end.
            unsafe { outside.read_volatile() }
        };
        match std::env::var(TOUCH).as_deref() {
            Ok("before") => drop(touched(Side::Before)),
            Ok(_) => drop(touched(Side::After)),
            Err(_) => {
                for side in ["before", "after"] {
                    let test = std::env::current_exe().expect("a path");
                    let ended = std::process::Command::new(test)
                        .args([
                            "--exact",
                            "guard::tests::an_access_outside_guarded_memory_ends_the_process",
                        ])
                        .env(TOUCH, side)
                        .output()
                        .expect("a process");
                    assert_eq!(ended.status.signal(), Some(SEGMENTATION_FAULT), "{side}");
                }
            }
        }
    }

    #[test]
    fn a_guarded_tensor_has_its_elements_flush_with_the_guard() {
        for n in [1usize, 3, 16, 1025] {
            let elements: Vec<f32> = (0..n).map(|i| i as f32).collect();
            let plain = Tensor::from_slice(&[n], &elements).expect("memory");
            for side in [Side::Before, Side::After] {
                let tensor = guarded_tensor(&plain, side).expect("memory");
                assert!(tensor.bit_equal(&plain) && live() > 0);
                let bytes = tensor.as_bytes().expect("contiguous");
                let flush = match side {
                    Side::Before => bytes.as_ptr().addr(),
                    Side::After => bytes.as_ptr().addr() + bytes.len(),
                };
                assert!(flush.is_multiple_of(page_size()));
            }
        }
        let none = Tensor::from_slice::<f32>(&[0], &[]).expect("memory");
        assert!(
            guarded_tensor(&none, Side::After)
                .expect("memory")
                .is_empty()
        );
    }

    #[test]
    fn guarded_memory_beyond_the_address_space_is_an_error() {
        assert!(with_guard_pages(Side::After, || AlignedBytes::zeroed(usize::MAX)).is_err());
    }
}
