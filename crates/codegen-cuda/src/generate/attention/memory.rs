//! The layout of a block's shared memory.

use super::Attention;
use super::plan::AttentionTile;
use crate::generate::tile::{TileShape, strip_bytes};

/// The shared memory of a block, in elements of tiles unless stated in bytes.
pub(super) struct Memory {
    /// Whether the queries stay in memory, because one step covers their whole depth.
    pub(super) keeps_queries: bool,
    pub(super) queries: u32,
    pub(super) keys: u32,
    /// A slot of the double buffer: a tile of keys, possibly with one of queries, or a tile of values.
    pub(super) slot: u32,
    /// Weights that are moved to the registers of the multiplication.
    pub(super) weights: u32,
    /// Bytes before the maxima and sums of the rows.
    pub(super) tiles_bytes: u32,
    /// Total bytes.
    pub(super) bytes: u32,
}

impl Memory {
    pub(super) fn of(attention: &Attention, depth: Option<i64>, tile: &AttentionTile) -> Self {
        let unit = attention.unit;
        let shape = |operand, rows, depth| TileShape::of(unit, operand, rows, depth).elements;
        let queries = shape(&attention.queries, tile.rows, tile.depth);
        let keys = shape(&attention.keys, tile.keys, tile.depth);
        let values = shape(&attention.values, tile.columns, tile.keys);
        let keeps_queries = depth.is_some_and(|depth| depth <= i64::from(tile.depth));
        let (kept, moving) = match keeps_queries {
            true => (queries, 0),
            false => (0, queries),
        };
        let slot = (keys + moving).max(values);
        let weights = match unit.has_tensor_cores() {
            false => tile.keys * (tile.rows + 4),
            true => 0,
        };
        let tiles = (kept + 2 * slot + weights) * unit.element_bytes();
        let tiles_bytes = tiles.max(strip_bytes(tile.columns, 4));
        Self {
            keeps_queries,
            queries: kept,
            keys,
            slot,
            weights,
            tiles_bytes,
            bytes: tiles_bytes + 2 * 4 * tile.rows,
        }
    }
}
