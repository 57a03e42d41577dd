//! The memory of a call of given sizes, and its lower bound: the values that are live at one time.

use kiln_program::{BufferId, Place};

use crate::error::RuntimeError;
use crate::plan::{Key, SegmentPlan, StepPlan, lifetimes_where};
use crate::program::CompiledProgram;

/// The memory of a call, in bytes, beyond its inputs and constants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CallMemory {
    /// The arena, in which values reuse each other's memory.
    pub arena: usize,
    /// Results, which outlive the call.
    pub results: usize,
    /// Scratch of kernels, on as many threads as the runtime has.
    pub scratch: usize,
    /// The maximum total size of values of this program that are live at one time: a lower bound for any placement with its
    /// steps in their order.
    pub largest_live_set: usize,
    /// The step at which it occurs.
    pub largest_at: String,
}

impl CompiledProgram {
    /// The memory of a call with inputs of these shapes, as far as its sizes are known when it begins; makes its launch
    /// plan as [`precompile`](Self::precompile) does. `None` where another plan serves these sizes.
    ///
    /// # Errors
    /// As [`precompile`](Self::precompile).
    pub fn call_memory(&self, shapes: &[Vec<usize>]) -> Result<Option<CallMemory>, RuntimeError> {
        self.precompile(shapes)?;
        let prepared = self.prepared();
        let key: Key = shapes.iter().flatten().map(|&size| size as i64).collect();
        let plan = prepared.memo(self.program().body(), 0).get(&key);
        plan.map(|plan| self.memory_of(&plan)).transpose()
    }

    fn memory_of(&self, plan: &SegmentPlan) -> Result<CallMemory, RuntimeError> {
        let (largest_live_set, largest_at) = self.largest_live_set(plan)?;
        Ok(CallMemory {
            arena: plan.arena,
            results: plan.own.iter().map(|own| own.bytes).sum(),
            scratch: self.scratch_of(plan),
            largest_live_set,
            largest_at,
        })
    }

    /// Scratch grows to the maximum of any step: shared by all threads, and per thread.
    fn scratch_of(&self, plan: &SegmentPlan) -> usize {
        let numbers = plan.steps.iter().filter_map(|step| match step {
            StepPlan::Kernel(kernel) => Some(&kernel.numbers),
            _ => None,
        });
        let (shared, own) = numbers.fold((0, 0), |(shared, own), numbers| {
            let phases = numbers.phases().iter().map(|phase| phase.scratch);
            let own = phases.fold(own, usize::max);
            (numbers.shared_scratch().max(shared), own)
        });
        let threads = self.runtime().executor().parallelism();
        own.saturating_mul(threads).saturating_add(shared)
    }

    fn largest_live_set(&self, plan: &SegmentPlan) -> Result<(usize, String), RuntimeError> {
        let program = self.program();
        let block = program.block(program.body());
        let Some(segment) = block.segments.first() else {
            return Ok((0, String::new()));
        };
        let is_own = |place| matches!(place, Place::Slot { segment: 0, .. } | Place::Own);
        let is_result = |buffer| {
            let mut roots = block.results.iter().map(|&result| block.root(result));
            roots.any(|root| root == buffer)
        };
        let mut sized = Vec::new();
        for needed in lifetimes_where(program, block, 0, is_own) {
            // Results of a later segment may have a size that is not known yet.
            if needed.from < segment.steps.len() {
                let to = if is_result(needed.buffer) {
                    usize::MAX
                } else {
                    needed.to
                };
                sized.push((self.bytes_of(needed.buffer, plan)?, (needed.from, to)));
            }
        }
        let live = |position: usize| -> usize {
            let alive = sized.iter();
            let alive = alive.filter(|(_, (from, to))| (*from..=*to).contains(&position));
            alive.map(|(bytes, _)| bytes).sum()
        };
        // The first of equal ones.
        let largest = (0..segment.steps.len())
            .rev()
            .max_by_key(|&position| live(position));
        Ok(largest.map_or_else(Default::default, |position| {
            (live(position), segment.steps[position].name.clone())
        }))
    }

    /// The bytes of a buffer's elements.
    fn bytes_of(&self, buffer: BufferId, plan: &SegmentPlan) -> Result<usize, RuntimeError> {
        let program = self.program();
        let (sizes, dims) = (program.sizes(), program.graph().dims());
        let buffer = &program.block(program.body()).buffers[buffer];
        let mut bytes = buffer.dtype.size_in_bytes();
        for &size in &buffer.shape {
            let value = dims.evaluate(sizes.dim(size), &plan.binding);
            let value = value.map_err(|error| RuntimeError::Size {
                what: dims.display(sizes.dim(size)).to_string(),
                error,
            })?;
            bytes = bytes.saturating_mul(usize::try_from(value).unwrap_or(0));
        }
        Ok(bytes)
    }
}
