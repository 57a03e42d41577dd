//! The memory of a call of given sizes, and its lower bound: the values that are live at one time.

use std::collections::BTreeMap;

use kiln_program::{BufferId, Place};

use crate::error::RuntimeError;
use crate::plan::{Key, SegmentPlan, StepPlan, lifetimes_of, lifetimes_where, place};
use crate::program::CompiledProgram;

/// The memory of a call, in bytes, in addition to its inputs and constants.
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
    /// The values behind these numbers, in the order in which they are first written.
    pub values: Vec<LiveValue>,
}

/// A value of a call, and its place in memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LiveValue {
    /// Its name in the graph, or its number.
    pub name: String,
    /// Its size.
    pub bytes: usize,
    /// Its offset in the arena; `None` for a result, which has its own memory.
    pub offset: Option<usize>,
    /// The position of the step that first writes it.
    pub from: usize,
    /// The position of the last step that uses it; for a result, of the last step.
    pub to: usize,
}

impl CompiledProgram {
    /// The memory of a call with inputs of these shapes, as far as its sizes are known when it begins; makes its launch
    /// plan as [`precompile`](Self::precompile) does. `None` if another plan serves these sizes.
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
        let values = self.live_values(plan)?;
        let (largest_live_set, largest_at) = self.largest_live_set(&values);
        Ok(CallMemory {
            arena: plan.arena,
            results: plan.own.iter().map(|own| own.bytes).sum(),
            scratch: self.scratch_of(plan),
            largest_live_set,
            largest_at,
            values,
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

    /// The maximum total size of values that are live at one step, and the first such step.
    fn largest_live_set(&self, values: &[LiveValue]) -> (usize, String) {
        let program = self.program();
        let Some(segment) = program.block(program.body()).segments.first() else {
            return (0, String::new());
        };
        let live = |position: usize| -> usize {
            let alive = values
                .iter()
                .filter(|value| (value.from..=value.to).contains(&position));
            alive.map(|value| value.bytes).sum()
        };
        // The first of several equal peaks.
        let largest = (0..segment.steps.len())
            .rev()
            .max_by_key(|&position| live(position));
        largest.map_or_else(Default::default, |position| {
            (live(position), segment.steps[position].name.clone())
        })
    }

    /// The values that the first segment computes.
    fn live_values(&self, plan: &SegmentPlan) -> Result<Vec<LiveValue>, RuntimeError> {
        let program = self.program();
        let block = program.block(program.body());
        let n_steps = block.segments.first().map_or(0, |first| first.steps.len());
        let is_own = |place| matches!(place, Place::Slot { segment: 0, .. } | Place::Own);
        let is_result = |buffer| {
            let mut roots = block.results.iter().map(|&result| block.root(result));
            roots.any(|root| root == buffer)
        };
        let offsets = self.offsets(plan)?;
        let mut values = Vec::new();
        for needed in lifetimes_where(program, block, 0, is_own) {
            // Results of a later segment may have a size that is not known yet.
            if needed.from >= n_steps {
                continue;
            }
            let to = match is_result(needed.buffer) {
                true => n_steps,
                false => needed.to,
            };
            values.push(LiveValue {
                name: block.buffers[needed.buffer].name.clone(),
                bytes: self.bytes_of(needed.buffer, plan)?,
                offset: offsets.get(&needed.buffer).copied(),
                from: needed.from,
                to: to.min(n_steps - 1),
            });
        }
        Ok(values)
    }

    /// The offsets of the buffers in the first segment's arena, which a plan keeps only where a later segment needs them.
    fn offsets(&self, plan: &SegmentPlan) -> Result<BTreeMap<BufferId, usize>, RuntimeError> {
        if !plan.starts.is_empty() {
            return Ok(plan.starts.iter().copied().collect());
        }
        let program = self.program();
        let lifetimes = lifetimes_of(program, program.block(program.body()), 0);
        let bytes = lifetimes
            .iter()
            .map(|lifetime| self.bytes_of(lifetime.buffer, plan));
        let bytes = bytes.collect::<Result<Vec<usize>, _>>()?;
        let placed = place(&lifetimes, &bytes);
        let starts = placed.map_or_else(Vec::new, |(starts, _)| starts);
        let buffers = lifetimes.iter().map(|lifetime| lifetime.buffer);
        Ok(buffers.zip(starts).collect())
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
