//! Random bits: integer arithmetic on the position and the key.

use kiln_ir::OpData;
use kiln_kernel::{NodeId, Nodes};
use kiln_scalar::Function;
use kiln_tensor::DType;

use super::context::{Demand, RegionLowering, Step};
use super::guard::GuardId;
use super::index::Parts;

impl RegionLowering<'_> {
    /// The bits of an element's position in row-major order, counted in 64 bits.
    pub(super) fn random_bits(&mut self, data: &OpData, demand: &Demand) -> Step<NodeId> {
        let shape = self.shape(demand.value)?;
        let parts: Parts = demand.indices.iter().copied().zip(shape).collect();
        let position = self.merge(&parts);
        let mut operands = Nodes::from_slice(&[self.b.cast(position, DType::U64)]);
        for word in 0..2 {
            // The key has both elements at every point, so loops read it once.
            let at = Nodes::from_slice(&[self.integer(word)]);
            operands.push(self.get(data.operands[0], at, GuardId::NONE)?);
        }
        Ok(self.b.call(Function::random_bits(), &[], operands))
    }
}
