//! What one run at a time needs and later runs reuse: the device's execution, arenas, frames.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_kernel::{Execution, KernelExecutor, Memory};
use kiln_program::BlockId;
use kiln_tensor::Tensor;

use crate::compile::CompiledKernel;
use crate::error::RuntimeError;
use crate::plan::{Frame, MemoryIndex};

/// At most so many bytes are had beyond those that a call needs.
const MOST_AHEAD: usize = 128 << 20;

/// A launch, for a fault to be traced back to its step.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    pub(crate) block: BlockId,
    pub(crate) segment: usize,
    pub(crate) step: usize,
    pub(crate) compiled: Arc<CompiledKernel>,
}

/// The state of a run.
pub(crate) struct RunState {
    pub(crate) execution: Box<dyn Execution>,
    arenas: HashMap<(BlockId, usize), Memory>,
    frames: HashMap<BlockId, Frame>,
    /// What inputs are uploaded into, one after the other, where a call writes into tensors that are given.
    given: Vec<Memory>,
    /// Memories of the body's results, where a call copies those out.
    own: HashMap<MemoryIndex, Memory>,
    pub(crate) launched: Vec<Launched>,
    pub(crate) iterations: u64,
}

impl RunState {
    pub(crate) fn new(execution: Box<dyn Execution>) -> Self {
        Self {
            execution,
            arenas: HashMap::new(),
            frames: HashMap::new(),
            given: Vec::new(),
            own: HashMap::new(),
            launched: Vec::new(),
            iterations: 0,
        }
    }

    /// The arena of a segment, at least as large as asked for.
    pub(crate) fn arena(
        &mut self,
        executor: &dyn KernelExecutor,
        block: BlockId,
        segment: usize,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        if let Some(memory) = self.arenas.get(&(block, segment))
            && memory.bytes() >= bytes
        {
            return Ok(memory.clone());
        }
        // The smaller one first gives its memory back.
        let before = self.arenas.remove(&(block, segment));
        let before = before.map_or(0, |memory| memory.bytes());
        // More than is asked for, so that shapes that grow from call to call do not each bring fresh pages; those that
        // nothing touches cost nothing.
        let generous = before
            .saturating_mul(2)
            .min(bytes.saturating_add(MOST_AHEAD));
        let memory = executor
            .alloc(bytes.max(generous))
            .or_else(|_| executor.alloc(bytes))
            .map_err(RuntimeError::execute("the arena"))?;
        self.arenas.insert((block, segment), memory.clone());
        Ok(memory)
    }

    /// Memory for an input, from what an earlier call left.
    pub(crate) fn given(
        &mut self,
        executor: &dyn KernelExecutor,
        position: usize,
        tensor: &Tensor,
    ) -> Result<Memory, RuntimeError> {
        let memory = match self.given.get_mut(position) {
            Some(memory) => {
                let uploaded = executor.reupload(Some(tensor), memory);
                uploaded.map_err(RuntimeError::execute("an input"))?;
                memory.clone()
            }
            None => {
                let memory = executor.upload(tensor);
                let memory = memory.map_err(RuntimeError::execute("an input"))?;
                self.given.push(memory.clone());
                memory
            }
        };
        Ok(memory)
    }

    /// Lets go of the tensors that were uploaded.
    pub(crate) fn release(&mut self, executor: &dyn KernelExecutor) {
        for memory in &mut self.given {
            // What cannot be let go of now is with the next call.
            let _ = executor.reupload(None, memory);
        }
    }

    /// Memory for a result of the body that is copied out, from what an earlier call left.
    pub(crate) fn own(
        &mut self,
        executor: &dyn KernelExecutor,
        index: MemoryIndex,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        if let Some(memory) = self.own.get(&index)
            && memory.bytes() >= bytes
        {
            return Ok(memory.clone());
        }
        let memory = executor.alloc(bytes);
        let memory = memory.map_err(RuntimeError::execute("a result"))?;
        self.own.insert(index, memory.clone());
        Ok(memory)
    }

    /// An empty frame for a block.
    pub(crate) fn take_frame(&mut self, block: BlockId, memories: usize) -> Frame {
        let mut frame = self.frames.remove(&block).unwrap_or_default();
        frame.reset(memories);
        frame
    }

    /// Keeps a frame for the next run, without what is in it.
    pub(crate) fn give_frame(&mut self, block: BlockId, mut frame: Frame) {
        frame.reset(0);
        self.frames.insert(block, frame);
    }
}

/// States that no run has at the moment.
#[derive(Default)]
pub(crate) struct States(Mutex<Vec<RunState>>);

impl States {
    /// A state that was used before, if there is one.
    pub(crate) fn take(&self) -> Option<RunState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    /// Keeps a state for later.
    pub(crate) fn give(&self, state: RunState) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .push(state);
    }

    /// Gives back the memory of states that nobody uses.
    pub(crate) fn clear(&self) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("States")
    }
}
