//! Contractions with tiles in shared memory: tensor cores for 16-bit floats, register tiles for other numbers.
//!
//! Rows are the outer axes of the left factor alone, columns those of the right factor alone, and batches all others;
//! the depth is the summed axes. Several axes of one kind count as one, so a convolution is a product too. The prologue
//! of a factor is computed when a tile is filled, the epilogue when sums are stored. Elements outside the matrices are
//! zeros.

mod product;

use kiln_backend::Quantity;
use kiln_kernel::AxisId;

use super::c_type::c_type;
use super::function::{Function, FunctionParts};
use super::items::SerialItems;
use super::lowering::Lowering;
use super::plan::{ContractionPlan, Team, TilePlan};
use super::scope::{Place, Scope, When};
use super::tile::{self, Filler, Points, Results, Side, TileShape};
use super::unit::Unit;
use crate::error::CudaError;
pub(super) use product::Product;

/// The number of tiles in shared memory at a time: all but one of them are being copied.
const STAGES: u32 = 4;

/// Writes the kernel: a function per tile size, only one of which has tasks, depending on sizes.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &ContractionPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let product = Product::of(kernel, lowering.dependence).filter(|p| p.unit == plan.unit);
    let Some(product) = product else {
        return Err(CudaError::not_for(kernel, "a contraction"));
    };
    let write = |tile| TileWriter::new(lowering, plan.unit, tile, &product).write();
    let large = write(&plan.tile);
    Ok(tile::for_sizes(large, plan.few.as_ref().map(write)))
}

/// Writes the function of a product.
struct TileWriter<'l, 'k> {
    lowering: &'l Lowering<'k>,
    filler: Filler<'l, 'k>,
    plan: &'l TilePlan,
    product: &'l Product,
}

impl<'l, 'k> TileWriter<'l, 'k> {
    fn new(
        lowering: &'l Lowering<'k>,
        unit: Unit,
        plan: &'l TilePlan,
        product: &'l Product,
    ) -> Self {
        let filler = Filler {
            lowering,
            unit,
            threads: plan.threads(unit),
            // Groups of warps multiply asynchronously, and their sums take half of the registers.
            reads_ahead: matches!(plan.team, Team::Warps(_)),
        };
        Self {
            lowering,
            filler,
            plan,
            product,
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

    /// The points of some axes, in terms of a launch's numbers.
    fn points_of<'a>(&self, axes: &'a [AxisId], first: &'a str) -> Points<'a> {
        Points {
            axes,
            first,
            size: self.lowering.quantity(&self.points(axes)),
        }
    }

    fn write(&self) -> Function {
        let (lowering, product, unit) = (self.lowering, self.product, self.filler.unit);
        let [bm, bn, bk] = self.plan.tile;
        let rows = self.points_of(&product.left.axes, "m0");
        let columns = self.points_of(&product.right.axes, "n0");
        let deep = self.points_of(&product.depth, "k0");
        let side = |operand, name, own: &Points<'l>, size| Side {
            operand,
            shape: match self.plan.team {
                Team::Warps(_) => TileShape::of(unit, operand, size, bk),
                Team::WarpGroups(_) => TileShape::swizzled(operand, size, bk),
            },
            name,
            own: own.clone(),
            deep: deep.clone(),
        };
        let sides = [
            side(&product.left, "x", &rows, bm),
            side(&product.right, "y", &columns, bn),
        ];
        let buffer: u32 = sides.iter().map(|side| side.shape.elements).sum();
        let ring = STAGES * buffer * unit.element_bytes();
        let shared = ring.max(tile::strip_bytes(bn, unit.sum().size_in_bytes() as u32));
        let function = FunctionParts::new(self.filler.threads, self.tasks())
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
        let element = unit.element();
        line(format!("{element}* const tiles = ({element}*)k_shared;"));
        line(format!("{} tile;", self.tile_type()));
        line("tile.clear();".to_owned());
        for side in &sides {
            self.filler.declare_async(&scope, side);
        }
        line(format!(
            "const int steps = (int)(({} + {}) / {bk});",
            deep.size,
            bk - 1
        ));
        self.steps(&scope, &sides, buffer);
        if let Team::WarpGroups(_) = self.plan.team {
            line("tile.finish();".to_owned());
        }
        line("k_copy_wait<0>();".to_owned());
        line("k_sync();".to_owned());
        let results = Results {
            rows,
            columns,
            tile: [bm, bn],
            sum: c_type(unit.sum()),
            rows_fastest: product.rows_fastest,
            lanes: product.lanes,
            threads: self.filler.threads,
        };
        tile::leave(lowering, &scope, &results, &|mut inner, sums| {
            inner.place(product.stage, When::Current, Place::Values(sums));
            let rest = lowering.kernel.items().get(1..).unwrap_or_default();
            SerialItems::new(lowering, None).items(&mut inner, rest);
        });
        function.finish(lowering)
    }

    /// The loop over the depth. The tile of a step is filled some steps earlier; the first steps only fill.
    fn steps(&self, scope: &Scope, sides: &[Side<'_>; 2], buffer: u32) {
        let (lowering, element) = (self.lowering, self.filler.unit.element());
        let [_, _, bk] = self.plan.tile;
        let line = |text: String| lowering.line(text);
        // Groups of warps may still be multiplying the tile of the last step, so its place is not filled yet.
        let (ahead, fence) = match self.plan.team {
            Team::Warps(_) => (STAGES - 1, ""),
            Team::WarpGroups(_) => (STAGES - 2, "k_fence_shared(); "),
        };
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
            self.filler.declare_ahead(side);
        }
        // All threads' copies for this step have completed, and the tile to be filled is free.
        line(format!(
            "if (step >= 0) {{ k_copy_wait<{}>(); {fence}k_sync(); }}",
            ahead - 1
        ));
        lowering.open("if (fills)");
        for side in sides {
            self.filler
                .start(scope, side, &format!("{}_tile", side.name));
        }
        lowering.close();
        line("k_copy_commit();".to_owned());
        let as_words = match self.filler.unit.packed() {
            1 => "",
            _ => "(const int*)",
        };
        line(format!(
            "if (step >= 0) {{ const {element}* const now = tiles + (unsigned)step % {STAGES} * {buffer}; tile.multiply({as_words}now, {as_words}(now + {left})); }}"
        ));
        lowering.open("if (fills)");
        for side in sides {
            self.filler.finish(side, &format!("{}_tile", side.name));
        }
        lowering.close();
        lowering.close();
    }

    fn tile_type(&self) -> String {
        let [bm, bn, bk] = self.plan.tile;
        let unit = self.filler.unit;
        let element = unit.element();
        match unit.has_tensor_cores() {
            false if unit.packed() > 1 => {
                let words = bk / unit.packed();
                format!("k_register_tile<int, {bm}, {bn}, {words}, k_dot_bytes>")
            }
            false => format!("k_register_tile<{element}, {bm}, {bn}, {bk}>"),
            true => {
                let (name, team) = match self.plan.team {
                    Team::Warps([rows, columns]) => ("k_matrix_tile", format!("{rows}, {columns}")),
                    Team::WarpGroups(groups) => ("k_group_tile", groups.to_string()),
                };
                let (left, right) = (&self.product.left, &self.product.right);
                format!(
                    "{name}<{element}, {bm}, {bn}, {bk}, {team}, {}, {}>",
                    left.along_depth, right.along_depth
                )
            }
        }
    }
}
