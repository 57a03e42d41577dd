//! Elements at several adjacent steps of an axis, loaded at once: from an operand shared by all lanes, or from the
//! groups of an operand packed for this.

use std::collections::HashMap;

use kiln_backend::{PackAxis, Quantity};
use kiln_kernel::{AxisId, IndexClass, Load, LoadGuard, Node, NodeId};
use kiln_scalar::ScalarOp;
use kiln_schedule_cpu::packed_strides;
use kiln_tensor::DType;

use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

/// The values of factors at the steps of an iteration, by the part of the point on which they depend.
pub(super) type Known<'ctx> = HashMap<(NodeId, Coordinate, Form), Value<'ctx>>;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// A factor at some steps, computed once for all points of the tile that share it.
    pub(super) fn at_steps(
        &self,
        (scope, known): (&Scope<'ctx>, &mut Known<'ctx>),
        node: NodeId,
        at: Coordinate,
        compute: impl FnOnce() -> Result<Value<'ctx>, LlvmError>,
    ) -> Result<Value<'ctx>, LlvmError> {
        let key = self.key(scope, node, at, Form::Lanes);
        if let Some(&value) = known.get(&key) {
            return Ok(value);
        }
        let value = compute()?;
        known.insert(key, value);
        Ok(value)
    }

    /// Sums along an axis, this many steps per iteration. The remainder comes first, so that the loop over groups of steps ends
    /// with the axis.
    pub(super) fn in_groups_of_steps(
        &self,
        scope: &Scope<'ctx>,
        reduce: &Reduce<'_>,
        (axis, steps): (AxisId, u32),
        (points, carried): (&[Coordinate], &[Value<'ctx>]),
        group: impl FnOnce(Value<'ctx>, &[Value<'ctx>]) -> Result<Vec<Value<'ctx>>, LlvmError>,
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let extent = self.extent(scope, axis)?;
        let (zero, one) = (emit.i64(0), emit.i64(1));
        let (rest, first) = if self.is_multiple(axis, steps) {
            (zero, carried.to_vec())
        } else {
            let rest = emit.isub(extent, self.multiple_below(extent, steps));
            let most = Some(u64::from(steps) - 1);
            let first =
                self.counted_up_to(most, (zero, rest, one), carried, |index, carried| {
                    self.accumulate(&scope.with_axis(axis, index), reduce, points, carried)
                })?;
            (rest, first)
        };
        let step = emit.i64(i64::from(steps));
        self.counted(rest, extent, step, &first, group)
    }

    /// Elements at this many steps of an axis, loaded as one: adjacent elements that all lanes share, and whose
    /// conditions are the same at all steps.
    pub(super) fn adjacent_elements(
        &self,
        scope: &Scope<'ctx>,
        (node, axis): (NodeId, AxisId),
        at: Coordinate,
        count: u32,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let Node::Load(load) = self.kernel.node(node) else {
            return Ok(None);
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        if !self.is_adjacent(load, axis) || self.varies(scope, node) {
            return Ok(None);
        }
        let mut inside = None;
        for (place, &index) in load.indices.iter().enumerate() {
            let is_known =
                self.class(node, place) == IndexClass::Proved || scope.is_inside(node, place);
            match &load.guard {
                _ if is_known => {}
                Some(guard) if guard.inside && !self.dependence.depends(index, axis) => {
                    let here = self.in_range(scope, load.buffer, place, index, at, Form::First)?;
                    inside = Some(self.both(inside, here));
                }
                _ => return Ok(None),
            }
        }
        let address = self.buffer_address(scope, load.buffer, &load.indices, at, Form::First)?;
        let (Some(inside), Some(guard)) = (inside, &load.guard) else {
            return Ok(Some(emit.load_dtype(dtype, count, address.pointer())));
        };
        // The dummy holds zeros.
        let pointer = emit.select(inside, address.pointer(), self.dummy());
        let loaded = emit.load_dtype(dtype, count, pointer);
        if self.is_zero(guard.otherwise) {
            return Ok(Some(loaded));
        }
        let otherwise = self.value(scope, guard.otherwise, at, Form::First)?;
        Ok(Some(emit.select(
            inside,
            loaded,
            emit.splat(otherwise, count),
        )))
    }

    /// Whether an index is an axis, or the sum of an axis and a value that does not vary along it.
    fn steps_by_one(&self, mut index: NodeId, axis: AxisId) -> bool {
        loop {
            index = match self.kernel.node(index) {
                Node::Axis(found) => return *found == axis,
                Node::Apply {
                    op: ScalarOp::Add,
                    operands,
                } => {
                    let varies = |index: &&NodeId| self.dependence.depends(**index, axis);
                    let mut varying = operands.iter().filter(varies);
                    match (varying.next(), varying.next()) {
                        (Some(&varying), None) => varying,
                        _ => return false,
                    }
                }
                _ => return false,
            };
        }
    }

    /// Whether a load reads adjacent elements along an axis, if it is performed at all.
    fn is_adjacent(&self, load: &Load, axis: AxisId) -> bool {
        let Some((last, others)) = load.indices.split_last() else {
            return false;
        };
        let varies = |&node: &NodeId| self.dependence.depends(node, axis);
        let is_unconditional =
            |guard: &LoadGuard| guard.when.is_none() && !varies(&guard.otherwise);
        self.steps_by_one(*last, axis)
            && !others.iter().any(varies)
            && load.guard.as_ref().is_none_or(is_unconditional)
            && self.kernel.buffer(load.buffer).strides.is_none()
            && self.layout.pack(load.buffer).is_none()
    }

    /// A group of this many elements of an operand, starting at a multiple of this number, if the operand is packed in
    /// such groups of the axis: as lanes of 32 bits, the size of a group.
    pub(super) fn packed_group(
        &self,
        scope: &Scope<'ctx>,
        (node, axis): (NodeId, AxisId),
        at: Coordinate,
        count: u32,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let (Node::Load(load), Some(vectors)) = (self.kernel.node(node), scope.vectors) else {
            return Ok(None);
        };
        let grouped = self.layout.grouped_in_pack(load.buffer, count as usize);
        let (Some(grouped), Some(pack)) = (grouped, self.layout.pack(load.buffer)) else {
            return Ok(None);
        };
        let index = load
            .indices
            .get(grouped)
            .map(|&index| self.kernel.node(index));
        let is_along = matches!(index, Some(Node::Axis(index)) if *index == axis);
        if !is_along || load.guard.is_some() || !self.varies(scope, node) {
            return Ok(None);
        }
        // As if the axis were not grouped: the distance between groups is that of as many elements.
        let (strides, _) = packed_strides(self.kernel, pack);
        let (mut whole, mut of_whole) = (pack.clone(), Vec::new());
        whole.axes.clear();
        for (&part, stride) in pack.axes.iter().zip(strides) {
            let (part, stride) = match part {
                PackAxis::Inner { axis, .. } if axis == grouped => continue,
                PackAxis::Outer { axis, block } if axis == grouped => (
                    PackAxis::Whole(axis),
                    stride.floor_div(Quantity::constant(block as i64)),
                ),
                part => (part, stride),
            };
            whole.axes.push(part);
            of_whole.push(stride);
        }
        let place = self.packed_place(scope, (&whole, &of_whole), &load.indices, at)?;
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let element = emit.iadd(place.element, emit.i64(place.fixed));
        let pointer = emit.element(self.base(load.buffer), dtype, element);
        self.prefetch_packed_ahead(scope, load, pointer, at)?;
        Ok(Some(emit.load_dtype(DType::I32, vectors.lanes, pointer)))
    }
}
