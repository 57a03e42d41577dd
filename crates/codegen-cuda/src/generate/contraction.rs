//! Sums of products by tiles in shared memory: tensor cores for 16-bit floats, registers for f32.
//!
//! Rows are the outer axes of the left factor alone, columns those of the right one alone, batches all others; the depth is
//! what is summed. Several axes of one kind count as one, so a convolution is a product too. Factors are computed where a
//! tile is filled, and what follows the sum where it is stored. Elements outside of the matrices are zeros.

use kiln_backend::Quantity;
use kiln_kernel::analysis::{Dependence, must_run_in_order};
use kiln_kernel::{
    AxisId, Extent, IndexClass, Item, Node, NodeId, Reduction, StageId, StageOperation,
    VerifiedKernel,
};
use kiln_scalar::ScalarOp;
use kiln_tensor::DType;

use super::c_type::c_type;
use super::function::{Function, FunctionParts};
use super::items::SerialItems;
use super::lowering::Lowering;
use super::plan::{ContractionPlan, Unit};
use super::scope::{Lanes, Place, Scope, When};
use crate::error::CudaError;

/// Tiles in shared memory at a time: all but one of them on their way.
const STAGES: u32 = 4;
/// Rows of the strip through which sums leave.
const STRIP_ROWS: u32 = 32;

/// A factor of the products.
#[derive(Clone, Debug)]
struct Operand {
    /// Its value, in the type of the tile's elements.
    node: NodeId,
    /// Its rows or columns.
    axes: Vec<AxisId>,
    /// Whether its elements are consecutive along the depth, rather than its rows or columns.
    along_depth: bool,
    /// Consecutive elements that a thread reads at once.
    lanes: u32,
    /// Whether it is a load without conditions, which can be copied as it is.
    is_plain: bool,
}

/// A product.
#[derive(Clone, Debug)]
pub(super) struct Product {
    stage: StageId,
    pub(super) unit: Unit,
    left: Operand,
    right: Operand,
    batch: Vec<AxisId>,
    depth: Vec<AxisId>,
    /// Whether results are consecutive along rows, rather than columns.
    rows_fastest: bool,
    /// Consecutive results of a thread.
    lanes: u32,
}

impl Product {
    /// The product that a kernel is, if it is one.
    pub(super) fn of(kernel: &VerifiedKernel, dependence: &Dependence) -> Option<Self> {
        let (first, rest) = kernel.items().split_first()?;
        let Item::Stage(id) = *first else { return None };
        let stage = kernel.stage(id);
        let StageOperation::Reduce {
            reduction: Reduction::Add,
            axes: depth,
            accumulator: DType::F32,
        } = &stage.operation
        else {
            return None;
        };
        let Node::Apply {
            op: ScalarOp::Mul,
            operands,
        } = kernel.node(stage.value)
        else {
            return None;
        };
        let (&[left, right], true) = (operands.as_slice(), stage.axes.is_empty()) else {
            return None;
        };
        let is_sized = |&axis: &AxisId| matches!(kernel.axis(axis).extent, Extent::Size(_));
        let is_free = |&axis: &AxisId| !must_run_in_order(kernel, axis);
        let is_simple = |item: &Item| match item {
            Item::Stage(id) => {
                let stage = kernel.stage(*id);
                stage.axes.is_empty() && stage.operation == StageOperation::Map
            }
            Item::Store(store) => store.axes.is_empty() && store.combine.is_none(),
            Item::Carry(_) => false,
        };
        if !depth.iter().all(is_sized)
            || !kernel.outer().iter().all(is_free)
            || !rest.iter().all(is_simple)
            || kernel.dtype(stage.value) != DType::F32
        {
            return None;
        }
        let (unit, left, right) = unit_of(kernel, left, right);
        let (mut rows, mut columns, mut batch) = (Vec::new(), Vec::new(), Vec::new());
        for &axis in kernel.outer() {
            let depends = |node| dependence.depends(node, axis);
            match (depends(left), depends(right)) {
                (true, false) => rows.push(axis),
                (false, true) => columns.push(axis),
                _ => batch.push(axis),
            }
        }
        if rows.is_empty() || columns.is_empty() {
            return None;
        }
        let width = if unit == Unit::Registers { 4 } else { 8 };
        let operand = |node: NodeId, axes: Vec<AxisId>| {
            let along = |axes: &[AxisId]| {
                let last = axes.last();
                last.is_some_and(|&axis| is_consecutive(kernel, dependence, node, axis))
            };
            let along_depth = along(depth) || !along(&axes);
            let fastest = if along_depth { depth.as_slice() } else { &axes };
            let lanes = match fastest {
                [_] if along(fastest) => width,
                _ => 1,
            };
            let is_plain = match kernel.node(node) {
                Node::Load(load) => {
                    let classes = &kernel.info().loads[node];
                    let is_proved = classes.iter().all(|class| *class == IndexClass::Proved);
                    let fastest = fastest.last();
                    let moves = |&axis: &AxisId| {
                        steps_by_one(kernel, dependence, load.buffer, &load.indices, axis)
                    };
                    load.guard.is_none() && is_proved && lanes > 1 && fastest.is_some_and(moves)
                }
                _ => false,
            };
            Operand {
                node,
                axes,
                along_depth,
                lanes,
                is_plain,
            }
        };
        let stored = |axes: &[AxisId]| {
            let last = axes.last();
            last.is_some_and(|&axis| stores_along(kernel, dependence, axis))
        };
        let rows_fastest = stored(&rows) && !stored(&columns);
        let fastest = if rows_fastest { &rows } else { &columns };
        let lanes = if fastest.len() == 1 && stored(fastest) {
            4
        } else {
            1
        };
        Some(Self {
            stage: id,
            unit,
            left: operand(left, rows),
            right: operand(right, columns),
            batch,
            depth: depth.to_vec(),
            rows_fastest,
            lanes,
        })
    }
}

/// The unit that multiplies two factors exactly, and the factors in its type.
fn unit_of(kernel: &VerifiedKernel, left: NodeId, right: NodeId) -> (Unit, NodeId, NodeId) {
    let narrow = |node: NodeId, dtype: DType| match kernel.node(node) {
        Node::Apply {
            op: ScalarOp::Cast(DType::F32),
            operands,
        } => operands
            .first()
            .copied()
            .filter(|&inner| kernel.dtype(inner) == dtype),
        _ => None,
    };
    for (dtype, unit) in [(DType::BF16, Unit::Bf16), (DType::F16, Unit::F16)] {
        if let (Some(left), Some(right)) = (narrow(left, dtype), narrow(right, dtype)) {
            return (unit, left, right);
        }
    }
    (Unit::Registers, left, right)
}

/// Whether a value is read from consecutive elements along an axis.
fn is_consecutive(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    node: NodeId,
    axis: AxisId,
) -> bool {
    let nodes = kiln_kernel::analysis::expression_nodes(kernel, &[node]);
    let mut loads = nodes.iter().filter_map(|&node| match kernel.node(node) {
        Node::Load(load) => Some(load),
        _ => None,
    });
    loads.any(|load| steps_by_one(kernel, dependence, load.buffer, &load.indices, axis))
}

fn stores_along(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> bool {
    kernel.items().iter().any(|item| match item {
        Item::Store(store) => steps_by_one(kernel, dependence, store.buffer, &store.indices, axis),
        _ => false,
    })
}

/// Whether an access moves by one element along an axis.
fn steps_by_one(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    buffer: kiln_kernel::BufferId,
    indices: &[NodeId],
    axis: AxisId,
) -> bool {
    let strides = super::strides(kernel, buffer);
    let mut steps = 0;
    for (&index, stride) in indices.iter().zip(strides) {
        match dependence.step_along(kernel, index, axis) {
            Some(0) => {}
            Some(1) if stride.as_constant() == Some(1) => steps += 1,
            _ => return false,
        }
    }
    steps == 1
}

/// Writes the kernel.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &ContractionPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let product = Product::of(kernel, lowering.dependence).filter(|p| p.unit == plan.unit);
    let Some(product) = product else {
        return Err(CudaError::not_for(kernel, "a contraction"));
    };
    let writer = TileWriter::new(lowering, plan, &product);
    Ok(vec![writer.write()])
}

/// Writes the function of a product.
struct TileWriter<'l, 'k> {
    lowering: &'l Lowering<'k>,
    plan: &'l ContractionPlan,
    product: &'l Product,
    threads: u32,
    /// The C type of a tile's elements.
    element: &'static str,
    element_bytes: u32,
}

/// The tile of an operand in shared memory.
struct TileShape {
    /// Elements along the fastest axis, and along the other one.
    fastest: u32,
    other: u32,
    /// Whether the fastest axis in memory is that in shared memory.
    is_straight: bool,
    /// Elements from one line to the next in shared memory.
    pitch: u32,
    /// Elements of the tile.
    elements: u32,
}

/// The two sides of an operand's tile: the first index, the size and the axes of each.
struct Sides<'a> {
    fast_first: &'a str,
    fast_size: &'a str,
    fast_axes: &'a [AxisId],
    other_first: &'a str,
    other_size: &'a str,
    other_axes: &'a [AxisId],
}

impl<'l, 'k> TileWriter<'l, 'k> {
    fn new(lowering: &'l Lowering<'k>, plan: &'l ContractionPlan, product: &'l Product) -> Self {
        let (element, element_bytes) = match plan.unit {
            Unit::Registers => ("float", 4),
            Unit::Bf16 => (c_type(DType::BF16), 2),
            Unit::F16 => (c_type(DType::F16), 2),
        };
        Self {
            lowering,
            plan,
            product,
            threads: plan.threads(),
            element,
            element_bytes,
        }
    }

    /// The tile of an operand with this many rows (columns).
    fn shape(&self, operand: &Operand, rows: u32) -> TileShape {
        let depth = self.plan.tile[2];
        let (fastest, other) = match operand.along_depth {
            true => (depth, rows),
            false => (rows, depth),
        };
        let (is_straight, pitch, elements) = match self.plan.unit {
            Unit::Registers => (!operand.along_depth, rows + 4, (rows + 4) * depth),
            Unit::Bf16 | Unit::F16 => (true, fastest + 8, (fastest + 8) * other),
        };
        TileShape {
            fastest,
            other,
            is_straight,
            pitch,
            elements,
        }
    }

    fn write(&self) -> Function {
        let (lowering, product) = (self.lowering, self.product);
        let kernel = lowering.kernel;
        let [bm, bn, bk] = self.plan.tile;
        let of = |axes: &[AxisId]| super::points(kernel, axes);
        let constant = |value: u32| Quantity::constant(i64::from(value));
        let (m, n, k) = (
            of(&product.left.axes),
            of(&product.right.axes),
            of(&product.depth),
        );
        let (tiles_m, tiles_n) = (
            m.clone().ceil_div(constant(bm)),
            n.clone().ceil_div(constant(bn)),
        );
        let tasks = of(&product.batch) * tiles_m.clone() * tiles_n.clone();
        let (left, right) = (
            self.shape(&product.left, bm),
            self.shape(&product.right, bn),
        );
        let buffer = left.elements + right.elements;
        let strip = STRIP_ROWS * (bn + 4) * 4;
        let shared = (STAGES * buffer * self.element_bytes).max(strip);
        let function = FunctionParts::new(self.threads, tasks).with_shared(constant(shared));
        let (m, n, k) = (
            lowering.quantity(&m),
            lowering.quantity(&n),
            lowering.quantity(&k),
        );
        let line = |text: String| lowering.line(text);
        line("k_i64 z, row, column;".to_owned());
        let (tiles_m, tiles_n) = (lowering.quantity(&tiles_m), lowering.quantity(&tiles_n));
        line(format!(
            "k_tile_of(t, {tiles_m}, {tiles_n}, z, row, column);"
        ));
        line(format!("const k_i64 m0 = row * {bm}, n0 = column * {bn};"));
        let mut scope = Scope::default();
        super::split_points(lowering, &mut scope, "z", &product.batch);
        let element = self.element;
        line(format!("{element}* const tiles = ({element}*)k_shared;"));
        line(format!("{} tile;", self.tile_type()));
        line("tile.clear();".to_owned());
        let steps = lowering.declare("k_i64", format_args!("({k} + {}) / {bk}", bk - 1));
        let operands = [
            (&product.left, &left, "m0", &m),
            (&product.right, &right, "n0", &n),
        ];
        let names = ["x", "y"];
        for ((operand, shape, ..), name) in operands.iter().zip(names) {
            self.declare_async(operand, shape, name);
        }
        // The tile of a step is filled that many steps before; the first steps only fill.
        let ahead = STAGES - 1;
        lowering.open(format_args!(
            "for (k_i64 step = -{ahead}; step < {steps}; ++step)"
        ));
        line(format!(
            "const k_i64 next = step + {ahead}, k0 = next * {bk};"
        ));
        line(format!("const bool fills = next < {steps};"));
        line(format!(
            "{element}* const x_tile = tiles + (int)(next % {STAGES}) * {buffer}, * const y_tile = x_tile + {};",
            left.elements
        ));
        for ((operand, shape, ..), name) in operands.iter().zip(names) {
            let (count, lanes) = (self.n_chunks(operand, shape), operand.lanes);
            line(format!("k_vector<{element}, {lanes}> {name}[{count}];"));
        }
        // Everyone's copies for this step have landed, and the tile of the last step is free.
        line(format!(
            "if (step >= 0) {{ k_copy_wait<{}>(); k_sync(); }}",
            STAGES - 2
        ));
        lowering.open("if (fills)");
        for (&(operand, shape, first, size), name) in operands.iter().zip(names) {
            if operand.is_plain && shape.is_straight {
                lowering.open(format_args!("if ({name}_async)"));
                self.copy(&scope, (operand, shape), (first, size, &k), name);
                lowering.close();
                lowering.open("else");
            } else {
                lowering.open("");
            }
            self.read(&scope, (operand, shape), (first, size, &k), name);
            lowering.close();
        }
        lowering.close();
        line("k_copy_commit();".to_owned());
        line(format!(
            "if (step >= 0) {{ const {element}* const now = tiles + (int)(step % {STAGES}) * {buffer}; tile.multiply(now, now + {}); }}",
            left.elements
        ));
        lowering.open("if (fills)");
        for ((operand, shape, ..), name) in operands.iter().zip(names) {
            lowering.open(format_args!("if (!{name}_async)"));
            self.fill((operand, shape), &format!("{name}_tile"), name);
            lowering.close();
        }
        lowering.close();
        lowering.close();
        line("k_copy_wait<0>();".to_owned());
        line("k_sync();".to_owned());
        self.leave(&scope, &m, &n);
        function.finish(lowering)
    }

    fn tile_type(&self) -> String {
        let [bm, bn, bk] = self.plan.tile;
        let element = self.element;
        match self.plan.unit {
            Unit::Registers => format!("k_register_tile<{element}, {bm}, {bn}, {bk}>"),
            Unit::Bf16 | Unit::F16 => {
                let [wm, wn] = self.plan.warps;
                let (left, right) = (&self.product.left, &self.product.right);
                format!(
                    "k_matrix_tile<{element}, {bm}, {bn}, {bk}, {wm}, {wn}, {}, {}>",
                    left.along_depth, right.along_depth
                )
            }
        }
    }

    /// Chunks of an operand's tile per thread.
    fn n_chunks(&self, operand: &Operand, shape: &TileShape) -> u32 {
        (shape.fastest * shape.other / operand.lanes).div_ceil(self.threads)
    }

    /// Opens the loop over a thread's chunks, with the position of each in the tile.
    fn open_chunks(&self, operand: &Operand, shape: &TileShape) {
        let lowering = self.lowering;
        let count = self.n_chunks(operand, shape);
        let per_line = shape.fastest / operand.lanes;
        lowering.line("K_UNROLL");
        lowering.open(format_args!("for (int c = 0; c < {count}; ++c)"));
        lowering.line(format_args!(
            "const int chunk = c * {} + (int)k_thread();",
            self.threads
        ));
        lowering.line(format_args!(
            "const int at = chunk % {per_line} * {}, line = chunk / {per_line};",
            operand.lanes
        ));
        if count * self.threads != shape.fastest * shape.other / operand.lanes {
            lowering.line(format_args!("if (line >= {}) continue;", shape.other));
        }
    }

    /// Declares whether an operand is copied asynchronously: where its lines are aligned.
    fn declare_async(&self, operand: &Operand, shape: &TileShape, name: &str) {
        let lowering = self.lowering;
        let mut test = "false".to_owned();
        if let Node::Load(load) = lowering.kernel.node(operand.node)
            && operand.is_plain
            && shape.is_straight
        {
            let width = self.element_bytes;
            let base = format!("(k_u64)b{}", load.buffer.as_u32());
            let strides = lowering.strides(load.buffer);
            let others = strides
                .iter()
                .filter(|stride| stride.as_constant() != Some(1));
            let others =
                others.map(|stride| format!(" | (k_u64)({} * {width})", lowering.quantity(stride)));
            test = format!("(({base}{}) & 15) == 0", others.collect::<String>());
        }
        lowering.line(format_args!("const bool {name}_async = {test};"));
        let fast_axes = match operand.along_depth {
            true => &self.product.depth,
            false => &operand.axes,
        };
        let is_aligned = match fast_axes.as_slice() {
            &[axis] if operand.lanes > 1 => lowering.alignment(axis, operand.lanes),
            _ => "false".to_owned(),
        };
        lowering.line(format_args!("const bool {name}_aligned = {is_aligned};"));
    }

    /// Starts copies of a thread's part of an operand's tile. Elements beyond the matrix become zeros.
    fn copy(
        &self,
        scope: &Scope,
        (operand, shape): (&Operand, &TileShape),
        (first, size, depth): (&str, &str, &str),
        name: &str,
    ) {
        let lowering = self.lowering;
        let Node::Load(load) = lowering.kernel.node(operand.node) else {
            unreachable!("a plain operand is a load")
        };
        self.open_chunks(operand, shape);
        let sides = self.sides(operand, (first, size, depth));
        lowering.line(format_args!(
            "const k_i64 fast = {} + at, other = {} + line;",
            sides.fast_first, sides.other_first
        ));
        let lanes = operand.lanes;
        lowering.line(format_args!(
            "const k_i64 left = other < {} ? {} - fast : 0;",
            sides.other_size, sides.fast_size
        ));
        lowering.line(format_args!(
            "const int count = left < 0 ? 0 : left < {lanes} ? (int)left : {lanes};"
        ));
        let mut inner = scope.clone();
        super::split_points(lowering, &mut inner, "other", sides.other_axes);
        super::split_points(lowering, &mut inner, "fast", sides.fast_axes);
        let indices: Vec<String> = load
            .indices
            .iter()
            .map(|&index| lowering.value(&mut inner, index, 0))
            .collect();
        let (buffer, pitch) = (load.buffer.as_u32(), shape.pitch);
        let offset = lowering.offset(load.buffer, &indices);
        lowering.line(format_args!(
            "k_copy_async({name}_tile + line * {pitch} + at, b{buffer} + (count > 0 ? {offset} : 0), count * {});",
            self.element_bytes
        ));
        lowering.close();
    }

    /// The sides of an operand's tile, in the order of memory.
    fn sides<'a>(
        &'a self,
        operand: &'a Operand,
        (first, size, depth): (&'a str, &'a str, &'a str),
    ) -> Sides<'a> {
        let (own, deep) = (
            (first, size, &operand.axes),
            ("k0", depth, &self.product.depth),
        );
        let (fast, other) = match operand.along_depth {
            true => (deep, own),
            false => (own, deep),
        };
        Sides {
            fast_first: fast.0,
            fast_size: fast.1,
            fast_axes: fast.2,
            other_first: other.0,
            other_size: other.1,
            other_axes: other.2,
        }
    }

    /// Reads a thread's part of an operand's tile into registers.
    fn read(
        &self,
        scope: &Scope,
        (operand, shape): (&Operand, &TileShape),
        (first, size, depth): (&str, &str, &str),
        name: &str,
    ) {
        let lowering = self.lowering;
        self.open_chunks(operand, shape);
        let Sides {
            fast_first,
            fast_size,
            fast_axes,
            other_first,
            other_size,
            other_axes,
        } = self.sides(operand, (first, size, depth));
        lowering.line(format_args!(
            "const k_i64 fast = {fast_first} + at, other = {other_first} + line;"
        ));
        let element = self.element;
        let lanes = operand.lanes;
        let one = |scope: &Scope, index: &str, lane: &str| {
            lowering.line(format_args!("{name}[c].at[{lane}] = {element}();"));
            lowering.open(format_args!(
                "if (other < {other_size} && {index} < {fast_size})"
            ));
            let mut inner = scope.clone();
            super::split_points(lowering, &mut inner, "other", other_axes);
            super::split_points(lowering, &mut inner, index, fast_axes);
            let value = lowering.value(&mut inner, operand.node, 0);
            lowering.line(format_args!("{name}[c].at[{lane}] = {value};"));
            lowering.close();
        };
        let axis = match fast_axes {
            &[axis] if lanes > 1 => axis,
            _ => {
                one(scope, "fast", "0");
                lowering.close();
                return;
            }
        };
        lowering.open(format_args!(
            "if ({name}_aligned && other < {other_size} && fast + {lanes} <= {fast_size})"
        ));
        let mut inner = scope.clone();
        super::split_points(lowering, &mut inner, "other", other_axes);
        let along = Lanes {
            axis,
            count: lanes,
            is_aligned: true,
        };
        let mut inner = inner.with_lanes(along, "fast".to_owned());
        for lane in 0..lanes {
            let value = lowering.value(&mut inner, operand.node, lane);
            lowering.line(format_args!("{name}[c].at[{lane}] = {value};"));
        }
        lowering.close();
        lowering.open("else");
        lowering.line("K_UNROLL");
        lowering.open(format_args!("for (int lane = 0; lane < {lanes}; ++lane)"));
        lowering.line("const k_i64 index = fast + lane;");
        one(scope, "index", "lane");
        lowering.close();
        lowering.close();
        lowering.close();
    }

    /// Writes a thread's part of an operand's tile from registers to shared memory.
    fn fill(&self, (operand, shape): (&Operand, &TileShape), to: &str, name: &str) {
        let lowering = self.lowering;
        let (element, lanes, pitch) = (self.element, operand.lanes, shape.pitch);
        self.open_chunks(operand, shape);
        if shape.is_straight {
            lowering.line(format_args!(
                "*(k_vector<{element}, {lanes}>*)({to} + line * {pitch} + at) = {name}[c];"
            ));
        } else {
            lowering.line("K_UNROLL");
            lowering.line(format_args!(
                "for (int lane = 0; lane < {lanes}; ++lane) {to}[(at + lane) * {pitch} + line] = {name}[c].at[lane];"
            ));
        }
        lowering.close();
    }

    /// Computes and stores the results from the sums, strip by strip.
    fn leave(&self, scope: &Scope, m: &str, n: &str) {
        let (lowering, product) = (self.lowering, self.product);
        let [bm, bn, _] = self.plan.tile;
        let pitch = bn + 4;
        lowering.line("float* const strip = (float*)k_shared;");
        lowering.open(format_args!(
            "for (int first = 0; first < {bm}; first += {STRIP_ROWS})"
        ));
        lowering.line(format_args!(
            "tile.template leave<{STRIP_ROWS}, {pitch}>(strip, first);"
        ));
        lowering.line("k_sync();");
        let (fastest, lanes) = match product.rows_fastest {
            true => (STRIP_ROWS, product.lanes),
            false => (bn, product.lanes),
        };
        let total = STRIP_ROWS * bn / lanes;
        lowering.open(format_args!(
            "for (int chunk = (int)k_thread(); chunk < {total}; chunk += {})",
            self.threads
        ));
        let per_line = fastest / lanes;
        lowering.line(format_args!(
            "const int at = chunk % {per_line} * {lanes}, line = chunk / {per_line};"
        ));
        let (fast, other) = match product.rows_fastest {
            true => ("m0 + first + at", "n0 + line"),
            false => ("n0 + at", "m0 + first + line"),
        };
        lowering.line(format_args!("const k_i64 fast = {fast}, other = {other};"));
        let (fast_axes, fast_size, other_axes, other_size) = match product.rows_fastest {
            true => (&product.left.axes, m, &product.right.axes, n),
            false => (&product.right.axes, n, &product.left.axes, m),
        };
        let sum = |lane: &str| match product.rows_fastest {
            true => format!("strip[(at + {lane}) * {pitch} + line]"),
            false => format!("strip[line * {pitch} + at + {lane}]"),
        };
        let finish = |mut inner: Scope, sums: Vec<String>| {
            inner.place(product.stage, When::Current, Place::Values(sums));
            let rest = lowering.kernel.items().get(1..).unwrap_or_default();
            SerialItems::new(lowering, None).items(&mut inner, rest);
        };
        lowering.open(format_args!("if (other < {other_size})"));
        let mut at_other = scope.clone();
        super::split_points(lowering, &mut at_other, "other", other_axes);
        match fast_axes.as_slice() {
            &[axis] if lanes > 1 => {
                lowering.open(format_args!("if (fast + {lanes} <= {fast_size})"));
                let sums = (0..lanes).map(|lane| lowering.declare("float", sum(&lane.to_string())));
                let sums = sums.collect();
                let along = Lanes {
                    axis,
                    count: lanes,
                    is_aligned: false,
                };
                finish(at_other.with_lanes(along, "fast".to_owned()), sums);
                lowering.close();
                lowering.open(format_args!(
                    "else for (int lane = 0; lane < {lanes} && fast + lane < {fast_size}; ++lane)"
                ));
                let value = lowering.declare("float", sum("lane"));
                let index = lowering.declare("k_i64", "fast + lane");
                finish(at_other.with_axis(axis, index), vec![value]);
                lowering.close();
            }
            _ => {
                lowering.open(format_args!("if (fast < {fast_size})"));
                let value = lowering.declare("float", sum("0"));
                let mut inner = at_other.clone();
                super::split_points(lowering, &mut inner, "fast", fast_axes);
                finish(inner, vec![value]);
                lowering.close();
            }
        }
        lowering.close();
        lowering.close();
        lowering.line("k_sync();");
        lowering.close();
    }
}
