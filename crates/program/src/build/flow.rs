//! The steps of a segment as a flow of values: what each step reads and writes, how large that is at likely sizes, and what
//! the step costs.
//!
//! A value is a memory: a buffer together with its views. Only values in the segment's arena count; the others occupy
//! their memory whatever the order of steps is.

use std::collections::HashMap;

use kiln_fusion::{FusionOptions, likely_sizes};
use kiln_symbolic_shape::{Binding, DimId};
use smallvec::SmallVec;

use super::Builder;
use crate::buffer::Place;
use crate::ids::BufferId;
use crate::operations::kernel_operations;
use crate::program::Block;
use crate::step::{Action, KernelLaunch};

type Shapes = HashMap<BufferId, SmallVec<[DimId; 4]>>;

/// Scalar operations that take about as long as moving a byte.
const OPERATIONS_PER_BYTE: f64 = 4.0;

/// The steps of a segment, and the values that they use.
pub(super) struct Flow {
    pub(super) steps: Vec<FlowStep>,
    pub(super) values: Vec<FlowValue>,
}

/// A step; values are positions in [`Flow::values`], sorted, each listed once.
pub(super) struct FlowStep {
    pub(super) reads: Vec<usize>,
    pub(super) writes: Vec<usize>,
    /// Whether it keeps its position among other steps of this kind: control flow, the interpreter, bound sizes.
    pub(super) is_fixed: bool,
    /// Whether it may run again: a kernel that alone writes its results, all of them in the arena.
    pub(super) may_repeat: bool,
    /// Its cost, in moved bytes.
    pub(super) work: f64,
}

/// A memory that steps use.
pub(super) struct FlowValue {
    pub(super) buffer: BufferId,
    /// Its bytes in the arena; 0 for other memory.
    pub(super) bytes: u64,
    /// Whether it is in the segment's arena.
    pub(super) is_in_arena: bool,
    /// Whether it is needed after the segment.
    pub(super) is_kept: bool,
    /// Whether it is a parameter of the block.
    pub(super) is_parameter: bool,
    /// Whether it stays as long as the block runs, regardless of its uses: a constant, or a result.
    pub(super) is_permanent: bool,
    /// The steps that read it, in order.
    pub(super) readers: Vec<usize>,
    /// The steps that write it, in order.
    pub(super) writers: Vec<usize>,
}

impl FlowValue {
    /// The last step that uses it.
    pub(super) fn last_use(&self) -> Option<usize> {
        self.readers.last().max(self.writers.last()).copied()
    }
}

impl Flow {
    /// The flow of a segment; without a budget, no step may repeat, and the costs of steps are not computed.
    pub(super) fn of(
        program: &Builder<'_>,
        block: &Block,
        segment: usize,
        shapes: &Shapes,
        has_budget: bool,
    ) -> Self {
        let likely = likely_sizes(program.graph.dims(), FusionOptions::new().likely_size);
        let mut maker = Maker {
            program,
            block,
            segment,
            shapes,
            likely,
            known: HashMap::new(),
            values: Vec::new(),
        };
        let mut steps = Vec::new();
        for step in &block.segments[segment].steps {
            let reads = maker.values_of(&program.reads(&step.action));
            let writes = maker.values_of(&program.writes(&step.action));
            let position = steps.len();
            for &value in &reads {
                maker.values[value].readers.push(position);
            }
            for &value in &writes {
                maker.values[value].writers.push(position);
            }
            let is_fixed = !matches!(step.action, Action::Kernel(_) | Action::Builtin { .. });
            steps.push(FlowStep {
                work: match has_budget {
                    true => maker.work(&step.action),
                    false => 0.0,
                },
                reads,
                writes,
                is_fixed,
                may_repeat: false,
            });
        }
        maker.keep_what_is_needed_later();
        for (step, of_segment) in steps.iter_mut().zip(&block.segments[segment].steps) {
            step.may_repeat = has_budget && maker.may_repeat(&of_segment.action);
        }
        Self {
            steps,
            values: maker.values,
        }
    }

    /// The peak of live bytes of values in the arena, with the steps in this order.
    pub(super) fn peak(&self, order: &[usize]) -> u64 {
        let mut lives: Vec<Option<(usize, usize)>> = vec![None; self.values.len()];
        for (position, &step) in order.iter().enumerate() {
            let step = &self.steps[step];
            for &value in step.reads.iter().chain(&step.writes) {
                let begin = lives[value].map_or(position, |(begin, _)| begin);
                lives[value] = Some((begin, position));
            }
        }
        let mut begins = vec![0_u64; order.len() + 1];
        let mut ends = vec![0_u64; order.len() + 1];
        for (value, life) in self.values.iter().zip(lives) {
            let Some((begin, end)) = life else { continue };
            let end = if value.is_kept { order.len() } else { end + 1 };
            begins[begin] += value.bytes;
            ends[end] += value.bytes;
        }
        let (mut live, mut peak) = (0_u64, 0);
        for (begin, end) in begins.into_iter().zip(ends) {
            live = (live + begin).saturating_sub(end);
            peak = peak.max(live);
        }
        peak
    }
}

struct Maker<'m, 'a> {
    program: &'m Builder<'a>,
    block: &'m Block,
    segment: usize,
    shapes: &'m Shapes,
    likely: Binding,
    /// By root.
    known: HashMap<BufferId, usize>,
    values: Vec<FlowValue>,
}

impl Maker<'_, '_> {
    fn values_of(&mut self, buffers: &[BufferId]) -> Vec<usize> {
        let roots = buffers.iter().map(|&buffer| self.block.root(buffer));
        let mut values: Vec<usize> = roots.map(|root| self.value(root)).collect();
        values.sort_unstable();
        values.dedup();
        values
    }

    fn value(&mut self, buffer: BufferId) -> usize {
        if let Some(&value) = self.known.get(&buffer) {
            return value;
        }
        let place = self.block.buffers[buffer].place;
        let is_in_arena = matches!(place, Place::Slot { segment, .. } if segment == self.segment);
        let value = FlowValue {
            buffer,
            bytes: if is_in_arena { self.bytes(buffer) } else { 0 },
            is_in_arena,
            is_kept: false,
            is_parameter: matches!(place, Place::Parameter(_)),
            is_permanent: matches!(place, Place::Constant(_) | Place::Own),
            readers: Vec::new(),
            writers: Vec::new(),
        };
        self.values.push(value);
        self.known.insert(buffer, self.values.len() - 1);
        self.values.len() - 1
    }

    /// Values that a later segment reads, or that are results, are not freed at the end.
    fn keep_what_is_needed_later(&mut self) {
        let later = self.block.segments.iter().skip(self.segment + 1);
        let later = later.flat_map(|segment| &segment.steps);
        let used = later.flat_map(|step| {
            let reads = self.program.reads(&step.action).into_iter();
            reads.chain(self.program.writes(&step.action))
        });
        for buffer in used.chain(self.block.results.iter().copied()) {
            if let Some(&value) = self.known.get(&self.block.root(buffer)) {
                self.values[value].is_kept = true;
            }
        }
    }

    fn may_repeat(&self, action: &Action) -> bool {
        let writes_all = |&buffer: &BufferId| {
            let value = self.known.get(&self.block.root(buffer));
            value.is_some_and(|&value| {
                let value = &self.values[value];
                // This is not a view: parts of a value are written by several steps.
                value.buffer == buffer && value.is_in_arena && value.writers.len() == 1
            })
        };
        matches!(action, Action::Kernel(_)) && self.program.writes(action).iter().all(writes_all)
    }

    fn bytes(&self, buffer: BufferId) -> u64 {
        let shape = self.shapes.get(&buffer);
        let sizes = shape
            .into_iter()
            .flatten()
            .map(|&dim| self.size(dim) as u64);
        let elements = sizes.fold(1, u64::saturating_mul);
        let width = self.block.buffers[buffer].dtype.size_in_bytes() as u64;
        // Clamped so that sums do not overflow.
        elements.saturating_mul(width).min(1 << 48)
    }

    fn size(&self, dim: DimId) -> i64 {
        let size = self.program.graph.dims().evaluate(dim, &self.likely);
        size.unwrap_or(1).max(0)
    }

    fn work(&self, action: &Action) -> f64 {
        let used = self.program.reads(action).into_iter();
        let used = used.chain(self.program.writes(action));
        let moved: f64 = used.map(|buffer| self.bytes(buffer) as f64).sum();
        let Action::Kernel(launch) = action else {
            return moved;
        };
        moved + self.operations(launch).unwrap_or(0.0) / OPERATIONS_PER_BYTE
    }

    fn operations(&self, launch: &KernelLaunch) -> Option<f64> {
        let sizes = launch.symbols.iter();
        let sizes: Vec<i64> = sizes
            .map(|&size| self.size(self.program.sizes.dim(size)))
            .collect();
        kernel_operations(&self.program.kernels.get(launch.kernel)?.kernel, &sizes)
    }
}
