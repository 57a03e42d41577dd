//! The memories of one run of a block, and operands as ranges of them.

use kiln_backend::{Memory, MemorySlice};
use kiln_tensor::DType;

use super::{AxisOrder, TensorPlace};
use crate::error::RuntimeError;

/// A memory of a block's run, by position: the arenas of its segments, then passed, separate and step-provided memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MemoryIndex(pub(crate) u32);

/// A part of a memory.
#[derive(Clone, Debug)]
pub(crate) struct OperandSlice {
    pub(crate) memory: OperandMemory,
    /// Bytes from the start of the memory's part.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// The memory that it is a part of.
#[derive(Clone, Debug)]
pub(crate) enum OperandMemory {
    /// A memory of the run.
    Run(MemoryIndex),
    /// A constant.
    Fixed(Memory),
}

/// A tensor in a device's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PlacedTensor<'a> {
    pub(crate) memory: &'a Memory,
    /// Bytes from the memory's start.
    pub(crate) offset: usize,
    pub(crate) dtype: DType,
    pub(crate) shape: &'a [usize],
    /// The order of its axes in memory, if that differs from the order of the list.
    pub(crate) order: Option<&'a AxisOrder>,
    /// Elements from one index to the next, if it is not contiguous.
    pub(crate) apart: Option<&'a [isize]>,
}

/// The memories of the runs of a block, one run after another: some are kept for the next run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame(Vec<Option<Entry>>);

#[derive(Clone, Debug)]
struct Entry {
    memory: Memory,
    /// Its start, in bytes.
    offset: usize,
    stays: bool,
}

impl Frame {
    /// Allocates entries for a number of memories, in addition to those that were kept.
    pub(crate) fn open(&mut self, memories: usize) {
        if self.0.len() != memories {
            self.0.resize(memories, None);
        }
    }

    /// Releases the memories that are not kept.
    pub(crate) fn close(&mut self) {
        for entry in &mut self.0 {
            if entry.as_ref().is_some_and(|entry| !entry.stays) {
                *entry = None;
            }
        }
    }

    /// Sets a memory for one run, from a byte offset on.
    pub(crate) fn set(&mut self, index: MemoryIndex, memory: Memory, offset: usize) {
        self.put(index, memory, offset, false);
    }

    /// Sets a memory that is kept.
    pub(crate) fn keep(&mut self, index: MemoryIndex, memory: Memory) {
        self.put(index, memory, 0, true);
    }

    fn put(&mut self, index: MemoryIndex, memory: Memory, offset: usize, stays: bool) {
        if let Some(place) = self.0.get_mut(index.0 as usize) {
            *place = Some(Entry {
                memory,
                offset,
                stays,
            });
        }
    }

    /// A memory that was kept.
    #[inline]
    pub(crate) fn kept(&mut self, index: MemoryIndex) -> Option<&mut Memory> {
        let entry = self.0.get_mut(index.0 as usize)?.as_mut()?;
        entry.stays.then_some(&mut entry.memory)
    }

    /// Ensures a memory of at least this many bytes at this position. One that is too small is freed first; the new one
    /// comes from `alloc`, which gets the old size.
    pub(crate) fn keep_at_least<E>(
        &mut self,
        index: MemoryIndex,
        bytes: usize,
        alloc: impl FnOnce(usize) -> Result<Memory, E>,
    ) -> Result<(), E> {
        let before = match self.kept(index) {
            Some(memory) if memory.bytes() >= bytes => return Ok(()),
            Some(memory) => memory.bytes(),
            None => 0,
        };
        self.drop_memory(index);
        self.keep(index, alloc(before)?);
        Ok(())
    }

    /// Releases a memory.
    pub(crate) fn drop_memory(&mut self, index: MemoryIndex) {
        if let Some(place) = self.0.get_mut(index.0 as usize) {
            *place = None;
        }
    }

    /// The memory of an operand, and its offset there.
    #[inline]
    pub(crate) fn memory<'a>(
        &'a self,
        operand: &'a OperandSlice,
    ) -> Result<(&'a Memory, usize), Box<RuntimeError>> {
        let (memory, base) = match &operand.memory {
            OperandMemory::Fixed(memory) => (memory, 0),
            OperandMemory::Run(index) => match self.0.get(index.0 as usize) {
                Some(Some(entry)) => (&entry.memory, entry.offset),
                _ => {
                    return Err(RuntimeError::malformed("a step reads memory not given yet").into());
                }
            },
        };
        match base.checked_add(operand.offset) {
            Some(offset) => Ok((memory, offset)),
            None => Err(RuntimeError::malformed("an operand is outside the address space").into()),
        }
    }

    /// A tensor in its current place.
    #[inline]
    pub(crate) fn tensor<'a>(
        &'a self,
        place: &'a TensorPlace,
    ) -> Result<PlacedTensor<'a>, Box<RuntimeError>> {
        let (memory, offset) = self.memory(&place.operand)?;
        Ok(PlacedTensor {
            memory,
            offset,
            dtype: place.dtype,
            shape: &place.shape,
            order: place.order.as_ref(),
            apart: place.apart.as_deref(),
        })
    }

    /// An operand in the executors' form.
    #[inline]
    pub(crate) fn slice<'a>(
        &'a self,
        operand: &'a OperandSlice,
    ) -> Result<MemorySlice<'a>, Box<RuntimeError>> {
        let (memory, offset) = self.memory(operand)?;
        Ok(MemorySlice {
            memory,
            offset,
            bytes: operand.bytes,
        })
    }
}
