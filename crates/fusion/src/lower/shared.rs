//! Costly values read by several loops: computed once, into an array.
//!
//! The exponentials of a softmax are summed, and then divided by their sum, in two loops with different axes, and both
//! loops would compute them. Such demands are found when a kernel is complete; the next attempt makes the value a stage
//! with its own axis, which all loops read. The scaled and masked scores of an attention are also read twice.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use kiln_ir::ValueId;
use kiln_kernel::{Node, NodeId, Nodes, StageOperation};

use super::context::{Demand, RegionLowering, Step};
use super::stage::{StageKey, WHOLE};

impl RegionLowering<'_> {
    /// Reads a demanded value from its array; `None` if it has none, or this is the demand that fills it.
    pub(super) fn read_array(&mut self, demand: &Demand) -> Option<Step<NodeId>> {
        let has_array = self.revision.arrays.contains(&demand.value);
        if !has_array || self.fills.contains(demand) {
            return None;
        }
        let (_, reads) = self.stage_key(demand, WHOLE).ok()?;
        if reads.is_empty() {
            return None;
        }
        let value = demand.value;
        Some(self.read_stage_part(demand, WHOLE, &mut |this, array| {
            this.fills.insert(Demand {
                value,
                indices: array.indices.clone(),
                guard: array.guard,
            });
            let element = this.get(value, array.indices.clone(), array.guard)?;
            Ok((StageOperation::Map, element))
        }))
    }

    /// Values that several loops compute although one array would suffice; of values that depend on each other, only
    /// the last.
    pub(super) fn repeated_values(&mut self) -> BTreeSet<ValueId> {
        let mut demands: BTreeMap<ValueId, Vec<(Demand, NodeId)>> = BTreeMap::new();
        for (demand, &node) in &self.memo {
            if self.producer(demand.value).is_some() {
                let of_value = demands.entry(demand.value).or_default();
                of_value.push((demand.clone(), node));
            }
        }
        let mut repeated = BTreeSet::new();
        for (value, demands) in demands {
            if self.revision.arrays.contains(&value) || demands.len() < 2 {
                continue;
            }
            let mut seen: HashSet<(StageKey, Nodes)> = HashSet::new();
            let mut keys: HashSet<StageKey> = HashSet::new();
            for (demand, node) in demands {
                if !self.is_costly(node) && !self.is_made_of_array(node) {
                    continue;
                }
                let Ok((key, reads)) = self.stage_key(&demand, WHOLE) else {
                    continue;
                };
                let is_new = !reads.is_empty() && seen.insert((key.clone(), reads));
                if is_new && !keys.insert(key) {
                    repeated.insert(value);
                }
            }
        }
        let all = repeated.clone();
        repeated.retain(|&value| {
            let needed = |&other: &ValueId| other != value && self.depends(other, value);
            !all.iter().any(needed)
        });
        repeated
    }

    /// Whether a node reads an array of this kernel, and its work on the element costs more than a read.
    fn is_made_of_array(&mut self, node: NodeId) -> bool {
        let (mut reads_array, mut n_extra) = (false, 0);
        let mut pending = vec![node];
        let mut seen = BTreeSet::new();
        while let Some(node) = pending.pop() {
            if !seen.insert(node) || self.is_ambient(node) {
                continue;
            }
            match self.b.kernel().node(node) {
                Node::Local { indices, .. } => reads_array |= !indices.is_empty(),
                Node::Load(_) => n_extra += 1,
                Node::Apply { operands, .. } => {
                    n_extra += 1;
                    pending.extend(operands.iter().copied());
                }
                _ => {}
            }
        }
        reads_array && n_extra > 1
    }

    /// Whether `value` is computed from `source` within the region.
    pub(super) fn depends(&self, value: ValueId, source: ValueId) -> bool {
        let mut pending = vec![value];
        let mut seen = BTreeSet::new();
        while let Some(value) = pending.pop() {
            if value == source {
                return true;
            }
            if seen.insert(value)
                && let Some((_, data)) = self.producer(value)
            {
                pending.extend(data.operands.iter().copied());
            }
        }
        false
    }
}
