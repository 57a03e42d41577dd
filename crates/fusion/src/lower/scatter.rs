//! Scatters and updates of slices: combining stores into a copy of the operand, one for each update.
//!
//! The copy is made before the kernel runs ([`LoweredKernel::initialise`](super::LoweredKernel)). The outer axes are
//! those of the updates; only the store may use the result.

use kiln_ir::{Combine, Op, OpData, OpId, ValueId};
use kiln_kernel::{Nodes, Role};
use kiln_symbolic_shape::Predicate;
use kiln_tensor::DType;

use super::context::{Demand, Halt, RegionLowering, Step};
use super::dispatch::unsupported;
use super::guard::GuardId;
use super::{LowerError, LoweredKernel};

/// The value and place of a scatter's writes.
struct Update {
    element: kiln_kernel::NodeId,
    indices: Nodes,
}

impl RegionLowering<'_> {
    /// The whole kernel of a scatter, which is its only output.
    pub(super) fn scatter(
        mut self,
        value: ValueId,
        id: OpId,
        data: &OpData,
    ) -> Result<LoweredKernel, LowerError> {
        let [x, _, updates] = data.operands[..] else {
            unreachable!("a scatter has three operands")
        };
        if self.producer(x).is_some() {
            return Err(LowerError::Scatter { value: x });
        }
        let combine = match self.combine_of(id, data, x) {
            Ok(combine) => combine,
            Err(Halt::Error(error)) => return Err(error),
            Err(Halt::Pending) => unreachable!("nothing was demanded"),
        };
        let mut points = Nodes::new();
        for &size in &self.shape(updates)? {
            points.push(match self.fixed(size) {
                Some(1) => self.integer(0),
                _ => {
                    let axis = self.outer_axis(size);
                    self.b.index(axis)
                }
            });
        }
        let demand = Demand {
            value,
            indices: points,
            guard: GuardId::NONE,
        };
        let update = self.drive(&mut |this| this.update(id, data, &demand))?;
        let buffer = self.push_buffer(value, Role::InOut)?;
        let dtype = self.ty(value)?.dtype;
        let element = self.b.cast(update.element, dtype);
        self.b.combine(combine, [], buffer, update.indices, element);
        let mut lowered = self.into_kernel()?;
        lowered.initialise = Some((buffer, x));
        Ok(lowered)
    }

    fn update(&mut self, id: OpId, data: &OpData, demand: &Demand) -> Step<Update> {
        let [x, positions, updates] = data.operands[..] else {
            unreachable!("a scatter has three operands")
        };
        let points = &demand.indices;
        let indices = match &data.op {
            Op::ScatterElements { axis, .. } => {
                let size = self.require_elements_beside(x, positions, *axis)?;
                self.require_equal(updates, positions)?;
                let mut indices = points.clone();
                indices[*axis] = self.position(positions, points.clone(), size, demand.guard)?;
                indices
            }
            Op::UpdateSlice { axes } => self.part_of(x, positions, updates, axes, demand)?,
            _ => {
                let shape = self.shape(x)?;
                let tuple = &points[..self.ty(positions)?.rank() - 1];
                let mut indices = self.addressed(id, data, positions, tuple, &shape, demand)?;
                let given = self.shape(updates)?;
                for (&rest, &size) in shape[indices.len()..].iter().zip(&given[tuple.len()..]) {
                    let equal = Predicate::Equal(rest, size);
                    self.require(equal, "updates of the sizes that they replace")?;
                }
                indices.extend_from_slice(&points[tuple.len()..]);
                indices
            }
        };
        let element = self.get(updates, points.clone(), demand.guard)?;
        Ok(Update { element, indices })
    }

    /// The place of an update's elements.
    fn part_of(
        &mut self,
        x: ValueId,
        positions: ValueId,
        update: ValueId,
        axes: &[usize],
        demand: &Demand,
    ) -> Step<Nodes> {
        let mut indices = demand.indices.clone();
        for (number, &axis) in (0..).zip(axes) {
            let at = Nodes::from_slice(&[self.integer(number)]);
            let start = self.get(positions, at, demand.guard)?;
            let start = self.b.cast(start, DType::I64);
            if let Some(index) = indices.get_mut(axis) {
                *index = self.add(start, *index);
            }
        }
        let (shape, given) = (self.shape(x)?, self.shape(update)?);
        let beside = shape.iter().zip(&given).enumerate();
        let beside = beside.filter(|(axis, _)| !axes.contains(axis));
        for (_, (&size, &given)) in beside {
            let equal = Predicate::Equal(size, given);
            self.require(equal, "an update of the sizes that it replaces")?;
        }
        Ok(indices)
    }

    fn combine_of(&self, id: OpId, data: &OpData, x: ValueId) -> Step<kiln_kernel::Combine> {
        let combine = match &data.op {
            Op::ScatterElements { combine, .. } | Op::ScatterNd { combine } => *combine,
            Op::UpdateSlice { .. } => Combine::Set,
            _ => unreachable!("called for scatters"),
        };
        let dtype = self.ty(x)?.dtype;
        let rounds = matches!(combine, Combine::Add | Combine::Mul)
            && matches!(dtype, DType::F16 | DType::BF16);
        if rounds {
            let why = "narrow floats would be rounded at every update";
            return Err(unsupported(id, data, why));
        }
        if dtype == DType::Bool && combine != Combine::Set {
            return Err(unsupported(id, data, "bools cannot be combined"));
        }
        Ok(match combine {
            Combine::Set => kiln_kernel::Combine::Set,
            Combine::Add => kiln_kernel::Combine::Add,
            Combine::Mul => kiln_kernel::Combine::Mul,
            Combine::Min => kiln_kernel::Combine::Min,
            Combine::Max => kiln_kernel::Combine::Max,
        })
    }

    fn require_equal(&mut self, left: ValueId, right: ValueId) -> Result<(), LowerError> {
        let (left, right) = (self.shape(left)?, self.shape(right)?);
        for (&left, &right) in left.iter().zip(&right) {
            self.require(Predicate::Equal(left, right), "one update per index")?;
        }
        Ok(())
    }
}
