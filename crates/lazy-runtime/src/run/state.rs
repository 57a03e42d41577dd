//! What one run at a time needs and later runs reuse: the device's execution, arenas, frames.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use kiln_kernel::{Execution, KernelExecutor, Memory};
use kiln_program::BlockId;

use crate::compile::CompiledKernel;
use crate::error::RuntimeError;
use crate::plan::Frame;

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
    pub(crate) launched: Vec<Launched>,
    pub(crate) iterations: u64,
}

impl RunState {
    pub(crate) fn new(execution: Box<dyn Execution>) -> Self {
        Self {
            execution,
            arenas: HashMap::new(),
            frames: HashMap::new(),
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
