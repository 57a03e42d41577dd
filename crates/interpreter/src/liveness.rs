//! The last uses of the values of a region, after which they are dropped.

use kiln_ir::{Graph, RegionId, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// For each region, the values to drop after each of its ops. A region's results are never dropped.
pub(crate) struct Liveness(BTreeMap<RegionId, Vec<Vec<ValueId>>>);

impl Liveness {
    pub(crate) fn of(graph: &Graph) -> Self {
        let regions = (0..graph.n_regions())
            .filter_map(|index| Some(RegionId::from_u32(u32::try_from(index).ok()?)));
        Self(
            regions
                .map(|region| (region, last_uses(graph, region)))
                .collect(),
        )
    }

    /// The values that are dead after the op at a position of a region.
    pub(crate) fn dead_after(&self, region: RegionId, position: usize) -> &[ValueId] {
        self.0
            .get(&region)
            .and_then(|ops| ops.get(position))
            .map_or(&[], Vec::as_slice)
    }
}

fn last_uses(graph: &Graph, region: RegionId) -> Vec<Vec<ValueId>> {
    let region = graph.region(region);
    let mut needed: BTreeSet<ValueId> = region.results.iter().copied().collect();
    let mut dead: Vec<Vec<ValueId>> = Vec::with_capacity(region.ops.len());
    for &op in region.ops.iter().rev() {
        let op = graph.op(op);
        let ends_here = op
            .results
            .iter()
            .chain(&op.operands)
            .filter(|&&value| needed.insert(value));
        dead.push(ends_here.copied().collect());
    }
    dead.reverse();
    dead
}
