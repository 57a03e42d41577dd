//! Rows of a tile at the edge of an operand, whose elements are adjacent: masked vectors copy them to scratch, from
//! which each row reads its element.
//!
//! At an edge, some rows read padding. Finding out whether a row does, and from which address it reads, takes several
//! instructions per row; a masked vector takes as many for all rows.

use std::collections::BTreeSet;

use kiln_backend::Quantity;
use kiln_kernel::{IndexClass, Load, Node, NodeId};
use kiln_tensor::DType;

use super::context::KernelLowering;
use super::scope::{Coordinate, Form, Rows, Scope, Vectors};
use crate::error::LlvmError;

/// With fewer rows, a condition per row is equally cheap.
const LEAST_ROWS: u32 = 4;

/// The maximum number of vectors that are masked for a tile.
const MOST_VECTORS: u32 = 2;

/// A load whose rows are adjacent elements.
struct EdgeRows<'ctx> {
    rows: Rows<'ctx>,
    vectors: Vectors<'ctx>,
    dtype: DType,
    /// The position of the index that moves along the rows.
    position: usize,
    /// Elements from one row to the next.
    step: u32,
    /// Vectors that cover all rows.
    count: u32,
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// The scope of an edge, in which the elements of all rows are loaded in advance, for those of some loads whose
    /// rows are adjacent. The loads' indices must be known in the scope.
    pub(super) fn with_edge_rows(
        &self,
        scope: &Scope<'ctx>,
        loads: &BTreeSet<NodeId>,
    ) -> Result<Scope<'ctx>, LlvmError> {
        let edge = scope.clone();
        for &node in loads {
            let Node::Load(load) = self.kernel.node(node) else {
                unreachable!("edges are of loads")
            };
            if let Some(rows) = self.edge_rows(scope, node, load) {
                self.load_edge_rows(&edge, (node, load), &rows)?;
            }
        }
        Ok(edge)
    }

    /// How a load moves along the rows of the tile; `None` if not by few adjacent elements.
    fn edge_rows(&self, scope: &Scope<'ctx>, node: NodeId, load: &Load) -> Option<EdgeRows<'ctx>> {
        let (rows, vectors) = (scope.rows?, scope.vectors?);
        let is_plain = !rows.spread && rows.repeats.is_none() && rows.count >= LEAST_ROWS;
        let guard = load.guard.as_ref()?;
        let is_literal = matches!(self.kernel.node(guard.otherwise), Node::Literal(_));
        let is_padding = guard.inside && guard.when.is_none() && is_literal;
        let dtype = self.kernel.buffer(load.buffer).dtype;
        // For other elements, vectors are masked one by one.
        let is_maskable = self.level().has_fma()
            && matches!(dtype, DType::F32 | DType::F64 | DType::I32 | DType::I64);
        if !is_plain || !is_padding || !is_maskable || self.varies(scope, node) {
            return None;
        }
        let moves = |index: NodeId| self.dependence.depends(index, rows.axis);
        let mut moving = (0..).zip(&load.indices).filter(|(_, index)| moves(**index));
        let (Some((position, &along)), None) = (moving.next(), moving.next()) else {
            return None;
        };
        let is_checked = |axis: usize| self.class(node, axis) == IndexClass::Checked;
        let is_dense = self.layout.pack(load.buffer).is_none()
            && self.layout.stride(load.buffer, position).as_constant() == Some(1);
        if !is_dense || (0..load.indices.len()).any(is_checked) {
            return None;
        }
        let step = self.dependence.step_along(self.kernel, along, rows.axis)?;
        let step = u32::try_from(step).ok().filter(|&step| step > 0)?;
        let elements = step.checked_mul(rows.count - 1)?.checked_add(1)?;
        let count = elements.div_ceil(vectors.lanes);
        (count <= MOST_VECTORS && vectors.lanes > 1).then_some(EdgeRows {
            rows,
            vectors,
            dtype,
            position,
            step,
            count,
        })
    }

    /// Loads the elements of all rows, and records each row's element.
    fn load_edge_rows(
        &self,
        scope: &Scope<'ctx>,
        (node, load): (NodeId, &Load),
        edge: &EdgeRows<'ctx>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let (lanes, dtype) = (edge.vectors.lanes, edge.dtype);
        let (Some(guard), first_row) = (&load.guard, Coordinate::default()) else {
            unreachable!("edges are of loads with a guard")
        };
        let mut uniform = None;
        for (axis, &index) in load.indices.iter().enumerate() {
            let is_known =
                self.class(node, axis) == IndexClass::Proved || scope.is_inside(node, axis);
            if axis != edge.position && !is_known {
                let inside =
                    self.in_range(scope, load.buffer, axis, index, first_row, Form::First)?;
                uniform = Some(self.both(uniform, inside));
            }
        }
        let shape = &self.kernel.buffer(load.buffer).shape;
        let (Some(&along), Some(&size)) =
            (load.indices.get(edge.position), shape.get(edge.position))
        else {
            unreachable!("the position is of one of its indices")
        };
        let first = self.value(scope, along, first_row, Form::First)?;
        // Of the elements starting with the first row's, those from `begin` to `end` belong to the operand.
        let begin = emit.isub(emit.i64(0), first);
        let mut end = emit.isub(self.dim(size), first);
        if let Some(uniform) = uniform {
            end = emit.select(uniform, end, emit.i64(0));
        }
        let address =
            self.buffer_address(scope, load.buffer, &load.indices, first_row, Form::First)?;
        let pointer = address.pointer();
        let otherwise = self.value(scope, guard.otherwise, first_row, Form::First)?;
        let otherwise = emit.splat(otherwise, lanes);
        let all = emit.i64(i64::from(lanes));
        let elements = Quantity::constant(i64::from(edge.count * lanes));
        let scratch = self.scratch(&elements, dtype);
        for vector in 0..edge.count {
            let offset = emit.i64(i64::from(vector * lanes));
            let below = |limit| {
                let lane = emit.smax(emit.isub(limit, offset), emit.i64(0));
                emit.first_lanes(emit.smin(lane, all), lanes)
            };
            let mask = emit.and(emit.not(below(begin)), below(end));
            let from = emit.element(pointer, dtype, offset);
            let loaded = emit.masked_load_dtype(dtype, from, mask, otherwise);
            emit.store_dtype(dtype, emit.element(scratch, dtype, offset), loaded);
        }
        for row in 0..edge.rows.count {
            let place = emit.i64(i64::from(row * edge.step));
            let element = emit.load_dtype(dtype, 1, emit.element(scratch, dtype, place));
            let at = Coordinate { row, vector: 0 };
            self.assume(scope, node, at, element);
        }
        Ok(())
    }
}
