//! The memories of one run of a block, and operands as parts of them.

use kiln_kernel::{Memory, MemorySlice};

use crate::error::RuntimeError;

/// A memory of a block's run, by position: the arenas of its segments, then what is given, owned and brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct MemoryIndex(pub(crate) u32);

/// A part of a memory.
#[derive(Clone, Debug)]
pub(crate) struct Operand {
    pub(crate) memory: OperandMemory,
    /// Bytes from the start of the memory's part.
    pub(crate) offset: usize,
    pub(crate) bytes: usize,
}

/// Which memory.
#[derive(Clone, Debug)]
pub(crate) enum OperandMemory {
    /// One of the run.
    Run(MemoryIndex),
    /// A constant.
    Fixed(Memory),
}

/// The memories of one run of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Frame(Vec<Option<(Memory, usize)>>);

impl Frame {
    /// Empties the frame, and makes room for a number of memories.
    pub(crate) fn reset(&mut self, memories: usize) {
        self.0.clear();
        self.0.resize(memories, None);
    }

    /// Puts a memory in its place, from a number of bytes on.
    pub(crate) fn set(&mut self, index: MemoryIndex, memory: Memory, offset: usize) {
        if let Some(place) = self.0.get_mut(index.0 as usize) {
            *place = Some((memory, offset));
        }
    }

    /// The memory that an operand lies in, and where it begins.
    pub(crate) fn memory<'a>(
        &'a self,
        operand: &'a Operand,
    ) -> Result<(&'a Memory, usize), RuntimeError> {
        let (memory, base) = match &operand.memory {
            OperandMemory::Fixed(memory) => (memory, 0),
            OperandMemory::Run(index) => match self.0.get(index.0 as usize) {
                Some(Some((memory, base))) => (memory, *base),
                _ => return Err(RuntimeError::malformed("a step reads memory not given yet")),
            },
        };
        match base.checked_add(operand.offset) {
            Some(offset) => Ok((memory, offset)),
            None => Err(RuntimeError::malformed(
                "an operand lies outside the address space",
            )),
        }
    }

    /// An operand as executors take it.
    pub(crate) fn slice<'a>(
        &'a self,
        operand: &'a Operand,
    ) -> Result<MemorySlice<'a>, RuntimeError> {
        let (memory, offset) = self.memory(operand)?;
        Ok(MemorySlice {
            memory,
            offset,
            bytes: operand.bytes,
        })
    }
}
