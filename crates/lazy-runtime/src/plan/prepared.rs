//! A program with the data the runtime adds once: the keys and schedules of kernels, and the memos of segments.

use std::num::NonZeroUsize;
use std::sync::Arc;

use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_fork_lock::ForkCell;
use kiln_program::{Block, BlockId, BufferId, KernelId, Place, Program, Step};
use kiln_timing::{Category, EventId, Span, Verbosity};

use super::arena::{Lifetime, lifetimes_of};
use super::frame::MemoryIndex;
use super::memo::Memo;
use super::{Key, PlacedConstants, SegmentPlan};
use crate::compile::KernelIdentity;
use crate::context::LazyCompilationContext;
use crate::recorder::Recorder;

/// A program ready to be planned for sizes.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) program: Program,
    /// Times and counts work for the program.
    pub(crate) recorder: Recorder,
    /// The events of steps, by block and segment; registered once they are timed.
    steps: ForkCell<StepEvents>,
    kernels: Vec<LazyCompilationContext>,
    blocks: Vec<PreparedBlock>,
}

/// By block, segment and step.
type StepEvents = Vec<Vec<Vec<EventId>>>;

#[derive(Debug)]
struct PreparedBlock {
    /// The number of memories of a run.
    memories: usize,
    /// The memory of each buffer that is the root of one.
    index: SecondaryMap<BufferId, Option<MemoryIndex>>,
    memos: Vec<Memo<SegmentPlan>>,
    /// By segment.
    placed: Vec<PlacedConstants>,
    /// Lifetimes of the buffers in the arena of each segment; computed when it is first planned.
    lifetimes: Vec<ForkCell<Vec<Lifetime>>>,
}

impl Prepared {
    pub(crate) fn new(program: Program, launch_plans: NonZeroUsize, recorder: Recorder) -> Self {
        // A graph that is one kernel keeps the user's name.
        let is_one = program.kernels().len() == 1;
        let kernels = program.kernels().values().map(|kernel| {
            let identity = KernelIdentity::of(&kernel.kernel, &kernel.name);
            let identity = match is_one {
                true => identity.with_function(program.graph().name()),
                false => identity,
            };
            LazyCompilationContext::new(identity)
        });
        let kernels = kernels.collect();
        let blocks = program.blocks().values().map(|block| {
            let mut memories = block.segments.len();
            let mut index = SecondaryMap::new();
            for (id, buffer) in &block.buffers {
                if matches!(
                    buffer.place,
                    Place::Parameter(_) | Place::Own | Place::Brought
                ) {
                    index[id] = u32::try_from(memories).ok().map(MemoryIndex);
                    memories += 1;
                }
            }
            let memos = block
                .segments
                .iter()
                .map(|_| Memo::new(launch_plans))
                .collect();
            let placed = block.segments.iter().map(|_| PlacedConstants::default());
            PreparedBlock {
                memories,
                index,
                memos,
                placed: placed.collect(),
                lifetimes: block.segments.iter().map(|_| ForkCell::new()).collect(),
            }
        });
        let blocks = blocks.collect();
        Self {
            program,
            recorder,
            steps: ForkCell::new(),
            kernels,
            blocks,
        }
    }

    pub(crate) fn memories(&self, block: BlockId) -> usize {
        self.blocks[block.index()].memories
    }

    /// The memory that a buffer is the root of.
    pub(crate) fn memory_of(&self, block: BlockId, buffer: BufferId) -> Option<MemoryIndex> {
        self.blocks[block.index()].index[buffer]
    }

    pub(crate) fn memo(&self, block: BlockId, segment: usize) -> &Memo<SegmentPlan> {
        &self.blocks[block.index()].memos[segment]
    }

    /// Constants of a segment's launches, prepared for their code.
    pub(crate) fn placed(&self, block: BlockId, segment: usize) -> &PlacedConstants {
        &self.blocks[block.index()].placed[segment]
    }

    /// The lifetimes of the buffers in the arena of a segment.
    pub(crate) fn lifetimes(&self, block: BlockId, segment: usize) -> &[Lifetime] {
        let lifetimes = &self.blocks[block.index()].lifetimes[segment];
        lifetimes.get_or_init(|| lifetimes_of(&self.program, self.program.block(block), segment))
    }

    /// Its kernels, by their ids.
    pub(crate) fn kernels(&self) -> &[LazyCompilationContext] {
        &self.kernels
    }

    pub(crate) fn kernel(&self, kernel: KernelId) -> &LazyCompilationContext {
        &self.kernels[kernel.index()]
    }

    pub(crate) fn identity(&self, kernel: KernelId) -> &Arc<KernelIdentity> {
        self.kernel(kernel).identity()
    }

    /// Times a step, if steps are timed.
    pub(crate) fn time_step(&self, block: BlockId, segment: usize, step: usize) -> Span<'_> {
        let timing = &self.recorder.timing;
        let events = self.steps.get_or_init(|| {
            let blocks = self.program.blocks().values();
            let event = |step: &Step| {
                timing.named(Category::Runtime, "run_", &step.name, "Execution time of ")
            };
            let of_block = |block: &Block| {
                let segments = block.segments.iter();
                segments
                    .map(|segment| segment.steps.iter().map(event).collect())
                    .collect()
            };
            blocks.map(of_block).collect()
        });
        timing.begin_at(Verbosity::Verbose, events[block.index()][segment][step])
    }

    /// Clears every launch plan.
    pub(crate) fn clear_plans(&self) {
        self.memos().for_each(Memo::clear);
        let placed = self.blocks.iter().flat_map(|block| &block.placed);
        placed.for_each(PlacedConstants::clear);
    }

    pub(crate) fn n_plans(&self) -> usize {
        self.memos().map(Memo::len).sum()
    }

    fn memos(&self) -> impl Iterator<Item = &Memo<SegmentPlan>> {
        self.blocks.iter().flat_map(|block| &block.memos)
    }
}

/// The values of all bound symbols: what plans of later segments and of control steps' blocks depend on.
pub(crate) fn key_of(binding: &kiln_symbolic_shape::Binding) -> Key {
    binding.iter().map(|(_, value)| value).collect()
}
