//! Builds a program from a graph and a fusion plan: one function per kind of step, then the placement of buffers.
//!
//! One block per region, outermost last; recursion is over nested regions, whose depth the graph's verifier bounds.

mod block;
mod contract;
mod course;
mod flow;
mod in_place;
mod kernels;
mod last_uses;
mod layout;
mod memory;
mod node;
mod order_steps;
mod recompute;
mod relayout;
mod sizes;
mod source;
mod view;

use std::collections::HashMap;

use cranelift_entity::{EntityRef, PrimaryMap};
use kiln_fusion::FusionPlan;
use kiln_ir::{Constant, Digest, Graph, RegionId, ValueId};
use kiln_symbolic_shape::{DimError, DimId};

use crate::error::ProgramError;
use crate::ids::{BlockId, BufferId, ConstantId, KernelId};
use crate::memory_budget::MemoryBudget;
use crate::program::{Block, Program, ProgramKernel, is_written};
use crate::sizes::SizeTable;
use crate::step::Action;
use kernels::KnownKernels;
use node::NodeSource;

pub use layout::{LayoutPreferences, RowMajor};

/// How to build a program.
#[derive(Clone, Debug)]
pub struct BuildOptions {
    /// Whether operands of a concatenation are computed directly in its result.
    pub concat_in_place: bool,
    /// Whether buffers share memory.
    pub share_memory: bool,
    /// The number of the graph's first results that may have the layout that kernels prefer: those added for watching,
    /// which the graph itself does not return. A value that is also another result stays row-major.
    pub watched: usize,
    /// How much memory the values between steps may take, as far as they can be rematerialised.
    pub memory: MemoryBudget,
}

impl Default for BuildOptions {
    fn default() -> Self {
        Self {
            concat_in_place: true,
            share_memory: true,
            watched: 0,
            memory: MemoryBudget::Unlimited,
        }
    }
}

/// Builds the program of a graph according to a fusion plan.
///
/// # Errors
/// A value that is not a tensor, a plan of another graph, an invalid kernel, a size that is too large to express.
pub fn build(
    mut graph: Graph,
    plan: &FusionPlan,
    layouts: &dyn LayoutPreferences,
    options: &BuildOptions,
) -> Result<Program, ProgramError> {
    let source = source::Planned::new(&mut graph, plan)?;
    build_from(graph, &source, layouts, options)
}

fn build_from(
    graph: Graph,
    source: &dyn NodeSource,
    layouts: &dyn LayoutPreferences,
    options: &BuildOptions,
) -> Result<Program, ProgramError> {
    let body = graph.body();
    let mut builder = Builder {
        graph,
        source,
        layouts,
        options,
        sizes: SizeTable::default(),
        kernels: PrimaryMap::new(),
        known: KnownKernels::default(),
        constants: PrimaryMap::new(),
        constant_ids: HashMap::new(),
        blocks: PrimaryMap::new(),
    };
    let body = builder.block(body)?;
    Ok(Program {
        graph: builder.graph,
        sizes: builder.sizes,
        kernels: builder.kernels,
        constants: builder.constants,
        blocks: builder.blocks,
        body,
    })
}

/// A program under construction.
pub(crate) struct Builder<'a> {
    pub(crate) graph: Graph,
    source: &'a dyn NodeSource,
    layouts: &'a dyn LayoutPreferences,
    options: &'a BuildOptions,
    pub(crate) sizes: SizeTable,
    kernels: PrimaryMap<KernelId, ProgramKernel>,
    known: KnownKernels,
    constants: PrimaryMap<ConstantId, Constant>,
    constant_ids: HashMap<Digest, ConstantId>,
    blocks: PrimaryMap<BlockId, Block>,
}

impl Builder<'_> {
    /// The block of a region.
    fn block(&mut self, region: RegionId) -> Result<BlockId, ProgramError> {
        if !self.graph.contains_region(region) {
            return Err(ProgramError::plan(format!(
                "{region}, which the graph lacks"
            )));
        }
        let block = block::BlockBuilder::new(self, region).build()?;
        Ok(self.blocks.push(block))
    }

    /// The buffers that an action reads.
    fn reads(&self, action: &Action) -> Vec<BufferId> {
        action.reads(|kernel, position| is_written(&self.kernels, kernel, position))
    }

    /// The buffers that an action writes.
    fn writes(&self, action: &Action) -> Vec<BufferId> {
        action.writes(|kernel, position| is_written(&self.kernels, kernel, position))
    }

    fn constant(&mut self, constant: &Constant) -> ConstantId {
        let constants = &mut self.constants;
        let new = || constants.push(constant.clone());
        *self
            .constant_ids
            .entry(constant.digest())
            .or_insert_with(new)
    }

    /// A value for messages and buffers' names.
    pub(crate) fn name_of(&self, value: ValueId) -> String {
        match &self.graph.value(value).name {
            Some(name) => name.to_string(),
            None => value.index().to_string(),
        }
    }
}

/// A size that could not be expressed, with its purpose.
fn size_error(what: impl Into<String>) -> impl FnOnce(DimError) -> ProgramError {
    let what = what.into();
    move |source| ProgramError::Size { what, source }
}

/// The number of elements of a shape.
fn elements(graph: &mut Graph, shape: &[DimId]) -> Result<DimId, DimError> {
    graph.dims_mut().product(shape)
}
