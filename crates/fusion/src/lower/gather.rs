//! Gathers: reads at positions that are data. A negative position counts from the end; a position still out of bounds
//! is a fault, which is checked by a load. So the indexed value must be in memory, or be computed element by element
//! from values in memory.

use kiln_ir::{Op, OpData, OpId, ValueId};
use kiln_kernel::{NodeId, Nodes};
use kiln_scalar::{ScalarOp, ScalarValue};
use kiln_symbolic_shape::{DimId, Predicate};
use kiln_tensor::DType;

use super::LowerError;
use super::context::{Demand, RegionLowering, Step};
use super::dispatch::unsupported;
use super::guard::GuardId;

impl RegionLowering<'_> {
    pub(super) fn gather(&mut self, data: &OpData, axis: usize, demand: &Demand) -> Step<NodeId> {
        let (x, positions) = (data.operands[0], data.operands[1]);
        let end = axis + self.ty(positions)?.rank();
        let size = self.shape(x)?[axis];
        let at = Nodes::from_slice(&demand.indices[axis..end]);
        let position = self.position(positions, at, size, demand.guard)?;
        let mut indices = Nodes::from_slice(&demand.indices[..axis]);
        indices.push(position);
        indices.extend_from_slice(&demand.indices[end..]);
        self.read_checked(x, indices, demand.guard)
    }

    pub(super) fn gather_elements(
        &mut self,
        data: &OpData,
        axis: usize,
        demand: &Demand,
    ) -> Step<NodeId> {
        let (x, positions) = (data.operands[0], data.operands[1]);
        let size = self.require_elements_beside(x, positions, axis)?;
        let mut indices = demand.indices.clone();
        indices[axis] = self.position(positions, demand.indices.clone(), size, demand.guard)?;
        self.read_checked(x, indices, demand.guard)
    }

    pub(super) fn gather_nd(
        &mut self,
        id: OpId,
        data: &OpData,
        batch_axes: usize,
        demand: &Demand,
    ) -> Step<NodeId> {
        let (x, positions) = (data.operands[0], data.operands[1]);
        let shape = self.shape(x)?;
        let batches = self.shape(positions)?;
        for (&left, &right) in shape.iter().zip(&batches).take(batch_axes) {
            self.require(Predicate::Equal(left, right), "equal batch sizes")?;
        }
        let tuple = &demand.indices[..batches.len() - 1];
        let mut indices = Nodes::from_slice(&demand.indices[..batch_axes]);
        indices.extend(self.addressed(id, data, positions, tuple, &shape[batch_axes..], demand)?);
        indices.extend_from_slice(&demand.indices[tuple.len()..]);
        self.read_checked(x, indices, demand.guard)
    }

    /// The positions on the last axis of `positions` for a tuple of indices.
    pub(super) fn addressed(
        &mut self,
        id: OpId,
        data: &OpData,
        positions: ValueId,
        tuple: &[NodeId],
        sizes: &[DimId],
        demand: &Demand,
    ) -> Step<Nodes> {
        let depth = self.shape(positions)?.last().copied();
        let depth = depth.and_then(|depth| usize::try_from(self.fixed(depth)?).ok());
        let Some(sizes) = depth.and_then(|depth| sizes.get(..depth)) else {
            return Err(unsupported(
                id,
                data,
                "how many axes its indices address is unknown",
            ));
        };
        let mut found = Nodes::new();
        for (which, &size) in (0..).zip(sizes) {
            let mut at = Nodes::from_slice(tuple);
            at.push(self.integer(which));
            found.push(self.position(positions, at, size, demand.guard)?);
        }
        Ok(found)
    }

    /// A position from data, counted from the start.
    pub(super) fn position(
        &mut self,
        positions: ValueId,
        at: Nodes,
        size: DimId,
        guard: GuardId,
    ) -> Step<NodeId> {
        let given = self.get(positions, at, guard)?;
        let signed = self.b.kernel().dtype(given).is_signed();
        let given = self.b.cast(given, DType::I64);
        let counts = self.as_axis(given).is_some();
        if counts || !signed || self.literal(given).is_some_and(|given| given >= 0) {
            return Ok(given);
        }
        let zero = self.integer(0);
        let size = self.b.size(size);
        let from_end = self.add(given, size);
        let is_negative = self.b.apply(ScalarOp::Lt, [given, zero]);
        Ok(self
            .b
            .apply(ScalarOp::Select, [is_negative, from_end, given]))
    }

    /// The size along `axis`; the others are at least those of `positions`.
    pub(super) fn require_elements_beside(
        &mut self,
        x: ValueId,
        positions: ValueId,
        axis: usize,
    ) -> Result<DimId, LowerError> {
        let (shape, other) = (self.shape(x)?, self.shape(positions)?);
        for at in (0..shape.len()).filter(|&at| at != axis) {
            let fits = Predicate::LessEqual(other[at], shape[at]);
            self.require(
                fits,
                "sizes on the axes other than the indexed one that cover the indices",
            )?;
        }
        Ok(shape[axis])
    }

    /// An element at positions that a load checks.
    fn read_checked(&mut self, x: ValueId, indices: Nodes, guard: GuardId) -> Step<NodeId> {
        let mut source = x;
        while let Some((_, data)) = self.producer(source) {
            let elementwise = matches!(&data.op, Op::Cast { .. } | Op::Map { .. });
            if !elementwise || data.operands.len() != 1 {
                return Err(LowerError::CheckedPosition { value: x }.into());
            }
            source = data.operands[0];
        }
        if source == x {
            let x = self
                .in_memory(x)
                .ok_or(LowerError::CheckedPosition { value: x })?;
            // This must not become a literal, even if all elements are equal, because the position still has to be
            // checked.
            let zero = ScalarValue::zero(self.ty(x)?.dtype);
            return self.load_or(x, &indices, guard, Some(zero));
        }
        self.get(x, indices, guard)
    }
}
