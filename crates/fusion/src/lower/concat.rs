//! Concatenations: each operand is read only within its part of the axis.

use kiln_ir::{OpData, ValueId};
use kiln_kernel::NodeId;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_scalar::ScalarOp;
use kiln_symbolic_shape::{DimId, Predicate};

use super::context::{Demand, RegionLowering, Step};

impl RegionLowering<'_> {
    pub(super) fn concat(&mut self, data: &OpData, axis: usize, demand: &Demand) -> Step<NodeId> {
        let pieces = self.pieces(&data.operands, axis, demand)?;
        let at = demand.indices[axis];
        let mut offset = self.integer(is_on(Fault::WrongConcatOffset).into());
        let mut placed = Vec::new();
        for &(operand, size) in &pieces {
            placed.push((operand, size, offset));
            let size = self.b.size(size);
            offset = self.add(offset, size);
        }
        // From the last part to the first: each except the last is selected below its end.
        let mut element = None;
        for (operand, size, offset) in placed.into_iter().rev() {
            let local = self.sub(at, offset);
            let mut indices = demand.indices.clone();
            indices[axis] = local;
            let alone = pieces.len() == 1;
            let tests = (!alone).then_some((local, size));
            let guard = self.guard_and(demand.guard, tests, []);
            let piece = self.get(operand, indices, guard)?;
            element = Some(match element {
                None => piece,
                Some(after) => {
                    let size = self.b.size(size);
                    let end = self.add(offset, size);
                    let before = self.b.apply(ScalarOp::Lt, [at, end]);
                    self.b.apply(ScalarOp::Select, [before, piece, after])
                }
            });
        }
        match element {
            Some(element) => Ok(element),
            None => unreachable!("the verifier requires at least one operand"),
        }
    }

    /// The operands that have elements, with their sizes along the axis.
    fn pieces(
        &mut self,
        operands: &[ValueId],
        axis: usize,
        demand: &Demand,
    ) -> Step<Vec<(ValueId, DimId)>> {
        let result = self.shape(demand.value)?;
        let mut pieces = Vec::new();
        for &operand in operands {
            let shape = self.shape(operand)?;
            for (other, (&size, &whole)) in shape.iter().zip(&result).enumerate() {
                if other != axis && !self.equal(size, whole) {
                    let equal = Predicate::Equal(size, whole);
                    self.require(equal, "equal sizes on the axes that are not concatenated")?;
                }
            }
            if self.fixed(shape[axis]) != Some(0) {
                pieces.push((operand, shape[axis]));
            }
        }
        if pieces.is_empty() {
            let first = operands[0];
            pieces.push((first, self.shape(first)?[axis]));
        }
        Ok(pieces)
    }
}
