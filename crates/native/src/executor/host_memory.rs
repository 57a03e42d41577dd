//! Device memory if the device is the host: owned memory, a tensor's memory that is only read, or the memory of a
//! borrowed tensor.
//!
//! Invariant: while a tensor over the memory lives, nothing writes to it; [`place_of`] refuses.
//! Bytes are always initialised.
#![allow(unsafe_code, reason = "tensors over this memory are vouched for here")]

use super::memory_pool::HostMemoryPool;
use super::scratch::AlignedBytes;
use crate::error::NativeError;
use kiln_backend::MemorySlice;
use kiln_tensor::{DType, Exclusive, Foreign, Share, Tensor, element_count, row_major_strides};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A piece of the host's memory.
#[derive(Debug)]
pub(crate) struct HostMemory {
    start: NonNull<u8>,
    bytes: usize,
    /// The number of tensors that read it.
    readers: AtomicUsize,
    owner: Owner,
}

#[derive(Debug)]
enum Owner {
    /// Owned, to be read and written.
    Own(AlignedBytes, Option<HostMemoryPool>),
    /// Exclusively a tensor's, to be read and written.
    Lent(Exclusive),
    /// A tensor's, to be read.
    Tensor(#[allow(dead_code, reason = "held for its drop")] Share),
    /// Empty memory, without an owner.
    Nobody,
}

// SAFETY: the pointer is into memory that `owner` keeps; code that reads or writes through it guarantees that no other
// thread does so in a conflicting way.
unsafe impl Send for HostMemory {}
// SAFETY: as above.
unsafe impl Sync for HostMemory {}

impl HostMemory {
    /// Owned memory, aligned, with undefined content; returned to the pool at the end.
    pub(crate) fn rented(pool: &HostMemoryPool, bytes: usize) -> Result<Self, NativeError> {
        let memory = pool.take(bytes)?;
        Ok(Self {
            start: memory.pointer(),
            bytes,
            readers: AtomicUsize::new(0),
            owner: Owner::Own(memory, Some(pool.clone())),
        })
    }

    /// A copy of these bytes.
    pub(crate) fn own(memory: AlignedBytes) -> Self {
        Self {
            start: memory.pointer(),
            bytes: memory.len(),
            readers: AtomicUsize::new(0),
            owner: Owner::Own(memory, None),
        }
    }

    /// No memory.
    pub(crate) fn nothing() -> Self {
        Self {
            start: AlignedBytes::empty().pointer(),
            bytes: 0,
            readers: AtomicUsize::new(0),
            owner: Owner::Nobody,
        }
    }

    /// A tensor's elements in row-major order: shared if they are already in that order and aligned for their type,
    /// otherwise copied.
    pub(crate) fn of_tensor(tensor: &Tensor) -> Result<Self, NativeError> {
        let mut memory = Self::nothing();
        memory.become_tensor(tensor)?;
        Ok(memory)
    }

    /// Replaces this by the result of [`of_tensor`](Self::of_tensor), in place: every call does this with each of its
    /// inputs.
    pub(crate) fn become_tensor(&mut self, tensor: &Tensor) -> Result<(), NativeError> {
        if let Ok(bytes) = tensor.as_bytes()
            && !bytes.is_empty()
            && is_aligned(bytes.as_ptr().addr(), tensor.dtype().size_in_bytes())
        {
            self.become_nothing();
            self.start = NonNull::from(bytes).cast();
            self.bytes = bytes.len();
            self.owner = Owner::Tensor(tensor.share());
            return Ok(());
        }
        let tensor = tensor.contiguous()?;
        let bytes = tensor.as_bytes()?;
        let mut memory = AlignedBytes::zeroed(bytes.len())?;
        memory.as_mut_slice().copy_from_slice(bytes);
        *self = Self::own(memory);
        Ok(())
    }

    /// Releases the previous content.
    pub(crate) fn become_nothing(&mut self) {
        match self.owner {
            Owner::Tensor(_) => {
                self.start = AlignedBytes::empty().pointer();
                self.bytes = 0;
                self.owner = Owner::Nobody;
            }
            Owner::Nobody => {}
            Owner::Own(..) | Owner::Lent(_) => *self = Self::nothing(),
        }
    }

    /// The memory of a tensor, to be written; returns the tensor if its memory is shared, is not aligned for its type, or
    /// is empty.
    #[allow(
        clippy::result_large_err,
        reason = "a box would be an allocation per call"
    )]
    pub(crate) fn lent(tensor: Tensor) -> Result<Self, Tensor> {
        let is_aligned = tensor.as_bytes().is_ok_and(|bytes| {
            let alignment = tensor.dtype().size_in_bytes();
            !bytes.is_empty() && is_aligned(bytes.as_ptr().addr(), alignment)
        });
        if !is_aligned {
            return Err(tensor);
        }
        let mut memory = tensor.into_exclusive()?;
        let bytes = memory.bytes_mut();
        Ok(Self {
            bytes: bytes.len(),
            start: NonNull::from(bytes).cast(),
            readers: AtomicUsize::new(0),
            owner: Owner::Lent(memory),
        })
    }

    /// Takes the lent tensor; leaves empty memory.
    pub(crate) fn take_lent(&mut self) -> Option<Exclusive> {
        if !matches!(self.owner, Owner::Lent(_)) {
            return None;
        }
        let mut lent = std::mem::replace(self, Self::nothing());
        match std::mem::replace(&mut lent.owner, Owner::Nobody) {
            Owner::Lent(memory) => Some(memory),
            Owner::Own(..) | Owner::Tensor(_) | Owner::Nobody => None,
        }
    }

    /// The number of bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The address of `bytes` bytes at `offset`, if they are within the memory.
    fn place(&self, offset: usize, bytes: usize) -> Option<NonNull<u8>> {
        let end = offset.checked_add(bytes)?;
        // SAFETY: `offset` is at most the memory's size.
        (end <= self.bytes).then(|| unsafe { self.start.add(offset) })
    }

    /// Whether it may be written.
    fn is_writable(&self) -> bool {
        matches!(self.owner, Owner::Own(..) | Owner::Lent(_) | Owner::Nobody)
            && self.readers.load(Ordering::Acquire) == 0
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        if let Owner::Own(memory, Some(pool)) = &mut self.owner {
            pool.put(std::mem::replace(memory, AlignedBytes::empty()));
        }
    }
}

/// Whether an address is a multiple of an alignment, a power of two as element sizes are: a general division would be
/// noticeable in calls with few elements.
fn is_aligned(address: usize, alignment: usize) -> bool {
    debug_assert!(alignment.is_power_of_two());
    address & alignment.wrapping_sub(1) == 0
}

/// The address of a slice, checked to be inside its memory, to be aligned to `alignment` unless it is empty, and to be
/// writable if it is `written`. `what` names it in errors.
pub(crate) fn place_of(
    slice: &MemorySlice<'_>,
    alignment: usize,
    written: bool,
    what: impl Fn() -> String,
) -> Result<NonNull<u8>, NativeError> {
    let Some(memory) = slice.memory.downcast::<HostMemory>() else {
        return Err(of_another_executor(&what()));
    };
    let Some(place) = memory.place(slice.offset, slice.bytes) else {
        return Err(NativeError::mismatch(
            what(),
            format_args!("a slice within {} bytes of memory", memory.bytes),
            format_args!("{} bytes at offset {}", slice.bytes, slice.offset),
        ));
    };
    if slice.bytes > 0 && !is_aligned(place.addr().get(), alignment) {
        return Err(NativeError::mismatch(
            what(),
            format_args!("an address that is a multiple of {alignment}"),
            format_args!("offset {}", slice.offset),
        ));
    }
    if written && slice.bytes > 0 && !memory.is_writable() {
        return Err(NativeError::ReadOnly { what: what() });
    }
    Ok(place)
}

/// A tensor over memory, without a copy if its elements are aligned.
pub(crate) fn tensor_over(
    memory: Arc<HostMemory>,
    offset: usize,
    dtype: DType,
    shape: &[usize],
) -> Result<Tensor, NativeError> {
    let bytes = element_count(dtype, shape)? * dtype.size_in_bytes();
    let Some(place) = memory.place(offset, bytes) else {
        return Err(NativeError::mismatch(
            "a tensor to download",
            format_args!("a tensor within {} bytes of memory", memory.bytes),
            format_args!("{bytes} bytes at offset {offset}"),
        ));
    };
    if !is_aligned(place.addr().get(), dtype.size_in_bytes()) {
        // SAFETY: the range was just checked, and nothing writes to memory that is downloaded.
        let elements = unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes) };
        return Ok(Tensor::from_bytes(dtype, shape, elements)?);
    }
    memory.readers.fetch_add(1, Ordering::AcqRel);
    let release = move || {
        memory.readers.fetch_sub(1, Ordering::AcqRel);
        drop(memory);
    };
    let strides = row_major_strides(shape);
    let foreign = Foreign::new(place, bytes, release);
    // SAFETY: the range is inside memory that the hook holds, which is initialised and at most `isize::MAX` bytes; until
    // the hook has run, the reader count keeps writers away.
    Ok(unsafe { Tensor::foreign(dtype, shape, &strides, 0, foreign) }?)
}

/// Overwrites a tensor with the contents of memory.
pub(crate) fn copy_into(
    memory: &HostMemory,
    offset: usize,
    tensor: &mut Tensor,
) -> Result<(), NativeError> {
    let bytes = tensor.byte_len();
    let Some(place) = memory.place(offset, bytes) else {
        return Err(NativeError::mismatch(
            "a tensor to download",
            format_args!("a tensor within {} bytes of memory", memory.bytes),
            format_args!("{bytes} bytes at offset {offset}"),
        ));
    };
    // SAFETY: the range was just checked, is initialised, and nothing writes to memory that is downloaded; a tensor that is
    // written in place is not a reader of it, since its storage is then its own.
    let elements = unsafe { std::slice::from_raw_parts(place.as_ptr(), bytes) };
    Ok(tensor.write_bytes(elements)?)
}

/// Memory or a kernel that belongs to another executor.
pub(crate) fn of_another_executor(what: &str) -> NativeError {
    NativeError::mismatch(what, "this executor's own", "another executor's")
}
