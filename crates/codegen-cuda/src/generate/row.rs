//! Reductions along the innermost axes: a warp or a block per outer point. Each item's last axis is distributed over
//! the group's threads, a reduction ends with shuffles, and arrays are in shared memory if they fit.

use kiln_backend::Quantity;
use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::{AxisId, Extent, Item, NodeId, StageId, Store, VerifiedKernel};

use super::c_type::c_type;
use super::function::{Function, FunctionParts};
use super::lowering::Lowering;
use super::plan::RowPlan;
use super::reduce::{Accumulator, Reduce, best_operation, operation};
use super::scope::{Array, Lanes, Place, Scope, When};
use crate::error::CudaError;

/// Threads of a warp.
const WARP: u32 = 32;
/// Threads of a block in which each warp has a point.
const THREADS_OF_WARPS: u32 = 256;
/// Bytes for the partial results of a block's warps.
const SLOT_BYTES: i64 = 512;
/// The maximum size in bytes of a block's arrays in shared memory: every supported architecture has at least this much.
const SHARED_BYTES: i64 = 96 << 10;
/// The maximum number of blocks if there are arrays, which may take memory per block.
const BLOCKS_WITH_ARRAYS: i64 = 1024;

/// Whether the strategy applies to a kernel: independent points, plain stores, no steps.
pub(super) fn serves(kernel: &VerifiedKernel) -> bool {
    let is_free = |&axis: &AxisId| !must_run_in_order(kernel, axis);
    let is_plain = |item: &Item| match item {
        Item::Stage(_) => true,
        Item::Store(store) => store.combine.is_none(),
        Item::Carry(_) => false,
    };
    kernel.outer().iter().all(is_free) && kernel.items().iter().all(is_plain)
}

/// Writes the kernel: a function per number of threads, only one of which has tasks, depending on the length of the
/// rows.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &RowPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    if !serves(kernel) {
        return Err(CudaError::not_for(kernel, "rows"));
    }
    let longest = longest(kernel);
    let constant = Quantity::constant;
    // 1 if the rows are at most this long, otherwise 0.
    let at_most = |length: u32| {
        constant(i64::from(length))
            .floor_div(longest.clone().max(constant(1)))
            .min(constant(1))
    };
    let mut functions = Vec::new();
    let mut shorter = constant(0);
    for group in plan.groups() {
        let upto = match group.longest {
            Some(length) => at_most(length),
            None => constant(1),
        };
        let condition = upto.clone() - shorter;
        functions.push(function(lowering, plan.lanes, group.threads).only_when(&condition));
        shorter = upto;
    }
    Ok(functions)
}

/// The longest inner axis.
fn longest(kernel: &VerifiedKernel) -> Quantity {
    let inner = kernel.axes().iter();
    let inner = inner.filter(|(axis, _)| !kernel.outer().contains(axis));
    let sizes = inner.map(|(axis, _)| super::points(kernel, &[axis]));
    sizes.fold(Quantity::constant(1), Quantity::max)
}

/// Writes the function with this many threads per point.
fn function(lowering: &Lowering<'_>, lanes: u32, per_point: u32) -> Function {
    let kernel = lowering.kernel;
    let plan = &GroupPlan {
        threads: per_point,
        lanes,
    };
    let threads = match plan.threads {
        WARP => THREADS_OF_WARPS,
        threads => threads,
    };
    let groups = i64::from(threads / plan.threads);
    let points = super::points(kernel, kernel.outer());
    let mut tasks = points.clone().ceil_div(Quantity::constant(groups));
    let arrays = ArrayLayout::of(kernel);
    let block_bytes = arrays.bytes.clone() * Quantity::constant(groups);
    if !arrays.is_empty() {
        tasks = tasks.min(Quantity::constant(BLOCKS_WITH_ARRAYS));
    }
    // 1 if the arrays fit, otherwise 0.
    let fits = Quantity::constant(SHARED_BYTES)
        .floor_div(block_bytes.clone().max(Quantity::constant(1)))
        .min(Quantity::constant(1));
    let mut function = FunctionParts::new(threads, tasks.clone());
    if !arrays.is_empty() {
        let spilled = (Quantity::constant(1) - fits.clone()) * block_bytes.clone();
        function = function.with_shared_scratch(spilled * tasks.clone());
    }
    let shared = Quantity::constant(SLOT_BYTES) + block_bytes.clone() * fits.clone();
    function = function.with_shared(shared);
    let (group, lane) = match plan.threads {
        WARP => ("(k_i64)(k_thread() / 32)", "(k_i64)(k_thread() % 32)"),
        _ => ("0ll", "(k_i64)k_thread()"),
    };
    lowering.line(format_args!("const k_i64 group = {group}, rank = {lane};"));
    if !arrays.is_empty() {
        lowering.line(format_args!(
            "unsigned char* const arrays = {} ? k_shared + {SLOT_BYTES} + group * {} : K_SCRATCH + (t * {groups} + group) * {};",
            lowering.quantity(&fits),
            lowering.quantity(&arrays.bytes),
            lowering.quantity(&arrays.bytes),
        ));
    }
    lowering.open(format_args!(
        "for (k_i64 q = t * {groups} + group; q < {}; q += {})",
        lowering.quantity(&points),
        lowering.quantity(&(tasks * Quantity::constant(groups))),
    ));
    let mut scope = Scope::default();
    super::split_points(lowering, &mut scope, "q", kernel.outer());
    let mut rows = RowItems {
        lowering,
        plan,
        arrays,
        n_stores: 0,
    };
    rows.items(&mut scope, kernel.items());
    if !rows.arrays.is_empty() {
        rows.sync();
    }
    lowering.close();
    function.finish(lowering)
}

/// A group of threads per point.
struct GroupPlan {
    threads: u32,
    lanes: u32,
}

/// The place of each stage's array in its group's memory.
struct ArrayLayout {
    starts: Vec<(StageId, Quantity)>,
    bytes: Quantity,
}

impl ArrayLayout {
    fn of(kernel: &VerifiedKernel) -> Self {
        let mut layout = Self {
            starts: Vec::new(),
            bytes: Quantity::constant(0),
        };
        for (id, stage) in kernel.stages() {
            if stage.axes.is_empty() {
                continue;
            }
            let width = kernel.stage_dtype(id).size_in_bytes() as i64;
            let bytes = super::points(kernel, &stage.axes) * Quantity::constant(width);
            layout.starts.push((id, layout.bytes.clone()));
            layout.bytes = layout.bytes + bytes.round_up(Quantity::constant(16));
        }
        layout
    }

    fn is_empty(&self) -> bool {
        self.starts.is_empty()
    }

    fn start(&self, stage: StageId) -> Quantity {
        match self.starts.iter().find(|(id, _)| *id == stage) {
            Some((_, start)) => start.clone(),
            None => unreachable!("every array has a place"),
        }
    }
}

/// Writes the items of an outer point for a group of threads.
struct RowItems<'l, 'k> {
    lowering: &'l Lowering<'k>,
    plan: &'l GroupPlan,
    arrays: ArrayLayout,
    n_stores: usize,
}

impl RowItems<'_, '_> {
    fn items(&mut self, scope: &mut Scope, items: &[Item]) {
        for item in items {
            match item {
                Item::Stage(stage) => self.stage(scope, *stage),
                Item::Store(store) => self.store(scope, store),
                Item::Carry(_) => unreachable!("rows have no steps"),
            }
        }
    }

    /// Synchronises the group's threads.
    fn sync(&self) {
        self.lowering.line(match self.plan.threads {
            WARP => "k_sync_warp();",
            _ => "k_sync();",
        });
    }

    fn stage(&mut self, scope: &mut Scope, id: StageId) {
        let lowering = self.lowering;
        let kernel = lowering.kernel;
        let stage = kernel.stage(id);
        let reduce = lowering.reduction(id);
        if stage.axes.is_empty() {
            let value = match reduce {
                None => lowering.value(scope, stage.value, 0),
                Some(reduce) => self.reduced(scope, &reduce),
            };
            scope.place(id, When::Current, Place::Values(vec![value]));
            return;
        }
        let ty = c_type(kernel.stage_dtype(id));
        let base = lowering.fresh("m");
        let start = lowering.quantity(&self.arrays.start(id));
        lowering.line(format_args!(
            "{ty}* const {base} = ({ty}*)(arrays + {start});"
        ));
        let extents = stage.axes.iter().skip(1);
        let array = Array {
            base,
            step: None,
            extents: extents
                .map(|&axis| lowering.extent(&mut scope.clone(), axis))
                .collect(),
        };
        let axes = stage.axes.clone();
        self.distributed(scope, &axes, &[stage.value], &mut |scope| {
            fill(lowering, scope, id, &array);
        });
        self.sync();
        scope.place(id, When::Current, Place::Array(array));
    }

    /// A reduction over axes by all threads of the group, each of which gets the result.
    fn reduced(&mut self, scope: &mut Scope, reduce: &Reduce<'_>) -> String {
        let lowering = self.lowering;
        let acc = lowering.begin(reduce);
        self.distributed(scope, reduce.axes, &[reduce.value], &mut |scope| {
            let count = scope.lanes.map_or(1, |lanes| lanes.count);
            for lane in 0..count {
                lowering.join(scope, reduce, &acc, lane);
            }
        });
        self.combined(reduce, &acc)
    }

    /// Combines the threads' accumulators.
    fn combined(&self, reduce: &Reduce<'_>, acc: &Accumulator) -> String {
        let lowering = self.lowering;
        let threads = self.plan.threads;
        let Some(at) = &acc.at else {
            let ty = c_type(reduce.accumulator);
            let operation = operation(reduce.reduction);
            return lowering.declare(
                ty,
                format_args!("k_reduce<{operation}, {threads}>({}, k_shared)", acc.value),
            );
        };
        let ty = c_type(reduce.accumulator);
        let operation = best_operation(reduce.reduction);
        let best = lowering.declare(
            "k_i64",
            format_args!(
                "k_reduce<{operation}, {threads}>(k_best<{ty}>{{{}, {at}}}, k_shared).at",
                acc.value
            ),
        );
        lowering.declare("k_i64", format_args!("{best} < 0 ? 0ll : {best}"))
    }

    fn store(&mut self, scope: &mut Scope, store: &Store) {
        let lowering = self.lowering;
        let position = self.n_stores;
        self.n_stores += 1;
        if store.axes.is_empty() {
            lowering.open("if (rank == 0)");
            lowering.store(&mut scope.clone(), store, position);
            lowering.close();
            return;
        }
        let mut roots: Vec<NodeId> = store.indices.to_vec();
        roots.push(store.value);
        self.distributed(scope, &store.axes, &roots, &mut |scope| {
            lowering.store(scope, store, position);
        });
    }

    /// Runs `body` at every point of some axes, the points of the last one distributed over the group's threads.
    fn distributed(
        &self,
        scope: &Scope,
        axes: &[AxisId],
        roots: &[NodeId],
        body: &mut dyn FnMut(&mut Scope),
    ) {
        let lowering = self.lowering;
        let Some((&last, before)) = axes.split_last() else {
            return body(&mut scope.clone());
        };
        let mut scope = scope.clone();
        for &axis in before {
            let extent = lowering.extent(&mut scope, axis);
            let index = lowering.fresh("a");
            lowering.open(format_args!(
                "for (k_i64 {index} = 0; {index} < {extent}; ++{index})"
            ));
            scope.set_axis(axis, index);
        }
        let extent = lowering.extent(&mut scope, last);
        let lanes = self.lanes(last, roots);
        let (threads, index) = (self.plan.threads, lowering.fresh("a"));
        let is_aligned = match lanes {
            1 => String::new(),
            lanes => lowering.alignment(last, lanes),
        };
        if lanes == 1 {
            lowering.open(format_args!(
                "for (k_i64 {index} = rank; {index} < {extent}; {index} += {threads})"
            ));
            body(&mut scope.with_axis(last, index));
        } else {
            lowering.open(format_args!(
                "for (k_i64 {index} = rank * {lanes}; {index} < {extent}; {index} += {})",
                threads * lanes
            ));
            lowering.open(format_args!(
                "if ({is_aligned} && {index} + {lanes} <= {extent})"
            ));
            let along = Lanes {
                axis: last,
                count: lanes,
                is_aligned: true,
            };
            body(&mut scope.with_lanes(along, index.clone()));
            lowering.close();
            let rest = lowering.fresh("a");
            lowering.open(format_args!(
                "else for (k_i64 {rest} = {index}; {rest} < k_min({index} + {lanes}, (k_i64){extent}); ++{rest})"
            ));
            body(&mut scope.with_axis(last, rest));
            lowering.close();
        }
        lowering.close();
        for _ in before {
            lowering.close();
        }
    }

    /// The lanes along an axis: as many as the plan says, if some access is consecutive there and no extent depends on
    /// the axis.
    fn lanes(&self, axis: AxisId, roots: &[NodeId]) -> u32 {
        let lowering = self.lowering;
        match is_vectorisable(lowering.kernel, lowering.dependence, axis, roots) {
            true => self.plan.lanes,
            false => 1,
        }
    }
}

/// Writes the elements of an array at the current point.
fn fill(lowering: &Lowering<'_>, scope: &mut Scope, id: StageId, array: &Array) {
    let stage = lowering.kernel.stage(id);
    let count = scope.lanes.map_or(1, |lanes| lanes.count);
    let values: Vec<String> = match lowering.reduction(id) {
        None => (0..count)
            .map(|lane| lowering.value(scope, stage.value, lane))
            .collect(),
        Some(reduce) => {
            let accumulators: Vec<_> = (0..count).map(|_| lowering.begin(&reduce)).collect();
            let mut inner = scope.clone();
            for &axis in reduce.axes {
                let extent = lowering.extent(&mut inner, axis);
                let index = lowering.fresh("a");
                lowering.open(format_args!(
                    "for (k_i64 {index} = 0; {index} < {extent}; ++{index})"
                ));
                inner.set_axis(axis, index);
            }
            for (lane, acc) in (0..count).zip(&accumulators) {
                lowering.join(&mut inner, &reduce, acc, lane);
            }
            for _ in reduce.axes {
                lowering.close();
            }
            accumulators
                .iter()
                .map(|acc| lowering.result(acc))
                .collect()
        }
    };
    let indices: Vec<String> = stage
        .axes
        .iter()
        .map(|&axis| scope.axis(axis).to_owned())
        .collect();
    let offset = array.offset(&indices);
    for (lane, value) in values.iter().enumerate() {
        lowering.line(format_args!("{}[{offset} + {lane}] = {value};", array.base));
    }
}

/// Whether some access along an axis is consecutive, and no extent varies along it.
pub(super) fn is_vectorisable(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    axis: AxisId,
    roots: &[NodeId],
) -> bool {
    let mut extents = kernel.axes().values();
    let is_uniform = extents.all(|other| match other.extent {
        Extent::Size(_) => true,
        Extent::Clamped { value, .. } => !dependence.depends(value, axis),
    });
    let nodes = kiln_kernel::analysis::expression_nodes(kernel, roots);
    let mut loads = nodes.iter().filter_map(|&node| match kernel.node(node) {
        kiln_kernel::Node::Load(load) => load.indices.last(),
        kiln_kernel::Node::Local { indices, .. } => indices.last(),
        _ => None,
    });
    is_uniform && loads.any(|&index| dependence.step_along(kernel, index, axis) == Some(1))
}
