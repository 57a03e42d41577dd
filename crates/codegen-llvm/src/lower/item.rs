//! The items of a kernel, stages and stores, at the points of a tile.

use std::collections::HashMap;

use kiln_backend::Quantity;
use kiln_kernel::analysis::ElementwiseReader;
use kiln_kernel::seeded::{Fault, is_on};
use kiln_kernel::{AxisId, Combine, IndexClass, Item, StageId, StageOperation, Store};
use kiln_scalar::ScalarOp;
use kiln_schedule_cpu::Tile;
use kiln_schedule_cpu::loops::ItemLoops;

use super::context::KernelLowering;
use super::reduce::Reduce;
use super::scope::{Array, Coordinate, Form, Place, Rows, Scope, StageValue};
use crate::emit::Value;
use crate::error::LlvmError;
use crate::scalar_ops;

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Emits items in order. Stages record the places of their locals in the scope.
    ///
    /// All rows of a tile are computed at once if that shares loads, or is cheap; longer expressions run row by row, so
    /// that their code is emitted once. Values passed between the two go through memory.
    pub(super) fn items(
        &self,
        scope: &mut Scope<'ctx>,
        tile: &Tile,
        items: &[Item],
    ) -> Result<(), LlvmError> {
        let together = |item: &Item| {
            scope.rows.is_none_or(|rows| rows.count == 1)
                || self.is_together(item)
                || (self
                    .nest
                    .loops
                    .of_item(self.kernel, item)
                    .register_transpose
                    && self.transposes_rows(scope))
        };
        let together: Vec<bool> = items.iter().map(together).collect();
        let spill = together.contains(&false);
        let mut finished = None;
        for (place, (item, &together)) in items.iter().zip(&together).enumerate() {
            match item {
                Item::Stage(stage) if finished == Some(*stage) => {}
                Item::Stage(stage) if self.place_combined(scope, *stage)? => {}
                Item::Stage(stage) => {
                    let next = items.get(place + 1);
                    let finish = next
                        .filter(|_| self.loops_of(*stage).fuse_next && scope.vectors.is_none())
                        .and_then(|next| self.layout.fused_map(*stage, next, tile))
                        .filter(|_| next.is_some_and(|next| self.is_together(next) == together));
                    finished = finish.map(|finish| finish.stage);
                    self.stage(scope, tile, *stage, finish, (together, spill))?;
                }
                Item::Store(store) if together => self.store(scope, tile, store)?,
                Item::Store(store) => {
                    self.row_by_row(scope, &mut |scope| self.store(scope, tile, store))?;
                }
                Item::Carry(carry) => self.carry(scope, tile, carry)?,
            }
        }
        Ok(())
    }

    /// Whether all rows of a tile are computed at once.
    fn is_together(&self, item: &Item) -> bool {
        self.nest.loops.of_item(self.kernel, item).together
    }

    /// The loops of a stage.
    pub(super) fn loops_of(&self, stage: StageId) -> ItemLoops {
        self.nest.loops.of_stage(self.kernel, stage)
    }

    /// Runs the body row by row.
    fn row_by_row(
        &self,
        scope: &Scope<'ctx>,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Some(rows) = scope.rows else {
            return body(scope);
        };
        let count = emit.i64(i64::from(rows.count));
        let step = self.quantity(&self.row_step(&rows));
        self.counted(emit.i64(0), count, emit.i64(1), &[], |row, _| {
            let place = match rows.repeats {
                Some(repeats) => emit.smin(row, repeats.last),
                None => row,
            };
            let row = Rows {
                axis: rows.axis,
                count: 1,
                base: emit.iadd(rows.base, emit.imul(place, step)),
                spread: false,
                offset: emit.iadd(rows.offset, row),
                repeats: None,
                block: None,
            };
            body(&self.with_rows(scope, row))?;
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The distance between the indices of neighbouring rows of a tile.
    pub(super) fn row_step(&self, rows: &Rows<'ctx>) -> Quantity {
        if rows.spread {
            self.bound(rows.axis)
                .floor_div(Quantity::constant(i64::from(rows.count)))
        } else {
            Quantity::constant(1)
        }
    }

    /// The offset of a row of the tile from its first, where the row may repeat the last one.
    pub(super) fn repeated(&self, rows: Option<Rows<'ctx>>, row: u32) -> Option<Value<'ctx>> {
        let repeats = rows?.repeats.filter(|repeats| row >= repeats.from)?;
        let row = self.emit.i64(i64::from(row));
        Some(self.emit.smin(row, repeats.last))
    }

    /// The scope for other rows.
    pub(super) fn with_rows(&self, scope: &Scope<'ctx>, rows: Rows<'ctx>) -> Scope<'ctx> {
        scope.with_rows(rows, |node| !self.dependence.depends(node, rows.axis))
    }

    /// A stage outside a carry block.
    fn stage(
        &self,
        scope: &mut Scope<'ctx>,
        tile: &Tile,
        id: StageId,
        finish: Option<ElementwiseReader>,
        (together, spill): (bool, bool),
    ) -> Result<(), LlvmError> {
        let in_rows = scope
            .rows
            .filter(|rows| self.dependence.stage_depends(id, rows.axis));
        if !self.kernel.stage(id).axes.is_empty() {
            let kept = finish.map_or(id, |finish| finish.stage);
            let array = self.local_array(scope, kept, in_rows.map_or(1, |rows| rows.count));
            let mut fill = |scope: &Scope<'ctx>| self.fill(scope, tile, (id, finish), &array);
            match in_rows {
                Some(_) if !together => self.row_by_row(scope, &mut fill)?,
                _ => fill(scope)?,
            }
            scope.place(kept, StageValue::Current, Place::Memory(array));
            return Ok(());
        }
        let Some(rows) = in_rows.filter(|_| spill) else {
            let points = self.stage_points(scope, id);
            let values = self.at_points(scope, tile, id, &points)?;
            let values: HashMap<_, _> = points.into_iter().zip(values).collect();
            scope.place(id, StageValue::Current, Place::Registers(values));
            return Ok(());
        };
        let varying = scope
            .vectors
            .filter(|vectors| self.dependence.stage_depends(id, vectors.axis));
        let (lanes, vectors) = varying.map_or((1, 1), |vectors| (vectors.lanes, vectors.count));
        let dtype = self.kernel.stage_dtype(id);
        let elements = Quantity::constant(i64::from(rows.count * lanes * vectors));
        let base = self.scratch(&elements, dtype);
        let mut body = |scope: &Scope<'ctx>| -> Result<(), LlvmError> {
            let points = self.stage_points(scope, id);
            let values = self.at_points(scope, tile, id, &points)?;
            for (&at, value) in points.iter().zip(values) {
                let pointer = self.spilled(scope, base, (lanes, vectors), dtype, at);
                let value = if lanes > 1 {
                    self.widened(scope, value)
                } else {
                    value
                };
                self.emit.store_dtype(dtype, pointer, value);
            }
            Ok(())
        };
        if together {
            body(scope)?;
        } else {
            self.row_by_row(scope, &mut body)?;
        }
        scope.place(
            id,
            StageValue::Current,
            Place::Spilled {
                base,
                lanes,
                vectors,
            },
        );
        Ok(())
    }

    /// The value of a stage at some points of the tile and of its own axes.
    pub(super) fn at_points(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        id: StageId,
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let stage = self.kernel.stage(id);
        match &stage.operation {
            StageOperation::Map => points
                .iter()
                .map(|&at| self.value(scope, stage.value, at, Form::Lanes))
                .collect(),
            StageOperation::Reduce { .. } => self.reduced(scope, tile, id, points),
        }
    }

    /// Computes a local in memory, and applies the map fused into it.
    pub(super) fn fill(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        (id, finish): (StageId, Option<ElementwiseReader>),
        array: &Array<'ctx>,
    ) -> Result<(), LlvmError> {
        let stage = self.kernel.stage(id);
        let vector = self.loops_of(id).along.filter(|_| scope.vectors.is_none());
        self.hoist(scope, &[stage.value], &stage.axes)?;
        if let Some(finish) = finish {
            let next = self.kernel.stage(finish.stage);
            self.hoist(scope, &[next.value], &next.axes)?;
        }
        let own_vector = vector.filter(|axis| stage.axes.contains(axis));
        let depends = |axis| self.dependence.stage_depends(id, axis) || stage.axes.contains(&axis);
        if vector.is_some() && own_vector.is_none() {
            let points = self.points_of(scope, depends);
            if self.fill_by_transposing_reduction(scope, tile, id, &points, array)? {
                return Ok(());
            }
        }
        self.over_points(scope, tile, &stage.axes, own_vector, &mut |scope| {
            let points = self.points_of(scope, depends);
            let values = self.at_points(scope, tile, id, &points)?;
            let elements = points.iter().copied().zip(values);
            if let Some(finish) = finish {
                return self.store_fused_map(scope, id, finish, elements, array);
            }
            for (at, value) in elements {
                let array = self.array_of_row(scope, array, at);
                self.store_own(scope, &array, &stage.axes, value, at)?;
            }
            Ok(())
        })
    }

    /// A reduction at some points, vectorised along a reduced axis if the layout suits that.
    pub(super) fn reduced(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        id: StageId,
        points: &[Coordinate],
    ) -> Result<Vec<Value<'ctx>>, LlvmError> {
        let stage = self.kernel.stage(id);
        let StageOperation::Reduce {
            reduction,
            axes,
            accumulator,
        } = &stage.operation
        else {
            unreachable!("only reductions are reduced")
        };
        let reduce = Reduce {
            stage: id,
            reduction: *reduction,
            axes,
            accumulator: *accumulator,
            value: stage.value,
        };
        self.hoist(scope, &[stage.value], axes)?;
        let along = self.loops_of(id).along.filter(|_| scope.vectors.is_none());
        match along.filter(|axis| axes.contains(axis)) {
            Some(axis) if reduction.is_arg() => {
                self.arg_in_vectors(scope, &reduce, axis, tile, points)
            }
            Some(axis) => self.reduce_in_vectors(scope, &reduce, axis, tile, points),
            None => self.reduce(scope, &reduce, points),
        }
    }

    /// A store.
    fn store(&self, scope: &Scope<'ctx>, tile: &Tile, store: &Store) -> Result<(), LlvmError> {
        self.hoist(scope, &[store.value], &store.axes)?;
        let loops = self.nest.loops.of_store(self.kernel, store);
        let vector = loops.along.filter(|_| scope.vectors.is_none());
        let mut body = |scope: &Scope<'ctx>| -> Result<(), LlvmError> {
            let stored = |axis| {
                self.dependence.depends(store.value, axis)
                    || store
                        .indices
                        .iter()
                        .any(|&index| self.dependence.depends(index, axis))
            };
            if loops.register_transpose {
                self.load_transposed(scope, store)?;
            }
            for at in self.points_of(scope, stored) {
                let value = self.value(scope, store.value, at, Form::Lanes)?;
                match store.combine {
                    None => self.store_at(scope, store.buffer, &store.indices, value, at)?,
                    Some(combine) => self.combine(scope, store, combine, value, at)?,
                }
            }
            Ok(())
        };
        match vector {
            Some(axis) if loops.stream => {
                let from = (axis, self.emit.i64(0));
                self.non_temporal_or_plain(scope, &[store], from, tile.lanes, &mut |scope| {
                    self.over_points(scope, tile, &store.axes, vector, &mut body)
                })
            }
            _ => self.over_points(scope, tile, &store.axes, vector, &mut body),
        }
    }

    /// Combines a value with what is in memory.
    fn combine(
        &self,
        scope: &Scope<'ctx>,
        store: &Store,
        combine: Combine,
        value: Value<'ctx>,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let dtype = self.kernel.buffer(store.buffer).dtype;
        let value = self.widened(scope, value);
        self.update_at(scope, store, &self.store_classes(store), at, |there| {
            let op = match combine {
                Combine::Set => return Ok(value),
                Combine::Add if dtype == kiln_tensor::DType::Bool => ScalarOp::Or,
                Combine::Add => ScalarOp::Add,
                Combine::Mul if dtype == kiln_tensor::DType::Bool => ScalarOp::And,
                Combine::Mul => ScalarOp::Mul,
                Combine::Min if dtype == kiln_tensor::DType::Bool => ScalarOp::And,
                Combine::Min => ScalarOp::Min,
                Combine::Max if dtype == kiln_tensor::DType::Bool => ScalarOp::Or,
                Combine::Max if is_on(Fault::WrongCombine) => ScalarOp::Min,
                Combine::Max => ScalarOp::Max,
            };
            Ok(scalar_ops::emit(&self.emit, op, &[dtype, dtype], &[there, value])?.value)
        })
    }

    /// The class of each index of a store.
    fn store_classes(&self, store: &Store) -> Vec<IndexClass> {
        let mut position = 0;
        for item in self.kernel.items() {
            for item in item.parts() {
                if let Item::Store(other) = item {
                    if other == store {
                        let info = self.kernel.info().stores.get(position);
                        return info.map(|info| info.indices.clone()).unwrap_or_default();
                    }
                    position += 1;
                }
            }
        }
        Vec::new()
    }

    /// Loops over the axes of a stage or store, outermost first, one of them vectorised.
    pub(super) fn over_points(
        &self,
        scope: &Scope<'ctx>,
        tile: &Tile,
        axes: &[AxisId],
        vector: Option<AxisId>,
        body: &mut dyn FnMut(&Scope<'ctx>) -> Result<(), LlvmError>,
    ) -> Result<(), LlvmError> {
        let plain: Vec<AxisId> = axes
            .iter()
            .copied()
            .filter(|&axis| Some(axis) != vector)
            .collect();
        self.over(scope, &plain, Vec::new(), &mut |scope, _| {
            match vector {
                None => body(scope)?,
                Some(axis) => {
                    let extent = self.extent(scope, axis)?;
                    let range = (self.emit.i64(0), extent, None);
                    let block = self.layout.column_block(tile);
                    self.in_vectors(scope, axis, tile, range, block, body)?;
                }
            }
            Ok(Vec::new())
        })?;
        Ok(())
    }

    /// The distinct points of the tile for a value that varies along some of its axes.
    pub(super) fn points_of(
        &self,
        scope: &Scope<'ctx>,
        depends: impl Fn(AxisId) -> bool,
    ) -> Vec<Coordinate> {
        let rows = scope.rows.is_some_and(|rows| depends(rows.axis));
        let vectors = scope.vectors.is_some_and(|vectors| depends(vectors.axis));
        let mut points = scope.coordinates();
        points.retain(|at| (rows || at.row == 0) && (vectors || at.vector == 0));
        points
    }

    fn stage_points(&self, scope: &Scope<'ctx>, id: StageId) -> Vec<Coordinate> {
        self.points_of(scope, |axis| self.dependence.stage_depends(id, axis))
    }

    /// Memory for a stage's local, in each of some rows and in each vector.
    pub(super) fn local_array(&self, scope: &Scope<'ctx>, id: StageId, rows: u32) -> Array<'ctx> {
        let stage = self.kernel.stage(id);
        let varying = scope
            .vectors
            .filter(|vectors| self.dependence.stage_depends(id, vectors.axis));
        let (lanes, vectors) = varying.map_or((1, 1), |vectors| (vectors.lanes, vectors.count));
        let set = Quantity::constant(i64::from(lanes * vectors));
        let dtype = self.kernel.stage_dtype(id);
        let elements = stage
            .axes
            .iter()
            .fold(set.clone(), |product, &axis| product * self.bound(axis));
        let line = Quantity::constant(64);
        let row_stride = elements.ceil_div(line.clone()) * line;
        let all = row_stride.clone() * Quantity::constant(i64::from(rows));
        Array {
            base: self.scratch(&all, dtype),
            dtype,
            strides: self
                .local_strides(id)
                .into_iter()
                .map(|stride| stride * set.clone())
                .collect(),
            lanes,
            row_stride: if rows == 1 {
                Quantity::constant(0)
            } else {
                row_stride
            },
        }
    }

    /// Strides, per axis of a stage's local.
    pub(super) fn local_strides(&self, id: StageId) -> Vec<Quantity> {
        kiln_schedule_cpu::local_strides(self.kernel, id)
    }
}
