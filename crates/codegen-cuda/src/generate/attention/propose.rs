//! Proposes plans for an attention.

use kiln_kernel::analysis::Dependence;
use kiln_kernel::{AxisId, VerifiedKernel};

use super::split::SPLIT_KEYS;
use super::{Attention, AttentionPlan, AttentionTile, Memory};
use crate::generate::points;

/// The plans of a kernel for a machine with this much shared memory per block: many queries per block; fewer if there
/// would be too few tasks; and split keys if there would still be too few.
pub(in crate::generate) fn plans(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    shared_bytes: u32,
) -> Vec<AttentionPlan> {
    let Some(attention) = Attention::of(kernel, dependence) else {
        return Vec::new();
    };
    let constant = |axes: &[AxisId]| points(kernel, axes).as_constant();
    let depth = constant(&attention.depth);
    let columns = constant(&attention.values.axes);
    let unit = attention.unit;
    let fits = |tile: &AttentionTile| Memory::of(&attention, depth, tile).bytes <= shared_bytes;
    let [large, few, split] = match unit.has_tensor_cores() {
        false => in_registers(depth, columns),
        true => on_tensor_cores(depth, columns),
    };
    // If shared memory does not suffice, queries and keys are processed a part at a time.
    let short = |tile: AttentionTile| AttentionTile {
        depth: tile.depth.min(32),
        keys: match unit.has_tensor_cores() {
            false => tile.keys,
            true => tile.keys.min(32),
        },
        ..tile
    };
    let fitting = |tile: AttentionTile| [tile, short(tile)].into_iter().find(&fits);
    // A small number of keys is never split.
    let keys = constant(std::slice::from_ref(&attention.key));
    let has_splits = keys.is_none_or(|keys| keys >= 2 * SPLIT_KEYS);
    let split = fitting(split).filter(|_| has_splits);
    let (tile, few) = match (fitting(large), fitting(few)) {
        (Some(large), few) => (large, few.filter(|&few| few != large)),
        (None, Some(few)) => (few, None),
        (None, None) => return Vec::new(),
    };
    vec![AttentionPlan {
        unit,
        tile,
        few,
        split,
    }]
}

/// A known size, rounded up, if it is at most `most`.
fn rounded(size: Option<i64>, to: u32, most: u32) -> Option<u32> {
    let size = u32::try_from(size?).ok()?;
    let size = size.max(1).next_multiple_of(to);
    (size <= most).then_some(size)
}

/// Accumulators take `rows * (keys + columns)` of a block's registers.
fn on_tensor_cores(depth: Option<i64>, columns: Option<i64>) -> [AttentionTile; 3] {
    let depth = rounded(depth, 16, 256).unwrap_or(64);
    let otherwise = if columns.is_some() { 128 } else { 64 };
    let columns = rounded(columns, 16, 256).unwrap_or(otherwise);
    let few = AttentionTile {
        rows: 64,
        keys: if columns <= 128 { 64 } else { 32 },
        depth,
        columns,
        warps: 4,
    };
    let large = AttentionTile {
        rows: 128,
        warps: if columns <= 64 { 4 } else { 8 },
        ..few
    };
    // Keys are split if there are few queries: more rows would be empty.
    let split = AttentionTile {
        rows: 32,
        warps: 2,
        ..few
    };
    [large, few, split]
}

/// The queries stay in memory if their depth is small. With more of both, accumulators would exceed a thread's
/// registers.
fn in_registers(depth: Option<i64>, columns: Option<i64>) -> [AttentionTile; 3] {
    let is_wide = columns.is_some_and(|columns| columns > 64);
    let few = AttentionTile {
        rows: 64,
        keys: 64,
        depth: rounded(depth, 4, 64).unwrap_or(32),
        columns: if is_wide { 128 } else { 64 },
        warps: 1,
    };
    let rows = if is_wide { 64 } else { 128 };
    [AttentionTile { rows, ..few }, few, few]
}
