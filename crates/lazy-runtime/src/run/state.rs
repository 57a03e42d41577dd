//! The state of one run at a time, reused by later runs: the device's execution, frames with their memories, the last
//! plan.

use std::sync::Arc;

use cranelift_entity::SecondaryMap;
use kiln_backend::{Execution, Memory};
use kiln_program::BlockId;
use kiln_tensor::{DType, Tensor, TensorError};
use smallvec::SmallVec;

use super::inputs::Known;
use crate::compile::CompiledKernel;
use crate::plan::{DonationPlan, Frame, MemoryIndex, SegmentPlan};

/// A launch of code that may fault, for tracing a fault back to its step.
#[derive(Clone, Debug)]
pub(crate) struct Launched {
    /// The number of the launch since the device was last waited for.
    pub(crate) number: usize,
    pub(crate) block: BlockId,
    pub(crate) segment: usize,
    pub(crate) step: usize,
    /// Its code.
    pub(crate) compiled: Arc<CompiledKernel>,
}

/// The types and shapes of inputs, and the plan of the body's first segment for them.
pub(crate) struct Planned {
    pub(crate) inputs: Known,
    pub(crate) plan: Arc<SegmentPlan>,
}

/// A donated input whose memory a result has in this run.
#[derive(Clone, Copy)]
pub(crate) struct Taken {
    pub(crate) donation: DonationPlan,
    /// The input's memory.
    pub(crate) index: MemoryIndex,
}

/// Consecutive iteration numbers in the device's memory: a loop's block is given a part of them.
pub(crate) struct Counters {
    first: i64,
    memory: Memory,
}

impl Counters {
    /// The number of them that are uploaded together.
    const TOGETHER: i64 = 1 << 10;

    /// The numbers to upload for an iteration without an uploaded number.
    pub(crate) fn numbers_from(first: i64) -> Vec<i64> {
        (first..first.saturating_add(Self::TOGETHER)).collect()
    }

    /// These numbers, uploaded.
    pub(crate) fn new(first: i64, memory: Memory) -> Self {
        Self { first, memory }
    }

    /// The place of an iteration number, in bytes from the memory's start.
    pub(crate) fn place_of(&self, iteration: i64) -> Option<(Memory, usize)> {
        let number = iteration.checked_sub(self.first)?;
        if !(0..Self::TOGETHER).contains(&number) {
            return None;
        }
        let offset = usize::try_from(number)
            .ok()?
            .checked_mul(size_of::<i64>())?;
        (offset < self.memory.bytes()).then(|| (self.memory.clone(), offset))
    }
}

/// The state of a run.
pub(crate) struct RunState {
    pub(crate) execution: Box<dyn Execution>,
    frames: SecondaryMap<BlockId, Frame>,
    /// The plan of the last run: the next one often has the same sizes.
    pub(crate) last_plan: Option<Box<Planned>>,
    /// The results of the body whose memory is that of a passed tensor.
    pub(crate) lent: SmallVec<[usize; 8]>,
    /// The donated inputs whose memory results have.
    pub(crate) taken: SmallVec<[Taken; 4]>,
    /// Whether anything was launched that may have written into them.
    pub(crate) began: bool,
    /// The placeholder of a lent tensor.
    pub(crate) nothing: Tensor,
    pub(crate) launched: Vec<Launched>,
    /// The number of launches since the device was waited for.
    pub(crate) n_launches: usize,
    pub(crate) iterations: u64,
    pub(crate) counters: Option<Counters>,
}

impl RunState {
    pub(crate) fn new(execution: Box<dyn Execution>) -> Self {
        Self {
            execution,
            frames: SecondaryMap::new(),
            last_plan: None,
            lent: SmallVec::new(),
            taken: SmallVec::new(),
            began: false,
            nothing: nothing(),
            launched: Vec::new(),
            n_launches: 0,
            iterations: 0,
            counters: None,
        }
    }

    /// Clears the launches, after waiting for the device.
    pub(crate) fn forget_launches(&mut self) {
        self.launched.clear();
        self.n_launches = 0;
    }

    /// The frame of a block, with the memories kept from its last run.
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

/// The placeholder of a tensor whose memory a call has taken: reading it is an error.
fn nothing() -> Tensor {
    let gone = || {
        let why = "its memory was donated to a call, which wrote a result there";
        Err(TensorError::Deferred(why.into()))
    };
    // A scalar is not too large.
    Tensor::deferred(DType::U8, &[], gone).unwrap_or_else(|_| Tensor::scalar(0_u8))
}
