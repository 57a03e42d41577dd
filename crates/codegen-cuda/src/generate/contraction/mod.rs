//! Sums of products by tiles in shared memory: tensor cores for 16-bit floats, registers for f32.
//!
//! Rows are the outer axes of the left factor alone, columns those of the right one alone, batches all others; the depth is
//! what is summed. Several axes of one kind count as one, so a convolution is a product too. Factors are computed where a
//! tile is filled, and what follows the sum where it is stored. Elements outside of the matrices are zeros.

mod leave;
mod product;
mod tiles;

use kiln_backend::Quantity;
use kiln_kernel::AxisId;
use kiln_tensor::DType;

use super::c_type::c_type;
use super::function::{Function, FunctionParts};
use super::lowering::Lowering;
use super::plan::{ContractionPlan, TilePlan, Unit};
use super::scope::Scope;
use crate::error::CudaError;
use product::Operand;
pub(super) use product::Product;
use tiles::TileShape;

/// Tiles in shared memory at a time: all but one of them on their way.
const STAGES: u32 = 4;
/// Rows of the strip through which sums leave.
const STRIP_ROWS: u32 = 32;

/// Tiles that are enough for a device: below that many, smaller ones are used.
const ENOUGH_TILES: i64 = 264;

/// Writes the kernel: a function per size of tile, of which one has tasks, as sizes decide.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &ContractionPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let product = Product::of(kernel, lowering.dependence).filter(|p| p.unit == plan.unit);
    let Some(product) = product else {
        return Err(CudaError::not_for(kernel, "a contraction"));
    };
    let large = TileWriter::new(lowering, plan.unit, &plan.tile, &product);
    let Some(small) = &plan.few else {
        return Ok(vec![large.write()]);
    };
    let one = || Quantity::constant(1);
    let is_enough = large
        .tasks()
        .floor_div(Quantity::constant(ENOUGH_TILES))
        .min(one());
    let small = TileWriter::new(lowering, plan.unit, small, &product);
    Ok(vec![
        large.write().only_when(&is_enough),
        small.write().only_when(&(one() - is_enough)),
    ])
}

/// Writes the function of a product.
struct TileWriter<'l, 'k> {
    lowering: &'l Lowering<'k>,
    unit: Unit,
    plan: &'l TilePlan,
    product: &'l Product,
    threads: u32,
    /// The C type of a tile's elements.
    element: &'static str,
    element_bytes: u32,
}

/// An operand in the loop over the depth.
struct Side<'a> {
    operand: &'a Operand,
    shape: TileShape,
    /// The name of its registers.
    name: &'static str,
    /// The first row (column) of the tile in C, and the number of all.
    first: &'static str,
    size: String,
}

impl<'l, 'k> TileWriter<'l, 'k> {
    fn new(
        lowering: &'l Lowering<'k>,
        unit: Unit,
        plan: &'l TilePlan,
        product: &'l Product,
    ) -> Self {
        let (element, element_bytes) = match unit {
            Unit::Registers => ("float", 4),
            Unit::Bf16 => (c_type(DType::BF16), 2),
            Unit::F16 => (c_type(DType::F16), 2),
        };
        Self {
            lowering,
            unit,
            plan,
            product,
            threads: plan.threads(unit),
            element,
            element_bytes,
        }
    }

    /// The number of points of some axes.
    fn points(&self, axes: &[AxisId]) -> Quantity {
        super::points(self.lowering.kernel, axes)
    }

    /// The tiles along rows and columns.
    fn tiles(&self) -> [Quantity; 2] {
        let [bm, bn, _] = self.plan.tile;
        let tiles = |axes: &[AxisId], size: u32| {
            let size = Quantity::constant(i64::from(size));
            self.points(axes).ceil_div(size)
        };
        [
            tiles(&self.product.left.axes, bm),
            tiles(&self.product.right.axes, bn),
        ]
    }

    fn tasks(&self) -> Quantity {
        let [rows, columns] = self.tiles();
        self.points(&self.product.batch) * rows * columns
    }

    fn write(&self) -> Function {
        let (lowering, product) = (self.lowering, self.product);
        let [bm, bn, bk] = self.plan.tile;
        let size = |axes: &[AxisId]| lowering.quantity(&self.points(axes));
        let sides = [
            Side {
                operand: &product.left,
                shape: self.shape(&product.left, bm),
                name: "x",
                first: "m0",
                size: size(&product.left.axes),
            },
            Side {
                operand: &product.right,
                shape: self.shape(&product.right, bn),
                name: "y",
                first: "n0",
                size: size(&product.right.axes),
            },
        ];
        let depth = size(&product.depth);
        let buffer: u32 = sides.iter().map(|side| side.shape.elements).sum();
        let strip = STRIP_ROWS * (bn + 4) * 4;
        let shared = (STAGES * buffer * self.element_bytes).max(strip);
        let function = FunctionParts::new(self.threads, self.tasks())
            .with_shared(Quantity::constant(i64::from(shared)));
        let line = |text: String| lowering.line(text);
        line("k_i64 z, row, column;".to_owned());
        let [tiles_m, tiles_n] = self.tiles().map(|tiles| lowering.quantity(&tiles));
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
        for side in &sides {
            self.declare_async(side.operand, &side.shape, side.name);
        }
        line(format!(
            "const int steps = (int)(({depth} + {}) / {bk});",
            bk - 1
        ));
        self.steps(&scope, &sides, (buffer, &depth));
        line("k_copy_wait<0>();".to_owned());
        line("k_sync();".to_owned());
        let [left, right] = &sides;
        self.leave(&scope, &left.size, &right.size);
        function.finish(lowering)
    }

    /// The loop over the depth. The tile of a step is filled some steps before; the first steps only fill.
    fn steps(&self, scope: &Scope, sides: &[Side<'_>; 2], (buffer, depth): (u32, &str)) {
        let (lowering, element) = (self.lowering, self.element);
        let [_, _, bk] = self.plan.tile;
        let line = |text: String| lowering.line(text);
        let ahead = STAGES - 1;
        let left = sides[0].shape.elements;
        lowering.open(format_args!(
            "for (int step = -{ahead}; step < steps; ++step)"
        ));
        line(format!(
            "const int next = step + {ahead}; const k_i64 k0 = (k_i64)next * {bk};"
        ));
        line("const bool fills = next < steps;".to_owned());
        line(format!(
            "{element}* const x_tile = tiles + (unsigned)next % {STAGES} * {buffer}, * const y_tile = x_tile + {left};"
        ));
        for side in sides {
            let count = self.n_chunks(side.operand, &side.shape);
            let (lanes, name) = (side.operand.lanes, side.name);
            line(format!("k_vector<{element}, {lanes}> {name}[{count}];"));
        }
        // Everyone's copies for this step have landed, and the tile of the last step is free.
        line(format!(
            "if (step >= 0) {{ k_copy_wait<{}>(); k_sync(); }}",
            STAGES - 2
        ));
        lowering.open("if (fills)");
        for side in sides {
            self.start(scope, side, depth);
        }
        lowering.close();
        line("k_copy_commit();".to_owned());
        line(format!(
            "if (step >= 0) {{ const {element}* const now = tiles + (unsigned)step % {STAGES} * {buffer}; tile.multiply(now, now + {left}); }}"
        ));
        lowering.open("if (fills)");
        for side in sides {
            let name = side.name;
            lowering.open(format_args!("if (!{name}_async)"));
            self.fill((side.operand, &side.shape), &format!("{name}_tile"), name);
            lowering.close();
        }
        lowering.close();
        lowering.close();
    }

    /// Starts filling an operand's tile: copies, or reads into registers.
    fn start(&self, scope: &Scope, side: &Side<'_>, depth: &str) {
        let lowering = self.lowering;
        let (name, of) = (side.name, (side.operand, &side.shape));
        let sizes = (side.first, side.size.as_str(), depth);
        if side.operand.is_plain && side.shape.is_straight {
            let rows = match name {
                "x" => self.plan.tile[0],
                _ => self.plan.tile[1],
            };
            lowering.open(format_args!("if ({name}_async)"));
            lowering.open(format_args!(
                "if ({} + {rows} <= {} && k0 + {} <= {depth})",
                side.first, side.size, self.plan.tile[2]
            ));
            self.copy(scope, of, (sizes, true), name);
            lowering.close();
            lowering.open("else");
            self.copy(scope, of, (sizes, false), name);
            lowering.close();
            lowering.close();
            lowering.open("else");
        } else {
            lowering.open("");
        }
        self.read(scope, of, sizes, name);
        lowering.close();
    }

    fn tile_type(&self) -> String {
        let [bm, bn, bk] = self.plan.tile;
        let element = self.element;
        match self.unit {
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
}
