//! Tables of values along the vectorised axis: the phase that fills them, and their use.
//!
//! If the elements that a vector reads at a tabulated index are within the length of one or two vectors, they are a
//! window: they are read by a masked load from the lowest index to the highest, or two loads, and a permutation.

use inkwell::IntPredicate;
use kiln_backend::{Phase, Quantity};
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{Load, NodeId, VerifiedKernel};
use kiln_schedule_cpu::{ScheduledNest, Tables, Window, permutes, vectors_of_window};
use kiln_tensor::DType;

use super::context::KernelLowering;
use super::launch::LaunchBuilder;
use super::scope::{Coordinate, Form, Scope, Vectors};
use crate::emit::{Elem, Value};
use crate::error::LlvmError;
use crate::module::ModuleBuilder;

/// Vectors of a table per task.
const TASK_VECTORS: i64 = 256;

/// Emits the function of a phase that fills the tables of a nest.
pub(super) fn emit_tables(
    module: &ModuleBuilder<'_>,
    kernel: &VerifiedKernel,
    (nest, tables): (&ScheduledNest, &Tables),
    launch: &LaunchBuilder,
) -> Result<(), LlvmError> {
    let dependence = Dependence::of(kernel);
    let entry = launch.next_entry();
    let phase = module.phase(&entry);
    let lowering = KernelLowering::new(kernel, &dependence, launch, nest, (&[], &[]), phase);
    let lanes = i64::from(nest.loops.tile.lanes);
    let units = tables.points.clone().floor_div(Quantity::constant(lanes));
    let units_per_task = Quantity::constant(TASK_VECTORS);
    lowering.in_tasks(&units, &units_per_task, &mut |unit| {
        lowering.fill_tables(tables, unit, lanes)
    })?;
    lowering.emit.return_none();
    launch.phase(Phase {
        entry,
        tasks: nest.when.clone() * units.ceil_div(units_per_task),
        block: 1,
        scratch: Quantity::constant(0),
    });
    Ok(())
}

impl<'ctx> KernelLowering<'_, '_, 'ctx> {
    /// Fills the tables for one vector of points.
    fn fill_tables(
        &self,
        tables: &Tables,
        vector: Value<'ctx>,
        lanes: i64,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let begin = emit.imul(vector, emit.i64(lanes));
        let end = emit.iadd(begin, emit.i64(lanes));
        // Lanes past the end of the axis are its last point.
        let last = emit.isub(self.quantity(&self.bound(tables.axis)), emit.i64(1));
        self.counted(begin, end, emit.i64(1), &[], |point, _| {
            let scope = Scope::default().with_axis(tables.axis, emit.smin(point, last));
            for table in &tables.values {
                let value = self.value(&scope, table.node, Coordinate::default(), Form::First)?;
                let dtype = self.kernel.dtype(table.node);
                let to = emit.element(self.shared(&table.offset), dtype, point);
                emit.store_dtype(dtype, to, value);
            }
            Ok(Vec::new())
        })?;
        for window in &tables.windows {
            let Some(table) = tables.of_node(window.index) else {
                unreachable!("windows are of tabulated indices")
            };
            let index = |point| {
                let from = emit.element(self.shared(&table.offset), DType::I64, point);
                emit.load_dtype(DType::I64, 1, from)
            };
            let start = index(begin);
            let extremes =
                self.counted(begin, end, emit.i64(1), &[start, start], |point, so_far| {
                    let index = index(point);
                    let [low, high] = *so_far else {
                        unreachable!("two values are carried")
                    };
                    Ok(vec![emit.smin(low, index), emit.smax(high, index)])
                })?;
            let [low, high] = *extremes.as_slice() else {
                unreachable!("two values are carried")
            };
            let span = emit.isub(high, low);
            let most = lanes * i64::from(vectors_of_window(self.level()));
            let is_short = emit.icmp(IntPredicate::SLT, span, emit.i64(most));
            let is_there = emit.and(
                emit.icmp(IntPredicate::SGE, low, emit.i64(0)),
                emit.icmp(IntPredicate::SLT, high, self.dim(window.size)),
            );
            let span = emit.select(emit.and(is_short, is_there), span, emit.i64(-1));
            for (offset, value) in [(&window.first, low), (&window.span, span)] {
                let to = emit.element(self.shared(offset), DType::I64, vector);
                emit.store_dtype(DType::I64, to, value);
            }
            self.counted(begin, end, emit.i64(1), &[], |point, _| {
                let distance = emit.trunc_int(emit.isub(index(point), low), Elem::I32);
                let to = emit.element(self.shared(&window.relative), DType::I32, point);
                emit.store_dtype(DType::I32, to, distance);
                Ok(Vec::new())
            })?;
        }
        Ok(())
    }

    /// Whether a node's values were tabulated.
    pub(super) fn is_tabulated(&self, node: NodeId) -> bool {
        let table = self.tables.and_then(|tables| tables.of_node(node));
        table.is_some()
    }

    /// The value of a node from its table, if it has one.
    pub(super) fn tabulated(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        at: Coordinate,
        form: Form,
    ) -> Option<Value<'ctx>> {
        let emit = &self.emit;
        let tables = self.tables?;
        let table = tables.of_node(node)?;
        let point = self.axis_value(scope, tables.axis, at, Form::First);
        let dtype = self.kernel.dtype(node);
        let from = emit.element(self.shared(&table.offset), dtype, point);
        let n_lanes = match (scope.vectors, form) {
            (Some(vectors), Form::Lanes) => vectors.lanes,
            _ => 1,
        };
        Some(emit.load_dtype(dtype, n_lanes, from))
    }

    /// A load of a window, with `otherwise` in the lanes in which a condition does not hold; `None` if the load has none.
    pub(super) fn load_window(
        &self,
        scope: &Scope<'ctx>,
        (node, load): (NodeId, &Load),
        (condition, otherwise): (Option<Value<'ctx>>, Value<'ctx>),
        at: Coordinate,
    ) -> Result<Option<Value<'ctx>>, LlvmError> {
        let emit = &self.emit;
        let (Some(tables), Some(vectors)) = (self.tables, scope.vectors) else {
            return Ok(None);
        };
        if !permutes(self.level(), vectors.lanes) {
            return Ok(None);
        }
        let window = tables.window(self.kernel, self.dependence, (node, load));
        let Some((position, window)) = window else {
            return Ok(None);
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let mut parts = Vec::new();
        let strides = self.layout.strides(load.buffer).to_vec();
        for (place, (&index, stride)) in load.indices.iter().zip(&strides).enumerate() {
            if place != position {
                let value = self.value(scope, index, at, Form::First)?;
                parts.push((index, emit.imul(value, self.quantity(stride))));
            }
        }
        let row = emit.element(self.base(load.buffer), dtype, self.summed(parts));
        let of_vector = |offset| {
            let first = self.axis_value(scope, tables.axis, at, Form::First);
            let vector = emit.udiv(first, emit.i64(i64::from(vectors.lanes)));
            let from = emit.element(self.shared(offset), DType::I64, vector);
            emit.load_dtype(DType::I64, 1, from)
        };
        let span = of_vector(&window.span);
        let mut is_window = emit.icmp(IntPredicate::SGE, span, emit.i64(0));
        let condition = condition.map(|condition| self.widened(scope, condition));
        // If the condition does not hold in any lane, such a row may not exist.
        if let Some(condition) = condition {
            is_window = emit.and(is_window, emit.any(condition));
        }
        let index = match load.indices.get(position) {
            Some(&index) => self.value(scope, index, at, Form::Lanes)?,
            None => unreachable!("the position is of one of its indices"),
        };
        let loaded = emit.branch(
            is_window,
            || {
                let from = emit.element(row, dtype, of_vector(&window.first));
                vec![self.permuted_window(scope, window, (dtype, from, span), vectors, at)]
            },
            || {
                let all = condition.unwrap_or_else(|| emit.bool_of(vectors.lanes, true));
                // Only some lanes have elements, which are gathered.
                let mask = match self.mask(scope, at) {
                    Some(mask) => emit.and(all, mask),
                    None => all,
                };
                let zero = emit.splat(self.zero(dtype), vectors.lanes);
                vec![emit.gather_dtype(dtype, emit.element(row, dtype, index), mask, zero)]
            },
        );
        let Some(&loaded) = loaded.first() else {
            unreachable!("either branch has a value")
        };
        Ok(Some(match condition {
            Some(condition) => emit.select(condition, loaded, otherwise),
            None => loaded,
        }))
    }

    /// The elements of a window, in the order of the lanes.
    fn permuted_window(
        &self,
        scope: &Scope<'ctx>,
        window: &Window,
        (dtype, from, span): (DType, Value<'ctx>, Value<'ctx>),
        vectors: Vectors<'ctx>,
        at: Coordinate,
    ) -> Value<'ctx> {
        let emit = &self.emit;
        let point = self.axis_value(scope, vectors.axis, at, Form::First);
        let relative = emit.element(self.shared(&window.relative), DType::I32, point);
        let relative = emit.load_dtype(DType::I32, vectors.lanes, relative);
        let zero = emit.splat(self.zero(dtype), vectors.lanes);
        let count = emit.iadd(span, emit.i64(1));
        let one = || {
            let mask = emit.first_lanes(count, vectors.lanes);
            let loaded = emit.masked_load_dtype(dtype, from, mask, zero);
            match emit.permuted(loaded, relative) {
                Some(permuted) => vec![permuted],
                None => unreachable!("windows are for levels with permutations"),
            }
        };
        let lanes = emit.i64(i64::from(vectors.lanes));
        let two = || {
            let low = emit.load_dtype(dtype, vectors.lanes, from);
            let mask = emit.first_lanes(emit.isub(count, lanes), vectors.lanes);
            let high = emit.element(from, dtype, lanes);
            let high = emit.masked_load_dtype(dtype, high, mask, zero);
            match emit.permuted_pair([low, high], relative) {
                Some(permuted) => vec![permuted],
                None => unreachable!("windows of two vectors are for levels that permute them"),
            }
        };
        let permuted = match vectors_of_window(self.level()) {
            1 => one(),
            _ => emit.branch(emit.icmp(IntPredicate::SLE, count, lanes), one, two),
        };
        match permuted.first() {
            Some(&permuted) => permuted,
            None => unreachable!("either branch has a value"),
        }
    }
}
