//! Addresses in operands that are laid out anew.
//!
//! Rows that start at a multiple of the packing block differ by their number within it alone, so one address and
//! fixed distances serve the whole tile.

use kiln_backend::{PackAxis, PackSpec, Quantity};
use kiln_kernel::analysis::GroupedIndex;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, BufferId, Load, Node, NodeId, VerifiedKernel};

use super::access::Address;
use super::context::Lowering;
use super::scope::{Coordinate, Form, Scope};
use super::tile::Tile;
use crate::emit::Value;
use crate::error::LlvmError;

/// Points along an axis of a packed array.
pub(super) fn extent(kernel: &VerifiedKernel, buffer: BufferId, axis: PackAxis) -> Quantity {
    let size = |axis: usize| match kernel.buffer(buffer).shape.get(axis) {
        Some(&size) => Quantity::of(kernel.dims(), size),
        None => unreachable!("packing names axes of the buffer"),
    };
    match axis {
        PackAxis::Whole(axis) => size(axis),
        PackAxis::Outer { axis, block } => size(axis).ceil_div(Quantity::constant(block as i64)),
        PackAxis::Inner { block, .. } => Quantity::constant(block as i64),
    }
}

/// Elements from one index to the next, per axis of a packed array, and how many there are.
pub(crate) fn packed_strides(
    kernel: &VerifiedKernel,
    spec: &PackSpec,
) -> (Vec<Quantity>, Quantity) {
    let buffer = BufferId::from_u32(spec.buffer as u32);
    let mut strides = vec![Quantity::constant(1); spec.axes.len()];
    let mut product = Quantity::constant(1);
    for (stride, &axis) in strides.iter_mut().zip(&spec.axes).rev() {
        *stride = product.clone();
        product = product * extent(kernel, buffer, axis);
    }
    (strides, product)
}

/// Where an element of a packed array lies.
pub(super) struct Place<'ctx> {
    /// In elements.
    pub(super) element: Value<'ctx>,
    /// How much further, by what is known of the tile.
    pub(super) fixed: i64,
    /// Whether lanes are next to each other, where the element has lanes.
    is_consecutive: bool,
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// The address of an element of a packed operand. Lanes are consecutive if the vectors' axis is the innermost of
    /// the packed array, whose block is a multiple of the lanes.
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
        let wide = form == Form::Lanes && indices.iter().any(|&index| self.varies(scope, index));
        Ok(match (wide, place.is_consecutive) {
            (false, _) => Address::Same(pointer),
            (true, true) => Address::Consecutive(pointer),
            (true, false) => {
                return Err(LlvmError::Unsupported {
                    what: format!(
                        "a packed layout of %{} that vectors cut across",
                        self.kernel.buffer(buffer).name
                    ),
                });
            }
        })
    }

    /// Where an element of a packed operand lies, with such distances from one index to the next.
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
        let mut consecutive = false;
        for (position, (pack_axis, stride)) in pack.axes.iter().zip(strides).enumerate() {
            let (PackAxis::Whole(axis)
            | PackAxis::Outer { axis, .. }
            | PackAxis::Inner { axis, .. }) = *pack_axis;
            let Some(&node) = indices.get(axis) else {
                unreachable!("packing names axes of the buffer")
            };
            let innermost = position + 1 == pack.axes.len();
            consecutive |= innermost && self.varies(scope, node);
            if let Some(split) = self.split_by(*pack_axis, node) {
                let (part, index) = match *pack_axis {
                    PackAxis::Inner { .. } => {
                        // Vectors side by side differ by a number that is known.
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
            is_consecutive: consecutive,
        })
    }

    /// The parts of an index along an axis whose blocks are the groups that the index counts through.
    fn split_by(&self, axis: PackAxis, index: NodeId) -> Option<GroupedIndex> {
        let (PackAxis::Outer { block, .. } | PackAxis::Inner { block, .. }) = axis else {
            return None;
        };
        let split = GroupedIndex::of(self.kernel, index)?;
        (split.size == block as i64).then_some(split)
    }

    /// Whether a load of a packed operand may go beyond its block: one of a group need not be whole vectors.
    pub(super) fn may_leave_block(&self, load: &Load) -> bool {
        let innermost = self.pack(load.buffer).and_then(|pack| pack.axes.last());
        innermost.is_some_and(|&innermost| match innermost {
            PackAxis::Inner { axis, .. } => {
                let index = load.indices.get(axis);
                index.is_some_and(|&index| self.split_by(innermost, index).is_some())
            }
            PackAxis::Whole(_) | PackAxis::Outer { .. } => false,
        })
    }

    /// The block in which operands are packed along the vectors of a tile, if any are.
    pub(super) fn column_block(&self, tile: &Tile) -> Option<u32> {
        let set = tile.lanes * tile.vectors;
        let is_set = |pack: &PackSpec| match pack.axes.last() {
            Some(PackAxis::Inner { block, .. }) => *block == set as usize,
            _ => false,
        };
        self.packs.iter().any(is_set).then_some(set)
    }

    /// The axis of a buffer whose blocks are innermost where it is packed.
    pub(super) fn innermost_of_pack(&self, buffer: BufferId) -> Option<usize> {
        match self.pack(buffer)?.axes.last() {
            Some(PackAxis::Inner { axis, .. }) => Some(*axis),
            _ => None,
        }
    }

    /// How far an access to a packed buffer moves from one index of an axis to the next, if it stays within a block.
    pub(super) fn movement_in_pack(
        &self,
        indices: &[NodeId],
        innermost: usize,
        axis: AxisId,
    ) -> Option<Quantity> {
        let mut step = 0;
        for (place, &index) in indices.iter().enumerate() {
            match self.dependence.step_along(self.kernel, index, axis)? {
                0 => {}
                1 if place == innermost => step = 1,
                _ => return None,
            }
        }
        Some(Quantity::constant(step))
    }

    /// For an index that is just the rows' or the vectors' axis: the block it is in, where in it, and its size.
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
