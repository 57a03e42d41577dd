//! Indices of loads that are in bounds only under a guard, such as a window's at the edges of an image.

use std::collections::BTreeSet;

use super::{Dependence, expression_nodes};
use crate::form::{AxisId, Node, NodeId};
use crate::verified::{IndexClass, VerifiedKernel};

/// An index of a load that its guard tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GuardedIndex {
    /// The load.
    pub load: NodeId,
    /// Which of its indices.
    pub position: usize,
    /// The index.
    pub index: NodeId,
}

impl GuardedIndex {
    /// The guarded indices of a kernel, in the order of its nodes.
    pub fn all(kernel: &VerifiedKernel) -> Vec<Self> {
        let mut found = Vec::new();
        for (id, data) in kernel.nodes() {
            let Node::Load(load) = &data.node else {
                continue;
            };
            if !load.guard.as_ref().is_some_and(|guard| guard.inside) {
                continue;
            }
            let classes = &kernel.info().loads[id];
            for (position, &index) in load.indices.iter().enumerate() {
                if classes.get(position) == Some(&IndexClass::Inside) {
                    found.push(Self {
                        load: id,
                        position,
                        index,
                    });
                }
            }
        }
        found
    }

    /// The guarded indices of the loads from which a value is computed.
    pub fn below(kernel: &VerifiedKernel, value: NodeId) -> Vec<Self> {
        let below: BTreeSet<NodeId> = expression_nodes(kernel, &[value]).into_iter().collect();
        let mut found = Self::all(kernel);
        found.retain(|guarded| below.contains(&guarded.load));
        found
    }

    /// Whether a value has such loads, and each is in bounds or out of bounds for a whole loop along an axis: then one test
    /// before that loop covers all of it.
    pub fn are_fixed_along(
        kernel: &VerifiedKernel,
        dependence: &Dependence,
        value: NodeId,
        axis: AxisId,
    ) -> bool {
        let found = Self::below(kernel, value);
        let is_fixed = |guarded: &Self| !dependence.depends(guarded.index, axis);
        !found.is_empty() && found.iter().all(is_fixed)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{axis, kernel, stage_value};
    use super::*;

    #[test]
    fn guarded_indices_cover_window_taps_but_not_channels() {
        let kernel = kernel(
            "kernel @conv(%x: in f32[W, C], %w: const f32[3, C], %y: out f32[W]) {
               outer w < W
               s = reduce add[t < 3, c < C] (%x[w + t - 1, c] if inside else 0.0) * %w[t, c]
               store %y[w] = s
             }",
        );
        let (value, dependence) = (stage_value(&kernel, "s"), Dependence::of(&kernel));
        let found = GuardedIndex::below(&kernel, value);
        assert_eq!(found, GuardedIndex::all(&kernel));
        let [guarded] = found.as_slice() else {
            panic!("one index is guarded: {found:?}");
        };
        assert_eq!(guarded.position, 0);
        let is_fixed =
            |name| GuardedIndex::are_fixed_along(&kernel, &dependence, value, axis(&kernel, name));
        assert_eq!(["t", "c"].map(is_fixed), [false, true]);
    }
}
