//! Memory that tensors share: owned, or foreign memory that is released on the last drop.
//!
//! All element memory of this crate is allocated here, aligned according to [`alignment_of`], through `try_reserve`.
//! Bytes of foreign memory are read through one `unsafe` block, in `foreign`. Nothing here depends on shapes or dtypes.

use std::io::{self, Read};

use aligned_vec::{AVec, RuntimeAlign};

use crate::deferred::Deferred;
use crate::{Foreign, Pages, TensorError, alignment_of};

type AlignedBytes = AVec<u8, RuntimeAlign>;

/// Bytes with an owner.
pub(crate) enum Storage {
    Owned(AlignedBytes),
    Mapped(Pages),
    Foreign(Foreign),
    /// Boxed, so that all others are small.
    Deferred(Box<Deferred>),
}

impl Storage {
    /// Memory of `bytes` zeros.
    pub(crate) fn zeroed(bytes: usize) -> Result<Storage, TensorError> {
        if let Some(pages) = mapped(bytes)? {
            return Ok(Storage::Mapped(pages));
        }
        let mut memory = reserved(bytes, bytes)?;
        memory.resize(bytes, 0);
        Ok(Storage::Owned(memory))
    }

    /// A copy of these bytes.
    pub(crate) fn copy_of(bytes: &[u8]) -> Result<Storage, TensorError> {
        if let Some(mut pages) = mapped(bytes.len())? {
            pages.bytes_mut().copy_from_slice(bytes);
            return Ok(Storage::Mapped(pages));
        }
        let mut memory = reserved(bytes.len(), bytes.len())?;
        memory.extend_from_slice(bytes);
        Ok(Storage::Owned(memory))
    }

    /// Whether the bytes are loaded.
    pub(crate) fn is_loaded(&self) -> bool {
        match self {
            Storage::Deferred(deferred) => deferred.is_loaded(),
            Storage::Owned(_) | Storage::Mapped(_) | Storage::Foreign(_) => true,
        }
    }

    /// A copy of a few bytes, for which running out of memory may abort, as for any small box.
    pub(crate) fn copy_of_few(bytes: &[u8]) -> Storage {
        Storage::Owned(AVec::from_slice(alignment_of(bytes.len()), bytes))
    }

    /// The next `bytes` bytes of a reader; memory grows with the received data, not with the announced size.
    pub(crate) fn read_from(reader: &mut dyn Read, bytes: usize) -> Result<Storage, TensorError> {
        const FIRST: usize = 1 << 20;
        let mut memory = reserved(bytes.min(FIRST), bytes)?;
        while memory.len() < bytes {
            let filled = memory.len();
            let step = (bytes - filled).min(filled.max(FIRST));
            memory
                .try_reserve_exact(step)
                .map_err(|_| TensorError::Allocation {
                    bytes: filled + step,
                })?;
            memory.resize(filled + step, 0);
            let fresh = memory
                .get_mut(filled..)
                .ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof))?;
            reader.read_exact(fresh)?;
        }
        Ok(Storage::Owned(memory))
    }

    /// All the bytes; loaded now if they are deferred.
    #[inline]
    pub(crate) fn bytes(&self) -> Result<&[u8], TensorError> {
        match self {
            Storage::Owned(memory) => Ok(memory),
            Storage::Mapped(pages) => Ok(pages.bytes()),
            Storage::Foreign(foreign) => Ok(foreign.bytes()),
            Storage::Deferred(deferred) => deferred.bytes(),
        }
    }

    /// Whether there are bytes for writing.
    pub(crate) fn is_writable(&self) -> bool {
        matches!(self, Storage::Owned(_) | Storage::Mapped(_))
    }

    /// All the bytes for writing; `None` for memory that is never written.
    pub(crate) fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        match self {
            Storage::Owned(memory) => Some(memory),
            Storage::Mapped(pages) => Some(pages.bytes_mut()),
            Storage::Foreign(_) | Storage::Deferred(_) => None,
        }
    }
}

/// Zeros straight from the system, if they are many.
fn mapped(bytes: usize) -> Result<Option<Pages>, TensorError> {
    let pages = Pages::zeroed(bytes)?;
    #[cfg(feature = "fault-injection")]
    if pages.is_some() {
        crate::fault::allocate(bytes)?;
    }
    Ok(pages)
}

/// Memory for `bytes` bytes, which may grow to `all`.
fn reserved(bytes: usize, all: usize) -> Result<AlignedBytes, TensorError> {
    #[cfg(feature = "fault-injection")]
    crate::fault::allocate(bytes)?;
    let mut memory = AVec::new(alignment_of(all));
    memory
        .try_reserve_exact(bytes)
        .map_err(|_| TensorError::Allocation { bytes })?;
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn owned_memory_is_aligned() {
        for bytes in [0, 1, 63, 64, 1000, 100_000] {
            let storage = Storage::zeroed(bytes).unwrap();
            assert_eq!(
                storage.bytes().unwrap().as_ptr() as usize % alignment_of(bytes),
                0
            );
            assert_eq!(storage.bytes().unwrap().len(), bytes);
        }
    }

    #[test]
    fn a_failed_allocation_is_an_error() {
        match Storage::zeroed(isize::MAX as usize - 4096) {
            Err(TensorError::Allocation { bytes }) => assert_eq!(bytes, isize::MAX as usize - 4096),
            _ => panic!("expected an allocation error"),
        }
    }

    #[test]
    fn a_short_reader_costs_no_more_than_it_delivers() {
        let mut short: &[u8] = &[1, 2, 3];
        assert!(matches!(
            Storage::read_from(&mut short, 1 << 60),
            Err(TensorError::Io(_))
        ));
        let long: Vec<u8> = (0..3_000_000u32).map(|i| i as u8).collect();
        let storage = Storage::read_from(&mut long.as_slice(), 2_500_000).unwrap();
        assert_eq!(storage.bytes().unwrap(), &long[..2_500_000]);
    }
}
