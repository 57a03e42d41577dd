//! Index arithmetic, with the axes that each index uses and the indices that it was merged from.
//!
//! A merged index (`h * 32 + d`) remembers its components, so that a reshape that splits it again uses these instead of
//! a division and a remainder.

use std::collections::{BTreeSet, HashMap};

use cranelift_entity::EntityRef;
use kiln_kernel::{AxisId, Node, NodeId, StageId};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::{DimId, Predicate};
use smallvec::SmallVec;

use super::context::RegionLowering;

/// Indices and the sizes they run over, outermost first.
pub(super) type Parts = SmallVec<[(NodeId, DimId); 4]>;

/// Analyses of indices.
#[derive(Debug, Default)]
pub(super) struct Indices {
    /// The axes that each node depends on; as long as the queried nodes.
    axes: Vec<BTreeSet<AxisId>>,
    /// The parts of merged indices.
    parts: HashMap<NodeId, Parts>,
    /// The outer axes that a stage depends on.
    pub(super) of_stages: HashMap<StageId, BTreeSet<AxisId>>,
}

impl RegionLowering<'_> {
    pub(super) fn integer(&mut self, value: i64) -> NodeId {
        self.b.integer(value)
    }

    /// The value of a literal index.
    pub(super) fn literal(&self, node: NodeId) -> Option<i64> {
        match self.b.kernel().node(node) {
            Node::Literal(ScalarValue::I64(value)) => Some(*value),
            _ => None,
        }
    }

    pub(super) fn add(&mut self, a: NodeId, b: NodeId) -> NodeId {
        match (self.literal(a), self.literal(b)) {
            (Some(a), Some(b)) => self.integer(a.wrapping_add(b)),
            (Some(0), _) => b,
            (_, Some(0)) => a,
            _ => self.b.apply(ScalarOp::Add, [a, b]),
        }
    }

    pub(super) fn sub(&mut self, a: NodeId, b: NodeId) -> NodeId {
        match (self.literal(a), self.literal(b)) {
            (Some(a), Some(b)) => self.integer(a.wrapping_sub(b)),
            (_, Some(0)) => a,
            _ => self.b.apply(ScalarOp::Sub, [a, b]),
        }
    }

    pub(super) fn mul(&mut self, a: NodeId, b: NodeId) -> NodeId {
        match (self.literal(a), self.literal(b)) {
            (Some(a), Some(b)) => self.integer(a.wrapping_mul(b)),
            (Some(0), _) | (_, Some(0)) => self.integer(0),
            (Some(1), _) => b,
            (_, Some(1)) => a,
            _ => self.b.apply(ScalarOp::Mul, [a, b]),
        }
    }

    pub(super) fn floor_div(&mut self, a: NodeId, b: NodeId) -> NodeId {
        match (self.literal(a), self.literal(b)) {
            (Some(a), Some(b)) if b > 0 => self.integer(a.div_euclid(b)),
            (Some(0), _) | (_, Some(1)) => a,
            _ => self.b.apply(ScalarOp::FloorDiv, [a, b]),
        }
    }

    pub(super) fn floor_mod(&mut self, a: NodeId, b: NodeId) -> NodeId {
        match (self.literal(a), self.literal(b)) {
            (Some(a), Some(b)) if b > 0 => self.integer(a.rem_euclid(b)),
            (Some(0), _) => a,
            (_, Some(1)) => self.integer(0),
            _ => self.b.apply(ScalarOp::FloorMod, [a, b]),
        }
    }

    pub(super) fn min(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.b.apply(ScalarOp::Min, [a, b])
    }

    pub(super) fn max(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.b.apply(ScalarOp::Max, [a, b])
    }

    /// One index merged from several, whose parts are recorded.
    pub(super) fn merge(&mut self, parts: &[(NodeId, DimId)]) -> NodeId {
        let parts: Parts = parts
            .iter()
            .flat_map(|&(index, size)| self.parts_of(index, size))
            .filter(|&(_, size)| self.fixed(size) != Some(1))
            .collect();
        let Some((&(first, _), rest)) = parts.split_first() else {
            return self.integer(0);
        };
        let mut merged = first;
        for &(index, size) in rest {
            let size = self.b.size(size);
            let scaled = self.mul(merged, size);
            merged = self.add(scaled, index);
        }
        if !rest.is_empty() {
            self.index.parts.insert(merged, parts);
        }
        merged
    }

    /// The parts of a merged index that runs over `size`; the index itself if it was not merged. An index may be merged from
    /// other parts elsewhere: position 0 of 3 and `d` of 16 are `d` of 48, and `d` of 16 is not that.
    pub(super) fn parts_of(&self, index: NodeId, size: DimId) -> Parts {
        let covers = |parts: &&Parts| {
            let sizes = parts.iter().map(|&(_, size)| size).collect();
            let whole = Predicate::ProductEqual(sizes, vec![size]);
            self.b.dims().prove(&whole).is_proved()
        };
        match self.index.parts.get(&index).filter(covers) {
            Some(parts) => parts.clone(),
            None => Parts::from_slice(&[(index, size)]),
        }
    }

    /// The parts of an index that was merged from indices that run over these sizes.
    pub(super) fn merged_from(&self, index: NodeId, sizes: &[DimId]) -> Option<&[(NodeId, DimId)]> {
        let parts = self.index.parts.get(&index)?;
        let mut pairs = parts.iter().zip(sizes);
        let fits =
            parts.len() == sizes.len() && pairs.all(|(&(_, size), &other)| self.equal(size, other));
        fits.then_some(parts.as_slice())
    }

    /// The axis that a node is the index of.
    pub(super) fn as_axis(&self, node: NodeId) -> Option<AxisId> {
        match self.b.kernel().node(node) {
            Node::Axis(axis) => Some(*axis),
            _ => None,
        }
    }

    /// The axes that a node depends on.
    pub(super) fn axes_of(&mut self, node: NodeId) -> &BTreeSet<AxisId> {
        let kernel = self.b.kernel();
        let known = &mut self.index.axes;
        while known.len() <= node.index() {
            let next = kernel.node(NodeId::new(known.len()));
            let mut axes = BTreeSet::new();
            match next {
                Node::Axis(axis) => {
                    axes.insert(*axis);
                }
                Node::Local { stage, .. }
                | Node::Previous { stage, .. }
                | Node::Last { stage, .. } => {
                    axes.extend(self.index.of_stages.get(stage).into_iter().flatten());
                }
                _ => {}
            }
            next.for_each_operand(&mut |operand| {
                axes.extend(known.get(operand.index()).into_iter().flatten());
            });
            known.push(axes);
        }
        &known[node.index()]
    }

    /// Whether a node can be computed when only the outer axes are known.
    pub(super) fn is_ambient(&mut self, node: NodeId) -> bool {
        self.axes_of(node);
        self.index.axes[node.index()].is_subset(&self.ambient)
    }
}
