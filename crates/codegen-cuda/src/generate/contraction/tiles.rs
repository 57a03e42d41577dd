//! The tiles of a product's operands in shared memory: copied as they are, asynchronously, or computed and written.

use kiln_kernel::{AxisId, Node};

use super::TileWriter;
use super::product::Operand;
use crate::generate::plan::Unit;
use crate::generate::scope::{Lanes, Scope};
use crate::generate::split_points;

/// The tile of an operand in shared memory.
pub(super) struct TileShape {
    /// Elements along the fastest axis, and along the other one.
    pub(super) fastest: u32,
    pub(super) other: u32,
    /// Whether the fastest axis in memory is that in shared memory.
    pub(super) is_straight: bool,
    /// Elements from one line to the next in shared memory.
    pub(super) pitch: u32,
    /// Elements of the tile.
    pub(super) elements: u32,
}

/// The two sides of an operand's tile: the first index, the size and the axes of each.
pub(super) struct Sides<'a> {
    fast_first: &'a str,
    fast_size: &'a str,
    fast_axes: &'a [AxisId],
    other_first: &'a str,
    other_size: &'a str,
    other_axes: &'a [AxisId],
}

impl TileWriter<'_, '_> {
    /// The tile of an operand with this many rows (columns).
    pub(super) fn shape(&self, operand: &Operand, rows: u32) -> TileShape {
        let depth = self.plan.tile[2];
        let (fastest, other) = match operand.along_depth {
            true => (depth, rows),
            false => (rows, depth),
        };
        let (is_straight, pitch, elements) = match self.unit {
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

    pub(super) fn n_chunks(&self, operand: &Operand, shape: &TileShape) -> u32 {
        (shape.fastest * shape.other / operand.lanes).div_ceil(self.threads)
    }

    /// Opens the loop over a thread's chunks, with the position of each in the tile.
    pub(super) fn open_chunks(&self, operand: &Operand, shape: &TileShape) {
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
    pub(super) fn declare_async(&self, operand: &Operand, shape: &TileShape, name: &str) {
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

    /// Starts copies of a thread's part of an operand's tile. Elements beyond the matrix become zeros, unless the tile
    /// `is_inside`.
    pub(super) fn copy(
        &self,
        scope: &Scope,
        (operand, shape): (&Operand, &TileShape),
        ((first, size, depth), is_inside): ((&str, &str, &str), bool),
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
        if is_inside {
            lowering.line(format_args!("const int count = {lanes};"));
        } else {
            lowering.line(format_args!(
                "const k_i64 left = other < {} ? {} - fast : 0;",
                sides.other_size, sides.fast_size
            ));
            lowering.line(format_args!(
                "const int count = left < 0 ? 0 : left < {lanes} ? (int)left : {lanes};"
            ));
        }
        let mut inner = scope.clone();
        split_points(lowering, &mut inner, "other", sides.other_axes);
        split_points(lowering, &mut inner, "fast", sides.fast_axes);
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
    pub(super) fn sides<'a>(
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
    pub(super) fn read(
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
            split_points(lowering, &mut inner, "other", other_axes);
            split_points(lowering, &mut inner, index, fast_axes);
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
        split_points(lowering, &mut inner, "other", other_axes);
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
    pub(super) fn fill(&self, (operand, shape): (&Operand, &TileShape), to: &str, name: &str) {
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
}
