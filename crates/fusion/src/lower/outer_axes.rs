//! Determines the outer axes: each output is lowered once with all its axes outer, to find out which axes every stage
//! depends on and which should be split; then all outputs are lowered together.

use std::collections::BTreeSet;

use kiln_ir::{Graph, ValueId};
use kiln_kernel::{AxisId, NodeId, Nodes, Role};
use kiln_symbolic_shape::DimId;

use super::context::{Dims, Findings, RegionLowering, Revision};
use super::index::Parts;
use super::prepare::KernelSizes;
use super::producers::Producers;
use super::{LowerError, LoweredKernel, Region, recurrence};
use crate::op_kind::OpKind;

/// The maximum number of attempts to find the axes of an output; after that, the current axes are used.
const ATTEMPT_LIMIT: usize = 12;

/// The maximum number of attempts to compute costly values only once; after that, the remaining ones are computed
/// several times.
const ARRAY_LIMIT: usize = 4;

/// The role of a part of an output's axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaf {
    /// An outer axis.
    Outer,
    /// An inner axis of the store.
    Inner,
    /// The steps of a carry block, and whether backwards.
    Steps(bool),
}

/// An output, with its axes as the parts in which they are computed.
#[derive(Clone, Debug)]
struct Output {
    value: ValueId,
    /// The parts of each axis, outermost first.
    axes: Vec<Vec<(DimId, Leaf)>>,
    /// The values of its stages.
    stages: BTreeSet<ValueId>,
}

/// Lowers a region.
pub(super) fn lower_region(
    graph: &Graph,
    region: &Region<'_>,
) -> Result<LoweredKernel, LowerError> {
    if let Some(id) = recurrence::loop_of(graph, region) {
        return recurrence::lower_loop(graph, region, id);
    }
    let producers = Producers::of_region(graph, region);
    let mut run = Runs {
        graph,
        region,
        producers: &producers,
        sizes: KernelSizes::of_region(graph, region)?,
        revision: Revision::default(),
    };
    if let &[value] = region.outputs
        && let Some(id) = producers.get(value)
        && let data = graph.op(id)
        && OpKind::of(&data.op) == OpKind::Scatter
    {
        return run.lowering().scatter(value, id, data);
    }
    let (mut outputs, mut empty) = (Vec::new(), Vec::new());
    for &value in region.outputs {
        if producers.get(value).is_none() {
            return Err(LowerError::Output { value });
        }
        // An output that never has elements needs no store.
        match run.is_empty(value)? {
            true => empty.push(value),
            false => outputs.push(run.explore(value)?),
        }
    }
    let outer = run.common_axes(&mut outputs)?;
    run.finish(&outputs, &empty, &outer)
}

struct Runs<'a> {
    graph: &'a Graph,
    region: &'a Region<'a>,
    producers: &'a Producers,
    sizes: KernelSizes,
    revision: Revision,
}

impl Runs<'_> {
    /// Finds the parts of an output's axes, and which of them stages depend on.
    fn explore(&mut self, value: ValueId) -> Result<Output, LowerError> {
        let ty = self
            .graph
            .tensor_ty(value)
            .ok_or(LowerError::NotTensor { value })?;
        let mut axes = Vec::new();
        for &dim in &ty.dims {
            axes.push(vec![(self.sizes.copy(self.graph, dim)?, Leaf::Outer)]);
        }
        for attempt in 1.. {
            let (places, findings) = self.attempt(value, &axes)?;
            if attempt < ATTEMPT_LIMIT {
                if let Some((owner, sizes)) = findings.inner_split
                    && !self.revision.splits.contains_key(&owner)
                {
                    self.revision.splits.insert(owner, sizes);
                    continue;
                }
                if let Some((axis, sizes)) = findings.outer_split
                    && let Some(&(_, at, part)) = places.iter().find(|place| place.0 == axis)
                {
                    let sizes = sizes.into_iter().map(|size| (size, Leaf::Outer));
                    axes[at].splice(part..=part, sizes);
                    continue;
                }
            }
            let alone = self.region.outputs.len() == 1;
            for (axis, at, part) in places {
                if let Some((clock, reverse)) = findings.clock
                    && clock == axis
                    && alone
                {
                    axes[at][part].1 = Leaf::Steps(reverse);
                }
                if findings
                    .stages
                    .iter()
                    .any(|(_, seen)| !seen.contains(&axis))
                {
                    axes[at][part].1 = Leaf::Inner;
                }
            }
            let stages = findings.stages.iter().map(|&(value, _)| value).collect();
            return Ok(Output {
                value,
                axes,
                stages,
            });
        }
        unreachable!("the search ends at its limit")
    }

    /// Lowers one output with all parts as outer axes; returns their positions and what was learned.
    #[allow(clippy::type_complexity, reason = "two results of one caller")]
    fn attempt(
        &mut self,
        value: ValueId,
        axes: &[Vec<(DimId, Leaf)>],
    ) -> Result<(Vec<(AxisId, usize, usize)>, Findings), LowerError> {
        let mut lowering = self.lowering();
        let mut places = Vec::new();
        let mut indices = Nodes::new();
        for (at, parts) in axes.iter().enumerate() {
            let mut merged = Parts::new();
            for (part, &(size, _)) in parts.iter().enumerate() {
                if lowering.fixed(size) == Some(1) {
                    continue;
                }
                let axis = lowering.outer_axis(size);
                places.push((axis, at, part));
                merged.push((lowering.b.index(axis), size));
            }
            indices.push(lowering.merge(&merged));
        }
        lowering.demand(value, indices)?;
        let findings = std::mem::take(&mut lowering.findings);
        let sizes = lowering.into_sizes();
        self.sizes = sizes;
        Ok((places, findings))
    }

    fn lowering(&self) -> RegionLowering<'_> {
        RegionLowering::new(
            self.graph,
            self.region.name,
            self.producers,
            self.sizes.clone(),
            &self.revision,
        )
    }

    /// The sizes of the outer axes of all outputs; other parts become inner.
    fn common_axes(&self, outputs: &mut [Output]) -> Result<Dims, LowerError> {
        let outer = |output: &Output| -> Dims {
            let parts = output.axes.iter().flatten();
            parts
                .filter(|&&(size, leaf)| leaf == Leaf::Outer && !self.is_one(size))
                .map(|&(size, _)| size)
                .collect()
        };
        let Some(fewest) = outputs
            .iter()
            .min_by_key(|output| outer(output).len())
            .cloned()
        else {
            return Ok(Dims::new());
        };
        let common = outer(&fewest);
        for output in outputs.iter_mut() {
            let own = outer(output);
            let mismatch = || LowerError::Domains {
                left: fewest.value,
                left_shape: self.sizes.table.display_shape(&common).to_string(),
                right: output.value,
                right_shape: self.sizes.table.display_shape(&own).to_string(),
            };
            let is_equal = |a, b| self.sizes.table.equal(a, b).is_proved();
            let mut wanted = common.iter().copied().peekable();
            let mut axes = output.axes.clone();
            for (size, leaf) in axes.iter_mut().flatten() {
                if *leaf != Leaf::Outer || self.is_one(*size) {
                    continue;
                }
                if wanted.next_if(|&common| is_equal(common, *size)).is_none() {
                    *leaf = Leaf::Inner;
                }
            }
            let complete = wanted.peek().is_none();
            let same = own.len() == common.len();
            if !complete || !(same || self.belong_together(&fewest, output)) {
                return Err(mismatch());
            }
            output.axes = axes;
        }
        Ok(common)
    }

    /// Whether the points of one output are computed from the rows of the other.
    fn belong_together(&self, left: &Output, right: &Output) -> bool {
        let lowering = self.lowering();
        !left.stages.is_disjoint(&right.stages)
            || left.stages.contains(&right.value)
            || right.stages.contains(&left.value)
            || lowering.depends(left.value, right.value)
            || lowering.depends(right.value, left.value)
    }

    fn is_one(&self, size: DimId) -> bool {
        self.sizes.table.range(size).as_point() == Some(1)
    }

    /// Whether a value has an axis that never has an element.
    fn is_empty(&mut self, value: ValueId) -> Result<bool, LowerError> {
        let ty = self.graph.tensor_ty(value);
        for &dim in &ty.ok_or(LowerError::NotTensor { value })?.dims {
            let size = self.sizes.copy(self.graph, dim)?;
            if self.sizes.table.range(size).as_point() == Some(0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Lowers all outputs over the outer axes, and stores them.
    fn finish(
        &mut self,
        outputs: &[Output],
        empty: &[ValueId],
        outer: &Dims,
    ) -> Result<LoweredKernel, LowerError> {
        for _ in 0..ARRAY_LIMIT {
            let mut lowering = self.stored(outputs, empty, outer)?;
            // In a carry block, the value at one step is not that at the next.
            let repeated = match lowering.clock {
                None => lowering.repeated_values(),
                Some(_) => BTreeSet::new(),
            };
            if repeated.is_empty() {
                return lowering.into_kernel();
            }
            self.revision.arrays.extend(repeated);
        }
        self.stored(outputs, empty, outer)?.into_kernel()
    }

    fn stored(
        &self,
        outputs: &[Output],
        empty: &[ValueId],
        outer: &Dims,
    ) -> Result<RegionLowering<'_>, LowerError> {
        let mut lowering = self.lowering();
        let outer: Vec<NodeId> = outer
            .iter()
            .map(|&size| {
                let axis = lowering.outer_axis(size);
                lowering.b.index(axis)
            })
            .collect();
        let mut stores = Vec::new();
        for output in outputs {
            let mut outer = outer.iter().copied();
            let mut inner = Vec::new();
            let mut indices = Nodes::new();
            for parts in &output.axes {
                let mut merged = Parts::new();
                for &(size, leaf) in parts {
                    if lowering.fixed(size) == Some(1) {
                        continue;
                    }
                    let index = match leaf {
                        Leaf::Outer => outer
                            .next()
                            .unwrap_or_else(|| unreachable!("outer axes were matched")),
                        Leaf::Steps(reverse) => {
                            let axis = lowering.new_axis("t", size);
                            lowering.ambient.insert(axis);
                            lowering.clock = Some((axis, reverse));
                            lowering.b.begin_carry(axis, reverse);
                            lowering.b.index(axis)
                        }
                        Leaf::Inner => {
                            let axis = lowering.new_axis("e", size);
                            inner.push(axis);
                            lowering.b.index(axis)
                        }
                    };
                    merged.push((index, size));
                }
                indices.push(lowering.merge(&merged));
            }
            let element = lowering.demand(output.value, indices.clone())?;
            stores.push((output.value, inner, indices, element));
        }
        for (value, inner, indices, element) in stores {
            let buffer = lowering.push_buffer(value, Role::Out)?;
            let dtype = lowering.ty(value)?.dtype;
            let element = lowering.b.cast(element, dtype);
            lowering.b.store(inner, buffer, indices, element);
        }
        if lowering.clock.is_some() {
            lowering.b.end_carry();
        }
        for &value in empty {
            lowering.push_buffer(value, Role::Out)?;
        }
        Ok(lowering)
    }
}

impl RegionLowering<'_> {
    /// An axis outside of all other loops.
    pub(super) fn outer_axis(&mut self, size: DimId) -> AxisId {
        let name = format!("i{}", self.b.kernel().outer().len());
        let axis = self.b.outer(name, size);
        self.ambient.insert(axis);
        axis
    }

    /// The sizes, including those created along the way.
    fn into_sizes(mut self) -> KernelSizes {
        std::mem::swap(&mut self.sizes.table, self.b.dims_mut());
        self.sizes
    }

    /// The kernel as built so far.
    pub(super) fn into_kernel(self) -> Result<LoweredKernel, LowerError> {
        let Self {
            graph,
            b,
            mut sizes,
            operands,
            requirements,
            ..
        } = self;
        let kernel = b.finish()?;
        sizes.table = kernel.dims().clone();
        Ok(LoweredKernel {
            symbols: sizes.symbols(graph)?,
            kernel,
            operands,
            initialise: None,
            requirements,
        })
    }
}
