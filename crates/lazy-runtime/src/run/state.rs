//! What one run at a time needs and later runs reuse: the device's execution, frames with their memories, the last plan.

use std::sync::Arc;

use cranelift_entity::SecondaryMap;
use kiln_fork_lock::ForkLock;
use kiln_kernel::Execution;
use kiln_program::BlockId;
use kiln_tensor::Tensor;
use smallvec::SmallVec;

use crate::compile::CompiledKernel;
use crate::plan::{Frame, Key, SegmentPlan};

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
    frames: SecondaryMap<BlockId, Frame>,
    /// What the last run was planned by: the next one often has the same sizes.
    pub(crate) last_plan: Option<(Key, Arc<SegmentPlan>)>,
    /// The results of the body whose memory is a given tensor's.
    pub(crate) lent: SmallVec<[usize; 8]>,
    /// What stands in for a tensor that is lent.
    pub(crate) nothing: Tensor,
    pub(crate) launched: Vec<Launched>,
    pub(crate) iterations: u64,
}

impl RunState {
    pub(crate) fn new(execution: Box<dyn Execution>) -> Self {
        Self {
            execution,
            frames: SecondaryMap::new(),
            last_plan: None,
            lent: SmallVec::new(),
            nothing: Tensor::scalar(0_u8),
            launched: Vec::new(),
            iterations: 0,
        }
    }

    /// The frame of a block, with what stayed of its last run.
    pub(crate) fn take_frame(&mut self, block: BlockId, memories: usize) -> Frame {
        let mut frame = std::mem::take(&mut self.frames[block]);
        frame.open(memories);
        frame
    }

    /// Keeps a frame for the block's next run.
    pub(crate) fn give_frame(&mut self, block: BlockId, mut frame: Frame) {
        frame.close();
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
