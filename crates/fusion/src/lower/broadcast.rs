//! Broadcasts and transposes, lowered to other indices into the same operand.

use kiln_ir::{Indices, OpData, ValueId};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{NodeId, Nodes};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::{ContractFact, DimId, FactOrigin, Predicate};

use super::LowerError;
use super::context::{Demand, RegionLowering, Step};

impl RegionLowering<'_> {
    pub(super) fn broadcast(&mut self, data: &OpData, demand: &Demand) -> Step<NodeId> {
        let result = self.shape(demand.value)?;
        let indices = self.broadcast_indices(data.operands[0], &result, &demand.indices)?;
        self.get(data.operands[0], indices, demand.guard)
    }

    pub(super) fn transpose(
        &mut self,
        data: &OpData,
        permutation: &Indices,
        demand: &Demand,
    ) -> Step<NodeId> {
        let mut indices = demand.indices.clone();
        for (&axis, &index) in permutation.iter().zip(&demand.indices) {
            indices[axis] = index;
        }
        if let [.., before, last] = indices.as_mut_slice()
            && is_on(Fault::SkippedTranspose)
        {
            std::mem::swap(before, last);
        }
        self.get(data.operands[0], indices, demand.guard)
    }

    /// Where an operand is read for an element of the result it broadcasts to, aligned at the innermost axis.
    pub(super) fn broadcast_indices(
        &mut self,
        operand: ValueId,
        result: &[DimId],
        indices: &[NodeId],
    ) -> Result<Nodes, LowerError> {
        let shape = self.shape(operand)?;
        let skipped = result.len().saturating_sub(shape.len());
        let axes = shape
            .iter()
            .zip(result.iter().skip(skipped))
            .zip(indices.iter().skip(skipped));
        axes.map(|((&size, &whole), &index)| self.broadcast_index(size, whole, index))
            .collect()
    }

    /// Where an axis of `size` is read for an index of an axis of `whole`.
    pub(super) fn broadcast_index(
        &mut self,
        size: DimId,
        whole: DimId,
        index: NodeId,
    ) -> Result<NodeId, LowerError> {
        if self.fixed(size) == Some(1) || self.literal(index) == Some(0) {
            return Ok(self.integer(0));
        }
        if self.equal(size, whole) {
            return Ok(index);
        }
        // Neither is proved: the size decides at run time, since it is 1 or equal in every call.
        let joined = self.b.dims_mut().bcast(size, whole)?;
        self.require(Predicate::Equal(joined, whole), "sizes that broadcast")?;
        self.assume_one_or(size, whole)?;
        if self.b.dims().cannot_be_one(size) {
            return Ok(index);
        }
        let (zero, one) = (self.integer(0), self.integer(1));
        let size = self.b.size(size);
        let repeats = self.b.apply(ScalarOp::Eq, [size, one]);
        Ok(self.b.apply(ScalarOp::Select, [repeats, zero, index]))
    }

    /// Makes it part of the kernel's contract that a size is 1 or `whole`, so that the index is proved to be in bounds and its
    /// loads need no check. As a product, since a broadcast of the two would presume it.
    fn assume_one_or(&mut self, size: DimId, whole: DimId) -> Result<(), LowerError> {
        let table = self.b.dims_mut();
        let (zero, one) = (table.constant(0), table.constant(1));
        let (from_one, from_whole) = (table.sub(size, one)?, table.sub(size, whole)?);
        let product = table.mul(from_one, from_whole)?;
        table.assume(ContractFact {
            predicate: Predicate::Equal(product, zero),
            origin: FactOrigin::Required("a broadcast".to_owned()),
        })?;
        Ok(())
    }
}
