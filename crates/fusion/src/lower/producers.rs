//! The op of a region that produces a value, and its depth.
//!
//! Depths order the operands of commutative functions: layers of equal structure become equal kernels, whatever their order
//! in the graph.

use std::collections::HashMap;

use kiln_ir::{Graph, Op, OpId, ValueId};

use super::Region;

/// The ops of a region by the values that they compute.
#[derive(Debug)]
pub(super) struct Producers {
    of: HashMap<ValueId, Producer>,
}

#[derive(Clone, Copy, Debug)]
struct Producer {
    op: OpId,
    /// The maximum number of ops of the region on a path that ends with this one.
    depth: usize,
}

impl Producers {
    /// The producers of a region. Constants are loaded from memory, so no op of the region computes one.
    pub(super) fn of_region(graph: &Graph, region: &Region<'_>) -> Self {
        let mut this = Self { of: HashMap::new() };
        for &op in region.ops {
            let data = graph.op(op);
            if matches!(data.op, Op::Constant(_)) {
                continue;
            }
            let operands = data.operands.iter();
            let depth = operands.map(|&operand| this.depth(operand)).max();
            let depth = depth.unwrap_or(0) + 1;
            let producer = Producer { op, depth };
            let results = data.results.iter();
            this.of.extend(results.map(|&value| (value, producer)));
        }
        this
    }

    /// The op that computes a value; `None` if the region only reads it.
    pub(super) fn get(&self, value: ValueId) -> Option<OpId> {
        self.of.get(&value).map(|producer| producer.op)
    }

    /// The length of the longest chain of ops of the region up to a value; 0 if the region only reads it.
    pub(super) fn depth(&self, value: ValueId) -> usize {
        self.of.get(&value).map_or(0, |producer| producer.depth)
    }
}
