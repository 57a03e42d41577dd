//! What one run at a time needs and later runs reuse: the device's execution, arenas, frames.

use std::sync::Arc;

use cranelift_entity::SecondaryMap;
use kiln_fork_lock::ForkLock;
use kiln_kernel::{Execution, KernelExecutor, Memory};
use kiln_program::BlockId;
use kiln_tensor::Tensor;

use super::Value;
use crate::compile::CompiledKernel;
use crate::error::RuntimeError;
use crate::plan::{Frame, MemoryIndex};
use crate::runtime::Runtime;

/// At most so many bytes are had beyond those that a call needs.
const MOST_AHEAD: usize = 128 << 20;

/// A launch, for a fault to be traced back to its step.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    pub(crate) block: BlockId,
    pub(crate) segment: usize,
    pub(crate) step: usize,
    /// Its code, where that may fault.
    pub(crate) compiled: Option<Arc<CompiledKernel>>,
}

/// The state of a run.
pub(crate) struct RunState {
    pub(crate) execution: Box<dyn Execution>,
    /// Of segments. Few, so that looking them through is quicker than a map.
    arenas: Vec<((BlockId, usize), Memory)>,
    frames: SecondaryMap<BlockId, Frame>,
    /// What inputs are uploaded into, one after the other, where a call writes into tensors that are given.
    given: Vec<Memory>,
    /// Memories of the body's results, where a call copies those out.
    own: Vec<(MemoryIndex, Memory)>,
    pub(crate) launched: Vec<Launched>,
    /// Room for a block's results; empty.
    pub(crate) spare_values: Vec<Value>,
    pub(crate) iterations: u64,
}

impl RunState {
    pub(crate) fn new(execution: Box<dyn Execution>) -> Self {
        Self {
            execution,
            arenas: Vec::new(),
            frames: SecondaryMap::new(),
            given: Vec::new(),
            own: Vec::new(),
            launched: Vec::new(),
            spare_values: Vec::new(),
            iterations: 0,
        }
    }

    /// The arena of a segment, at least as large as asked for.
    pub(crate) fn arena(
        &mut self,
        runtime: &Runtime,
        block: BlockId,
        segment: usize,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        let key = (block, segment);
        let known = self.arenas.iter().position(|&(known, _)| known == key);
        let mut before = 0;
        if let Some(position) = known {
            let (_, memory) = &self.arenas[position];
            if memory.bytes() >= bytes {
                return Ok(memory.clone());
            }
            before = memory.bytes();
            // The smaller one first gives its memory back.
            self.arenas.swap_remove(position);
        }
        // More than is asked for, so that shapes that grow from call to call do not each bring fresh pages; those that
        // nothing touches cost nothing.
        let generous = before
            .saturating_mul(2)
            .min(bytes.saturating_add(MOST_AHEAD));
        let memory = runtime
            .executor()
            .alloc(bytes.max(generous))
            .or_else(|_| runtime.alloc(bytes))
            .map_err(RuntimeError::execute("the arena"))?;
        self.arenas.push((key, memory.clone()));
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
        runtime: &Runtime,
        index: MemoryIndex,
        bytes: usize,
    ) -> Result<Memory, RuntimeError> {
        let known = self.own.iter().position(|&(known, _)| known == index);
        if let Some(position) = known {
            let (_, memory) = &self.own[position];
            if memory.bytes() >= bytes {
                return Ok(memory.clone());
            }
            // The smaller one first gives its memory back.
            self.own.swap_remove(position);
        }
        let memory = runtime.alloc(bytes);
        let memory = memory.map_err(RuntimeError::execute("a result"))?;
        self.own.push((index, memory.clone()));
        Ok(memory)
    }

    /// An empty frame for a block.
    pub(crate) fn take_frame(&mut self, block: BlockId, memories: usize) -> Frame {
        let mut frame = std::mem::take(&mut self.frames[block]);
        frame.reset(memories);
        frame
    }

    /// Keeps a frame for the next run, without what is in it.
    pub(crate) fn give_frame(&mut self, block: BlockId, mut frame: Frame) {
        frame.reset(0);
        self.frames[block] = frame;
    }
}

/// States that no run has at the moment.
#[allow(
    clippy::vec_box,
    reason = "a state of some hundred bytes would be moved twice by every call"
)]
#[derive(Default)]
pub(crate) struct States(ForkLock<Vec<Box<RunState>>>);

impl States {
    /// A state that was used before, if there is one.
    pub(crate) fn take(&self) -> Option<Box<RunState>> {
        self.0.lock().pop()
    }

    /// Keeps a state for later.
    pub(crate) fn give(&self, state: Box<RunState>) {
        self.0.lock().push(state);
    }

    /// Gives back the memory of states that nobody uses.
    pub(crate) fn clear(&self) {
        self.0.lock().clear();
    }
}

impl std::fmt::Debug for States {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("States")
    }
}
