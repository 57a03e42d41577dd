//! The program: blocks of segments of steps over buffers. Plain data, shared by every run.

use std::collections::BTreeMap;

use cranelift_entity::PrimaryMap;
use kiln_ir::{Constant, Graph, RegionId};
use kiln_kernel::VerifiedKernel;
use kiln_symbolic_shape::{PlanFact, Predicate, SizeRequirement, SymbolId};
use serde::{Deserialize, Serialize};

use crate::buffer::{Buffer, Place, Slot};
use crate::ids::{BlockId, BufferId, ConstantId, KernelId, SizeId};
use crate::plan_operation::PlanOperation;
use crate::sizes::SizeTable;
use crate::step::{Action, Step};

/// The executable form of a graph, for any sizes that its contract and the plan facts allow.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) graph: Graph,
    pub(crate) sizes: SizeTable,
    pub(crate) kernels: PrimaryMap<KernelId, ProgramKernel>,
    pub(crate) constants: PrimaryMap<ConstantId, Constant>,
    pub(crate) blocks: PrimaryMap<BlockId, Block>,
    pub(crate) body: BlockId,
}

/// A kernel of a program.
#[derive(Clone, Debug)]
pub struct ProgramKernel {
    /// Its name: that of the first step that launches it.
    pub name: String,
    /// The kernel, canonical.
    pub kernel: VerifiedKernel,
    /// The number of steps that launch it.
    pub uses: usize,
}

/// A list of segments that runs in order, with parameters and results: the body, or part of a control step.
#[derive(Clone, Debug)]
pub struct Block {
    /// The region of the graph that it computes.
    pub region: RegionId,
    /// Its buffers.
    pub buffers: PrimaryMap<BufferId, Buffer>,
    /// The buffers in memory provided by the caller.
    pub parameters: Vec<BufferId>,
    /// Symbols that get their values from the sizes of the parameters, at each entry.
    pub symbols: Vec<SymbolId>,
    /// The segments, in order.
    pub segments: Vec<Segment>,
    /// Its results.
    pub results: Vec<BufferId>,
    /// The parameters whose memory a result could reuse if the block may write to it.
    pub donations: Vec<Donation>,
}

/// A parameter that is dead when a result of the same size and memory order is first written, by a step that may
/// compute in place. A call may use each parameter and each result in one pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Donation {
    /// The parameter, by position.
    pub parameter: usize,
    /// The result, by position.
    pub result: usize,
}

impl Block {
    /// The buffer that owns the memory of another one, or itself.
    pub fn root(&self, buffer: BufferId) -> BufferId {
        match self.buffers[buffer].place {
            Place::View { of, .. } => of,
            _ => buffer,
        }
    }
}

/// Steps whose sizes are all known when the first of them runs.
#[derive(Clone, Debug, Default)]
pub struct Segment {
    /// The steps, in order.
    pub steps: Vec<Step>,
    /// The slots of its arena.
    pub slots: Vec<Slot>,
    /// Buffers with separate memory that are first written here.
    pub own: Vec<BufferId>,
    /// The sizes that its steps need.
    pub sizes: Vec<SizeId>,
    /// The check of the facts under which it was planned, if there are any.
    pub check: Option<PlanOperation>,
    /// The requirements of ops on sizes, in the order of the graph before it was optimised: checked in order, before
    /// everything else, whenever the block is entered, with the interpreter's codes. Includes the requirements of unused
    /// results.
    pub contract: Vec<SizeRequirement>,
    /// The conditions on sizes under which the steps have a result.
    pub requirements: Vec<Requirement>,
}

/// A requirement of an op on sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Requirement {
    /// The condition, in the table of the program's graph.
    pub predicate: Predicate,
    /// The message when it is violated.
    pub message: String,
}

impl Program {
    /// The graph that the program computes, with every size that the program refers to in its table.
    #[inline]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The sizes that it needs.
    pub fn sizes(&self) -> &SizeTable {
        &self.sizes
    }

    /// The kernels.
    pub fn kernels(&self) -> &PrimaryMap<KernelId, ProgramKernel> {
        &self.kernels
    }

    /// A kernel.
    pub fn kernel(&self, kernel: KernelId) -> &VerifiedKernel {
        &self.kernels[kernel].kernel
    }

    /// The constants.
    pub fn constants(&self) -> &PrimaryMap<ConstantId, Constant> {
        &self.constants
    }

    /// The blocks.
    pub fn blocks(&self) -> &PrimaryMap<BlockId, Block> {
        &self.blocks
    }

    /// A block.
    #[inline]
    pub fn block(&self, block: BlockId) -> &Block {
        &self.blocks[block]
    }

    /// The block that computes the graph's body.
    #[inline]
    pub fn body(&self) -> BlockId {
        self.body
    }

    /// Every step of every block, in order.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        let segments = self.blocks.values().flat_map(|block| &block.segments);
        segments.flat_map(|segment| &segment.steps)
    }

    /// The number of steps of each kind.
    pub fn counts(&self) -> BTreeMap<&'static str, usize> {
        let mut counts = BTreeMap::new();
        for step in self.steps() {
            *counts.entry(step.action.as_word()).or_default() += 1;
        }
        counts
    }

    /// Every fact under which a step was planned.
    pub fn facts(&self) -> impl Iterator<Item = &PlanFact> {
        let segments = self.blocks.values().flat_map(|block| &block.segments);
        let checks = segments.filter_map(|segment| segment.check.as_ref());
        checks.flat_map(PlanOperation::facts)
    }

    /// Whether a kernel writes the buffer at a position of its operands.
    pub fn is_written(&self, kernel: KernelId, position: usize) -> bool {
        is_written(&self.kernels, kernel, position)
    }

    /// The buffers that an action reads.
    pub fn reads(&self, action: &Action) -> Vec<BufferId> {
        action.reads(|kernel, position| self.is_written(kernel, position))
    }

    /// The buffers that an action writes.
    pub fn writes(&self, action: &Action) -> Vec<BufferId> {
        action.writes(|kernel, position| self.is_written(kernel, position))
    }
}

/// Whether a kernel of these writes the buffer at a position of its operands.
pub(crate) fn is_written(
    kernels: &PrimaryMap<KernelId, ProgramKernel>,
    kernel: KernelId,
    position: usize,
) -> bool {
    let buffers = kernels[kernel].kernel.kernel().buffers();
    let buffer = buffers.values().nth(position);
    buffer.is_some_and(|buffer| buffer.role.is_written())
}
