//! Attention with a softmax that is updated: a block has a tile of queries and goes through the keys and their values, tile
//! by tile, so that scores are in registers alone.
//!
//! Of each row the maximum so far and the sum of weights so far are kept; where a tile raises the maximum, what was summed
//! is rescaled. Scores go through the kernel's own expressions, and so do the results. Operands are filled as those of
//! contractions are; the weights are the left operand of the second product where they are.

mod find;
mod form;
mod memory;
mod parts;
mod plan;
mod propose;
mod results;
mod steps;
mod weight;

use kiln_backend::Quantity;
use kiln_kernel::AxisId;

use super::function::{Function, FunctionParts};
use super::lowering::Lowering;
use super::scope::Scope;
use super::tile::{self, Filler, Points, Side, TileShape};
use crate::error::CudaError;
pub(super) use form::Attention;
use memory::Memory;
pub(crate) use plan::{AttentionPlan, AttentionTile};
pub(super) use propose::plans;

/// Writes the kernel: a function per size of tile, of which one has tasks, as sizes decide.
pub(super) fn generate(
    lowering: &Lowering<'_>,
    plan: &AttentionPlan,
) -> Result<Vec<Function>, CudaError> {
    let kernel = lowering.kernel;
    let attention = Attention::of(kernel, lowering.dependence).filter(|a| a.unit == plan.unit);
    let Some(attention) = attention else {
        return Err(CudaError::not_for(kernel, "an attention"));
    };
    let write = |tile| Writer::new(lowering, tile, &attention).write();
    let large = write(&plan.tile);
    Ok(tile::for_sizes(large, plan.few.as_ref().map(write)))
}

/// Writes the function of a tile.
struct Writer<'l, 'k> {
    lowering: &'l Lowering<'k>,
    filler: Filler<'l, 'k>,
    tile: &'l AttentionTile,
    attention: &'l Attention,
    memory: Memory,
}

/// The operands in the loop.
struct Sides<'a> {
    queries: Side<'a>,
    keys: Side<'a>,
    values: Side<'a>,
}

impl<'l, 'k> Writer<'l, 'k> {
    fn new(lowering: &'l Lowering<'k>, tile: &'l AttentionTile, attention: &'l Attention) -> Self {
        let depth = super::points(lowering.kernel, &attention.depth).as_constant();
        Self {
            lowering,
            filler: Filler {
                lowering,
                unit: attention.unit,
                threads: tile.threads(attention.unit),
                // Tensor cores leave no registers for it.
                reads_ahead: !attention.unit.has_tensor_cores(),
            },
            tile,
            attention,
            memory: Memory::of(attention, depth, tile),
        }
    }

    fn points(&self, axes: &[AxisId]) -> Quantity {
        super::points(self.lowering.kernel, axes)
    }

    /// The tiles along rows and columns.
    fn tiles(&self) -> [Quantity; 2] {
        let tiles = |axes: &[AxisId], size: u32| {
            let size = Quantity::constant(i64::from(size));
            self.points(axes).ceil_div(size)
        };
        [
            tiles(&self.attention.queries.axes, self.tile.rows),
            tiles(&self.attention.values.axes, self.tile.columns),
        ]
    }

    fn tasks(&self) -> Quantity {
        let [rows, columns] = self.tiles();
        self.points(&self.attention.batch) * rows * columns
    }

    /// The points of axes that are all sizes.
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
            .with_shared(Quantity::constant(i64::from(memory.bytes)));
        let line = |text: String| lowering.line(text);
        let [tiles_m, tiles_e] = self.tiles().map(|tiles| lowering.quantity(&tiles));
        // Neighbours have the same keys, which stay in the cache.
        line("k_i64 row_tile, column_tile;".to_owned());
        line(format!(
            "const k_i64 z = k_split(k_split(t, {tiles_m}, row_tile), {tiles_e}, column_tile);"
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
        self.leave(&scope, &sides);
        function.finish(lowering)
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
