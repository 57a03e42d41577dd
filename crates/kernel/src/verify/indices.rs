//! How each index stays within its bounds: proved, tested by the load's `inside`, or checked.
//!
//! A load's class depends on the axes of the load itself and on its own condition, not on where it is performed, so a
//! backend may hoist it out of any loop that it does not depend on.

use std::collections::{BTreeMap, BTreeSet};

use kiln_symbolic_shape::DimId;

use super::Report;
use super::budget::Budget;
use super::points::{Bound, Points, alias};
use crate::error::KernelError;
use crate::form::reachable;
use crate::form::{AxisId, Extent, Kernel, Load, Node, NodeId, StageId};
use crate::verified::{IndexClass, KernelInfo};

/// The maximum number of selection conditions per index that are distinguished.
const MAX_CHOICES: usize = 3;

/// Classifies every load and proves every index of a local.
pub(super) fn check(
    kernel: &Kernel,
    used: &BTreeSet<NodeId>,
    info: &mut KernelInfo,
    budget: &mut Budget,
    report: &mut Report,
) {
    let mut indices = Indices {
        kernel,
        budget,
        known: BTreeMap::new(),
    };
    for &node in used {
        match kernel.node(node) {
            Node::Load(load) => info.loads[node] = indices.load(load),
            Node::Local { stage, indices: at }
            | Node::Previous { stage, indices: at }
            | Node::Last { stage, indices: at } => indices.local(*stage, at, report),
            _ => {}
        }
    }
}

struct Indices<'k, 'b> {
    kernel: &'k Kernel,
    budget: &'b mut Budget,
    /// The points of sets of axes.
    known: BTreeMap<BTreeSet<AxisId>, Points<'k>>,
}

impl<'k> Indices<'k, '_> {
    fn points(&mut self, axes: BTreeSet<AxisId>) -> Points<'k> {
        if let Some(points) = self.known.get(&axes) {
            self.budget.spend(points.table.len() as u64);
            return points.clone();
        }
        self.budget.spend(self.kernel.dims().len() as u64);
        let points = Points::of(self.kernel, &axes, self.budget);
        self.known.insert(axes, points.clone());
        points
    }

    fn load(&mut self, load: &Load) -> Vec<IndexClass> {
        let kernel = self.kernel;
        let shape = &kernel.buffer(load.buffer).shape;
        let guard = load.guard.as_ref();
        let missed = match guard {
            Some(guard) if guard.inside => IndexClass::Inside,
            _ => IndexClass::Checked,
        };
        if self.budget.is_spent() {
            return vec![missed; load.indices.len()];
        }
        let when = guard.and_then(|guard| guard.when);
        let roots: Vec<NodeId> = load.indices.iter().copied().chain(when).collect();
        let mut points = self.points(free_axes(kernel, &roots));
        if let Some(when) = when {
            points.assume(when, true, self.budget);
        }
        let class = |(&index, &size): (&NodeId, &DimId)| {
            if is_within(kernel, &mut points, index, size, self.budget) {
                IndexClass::Proved
            } else {
                missed
            }
        };
        load.indices.iter().zip(shape).map(class).collect()
    }

    fn local(&mut self, stage: StageId, indices: &[NodeId], report: &mut Report) {
        let kernel = self.kernel;
        let stage = kernel.stage(stage);
        let mut points = self.points(free_axes(kernel, indices));
        for (position, (&index, &axis)) in indices.iter().zip(&stage.axes).enumerate() {
            let size = kernel.axis(axis).extent.bound();
            if !is_within(kernel, &mut points, index, size, self.budget) {
                report.push(KernelError::LocalIndex {
                    stage: stage.name.clone(),
                    position,
                    extent: kernel.dims().display(size).to_string(),
                });
            }
        }
    }
}

/// Whether `0 <= index < size` at each of these points.
pub(super) fn is_within(
    kernel: &Kernel,
    points: &mut Points<'_>,
    index: NodeId,
    size: DimId,
    budget: &mut Budget,
) -> bool {
    if is_proved(points, index, size, budget) {
        return true;
    }
    let conditions = conditions(kernel, index);
    if conditions.is_empty() || conditions.len() > MAX_CHOICES || budget.is_spent() {
        return false;
    }
    // Case analysis on selections: proved if it holds in every case, for any values of the conditions.
    (0..1_u32 << conditions.len()).all(|choice| {
        budget.spend(points.table.len() as u64);
        let mut case = points.undecided();
        for (place, &condition) in conditions.iter().enumerate() {
            case.assume(condition, choice >> place & 1 == 1, budget);
        }
        is_proved(&mut case, index, size, budget)
    })
}

fn is_proved(points: &mut Points<'_>, index: NodeId, size: DimId, budget: &mut Budget) -> bool {
    points.bounded(index, Bound::NotNegative, budget)
        && points.bounded(index, Bound::Below(size), budget)
}

/// The conditions of the selections inside an integer.
fn conditions(kernel: &Kernel, root: NodeId) -> Vec<NodeId> {
    let mut found = BTreeSet::new();
    let mut seen = BTreeSet::new();
    let mut pending = vec![root];
    while let Some(node) = pending.pop() {
        if !seen.insert(node) {
            continue;
        }
        if let Node::Apply { op, operands } = kernel.node(node) {
            let operands = operands.iter().copied();
            match op {
                kiln_scalar::ScalarOp::Select => {
                    found.extend(operands.clone().take(1));
                    pending.extend(operands.skip(1));
                }
                _ => pending.extend(operands),
            }
        }
    }
    found.into_iter().collect()
}

/// The axes that expressions depend on, including those that their extents depend on.
pub(super) fn free_axes(kernel: &Kernel, roots: &[NodeId]) -> BTreeSet<AxisId> {
    let mut axes = BTreeSet::new();
    let mut pending = roots.to_vec();
    let mut seen = BTreeSet::new();
    while let Some(root) = pending.pop() {
        for node in reachable(kernel, &[root]) {
            if !seen.insert(node) {
                continue;
            }
            pending.extend(alias(kernel, node));
            if let Node::Axis(axis) = kernel.node(node)
                && axes.insert(*axis)
                && let Extent::Clamped { value, .. } = kernel.axis(*axis).extent
            {
                pending.push(value);
            }
        }
    }
    axes
}
