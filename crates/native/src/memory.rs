//! Memory for code: written first, then executable, never both at once.
//!
//! A mapping starts writable and not executable. [`WritableMemory::seal`] takes it by value and returns memory that can no
//! longer be written; there is no way back. Memory is returned to the system when its owner is dropped.
#![allow(
    unsafe_code,
    reason = "mapping memory and running it is what this crate is for"
)]

use crate::error::NativeError;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::ptr::NonNull;

/// Memory that can be written but not executed.
#[derive(Debug)]
pub(crate) struct WritableMemory(Mapping);

/// Memory that can be executed or read, but not written.
#[derive(Debug)]
pub(crate) struct ExecutableMemory(Mapping);

/// The bytes of one page of this system.
pub(crate) fn page_size() -> usize {
    rustix::param::page_size()
}

impl WritableMemory {
    /// Zeros: `bytes` of them, a multiple of the page.
    pub(crate) fn map(bytes: usize) -> Result<Self, NativeError> {
        // SAFETY: no address is requested, so no other mapping is replaced.
        let address = unsafe {
            rustix::mm::mmap_anonymous(
                std::ptr::null_mut(),
                bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )
        };
        match address.map(NonNull::new) {
            Ok(Some(address)) => Ok(Self(Mapping { address, bytes })),
            Ok(None) => Err(refused(bytes, Errno::NOMEM)),
            Err(cause) => Err(refused(bytes, cause)),
        }
    }

    /// Its start, before and after sealing.
    pub(crate) fn address(&self) -> u64 {
        self.0.address.as_ptr() as usize as u64
    }

    /// The whole memory.
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: the mapping is readable, writable, filled with zeros by the system, at most
        // `isize::MAX` bytes as any successful mapping, and `self` alone knows of it.
        unsafe { std::slice::from_raw_parts_mut(self.0.address.as_ptr().cast(), self.0.bytes) }
    }

    /// Makes the first `code` bytes executable and the rest read-only. `code` is a multiple of the
    /// page, at most the size.
    pub(crate) fn seal(self, code: usize) -> Result<ExecutableMemory, NativeError> {
        debug_assert!(code <= self.0.bytes && code.is_multiple_of(page_size()));
        let bytes = self.0.bytes;
        clear_instruction_cache(self.0.address.as_ptr().cast(), code);
        self.protect(0, code, MprotectFlags::READ | MprotectFlags::EXEC)
            .and_then(|()| self.protect(code, bytes - code, MprotectFlags::READ))
            .map_err(|cause| refused(bytes, cause))?;
        Ok(ExecutableMemory(self.0))
    }

    fn protect(&self, from: usize, bytes: usize, flags: MprotectFlags) -> Result<(), Errno> {
        if bytes == 0 {
            return Ok(());
        }
        let start = self.0.address.as_ptr().wrapping_byte_add(from);
        // SAFETY: `seal` names ranges inside the mapping, which this value owns; it holds no
        // reference to it, and no code in it runs yet.
        unsafe { rustix::mm::mprotect(start, bytes, flags) }
    }
}

impl ExecutableMemory {
    /// The address of an offset inside it.
    pub(crate) fn pointer(&self, offset: u64) -> Option<NonNull<c_void>> {
        let offset = usize::try_from(offset).ok().filter(|&o| o < self.0.bytes)?;
        NonNull::new(self.0.address.as_ptr().wrapping_byte_add(offset))
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> usize {
        self.0.bytes
    }
}

/// A range of memory from the system.
#[derive(Debug)]
struct Mapping {
    address: NonNull<c_void>,
    bytes: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference the memory is read or run, never written.
unsafe impl Sync for Mapping {}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what was mapped, and every reference into it borrowed the owner, which is going
        // away. On failure the memory stays mapped, which does no harm.
        let _ = unsafe { rustix::mm::munmap(self.address.as_ptr(), self.bytes) };
    }
}

/// Makes written code visible to instruction fetches.
#[cfg(target_arch = "aarch64")]
fn clear_instruction_cache(start: *const u8, bytes: usize) {
    let lines: u64;
    // SAFETY: reading the cache type register has no effect.
    unsafe { std::arch::asm!("mrs {}, ctr_el0", out(reg) lines, options(nomem, nostack)) };
    let data_line = 4usize << ((lines >> 16) & 15);
    let instruction_line = 4usize << (lines & 15);
    let first = start as usize;
    for at in (first & !(data_line - 1)..first + bytes).step_by(data_line) {
        // SAFETY: cleans the cache of lines inside the caller's own mapping.
        unsafe { std::arch::asm!("dc cvau, {}", in(reg) at, options(nostack)) };
    }
    // SAFETY: a barrier.
    unsafe { std::arch::asm!("dsb ish", options(nostack)) };
    for at in (first & !(instruction_line - 1)..first + bytes).step_by(instruction_line) {
        // SAFETY: drops cached instructions of lines inside the caller's own mapping.
        unsafe { std::arch::asm!("ic ivau, {}", in(reg) at, options(nostack)) };
    }
    // SAFETY: barriers.
    unsafe { std::arch::asm!("dsb ish", "isb", options(nostack)) };
}

/// Instruction fetches see writes without further action.
#[cfg(not(target_arch = "aarch64"))]
fn clear_instruction_cache(_start: *const u8, _bytes: usize) {}

fn refused(bytes: usize, cause: Errno) -> NativeError {
    NativeError::CodeMemory {
        bytes,
        cause: cause.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_memory_is_sealed_and_readable() {
        let page = page_size();
        let mut memory = WritableMemory::map(2 * page).unwrap();
        memory.bytes_mut()[page] = 7;
        let start = memory.address();
        let sealed = memory.seal(page).unwrap();
        assert_eq!(sealed.bytes(), 2 * page);
        let byte = sealed.pointer(page as u64).unwrap();
        assert_eq!(byte.as_ptr() as u64, start + page as u64);
        assert!(sealed.pointer(2 * page as u64).is_none());
        // SAFETY: the byte is in the mapping, which is readable and alive.
        assert_eq!(unsafe { byte.cast::<u8>().read() }, 7);
    }

    #[test]
    fn a_failed_allocation_is_an_error() {
        let error = WritableMemory::map(usize::MAX - page_size() + 1).unwrap_err();
        assert_eq!(error.code(), "E0858");
        assert_eq!(WritableMemory::map(0).unwrap_err().code(), "E0858");
    }
}
