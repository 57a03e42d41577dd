//! Large allocations, directly from the system.

use std::ptr::NonNull;

use memmap2::{MmapMut, MmapOptions};

use crate::TensorError;

/// From this many bytes, memory is requested directly from the system, in huge pages if it has them.
const WORTH_MAPPING: usize = 4 << 20;

/// Zeros in separate pages, whose memory is allocated when it is first touched.
///
/// Huge pages are requested: with small ones, TLB misses cost a kernel that traverses 64 MB a fifth of its time.
#[derive(Debug)]
pub struct Pages(MmapMut);

impl Pages {
    /// Zeros; `None` if a request this small is better served by the allocator.
    ///
    /// # Errors
    /// [`TensorError::Allocation`] if the system refuses them.
    pub fn zeroed(bytes: usize) -> Result<Option<Self>, TensorError> {
        if bytes < WORTH_MAPPING {
            return Ok(None);
        }
        let map = MmapOptions::new().len(bytes).map_anon();
        let map = map.map_err(|_| TensorError::Allocation { bytes })?;
        // This is only advice: a system without huge pages rejects it, without harm.
        #[cfg(target_os = "linux")]
        let _ = map.advise(memmap2::Advice::HugePage);
        Ok(Some(Self(map)))
    }

    /// All bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// All bytes, for writing.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }

    /// Their start.
    pub fn pointer(&mut self) -> NonNull<u8> {
        NonNull::from(&mut *self.0).cast()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_zero_and_starts_at_a_page() {
        assert!(Pages::zeroed(WORTH_MAPPING - 1).unwrap().is_none());
        let mut pages = Pages::zeroed(WORTH_MAPPING + 1).unwrap().unwrap();
        assert_eq!(pages.bytes().len(), WORTH_MAPPING + 1);
        assert!(pages.bytes().iter().all(|&byte| byte == 0));
        pages.bytes_mut().fill(7);
        assert_eq!(pages.bytes().last(), Some(&7));
        assert!(pages.pointer().addr().get().is_multiple_of(4096));
    }

    #[test]
    fn a_failed_system_allocation_is_an_error() {
        let bytes = isize::MAX as usize - 4096;
        let error = Pages::zeroed(bytes).unwrap_err();
        assert!(matches!(error, TensorError::Allocation { bytes: given } if given == bytes));
    }
}
