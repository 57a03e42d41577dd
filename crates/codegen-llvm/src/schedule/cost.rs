//! What a kernel reads and writes, how each access moves along an axis, and what that costs.

use kiln_backend::Quantity;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, Item, Node, NodeId, StageOperation, Store, VerifiedKernel};
use smallvec::SmallVec;

use super::pack;
use super::tiled::SCATTERED_COPY_ROWS;

/// One load, local or store of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Access {
    /// By how many elements it moves from one index to the next, per axis of the kernel; `None` where it jumps.
    steps: Vec<(AxisId, Option<Quantity>)>,
    /// How many reduced axes it is inside of.
    pub(crate) depth: u32,
    /// Whether it belongs to a stage that all rows of a tile do together: one that is no array, or a contraction.
    pub(crate) is_together: bool,
    /// Whether it writes.
    pub(crate) is_store: bool,
    /// The inner axes of its item.
    pub(crate) axes: SmallVec<[AxisId; 4]>,
}

impl Access {
    /// How it moves along an axis: 0 if not at all.
    pub(crate) fn step(&self, axis: AxisId) -> Option<Quantity> {
        match self.steps.iter().find(|(other, _)| *other == axis) {
            Some((_, step)) => step.clone(),
            None => Some(Quantity::constant(0)),
        }
    }

    pub(crate) fn depends(&self, axis: AxisId) -> bool {
        self.steps.iter().any(|(other, _)| *other == axis)
    }

    /// Cost per element of reading or writing along an axis in vectors of some lanes.
    pub(crate) fn cost_along(&self, axis: AxisId, lanes: u32) -> f64 {
        match self.step(axis).map(|step| step.as_constant()) {
            Some(Some(0 | 1)) => 1.0 / f64::from(lanes),
            // Every other element: two vectors and a shuffle.
            Some(Some(2)) => 4.0 / f64::from(lanes),
            Some(_) => 1.5,
            None => 3.0,
        }
    }

    /// How much it counts: what stands inside a reduction runs more often.
    pub(crate) fn weight(&self) -> f64 {
        f64::from(8_u32.saturating_pow(self.depth.min(3)))
    }
}

/// Every access of a kernel, with what it is inside of.
pub(crate) fn accesses(kernel: &VerifiedKernel, dependence: &Dependence) -> Vec<Access> {
    let mut found = Vec::new();
    for item in kernel.items() {
        for item in item.parts() {
            match item {
                Item::Stage(id) => {
                    let stage = kernel.stage(*id);
                    let mut axes: SmallVec<[AxisId; 4]> = stage.axes.iter().copied().collect();
                    let mut depth = u32::from(!axes.is_empty());
                    let first = found.len();
                    let mut contractions = kernel.classification().contractions.iter();
                    let is_together =
                        axes.is_empty() || contractions.any(|contraction| contraction.stage == *id);
                    if let StageOperation::Reduce { axes: reduced, .. } = &stage.operation {
                        axes.extend(reduced.iter().copied());
                        depth += 1;
                    }
                    collect(kernel, dependence, &[stage.value], depth, &axes, &mut found);
                    for access in found.iter_mut().skip(first) {
                        access.is_together = is_together;
                    }
                }
                Item::Store(store) => {
                    let axes: SmallVec<[AxisId; 4]> = store.axes.iter().copied().collect();
                    let depth = u32::from(!axes.is_empty());
                    let mut nodes = store.indices.to_vec();
                    nodes.push(store.value);
                    collect(kernel, dependence, &nodes, depth, &axes, &mut found);
                    found.push(of_store(kernel, dependence, store, depth, &axes));
                }
                Item::Carry(_) => {}
            }
        }
    }
    found
}

fn collect(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    nodes: &[NodeId],
    depth: u32,
    axes: &SmallVec<[AxisId; 4]>,
    found: &mut Vec<Access>,
) {
    let mut pending = nodes.to_vec();
    let mut seen = std::collections::HashSet::new();
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        kernel
            .node(node)
            .for_each_operand(&mut |operand| pending.push(operand));
        if let Node::Load(load) = kernel.node(node) {
            let strides = strides(kernel, load.buffer);
            let mut steps = steps(kernel, dependence, &load.indices, &strides);
            for (axis, step) in &mut steps {
                // What can be packed is read one by one by vectors along an outer axis.
                if kernel.outer().contains(axis)
                    && (pack::is_packable(kernel, load.buffer, *axis)
                        || (pack::is_copyable(kernel, load.buffer, *axis)
                            && is_read_often(kernel, dependence, node)))
                {
                    *step = Some(Quantity::constant(1));
                }
            }
            found.push(Access {
                steps,
                depth,
                is_together: false,
                is_store: false,
                axes: axes.clone(),
            });
        }
    }
}

/// Whether enough points read the same elements that it may be worth laying them out anew.
fn is_read_often(kernel: &VerifiedKernel, dependence: &Dependence, load: NodeId) -> bool {
    let mut readers = 1_i64;
    for &axis in kernel.outer() {
        if dependence.depends(load, axis) {
            continue;
        }
        let Some(size) = kernel.dims().as_constant(kernel.axis(axis).extent.bound()) else {
            return true;
        };
        readers = readers.saturating_mul(size);
    }
    readers >= i64::from(SCATTERED_COPY_ROWS)
}

fn of_store(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    store: &Store,
    depth: u32,
    axes: &SmallVec<[AxisId; 4]>,
) -> Access {
    let strides = strides(kernel, store.buffer);
    Access {
        steps: steps(kernel, dependence, &store.indices, &strides),
        depth,
        is_together: false,
        is_store: true,
        axes: axes.clone(),
    }
}

fn steps(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    indices: &[NodeId],
    strides: &[Quantity],
) -> Vec<(AxisId, Option<Quantity>)> {
    let depends = |axis: AxisId| indices.iter().any(|&index| dependence.depends(index, axis));
    kernel
        .axes()
        .keys()
        .filter(|&axis| depends(axis))
        .map(|axis| {
            let mut sum = Some(Quantity::constant(0));
            for (&index, stride) in indices.iter().zip(strides) {
                let step = dependence.step_along(kernel, index, axis);
                sum = sum
                    .zip(step)
                    .map(|(sum, step)| sum + stride.clone() * Quantity::constant(step));
            }
            (axis, sum)
        })
        .collect()
}

fn strides(kernel: &VerifiedKernel, id: kiln_kernel::BufferId) -> Vec<Quantity> {
    crate::lower::strides_of(kernel, id)
}

/// A first estimate of a call at the kernel's hints, from the work it does.
pub(super) fn nanoseconds(kernel: &VerifiedKernel, scalar: bool) -> f64 {
    let work = crate::schedule::work::of_kernel(kernel);
    if scalar { work } else { work / 8.0 }
}
