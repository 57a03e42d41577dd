//! The order in which a graph's regions, ops and values are numbered: region by region, nested regions after the region
//! of their op.

use std::collections::HashMap;

use kiln_ir::{Graph, OpId, RegionId, ValueId};

/// A graph's parts in the order of the walk.
#[derive(Debug, Default)]
pub(super) struct Walk {
    pub(super) regions: Vec<RegionId>,
    pub(super) ops: Vec<OpId>,
    pub(super) values: Vec<ValueId>,
}

impl Walk {
    pub(super) fn over(graph: &Graph) -> Self {
        let mut walk = Self {
            regions: vec![graph.body()],
            ..Self::default()
        };
        let mut next = 0;
        while let Some(&region) = walk.regions.get(next) {
            next += 1;
            let region = graph.region(region);
            walk.values.extend(&region.parameters);
            for &id in &region.ops {
                let op = graph.op(id);
                walk.ops.push(id);
                walk.values.extend(&op.results);
                walk.regions.extend(&op.regions);
            }
        }
        walk
    }

    /// The number of each part.
    pub(super) fn numbers(&self) -> Numbers {
        Numbers {
            regions: self.regions.iter().copied().zip(0..).collect(),
            ops: self.ops.iter().copied().zip(0..).collect(),
            values: self.values.iter().copied().zip(0..).collect(),
        }
    }
}

/// The numbers of a graph's parts.
#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) regions: HashMap<RegionId, usize>,
    pub(super) ops: HashMap<OpId, usize>,
    pub(super) values: HashMap<ValueId, usize>,
}
