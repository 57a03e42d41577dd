//! Addresses in packed operands.
//!
//! Rows that start at a multiple of the packing block differ only by their position within it, so one address and constant
//! offsets serve the whole tile.

use kiln_backend::{PackAxis, PackSpec, Quantity};
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{BufferId, Node, NodeId};
use kiln_schedule_cpu::packed_strides;

use super::address::Address;
use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Scope};
use crate::emit::Value;
use crate::error::LlvmError;

/// The position of an element in a packed array.
pub(super) struct Place<'ctx> {
    /// The variable offset in elements.
    pub(super) element: Value<'ctx>,
    /// A constant offset, for a known position in the tile.
    pub(super) fixed: i64,
    /// The distance from one lane to the next, in elements, if lanes differ.
    lane_stride: Option<Quantity>,
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The address of an element of a packed operand. Lanes are consecutive if the vectorised axis is the innermost of
    /// the packed array, whose block is a multiple of the lanes. In an array packed for another level's instructions,
    /// lanes may be a group of elements apart.
    pub(super) fn packed_address(
        &self,
        scope: &Scope<'ctx>,
        buffer: BufferId,
        pack: &PackSpec,
        indices: &[NodeId],
        at: Coordinate,
        form: Form,
    ) -> Result<Address<'ctx>, LlvmError> {
        let emit = &self.emit;
        let dtype = self.kernel.buffer(buffer).dtype;
        let (strides, _) = packed_strides(self.kernel, pack);
        let place = self.packed_place(scope, (pack, &strides), indices, at)?;
        let mut pointer = emit.element(self.base(buffer), dtype, place.element);
        if place.fixed != 0 {
            pointer = emit.element(pointer, dtype, emit.i64(place.fixed));
        }
        let pointer = (pointer, dtype);
        Ok(match (place.lane_stride, scope.vectors, form) {
            (Some(stride), Some(vectors), Form::Lanes) => {
                self.lanes_apart(pointer, &stride, vectors.lanes)
            }
            _ => Address::Same(pointer.0),
        })
    }

    /// The position of an element of a packed operand with these strides.
    pub(super) fn packed_place(
        &self,
        scope: &Scope<'ctx>,
        (pack, strides): (&PackSpec, &[Quantity]),
        indices: &[NodeId],
        at: Coordinate,
    ) -> Result<Place<'ctx>, LlvmError> {
        let emit = &self.emit;
        let mut parts = Vec::new();
        let mut fixed = 0_i64;
        let mut lane_stride = None;
        for (pack_axis, stride) in pack.axes.iter().zip(strides) {
            let (PackAxis::Whole(axis)
            | PackAxis::Outer { axis, .. }
            | PackAxis::Inner { axis, .. }) = *pack_axis;
            let Some(&node) = indices.get(axis) else {
                unreachable!("packing names axes of the buffer")
            };
            // The blocks of an axis come before the positions within them.
            if self.varies(scope, node) {
                lane_stride = Some(stride.clone());
            }
            if let Some(split) = self.layout.grouped_by(*pack_axis, node) {
                let (part, index) = match *pack_axis {
                    PackAxis::Inner { .. } => {
                        // Adjacent vectors differ by a constant.
                        let first = Coordinate { vector: 0, ..at };
                        let lanes = scope.vectors.filter(|vectors| vectors.axis == split.axis);
                        let lanes = lanes.map_or(0, |vectors| vectors.lanes);
                        fixed +=
                            i64::from(at.vector * lanes) ^ i64::from(is_on(Fault::WrongPackPlace));
                        (
                            split.place,
                            self.value(scope, split.place, first, Form::First)?,
                        )
                    }
                    _ => (
                        split.group,
                        self.value(scope, split.group, at, Form::First)?,
                    ),
                };
                parts.push((part, emit.imul(index, self.quantity(stride))));
                continue;
            }
            let known = self.known_block(scope, node, at);
            let index = match (*pack_axis, known) {
                (PackAxis::Inner { block, .. }, Some((_, inside, known))) if block == known => {
                    fixed = match stride.as_constant() {
                        Some(stride) => fixed + inside * stride,
                        None => unreachable!("what is inside a block is the innermost axis"),
                    };
                    continue;
                }
                (PackAxis::Outer { block, .. }, Some((outer, _, known))) if block == known => outer,
                (PackAxis::Whole(_), _) => self.value(scope, node, at, Form::First)?,
                (PackAxis::Outer { block, .. }, _) => {
                    let index = self.value(scope, node, at, Form::First)?;
                    emit.udiv(index, emit.i64(block as i64))
                }
                (PackAxis::Inner { block, .. }, _) => {
                    let index = self.value(scope, node, at, Form::First)?;
                    emit.urem(index, emit.i64(block as i64))
                }
            };
            parts.push((node, emit.imul(index, self.quantity(stride))));
        }
        Ok(Place {
            element: self.summed(parts),
            fixed,
            lane_stride,
        })
    }

    /// For an index that is just the row axis or the vectorised axis: its block, its position within the block, and the
    /// block's size.
    fn known_block(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
    ) -> Option<(Value<'ctx>, i64, usize)> {
        let Node::Axis(axis) = self.kernel.node(node) else {
            return None;
        };
        if let Some(rows) = scope.rows.filter(|rows| rows.axis == *axis) {
            let (outer, block) = rows.block?;
            let inside = i64::from(at.row) ^ i64::from(is_on(Fault::WrongPackPlace));
            return Some((outer, inside, block as usize));
        }
        let vectors = scope.vectors.filter(|vectors| vectors.axis == *axis)?;
        let (outer, block) = vectors.block?;
        let inside = i64::from(at.vector) * i64::from(vectors.lanes);
        let inside = inside ^ i64::from(is_on(Fault::WrongPackPlace));
        Some((outer, inside, block as usize))
    }
}
