//! Slices, lowered to scaled and shifted indices.

use kiln_ir::{Dims, Integers, OpData};
use kiln_kernel::{NodeId, Nodes};
use kiln_symbolic_shape::{DimError, DimId, Predicate};

use super::LowerError;
use super::context::{Demand, RegionLowering, Step};

impl RegionLowering<'_> {
    pub(super) fn slice(
        &mut self,
        data: &OpData,
        starts: &Dims,
        sizes: &Dims,
        steps: &Integers,
        demand: &Demand,
    ) -> Step<NodeId> {
        let operand = self.shape(data.operands[0])?;
        let (starts, sizes) = (self.dims(starts)?, self.dims(sizes)?);
        let mut indices = Nodes::new();
        for axis in 0..operand.len() {
            let (start, step) = (starts[axis], steps[axis]);
            self.require_slice(start, sizes[axis], step, operand[axis])?;
            let step = self.integer(step);
            let scaled = self.mul(demand.indices[axis], step);
            let start = self.b.size(start);
            indices.push(self.add(scaled, start));
        }
        self.get(data.operands[0], indices, demand.guard)
    }

    /// Both ends of a slice that is not empty are within the operand.
    fn require_slice(
        &mut self,
        start: DimId,
        size: DimId,
        step: i64,
        operand: DimId,
    ) -> Result<(), LowerError> {
        if step == 1 {
            let table = self.b.dims_mut();
            let (zero, end) = (table.constant(0), table.add(start, size)?);
            let from = Predicate::LessEqual(zero, start);
            let to = Predicate::LessEqual(end, operand);
            if [from, to]
                .iter()
                .all(|bound| self.b.dims().prove(bound).is_proved())
            {
                return Ok(());
            }
        }
        let table = self.b.dims_mut();
        let mut ends = || -> Result<[DimId; 3], DimError> {
            let (zero, one, step) = (table.constant(0), table.constant(1), table.constant(step));
            let steps = table.sub(size, one)?;
            let way = table.mul(step, steps)?;
            let last = table.add(start, way)?;
            // An empty slice reads nothing: times 0, both ends are in bounds.
            let some = table.min(size, one)?;
            let (first, last) = (table.mul(start, some)?, table.mul(last, some)?);
            let lowest = table.min(first, last)?;
            let highest = table.max(first, last)?;
            let end = table.add(highest, some)?;
            Ok([zero, lowest, end])
        };
        let [zero, lowest, end] = ends()?;
        self.require(
            Predicate::LessEqual(zero, lowest),
            "a slice within its operand",
        )?;
        self.require(
            Predicate::LessEqual(end, operand),
            "a slice within its operand",
        )
    }
}
