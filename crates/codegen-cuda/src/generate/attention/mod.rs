//! Attention with an online softmax ("flash attention"): a block has a tile of queries and iterates over the keys and
//! values tile by tile, so that scores are kept in registers only.
//!
//! For each row, the running maximum and the running sum of weights are kept; when a tile raises the maximum, the sums
//! are rescaled. Scores and results are computed with the kernel's own expressions. Operand tiles are filled as for
//! contractions; the weights are used from registers as the left operand of the second product.

mod find;
mod form;
mod mask;
mod memory;
mod parts;
mod plan;
mod propose;
mod results;
mod split;
mod steps;
mod weight;

use kiln_backend::Quantity;
use kiln_kernel::{AxisId, VerifiedKernel};

use super::function::{Function, FunctionParts};
use super::lowering::Lowering;
use super::scope::Scope;
use super::tile::{self, Filler, Points, Side, TileShape};
use crate::error::CudaError;
pub(super) use form::Attention;
use memory::Memory;
pub(crate) use plan::{AttentionPlan, AttentionTile};
pub(super) use propose::plans;
use split::Splits;

/// Writes the kernel: a function per tile size, only one of which has tasks, depending on sizes. If keys are split,
/// another function merges the splits; if keys are masked, the first function flags values.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &AttentionPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let attention = Attention::of(kernel, lowering.dependence).filter(|a| a.unit == plan.unit);
    let Some(attention) = attention else {
        return Err(CudaError::not_for(kernel, "an attention"));
    };
    let new = |tile, splits| Writer::new(lowering, (tile, splits), &attention);
    let mut functions = Vec::new();
    if let Some(mask) = &attention.mask {
        functions.push(new(&plan.tile, None).flag_values(mask));
    }
    let write = |tile| new(tile, None).write();
    let large = write(&plan.tile);
    let is_few = Quantity::constant(1) - tile::is_enough(&large.tasks);
    let direct = tile::for_sizes(large, plan.few.as_ref().map(write));
    let Some(tile) = &plan.split else {
        functions.extend(direct);
        return Ok(functions);
    };
    let splits = Splits::of(kernel, &attention, tile);
    let more = splits.number.clone() - Quantity::constant(1);
    let is_split = is_few * more.min(Quantity::constant(1));
    let is_whole = Quantity::constant(1) - is_split.clone();
    functions.extend(direct.into_iter().map(|direct| direct.only_when(&is_whole)));
    let writer = new(tile, Some(splits.clone()));
    functions.push(writer.write().only_when(&is_split));
    functions.push(writer.merge(&splits).only_when(&is_split));
    Ok(functions)
}

/// The tiles along rows and columns.
fn rows_and_columns(
    kernel: &VerifiedKernel,
    attention: &Attention,
    tile: &AttentionTile,
) -> [Quantity; 2] {
    let tiles = |axes: &[AxisId], size: u32| {
        let size = Quantity::constant(i64::from(size));
        super::points(kernel, axes).ceil_div(size)
    };
    [
        tiles(&attention.queries.axes, tile.rows),
        tiles(&attention.values.axes, tile.columns),
    ]
}

/// Writes the function of a tile.
struct Writer<'l, 'k> {
    lowering: &'l Lowering<'k>,
    filler: Filler<'l, 'k>,
    tile: &'l AttentionTile,
    attention: &'l Attention,
    memory: Memory,
    /// How keys are split over blocks, if they are.
    splits: Option<Splits>,
}

/// The operands in the loop.
struct Sides<'a> {
    queries: Side<'a>,
    keys: Side<'a>,
    values: Side<'a>,
}

impl<'l, 'k> Writer<'l, 'k> {
    fn new(
        lowering: &'l Lowering<'k>,
        (tile, splits): (&'l AttentionTile, Option<Splits>),
        attention: &'l Attention,
    ) -> Self {
        let depth = super::points(lowering.kernel, &attention.depth).as_constant();
        Self {
            lowering,
            filler: Filler {
                lowering,
                unit: attention.unit,
                threads: tile.threads(attention.unit),
                // With tensor cores, no registers are left for it.
                reads_ahead: !attention.unit.has_tensor_cores(),
            },
            tile,
            attention,
            memory: Memory::of(attention, depth, tile),
            splits,
        }
    }

    fn points(&self, axes: &[AxisId]) -> Quantity {
        super::points(self.lowering.kernel, axes)
    }

    fn tiles(&self) -> [Quantity; 2] {
        rows_and_columns(self.lowering.kernel, self.attention, self.tile)
    }

    fn tasks(&self) -> Quantity {
        let [rows, columns] = self.tiles();
        let tasks = self.points(&self.attention.batch) * rows * columns;
        match &self.splits {
            Some(splits) => tasks * splits.number.clone(),
            None => tasks,
        }
    }

    /// The number of points of axes whose extents are sizes.
    fn points_of<'a>(&self, axes: &'a [AxisId], first: &'a str) -> Points<'a> {
        Points {
            axes,
            first,
            size: self.lowering.quantity(&self.points(axes)),
        }
    }

    fn sides(&self) -> Sides<'_> {
        let (attention, tile, unit) = (self.attention, self.tile, self.filler.unit);
        let depth = self.points_of(&attention.depth, "k0");
        let keys = |axes| Points {
            axes,
            first: "n0",
            size: "keys".to_owned(),
        };
        Sides {
            queries: Side {
                operand: &attention.queries,
                shape: TileShape::of(unit, &attention.queries, tile.rows, tile.depth),
                name: "x",
                own: self.points_of(&attention.queries.axes, "m0"),
                deep: depth.clone(),
            },
            keys: Side {
                operand: &attention.keys,
                shape: TileShape::of(unit, &attention.keys, tile.keys, tile.depth),
                name: "y",
                own: keys(&attention.keys.axes),
                deep: depth,
            },
            values: Side {
                operand: &attention.values,
                shape: TileShape::of(unit, &attention.values, tile.columns, tile.keys),
                name: "w",
                own: self.points_of(&attention.values.axes, "e0"),
                deep: keys(std::slice::from_ref(&attention.key)),
            },
        }
    }

    fn write(&self) -> Function {
        let (lowering, memory) = (self.lowering, &self.memory);
        let (rows, columns) = (self.tile.rows, self.tile.columns);
        let function = FunctionParts::new(self.filler.threads, self.tasks())
            .with_shared(Quantity::constant(i64::from(memory.bytes)))
            .with_shared_scratch(self.scratch());
        let line = |text: String| lowering.line(text);
        let [tiles_m, tiles_e] = self.tiles().map(|tiles| lowering.quantity(&tiles));
        // Neighbouring blocks have the same keys, which stay in the cache.
        line("k_i64 row_tile, column_tile;".to_owned());
        let rest = format!("k_split(t, {tiles_m}, row_tile)");
        let rest = match &self.splits {
            None => rest,
            Some(splits) => {
                line("k_i64 split;".to_owned());
                format!(
                    "k_split({rest}, {}, split)",
                    lowering.quantity(&splits.number)
                )
            }
        };
        line(format!(
            "const k_i64 z = k_split({rest}, {tiles_e}, column_tile);"
        ));
        line(format!(
            "const k_i64 m0 = row_tile * {rows}, e0 = column_tile * {columns};"
        ));
        let mut scope = Scope::default();
        super::split_points(lowering, &mut scope, "z", &self.attention.batch);
        let keys = lowering.extent(&mut scope, self.attention.key);
        line(format!("const k_i64 keys = {keys};"));
        self.declare_memory();
        let sides = self.sides();
        self.declare_tiles(&scope, &sides);
        for side in [&sides.queries, &sides.keys, &sides.values] {
            self.filler.declare_async(&scope, side);
        }
        if memory.keeps_queries {
            lowering.open("");
            line("const k_i64 k0 = 0;".to_owned());
            self.filler.declare_ahead(&sides.queries);
            self.filler.start(&scope, &sides.queries, "queries");
            self.filler.finish(&sides.queries, "queries");
            lowering.close();
        }
        self.steps(&scope, &sides);
        line("k_copy_wait<0>();".to_owned());
        line("k_sync();".to_owned());
        line("online.finish(row_maxima, row_sums);".to_owned());
        match &self.splits {
            None => self.leave(&scope, &sides),
            Some(splits) => self.leave_partials(&scope, &sides, splits),
        }
        function.finish(lowering)
    }

    /// Bytes of scratch: flags of values, and the partial results of splits.
    fn scratch(&self) -> Quantity {
        let (kernel, attention) = (self.lowering.kernel, self.attention);
        match (&self.splits, &attention.mask) {
            (Some(splits), _) => splits.scratch(kernel, attention),
            (None, Some(mask)) => mask.scratch(kernel),
            (None, None) => Quantity::constant(0),
        }
    }

    /// Declares tiles in shared memory and in registers.
    fn declare_memory(&self) {
        let (lowering, memory) = (self.lowering, &self.memory);
        let (attention, tile) = (self.attention, self.tile);
        let AttentionTile {
            rows,
            keys,
            depth,
            columns,
            warps,
        } = *tile;
        let element = self.filler.unit.element();
        let line = |text: String| lowering.line(text);
        line(format!(
            "{element}* const queries = ({element}*)k_shared, * const slots = queries + {};",
            memory.queries
        ));
        line(format!(
            "float* const row_maxima = (float*)(k_shared + {}), * const row_sums = row_maxima + {rows};",
            memory.tiles_bytes
        ));
        let [scores, mixed] = match self.filler.unit.has_tensor_cores() {
            false => [
                format!("k_register_tile<float, {rows}, {keys}, {depth}>"),
                format!("k_register_tile<float, {rows}, {columns}, {keys}>"),
            ],
            true => {
                let (left, right) = (&attention.queries, &attention.keys);
                [
                    format!(
                        "k_matrix_tile<{element}, {rows}, {keys}, {depth}, {warps}, 1, {}, {}>",
                        left.along_depth, right.along_depth
                    ),
                    format!(
                        "k_matrix_tile<{element}, {rows}, {columns}, {keys}, {warps}, 1, true, {}>",
                        attention.values.along_depth
                    ),
                ]
            }
        };
        if memory.weights > 0 {
            line(format!(
                "float* const weights = slots + {};",
                2 * memory.slot
            ));
        }
        line(format!("{scores} scores;"));
        line(format!("{mixed} tile;"));
        line("tile.clear();".to_owned());
        line(format!("k_online<{scores}, {mixed}> online;"));
        line("online.clear();".to_owned());
    }
}
