//! Which axes a value depends on, through the stages it reads.

use std::collections::BTreeSet;

use cranelift_entity::SecondaryMap;

use crate::form::{AxisId, Extent, Kernel, Node, NodeId, Stage, StageId, StageOperation};

/// The dependencies of each stage.
pub(super) struct Dependence {
    /// The surrounding axes on which a stage's local depends; its own axes are indices of the local.
    axes: SecondaryMap<StageId, BTreeSet<AxisId>>,
    /// The stages from which a stage is computed, directly or indirectly.
    stages: SecondaryMap<StageId, BTreeSet<StageId>>,
}

impl Dependence {
    pub(super) fn of(kernel: &Kernel) -> Self {
        let mut dependence = Self {
            axes: SecondaryMap::new(),
            stages: SecondaryMap::new(),
        };
        // Stages are numbered before those that read them, except in blocks, where `prev` refers ahead: two passes suffice
        // for values of the previous step.
        let passes = if kernel.stages().values().any(|stage| stage.init.is_some()) {
            2
        } else {
            1
        };
        for _ in 0..passes {
            for (id, stage) in kernel.stages() {
                let (mut axes, stages) = dependence.of_nodes(kernel, &[stage.value]);
                for axis in stage.axes.iter().chain(reduced(stage)) {
                    axes.remove(axis);
                }
                dependence.axes[id] = axes;
                dependence.stages[id] = stages;
            }
        }
        dependence
    }

    /// The axes on which a value depends.
    pub(super) fn axes(&self, kernel: &Kernel, node: NodeId) -> BTreeSet<AxisId> {
        self.of_nodes(kernel, &[node]).0
    }

    /// The stages from which a stage is computed, directly or indirectly.
    pub(super) fn stages(&self, stage: StageId) -> &BTreeSet<StageId> {
        &self.stages[stage]
    }

    fn of_nodes(&self, kernel: &Kernel, roots: &[NodeId]) -> (BTreeSet<AxisId>, BTreeSet<StageId>) {
        let mut axes = BTreeSet::new();
        let mut stages = BTreeSet::new();
        let mut seen = BTreeSet::new();
        let mut pending = roots.to_vec();
        while let Some(node) = pending.pop() {
            if !seen.insert(node) {
                continue;
            }
            match kernel.node(node) {
                Node::Axis(axis) => {
                    if axes.insert(*axis)
                        && let Extent::Clamped { value, .. } = kernel.axis(*axis).extent
                    {
                        pending.push(value);
                    }
                }
                Node::Local { stage, .. }
                | Node::Previous { stage, .. }
                | Node::Last { stage, .. } => {
                    axes.extend(&self.axes[*stage]);
                    stages.extend(&self.stages[*stage]);
                    stages.insert(*stage);
                }
                _ => {}
            }
            kernel
                .node(node)
                .for_each_operand(&mut |operand| pending.push(operand));
        }
        (axes, stages)
    }
}

/// The axes over which a stage reduces.
pub(super) fn reduced(stage: &Stage) -> &[AxisId] {
    match &stage.operation {
        StageOperation::Map => &[],
        StageOperation::Reduce { axes, .. } => axes,
    }
}
