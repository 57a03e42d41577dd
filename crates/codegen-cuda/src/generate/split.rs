//! Split reductions, for few results: the reduced elements are divided into parts, whose number depends on sizes alone;
//! a first phase reduces each part, and a second one combines the parts in a fixed order.
//!
//! If there are enough results, there is only one part, and a third function, the row or map strategy's, does all of
//! the work: which functions have tasks depends on sizes.

use kiln_backend::Quantity;
use kiln_kernel::analysis::must_run_in_order;
use kiln_kernel::{AxisId, Extent, Item, StageId, StageOperation, VerifiedKernel};

use super::c_type::c_type;
use super::function::{Function, FunctionParts};
use super::items::SerialItems;
use super::lowering::Lowering;
use super::plan::{MapPlan, RowPlan, SplitPlan};
use super::reduce::{Accumulator, Reduce, best_operation, operation};
use super::scope::{Lanes, Place, Scope, When};
use crate::error::CudaError;

/// Threads of a block.
const THREADS: u32 = 256;
/// The minimum number of elements of a part that a block reduces.
const BLOCK_ELEMENTS: i64 = 1 << 14;
/// The minimum number of elements of a part that a thread reduces.
const THREAD_ELEMENTS: i64 = 64;
/// The number of blocks that fills a device.
const BLOCKS: i64 = 2048;
/// The number of threads that fills a device.
const ENOUGH_THREADS: i64 = 1 << 17;
/// The maximum number of parts.
const PARTS: i64 = 1024;

/// The reduction with which a kernel begins, if it is the only one, and all other items are at the outer points.
pub(super) fn single_reduction(kernel: &VerifiedKernel) -> Option<StageId> {
    let (first, rest) = kernel.items().split_first()?;
    let Item::Stage(id) = *first else { return None };
    let stage = kernel.stage(id);
    let StageOperation::Reduce { axes, .. } = &stage.operation else {
        return None;
    };
    let is_sized = |&axis: &AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
    let is_simple = |item: &Item| match item {
        Item::Stage(id) => {
            let stage = kernel.stage(*id);
            stage.axes.is_empty() && stage.operation == StageOperation::Map
        }
        Item::Store(store) => store.axes.is_empty() && store.combine.is_none(),
        Item::Carry(_) => false,
    };
    let is_free = |&axis: &AxisId| !must_run_in_order(kernel, axis);
    let fits = stage.axes.is_empty()
        && axes.iter().all(is_sized)
        && rest.iter().all(is_simple)
        && kernel.outer().iter().all(is_free);
    fits.then_some(id)
}

/// Writes the kernel.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &SplitPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let reduction = single_reduction(kernel).and_then(|id| Some((id, lowering.reduction(id)?)));
    let Some((stage, reduce)) = reduction else {
        return Err(CudaError::not_for(kernel, "a split reduction"));
    };
    let (direct, writer) = match plan {
        SplitPlan::Rows(plan) => {
            let direct = super::row::generate(lowering, plan)?;
            (direct, SplitWriter::new(lowering, stage, reduce, None))
        }
        SplitPlan::Columns(plan) => {
            let direct = super::map::generate(lowering, plan)?;
            (
                direct,
                SplitWriter::new(lowering, stage, reduce, Some(*plan)),
            )
        }
    };
    let is_split = (writer.parts.clone() - Quantity::constant(1)).min(Quantity::constant(1));
    let whole = Quantity::constant(1) - is_split.clone();
    let direct = direct
        .into_iter()
        .map(|function| function.only_when(&whole));
    let mut functions: Vec<Function> = direct.collect();
    let partial = match plan {
        SplitPlan::Rows(plan) => writer.partial_rows(plan),
        SplitPlan::Columns(plan) => writer.partial_columns(plan),
    };
    functions.push(partial.only_when(&is_split));
    functions.push(writer.finish().only_when(&is_split));
    Ok(functions)
}

/// Writes both phases of a split reduction.
struct SplitWriter<'l, 'k> {
    lowering: &'l Lowering<'k>,
    stage: StageId,
    reduce: Reduce<'k>,
    /// The number of outer points.
    points: Quantity,
    /// The number of parts.
    parts: Quantity,
    /// The points of the first reduced axis in a part.
    length: Quantity,
    /// The C type of a part's result.
    partial: String,
}

impl<'l, 'k> SplitWriter<'l, 'k> {
    fn new(
        lowering: &'l Lowering<'k>,
        stage: StageId,
        reduce: Reduce<'k>,
        columns: Option<MapPlan>,
    ) -> Self {
        let kernel = lowering.kernel;
        let constant = Quantity::constant;
        let points = super::points(kernel, kernel.outer());
        let elements = super::points(kernel, reduce.axes);
        let (least, enough) = match columns {
            None => (BLOCK_ELEMENTS, constant(BLOCKS)),
            Some(plan) => (
                THREAD_ELEMENTS,
                constant(ENOUGH_THREADS * i64::from(plan.lanes)),
            ),
        };
        let wanted = enough
            .floor_div(points.clone().max(constant(1)))
            .max(constant(1));
        let parts = elements
            .ceil_div(constant(least))
            .min(wanted)
            .min(constant(PARTS))
            .max(constant(1));
        let first = super::points(kernel, reduce.axes.get(..1).unwrap_or_default());
        // Parts begin at multiples of the lanes of all threads of a block.
        let unit = match (columns, reduce.axes) {
            (None, [_]) => 8 * i64::from(THREADS),
            _ => 1,
        };
        let length = first.ceil_div(parts.clone()).round_up(constant(unit));
        let ty = c_type(reduce.accumulator);
        let partial = match reduce.reduction.is_arg() {
            true => format!("k_best<{ty}>"),
            false => ty.to_owned(),
        };
        Self {
            lowering,
            stage,
            reduce,
            points,
            parts,
            length,
            partial,
        }
    }

    /// Bytes of the results of all parts.
    fn scratch(&self) -> Quantity {
        let bytes = match self.reduce.reduction.is_arg() {
            true => 16,
            false => self.reduce.accumulator.size_in_bytes() as i64,
        };
        self.points.clone() * self.parts.clone() * Quantity::constant(bytes)
    }

    /// Declares the range of a part along the first reduced axis.
    fn declare_range(&self) {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let first = super::points(kernel, self.reduce.axes.get(..1).unwrap_or_default());
        let (length, first) = (lowering.quantity(&self.length), lowering.quantity(&first));
        lowering.line(format_args!(
            "const k_i64 low = part * {length}, high = k_min(low + {length}, (k_i64){first});"
        ));
    }

    /// The result of a part in C.
    fn packed(&self, acc: &Accumulator) -> String {
        match &acc.at {
            Some(at) => format!("{}{{{}, {at}}}", self.partial, acc.value),
            None => acc.value.clone(),
        }
    }

    /// Writes the phase with a block per point and part.
    fn partial_rows(&self, plan: &RowPlan) -> Function {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let tasks = self.points.clone() * self.parts.clone();
        let function = FunctionParts::new(THREADS, tasks)
            .with_shared(Quantity::constant(512))
            .with_shared_scratch(self.scratch());
        lowering.line("k_i64 part;");
        let parts = lowering.quantity(&self.parts);
        lowering.line(format_args!(
            "const k_i64 q = k_split<k_index>(t, {parts}, part);"
        ));
        self.declare_range();
        let mut scope = Scope::default();
        super::split_points(lowering, &mut scope, "q", kernel.outer());
        let acc = lowering.begin(&self.reduce);
        let Some((&last, before)) = self.reduce.axes.split_last() else {
            unreachable!("a reduction has axes")
        };
        for (place, &axis) in before.iter().enumerate() {
            self.open_axis(&mut scope, axis, place == 0);
        }
        let (low, high) = match before {
            [] => ("low".to_owned(), "high".to_owned()),
            _ => ("0".to_owned(), lowering.extent(&mut scope, last)),
        };
        let roots = [self.reduce.value];
        let is_lanes = super::row::is_vectorisable(kernel, lowering.dependence, last, &roots);
        let lanes = if is_lanes { plan.lanes } else { 1 };
        let aligned = lowering.alignment(last, lanes);
        let index = lowering.fresh("a");
        lowering.open(format_args!(
            "for (k_i64 {index} = {low} + k_thread() * {lanes}; {index} < {high}; {index} += {})",
            THREADS * lanes
        ));
        lowering.open(format_args!(
            "if ({aligned} && {index} + {lanes} <= {high})"
        ));
        let along = Lanes {
            axis: last,
            count: lanes,
            is_aligned: true,
        };
        let mut inner = scope.with_lanes(along, index.clone());
        for lane in 0..lanes {
            lowering.join(&mut inner, &self.reduce, &acc, lane);
        }
        lowering.close();
        let rest = lowering.fresh("a");
        lowering.open(format_args!(
            "else for (k_i64 {rest} = {index}; {rest} < k_min({index} + {lanes}, (k_i64){high}); ++{rest})"
        ));
        let mut inner = scope.with_axis(last, rest);
        lowering.join(&mut inner, &self.reduce, &acc, 0);
        lowering.close();
        for _ in 0..=before.len() {
            lowering.close();
        }
        let result = self.combined(&self.packed(&acc), THREADS);
        lowering.line(format_args!(
            "if (k_thread() == 0) (({}*)K_SCRATCH)[t] = {result};",
            self.partial
        ));
        function.finish(lowering)
    }

    /// Writes the phase with a thread per part of a few neighbouring points.
    fn partial_columns(&self, plan: &MapPlan) -> Function {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let axis = AxisId::from_u32(plan.axis);
        let lanes = plan.lanes;
        let outer = kernel.outer().iter().copied();
        let others: Vec<AxisId> = outer.filter(|&other| other != axis).collect();
        let size = super::points(kernel, &[axis]);
        let chunks = size.clone().ceil_div(Quantity::constant(i64::from(lanes)));
        let total = super::points(kernel, &others) * chunks.clone() * self.parts.clone();
        let tasks = total
            .clone()
            .ceil_div(Quantity::constant(i64::from(THREADS)));
        let function = FunctionParts::new(THREADS, tasks).with_shared_scratch(self.scratch());
        let aligned = lowering.alignment(axis, lanes);
        lowering.line(format_args!("const k_i64 q = t * {THREADS} + k_thread();"));
        lowering.open(format_args!("if (q < {})", lowering.quantity(&total)));
        lowering.line("k_i64 chunk, line, part;");
        let chunks = lowering.quantity(&chunks);
        lowering.line(format_args!(
            "const k_i64 rest = k_split<k_index>(q, {chunks}, chunk);"
        ));
        let parts = lowering.quantity(&self.parts);
        lowering.line(format_args!(
            "line = k_split<k_index>(rest, {parts}, part);"
        ));
        self.declare_range();
        let mut scope = Scope::default();
        super::split_points(lowering, &mut scope, "line", &others);
        let size = lowering.quantity(&size);
        lowering.line(format_args!("const k_i64 first = chunk * {lanes};"));
        lowering.open(format_args!("if ({aligned} && first + {lanes} <= {size})"));
        let along = Lanes {
            axis,
            count: lanes,
            is_aligned: true,
        };
        self.part_of_points(
            &scope.with_lanes(along, "first".to_owned()),
            lanes,
            (&size, "first"),
        );
        lowering.close();
        lowering.open(format_args!(
            "else for (k_i64 point = first; point < k_min(first + {lanes}, (k_i64){size}); ++point)"
        ));
        self.part_of_points(
            &scope.with_axis(axis, "point".to_owned()),
            1,
            (&size, "point"),
        );
        lowering.close();
        lowering.close();
        function.finish(lowering)
    }

    /// Reduces a part at some neighbouring points.
    fn part_of_points(&self, scope: &Scope, lanes: u32, (size, first): (&str, &str)) {
        let lowering = self.lowering;
        let accumulators: Vec<_> = (0..lanes).map(|_| lowering.begin(&self.reduce)).collect();
        let mut inner = scope.clone();
        for (place, &axis) in self.reduce.axes.iter().enumerate() {
            self.open_axis(&mut inner, axis, place == 0);
        }
        for (lane, acc) in (0..lanes).zip(&accumulators) {
            lowering.join(&mut inner, &self.reduce, acc, lane);
        }
        for _ in self.reduce.axes {
            lowering.close();
        }
        let parts = lowering.quantity(&self.parts);
        for (lane, acc) in accumulators.iter().enumerate() {
            lowering.line(format_args!(
                "(({}*)K_SCRATCH)[(line * {size} + {first} + {lane}) * {parts} + part] = {};",
                self.partial,
                self.packed(acc)
            ));
        }
    }

    /// Opens a loop over a reduced axis: over the part's range, or the whole axis.
    fn open_axis(&self, scope: &mut Scope, axis: AxisId, is_first: bool) {
        let lowering = self.lowering;
        let index = lowering.fresh("a");
        let (low, high) = match is_first {
            true => ("low".to_owned(), "high".to_owned()),
            false => ("0".to_owned(), lowering.extent(scope, axis)),
        };
        lowering.open(format_args!(
            "for (k_i64 {index} = {low}; {index} < {high}; ++{index})"
        ));
        scope.set_axis(axis, index);
    }

    /// Combines the values of a group's threads.
    fn combined(&self, value: &str, threads: u32) -> String {
        let operation = match self.reduce.reduction.is_arg() {
            true => best_operation(self.reduce.reduction),
            false => operation(self.reduce.reduction),
        };
        self.lowering.declare(
            &self.partial,
            format_args!("k_reduce<{operation}, {threads}>({value}, k_shared)"),
        )
    }

    /// Writes the phase with a warp per point, which combines the point's parts and computes the remaining items.
    fn finish(&self) -> Function {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let warps = i64::from(THREADS / 32);
        let tasks = self.points.clone().ceil_div(Quantity::constant(warps));
        let function = FunctionParts::new(THREADS, tasks).with_shared_scratch(self.scratch());
        lowering.line(format_args!(
            "const k_i64 q = t * {warps} + k_thread() / 32;"
        ));
        lowering.open(format_args!("if (q < {})", lowering.quantity(&self.points)));
        let (parts, partial) = (lowering.quantity(&self.parts), &self.partial);
        lowering.line(format_args!(
            "const {partial}* const from = (const {partial}*)K_SCRATCH + q * {parts};"
        ));
        let acc = lowering.begin(&self.reduce);
        let sum = lowering.fresh("p");
        lowering.line(format_args!("{partial} {sum} = {};", self.packed(&acc)));
        let operation = match self.reduce.reduction.is_arg() {
            true => best_operation(self.reduce.reduction),
            false => operation(self.reduce.reduction),
        };
        lowering.line(format_args!(
            "for (k_i64 part = k_thread() % 32; part < {parts}; part += 32) {sum} = {operation}::of({sum}, from[part]);"
        ));
        let result = self.combined(&sum, 32);
        let result = match self.reduce.reduction.is_arg() {
            true => lowering.declare("k_i64", format_args!("{result}.at < 0 ? 0ll : {result}.at")),
            false => result,
        };
        lowering.open("if (k_thread() % 32 == 0)");
        let mut scope = Scope::default();
        super::split_points(lowering, &mut scope, "q", kernel.outer());
        scope.place(self.stage, When::Current, Place::Values(vec![result]));
        let rest = kernel.items().get(1..).unwrap_or_default();
        SerialItems::new(lowering, None).items(&mut scope, rest);
        lowering.close();
        lowering.close();
        function.finish(lowering)
    }
}
