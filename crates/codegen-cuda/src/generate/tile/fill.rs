//! The tiles of a product's operands in shared memory: copied unchanged, asynchronously, or computed and written.

use kiln_kernel::{AxisId, Load, Node};

use super::Operand;
use crate::generate::lowering::Lowering;
use crate::generate::scope::{Lanes, Scope};
use crate::generate::unit::Unit;
use crate::generate::{points, split_points};

/// The maximum number of a thread's reads that are held in registers. A window's elements are read one by one: with 64
/// of them in an unrolled loop, a thread of a tile of 256 x 128 spilled 5 KiB.
const READS_AHEAD: u32 = 16;

/// The tile of an operand in shared memory.
#[derive(Clone, Debug)]
pub(in crate::generate) struct TileShape {
    /// Elements along the fastest axis, and along the other one.
    fastest: u32,
    other: u32,
    /// Whether the fastest axis in memory is also the fastest in shared memory.
    is_straight: bool,
    /// The number of elements along the depth that form one word in shared memory.
    packed: u32,
    /// How lines are arranged in shared memory.
    lines: Lines,
    /// Elements of the tile.
    pub(in crate::generate) elements: u32,
}

/// The arrangement of a tile's lines in shared memory.
#[derive(Clone, Copy, Debug)]
enum Lines {
    /// At this distance, in elements.
    Apart(u32),
    /// As groups of warps read them: lines of 128 bytes, whose 16-byte pieces are permuted, so that pieces of consecutive
    /// lines are in different banks.
    Swizzled,
}

impl TileShape {
    /// The tile of an operand with this many rows (columns) and this depth, for groups of warps.
    pub(in crate::generate) fn swizzled(operand: &Operand, rows: u32, depth: u32) -> Self {
        let (fastest, other) = match operand.along_depth {
            true => (depth, rows),
            false => (rows, depth),
        };
        Self {
            fastest,
            other,
            is_straight: true,
            packed: 1,
            lines: Lines::Swizzled,
            elements: fastest * other,
        }
    }

    /// The place of element `at` of a line, in C.
    fn place(&self) -> String {
        match self.lines {
            Lines::Apart(pitch) => format!("line * {pitch} + at"),
            Lines::Swizzled => format!("k_swizzled<{}>(line, at)", self.other),
        }
    }

    /// The tile of an operand with this many rows (columns) and this depth.
    pub(in crate::generate) fn of(unit: Unit, operand: &Operand, rows: u32, depth: u32) -> Self {
        let (fastest, other) = match operand.along_depth {
            true => (depth, rows),
            false => (rows, depth),
        };
        let packed = unit.packed();
        let (is_straight, pitch, elements) = match unit.has_tensor_cores() {
            false => {
                let is_straight = !operand.along_depth && packed == 1;
                (is_straight, rows + 4, (rows + 4) * depth)
            }
            true => (true, fastest + 8, (fastest + 8) * other),
        };
        Self {
            fastest,
            other,
            is_straight,
            packed,
            lines: Lines::Apart(pitch),
            elements,
        }
    }
}

/// The points of some axes that a tile covers, in C.
#[derive(Clone, Debug)]
pub(in crate::generate) struct Points<'a> {
    pub(in crate::generate) axes: &'a [AxisId],
    /// The first point of the tile.
    pub(in crate::generate) first: &'a str,
    /// The total number of points.
    pub(in crate::generate) size: String,
}

/// An operand, its tile that is filled, and the names of its variables.
pub(in crate::generate) struct Side<'a> {
    pub(in crate::generate) operand: &'a Operand,
    pub(in crate::generate) shape: TileShape,
    /// The name of its registers.
    pub(in crate::generate) name: &'static str,
    /// Its rows (columns), and its depth.
    pub(in crate::generate) own: Points<'a>,
    pub(in crate::generate) deep: Points<'a>,
}

impl Side<'_> {
    /// The points along the fastest axis in memory, and along the other one.
    fn in_memory(&self) -> (&Points<'_>, &Points<'_>) {
        match self.operand.along_depth {
            true => (&self.deep, &self.own),
            false => (&self.own, &self.deep),
        }
    }
}

/// Writes the code by which all threads of a block fill tiles.
pub(in crate::generate) struct Filler<'l, 'k> {
    pub(in crate::generate) lowering: &'l Lowering<'k>,
    pub(in crate::generate) unit: Unit,
    pub(in crate::generate) threads: u32,
    /// Whether elements that are not copied asynchronously are held in registers until [`finish`](Filler::finish), so
    /// that products hide the loads. Otherwise, and if a thread has many reads, a tile is completed immediately, and
    /// takes few registers.
    pub(in crate::generate) reads_ahead: bool,
}

impl Filler<'_, '_> {
    fn n_chunks(&self, side: &Side<'_>) -> u32 {
        let shape = &side.shape;
        (shape.fastest * shape.other / side.operand.lanes).div_ceil(self.threads)
    }

    /// Whether elements of an operand that are not copied asynchronously are held in registers: only if a thread has
    /// few reads.
    fn is_read_ahead(&self, side: &Side<'_>) -> bool {
        let reads = match side.operand.reads_vectors {
            true => self.n_chunks(side),
            false => self.n_chunks(side) * side.operand.lanes,
        };
        self.reads_ahead && reads <= READS_AHEAD
    }

    /// Opens the loop over a thread's chunks, with the position of each in the tile.
    fn open_chunks(&self, side: &Side<'_>) {
        let lowering = self.lowering;
        let (count, shape, lanes) = (self.n_chunks(side), &side.shape, side.operand.lanes);
        let per_line = shape.fastest / lanes;
        lowering.line(match self.is_read_ahead(side) {
            true => "K_UNROLL",
            false => "K_ROLLED",
        });
        lowering.open(format_args!("for (int c = 0; c < {count}; ++c)"));
        lowering.line(format_args!(
            "const int chunk = c * {} + (int)k_thread();",
            self.threads
        ));
        lowering.line(format_args!(
            "const int at = chunk % {per_line} * {lanes}, line = chunk / {per_line};"
        ));
        if count * self.threads != shape.fastest * shape.other / lanes {
            lowering.line(format_args!("if (line >= {}) continue;", shape.other));
        }
    }

    /// Declares the registers that hold a thread's part of a tile.
    pub(in crate::generate) fn declare_ahead(&self, side: &Side<'_>) {
        if self.is_read_ahead(side) {
            self.declare_registers(side, self.n_chunks(side));
        }
    }

    fn declare_registers(&self, side: &Side<'_>, count: u32) {
        let (element, lanes, name) = (self.unit.element(), side.operand.lanes, side.name);
        self.lowering.line(format_args!(
            "k_vector<{element}, {lanes}> {name}[{count}];"
        ));
    }

    /// The registers of the current chunk.
    fn chunk(&self, side: &Side<'_>) -> String {
        let at = if self.is_read_ahead(side) { "c" } else { "0" };
        format!("{}[{at}]", side.name)
    }

    /// Declares whether an operand is copied asynchronously, which requires that its lines are aligned. Batches are in
    /// scope.
    pub(in crate::generate) fn declare_async(&self, scope: &Scope, side: &Side<'_>) {
        let (lowering, operand, name) = (self.lowering, side.operand, side.name);
        let test = match lowering.kernel.node(operand.node) {
            Node::Load(load) if operand.is_plain && side.shape.is_straight => {
                self.aligned_lines(scope, side, load)
            }
            _ => None,
        };
        let test = test.unwrap_or_else(|| "false".to_owned());
        lowering.line(format_args!("const bool {name}_async = {test};"));
        let (fast, _) = side.in_memory();
        let is_aligned = match fast.axes {
            &[axis] if operand.lanes > 1 => lowering.alignment(axis, operand.lanes),
            _ => "false".to_owned(),
        };
        lowering.line(format_args!("const bool {name}_aligned = {is_aligned};"));
    }

    /// The condition under which every copy from a plain operand is aligned to 16 bytes, wherever it begins along a
    /// line: the buffer, the distance of lines, and the first element of a line are aligned. `None` if that differs
    /// from line to line.
    fn aligned_lines(&self, scope: &Scope, side: &Side<'_>, load: &Load) -> Option<String> {
        let lowering = self.lowering;
        let (fast, other) = side.in_memory();
        let width = self.unit.element_bytes();
        let (&last, rest) = fast.axes.split_last()?;
        let mut terms = vec![format!("(k_u64)b{}", load.buffer.as_u32())];
        if !side.operand.is_line {
            // With several lines, each line must end where a copy ends.
            let extent = lowering.quantity(&points(lowering.kernel, &[last]));
            terms.extend((!rest.is_empty()).then(|| format!("(k_u64)({extent} * {width})")));
        }
        for (&index, stride) in load.indices.iter().zip(lowering.strides(load.buffer)) {
            match lowering.kernel.node(index) {
                Node::Axis(axis) if *axis == last => {}
                Node::Axis(axis) if side.operand.is_line && rest.contains(axis) => {}
                _ if stride.as_constant() != Some(1) => {
                    terms.push(format!("(k_u64)({} * {width})", lowering.quantity(&stride)));
                }
                _ => {
                    let depends = |&axis: &AxisId| lowering.dependence.depends(index, axis);
                    if rest.iter().chain(other.axes).any(depends) {
                        return None;
                    }
                    let mut first = scope.with_axis(last, "0ll".to_owned());
                    let first = lowering.value(&mut first, index, 0);
                    terms.push(format!("(k_u64)({first} * {width})"));
                }
            }
        }
        Some(format!("(({}) & 15) == 0", terms.join(" | ")))
    }

    /// Starts filling a tile at an address: copies, or reads into registers.
    pub(in crate::generate) fn start(&self, scope: &Scope, side: &Side<'_>, to: &str) {
        let lowering = self.lowering;
        if side.operand.is_plain && side.shape.is_straight {
            let (fast, other) = side.in_memory();
            lowering.open(format_args!("if ({}_async)", side.name));
            lowering.open(format_args!(
                "if ({} + {} <= {} && {} + {} <= {})",
                fast.first,
                side.shape.fastest,
                fast.size,
                other.first,
                side.shape.other,
                other.size
            ));
            self.copy(scope, side, to, true);
            lowering.close();
            lowering.open("else");
            self.copy(scope, side, to, false);
            lowering.close();
            lowering.close();
            lowering.open("else");
        } else {
            lowering.open("");
        }
        self.open_chunks(side);
        let is_read_ahead = self.is_read_ahead(side);
        if !is_read_ahead {
            self.declare_registers(side, 1);
        }
        self.read(scope, side);
        if !is_read_ahead {
            self.write(side, to);
        }
        lowering.close();
        lowering.close();
    }

    /// Starts copies of a thread's part of a tile. Elements beyond the matrix become zeros, unless the tile `is_inside`.
    fn copy(&self, scope: &Scope, side: &Side<'_>, to: &str, is_inside: bool) {
        let lowering = self.lowering;
        let Node::Load(load) = lowering.kernel.node(side.operand.node) else {
            unreachable!("a plain operand is a load")
        };
        self.open_chunks(side);
        let (fast, other) = side.in_memory();
        self.declare_indices(side);
        let lanes = side.operand.lanes;
        if is_inside {
            lowering.line(format_args!("const int count = {lanes};"));
        } else {
            lowering.line(format_args!(
                "const k_i64 left = other < {} ? {} - fast : 0;",
                other.size, fast.size
            ));
            lowering.line(format_args!(
                "const int count = left < 0 ? 0 : left < {lanes} ? (int)left : {lanes};"
            ));
        }
        let mut inner = scope.clone();
        split_points(lowering, &mut inner, "other", other.axes);
        split_points(lowering, &mut inner, "fast", fast.axes);
        let indices: Vec<String> = load
            .indices
            .iter()
            .map(|&index| lowering.value(&mut inner, index, 0))
            .collect();
        let (buffer, place) = (load.buffer.as_u32(), side.shape.place());
        let offset = lowering.offset(load.buffer, &indices);
        lowering.line(format_args!(
            "k_copy_async({to} + {place}, b{buffer} + (count > 0 ? {offset} : 0), count * {});",
            self.unit.element_bytes()
        ));
        lowering.close();
    }

    /// Declares the indices of a chunk in the matrix.
    fn declare_indices(&self, side: &Side<'_>) {
        let (fast, other) = side.in_memory();
        self.lowering.line(format_args!(
            "const k_i64 fast = {} + at, other = {} + line;",
            fast.first, other.first
        ));
    }

    /// Reads a chunk into registers.
    fn read(&self, scope: &Scope, side: &Side<'_>) {
        let (lowering, operand, name) = (self.lowering, side.operand, side.name);
        self.declare_indices(side);
        let (fast, others) = side.in_memory();
        let (element, chunk) = (self.unit.element(), self.chunk(side));
        let lanes = operand.lanes;
        let one = |scope: &Scope, index: &str, lane: &str| {
            lowering.line(format_args!("{chunk}.at[{lane}] = {element}();"));
            lowering.open(format_args!(
                "if (other < {} && {index} < {})",
                others.size, fast.size
            ));
            let mut inner = scope.clone();
            split_points(lowering, &mut inner, "other", others.axes);
            split_points(lowering, &mut inner, index, fast.axes);
            let value = lowering.value(&mut inner, operand.node, 0);
            lowering.line(format_args!("{chunk}.at[{lane}] = {value};"));
            lowering.close();
        };
        let axis = match fast.axes {
            _ if lanes == 1 => return one(scope, "fast", "0"),
            &[axis] => axis,
            _ => return self.each_lane(lanes, &|| one(scope, "index", "lane")),
        };
        lowering.open(format_args!(
            "if ({name}_aligned && other < {} && fast + {lanes} <= {})",
            others.size, fast.size
        ));
        let mut inner = scope.clone();
        split_points(lowering, &mut inner, "other", others.axes);
        let along = Lanes {
            axis,
            count: lanes,
            is_aligned: true,
        };
        let mut inner = inner.with_lanes(along, "fast".to_owned());
        for lane in 0..lanes {
            let value = lowering.value(&mut inner, operand.node, lane);
            lowering.line(format_args!("{chunk}.at[{lane}] = {value};"));
        }
        lowering.close();
        lowering.open("else");
        self.each_lane(lanes, &|| one(scope, "index", "lane"));
        lowering.close();
    }

    /// Writes a loop over the lanes of a chunk, with the index of each.
    fn each_lane(&self, lanes: u32, body: &dyn Fn()) {
        let lowering = self.lowering;
        lowering.line("K_UNROLL");
        lowering.open(format_args!("for (int lane = 0; lane < {lanes}; ++lane)"));
        lowering.line("const k_i64 index = fast + lane;");
        body();
        lowering.close();
    }

    /// Writes a chunk from registers to shared memory.
    fn write(&self, side: &Side<'_>, to: &str) {
        let (lowering, chunk) = (self.lowering, self.chunk(side));
        let (element, lanes, shape) = (self.unit.element(), side.operand.lanes, &side.shape);
        let pitch = match shape.lines {
            Lines::Apart(pitch) if !shape.is_straight => pitch,
            _ => {
                lowering.line(format_args!(
                    "*(k_vector<{element}, {lanes}>*)({to} + {}) = {chunk};",
                    shape.place()
                ));
                return;
            }
        };
        let packed = shape.packed;
        // The place of each lane, both if lanes are along the depth and if they are not.
        let place = match (side.operand.along_depth, packed) {
            (true, 1) => format!("(at + lane) * {pitch} + line"),
            (false, 1) => format!("line * {pitch} + at + lane"),
            (true, packed) => {
                format!(
                    "((at + lane) / {packed} * {pitch} + line) * {packed} + (at + lane) % {packed}"
                )
            }
            (false, packed) => {
                format!("(line / {packed} * {pitch} + at + lane) * {packed} + line % {packed}")
            }
        };
        if side.operand.along_depth && lanes == packed && packed > 1 {
            lowering.line(format_args!(
                "*(k_vector<{element}, {lanes}>*)({to} + (at / {packed} * {pitch} + line) * {packed}) = {chunk};"
            ));
        } else {
            lowering.line("K_UNROLL");
            lowering.line(format_args!(
                "for (int lane = 0; lane < {lanes}; ++lane) {to}[{place}] = {chunk}.at[lane];"
            ));
        }
    }

    /// Writes the elements held in registers to shared memory, unless the tile was copied.
    pub(in crate::generate) fn finish(&self, side: &Side<'_>, to: &str) {
        if !self.is_read_ahead(side) {
            return;
        }
        self.lowering
            .open(format_args!("if (!{}_async)", side.name));
        self.open_chunks(side);
        self.write(side, to);
        self.lowering.close();
        self.lowering.close();
    }
}
