//! Reshapes: index arithmetic within the smallest groups of axes whose products are proved equal.
//!
//! An index that was merged from the operand's axes is split into them again. A plain axis that covers several of the
//! operand's axes is recorded, so that the next attempt uses several axes instead; until then, and where that is
//! impossible, an index is split with division and remainder.

use kiln_ir::OpData;
use kiln_kernel::{NodeId, Nodes};
use kiln_symbolic_shape::{DimId, Predicate};

use super::context::{Demand, Dims, RegionLowering, Step};
use super::index::Parts;

impl RegionLowering<'_> {
    pub(super) fn reshape(&mut self, data: &OpData, demand: &Demand) -> Step<NodeId> {
        let result = self.shape(demand.value)?;
        let operand = self.shape(data.operands[0])?;
        let mut parts = Parts::new();
        for (&index, &size) in demand.indices.iter().zip(&result) {
            parts.extend(self.parts_of(index, size));
        }
        // Axes of one element have nothing to move.
        parts.retain(|&mut (_, size)| self.fixed(size) != Some(1));
        let wide: Dims = operand
            .iter()
            .copied()
            .filter(|&size| self.fixed(size) != Some(1))
            .collect();
        let mut found = Nodes::new();
        let (mut from, mut to) = (0, 0);
        while from < parts.len() || to < wide.len() {
            let (taken, given) = self.smallest_group(&parts[from..], &wide[to..]);
            let (group, sizes) = (&parts[from..from + taken], &wide[to..to + given]);
            found.extend(self.take_apart(group, sizes));
            from += taken;
            to += given;
        }
        let mut found = found.into_iter();
        let zero = self.integer(0);
        let indices = operand
            .iter()
            .map(|&size| match self.fixed(size) {
                Some(1) => zero,
                _ => found.next().unwrap_or(zero),
            })
            .collect();
        self.get(data.operands[0], indices, demand.guard)
    }

    /// The number of leading axes of each side with equal products; all if no fewer are proved equal.
    fn smallest_group(&self, parts: &[(NodeId, DimId)], sizes: &[DimId]) -> (usize, usize) {
        let all = (parts.len(), sizes.len());
        for total in 2..all.0 + all.1 {
            for taken in 1..total {
                let given = total - taken;
                if taken > all.0 || given > all.1 {
                    continue;
                }
                let left = parts[..taken].iter().map(|&(_, size)| size).collect();
                let right = sizes[..given].to_vec();
                let equal = Predicate::ProductEqual(left, right);
                if self.b.dims().prove(&equal).is_proved() {
                    return (taken, given);
                }
            }
        }
        all
    }

    /// The indices along `sizes` of the element at the merged indices of `group`.
    fn take_apart(&mut self, group: &[(NodeId, DimId)], sizes: &[DimId]) -> Nodes {
        let merged = self.merge(group);
        if let (&[(index, _)], [_, _, ..]) = (group, sizes) {
            self.note_split(index, sizes);
        }
        let mut indices = Nodes::new();
        let mut rest = merged;
        for (at, &size) in sizes.iter().enumerate().rev() {
            if at == 0 {
                indices.push(rest);
                break;
            }
            let size = self.b.size(size);
            indices.push(self.floor_mod(rest, size));
            rest = self.floor_div(rest, size);
        }
        indices.reverse();
        indices
    }

    /// Records that an axis should be split.
    pub(super) fn note_split(&mut self, index: NodeId, sizes: &[DimId]) {
        let Some(axis) = self.as_axis(index) else {
            return;
        };
        let sizes = Dims::from_slice(sizes);
        if let Some(&owner) = self.axis_owners.get(&axis) {
            self.findings.inner_split.get_or_insert((owner, sizes));
        } else if self.ambient.contains(&axis) {
            self.findings.outer_split.get_or_insert((axis, sizes));
        }
    }
}
