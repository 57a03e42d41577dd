//! Recognises windows: indices that move along both a kept and a reduced axis.

use super::dependence::reduced;
use crate::form::reachable;
use crate::form::{AxisId, BufferId, Kernel, Node, StageId};

/// An index of a load that moves along two axes.
pub(super) struct Window {
    pub(super) stage: StageId,
    pub(super) buffer: BufferId,
    /// The axis that is kept.
    pub(super) spatial: AxisId,
    /// The axis that is reduced.
    pub(super) within: AxisId,
}

/// Every pair of axes of a window, in order.
pub(super) fn find(kernel: &Kernel) -> Vec<Window> {
    let mut found = Vec::new();
    for (id, stage) in kernel.stages() {
        let over = reduced(stage);
        if over.is_empty() {
            continue;
        }
        for node in reachable(kernel, &[stage.value]) {
            let Node::Load(load) = kernel.node(node) else {
                continue;
            };
            for &index in &load.indices {
                let axes = reachable(kernel, &[index]).into_iter();
                let axes = axes.filter_map(|node| match kernel.node(node) {
                    Node::Axis(axis) => Some(*axis),
                    _ => None,
                });
                let (inside, kept): (Vec<AxisId>, Vec<AxisId>) =
                    axes.partition(|axis| over.contains(axis));
                for &within in &inside {
                    found.extend(kept.iter().map(|&spatial| Window {
                        stage: id,
                        buffer: load.buffer,
                        spatial,
                        within,
                    }));
                }
            }
        }
    }
    found
}
