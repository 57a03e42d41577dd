//! Maps, rows, contractions, windows and attention: one tile, chosen by the strides of the kernel's accesses.
//!
//! Vectors run along an outer axis (all items together) or along inner ones (each item by itself), whichever makes the
//! accesses cheaper. Where loads inside reductions are shared between the points of another outer axis, a tile holds several
//! rows of it.

use kiln_kernel::analysis::{Dependence, arithmetic_operations};
use kiln_kernel::{AxisId, Class, Extent, Item, Node, StageOperation, VerifiedKernel};

use super::cost::{Access, accesses};
use super::loop_splitting::split_at;
use super::packing;
use super::plan::{Plan, WinogradTile};
use super::register_tile::{
    contraction_shape, fitting, joined_shape, lanes, row_axis, skinny_vectors, tail,
};
use super::sliding::sliding_window;
use super::tile::{Tile, VectorAxis};
use super::tile_choice::Work;
use super::winograd::{Transform, Winograd};
use kiln_backend::IsaLevel;

/// Elements of a vectorised outer axis per unit of a kernel without reductions.
const MAP_CHUNK: u32 = 4096;

/// Vectors per tile of a kernel without reductions.
const MAP_VECTORS: u32 = 4;

/// The cost of a horizontal sum, in loads.
const ADD_LANES: f64 = 1.0;

/// Rows of a sliding-window tile: their sums, a row of weights and an element fit the registers.
const SLIDING_ROWS: u32 = 8;

/// Vectors processed one after the other in a unit of a sliding window: each is little work.
const SLIDING_SETS: u32 = 8;

/// Rows that share no loads and are reduced together all the same.
const STREAMS: u32 = 4;

/// The same for rows that are read again after they are reduced: they should stay in the level-1 cache until then.
const KEPT_STREAMS: u32 = 2;

/// Rows from which on packing a shared operand at each launch pays.
const COPY_ROWS: u32 = 32;

/// The same for an operand that vectors could not read in place.
pub(super) const SCATTERED_COPY_ROWS: u32 = 12;

/// Bytes of a cache line.
const LINE: u32 = 64;

/// Depth of a sum below which writing results takes longer than computing them: they are written in long runs.
const SHALLOW: u32 = 4;

/// Bytes of a tile's row that are a long run by themselves: row by row, 2000 x 2 by 2000 took 500 us instead of 580 with
/// runs of 64 bytes, and 440 instead of 350 with runs of 128.
const LONG_PIECE: u32 = 128;

/// Columns from which on vectors of half the width beat horizontal sums: measured at 100 rows of 300 and of 2000.
const FEW_OF_HALVED: u32 = 3;

/// Points of an image from which on Winograd is faster for 3 x 3 windows, its weight transform included. Measured at 14 x
/// 14 for 24 to 256 channels; at 7 x 7 it took up to twice as long.
const WINOGRAD_POINTS: u32 = 192;

/// Vectors of half the width must save at least one idle lane of this many.
const IDLE: u64 = 10;

pub(super) fn plan(kernel: &VerifiedKernel, level: IsaLevel, transform: Transform) -> Option<Plan> {
    let whole = plan_in(kernel, level, transform, lanes(kernel, level))?;
    let is_better = has_idle_lanes(kernel, &whole.tile) || only_reads(kernel, &whole.tile);
    let halves = is_better && level.halves_are_as_fast();
    let halved = halves.then(|| plan_in(kernel, level, transform, whole.tile.lanes / 2));
    let halved = halved.flatten();
    Some(
        halved
            .filter(|plan| plan.tile.vector == whole.tile.vector)
            .unwrap_or(whole),
    )
}

/// Whether vectors of half as many lanes would leave fewer idle, in products that many sums share.
fn has_idle_lanes(kernel: &VerifiedKernel, tile: &Tile) -> bool {
    let VectorAxis::Outer(axis) = tile.vector else {
        return false;
    };
    let size = kernel.dims().as_constant(kernel.axis(axis).extent.bound());
    let (Some(size), Some(_)) = (size, tile.rows) else {
        return false;
    };
    if kernel.classification().contractions.is_empty() {
        return false;
    }
    let padded = |lanes: u32| size.unsigned_abs().next_multiple_of(lanes.into());
    let (whole, half) = (padded(tile.lanes), padded(tile.lanes / 2));
    (whole - half) * IDLE >= whole
}

/// Whether a kernel reads several rows at once and only adds their elements up. Memory delivers more of them to vectors of
/// half the width: 64 MB were read at 31 GB/s instead of 27, where a core alone reads 34 at most.
fn only_reads(kernel: &VerifiedKernel, tile: &Tile) -> bool {
    let is_read = |value| matches!(kernel.node(value), Node::Load(_));
    let mut stages = kernel.stages().values();
    tile.spread
        && stages.all(|stage| match stage.operation {
            StageOperation::Reduce { .. } => is_read(stage.value),
            StageOperation::Map => stage.axes.is_empty(),
        })
        && kernel.items().iter().all(|item| is_scalar(kernel, item))
}

/// Whether a row kernel is so cheap per element that it is bound by memory when there are many rows. Rows then go one by
/// one where vectors are as long as cache lines: a layer norm over 64 MB moved 38 GB/s instead of 27. Within the caches,
/// where several rows hide each other's latency, it is 54 instead of 66.
fn waits_for_memory(kernel: &VerifiedKernel, dependence: &Dependence) -> bool {
    let is_inner = |axis: &AxisId| !kernel.outer().contains(axis);
    let inner: Vec<AxisId> = kernel.axes().keys().filter(is_inner).collect();
    let varies = |node| inner.iter().any(|&axis| dependence.depends(node, axis));
    let mut nodes = kernel.nodes().keys();
    nodes.all(|node| !varies(node) || arithmetic_operations(kernel, node).is_some())
}

/// The plan with vectors of this many lanes.
fn plan_in(
    kernel: &VerifiedKernel,
    level: IsaLevel,
    transform: Transform,
    lanes: u32,
) -> Option<Plan> {
    let dependence = Dependence::of(kernel);
    let accesses = accesses(kernel, &dependence);
    if lanes < 2 {
        return None;
    }
    let is_product = !kernel.classification().contractions.is_empty();
    let inner = inner_cost(kernel, &accesses, lanes) + if is_product { ADD_LANES } else { 0.0 };
    let mut vector = VectorAxis::Inner;
    let mut best = inner;
    for &axis in kernel.outer() {
        if !outer_vectors_allowed(kernel, &dependence, axis) {
            continue;
        }
        let cost = outer_cost(kernel, &accesses, axis, lanes);
        // Among equal costs the innermost axis wins.
        if cost <= best {
            (vector, best) = (VectorAxis::Outer(axis), cost);
        }
    }
    let has_reduction = kernel
        .stages()
        .values()
        .any(|stage| matches!(stage.operation, StageOperation::Reduce { .. }));
    let vector_axis = match vector {
        VectorAxis::Outer(axis) => Some(axis),
        _ => None,
    };
    let size = |axis: AxisId| kernel.dims().as_constant(kernel.axis(axis).extent.bound());
    let width = vector_axis.and_then(size);
    let (row_limit, vectors) = match kernel.classification().contractions.len() {
        0 | 1 => contraction_shape(level, Work::of(kernel, vector), width, lanes),
        _ => joined_shape(level, Work::of(kernel, vector), width, lanes),
    };
    let mut spread = false;
    let mut second_rows = None;
    let rows = if has_reduction {
        let allowed = |axis| rows_allowed(kernel, &dependence, axis);
        // Items vectorised along an axis of their own go row by row, except scalar stages and contractions.
        let together: Vec<Access> = accesses
            .iter()
            .filter(|access| vector_axis.is_some() || access.is_together)
            .cloned()
            .collect();
        let sharing = row_axis(kernel, &together, vector_axis, &allowed);
        let streams = || stream_axis(kernel, &dependence, vector);
        if let (Some(first), Some(vector)) = (sharing, vector_axis)
            && kernel.classification().class == Class::Contraction
        {
            let others = |axis| axis != first && allowed(axis);
            let is_shared = |axis: &AxisId| {
                let mut along = together.iter().filter(|access| access.depends(vector));
                along.all(|access| access.depth == 0 || !access.depends(*axis))
            };
            second_rows = row_axis(kernel, &together, vector_axis, &others)
                .filter(|axis| size(*axis).is_none() && is_shared(axis));
        }
        match sharing {
            Some(axis) if is_product => Some((axis, row_limit)),
            Some(axis) => Some((axis, STREAMS)),
            None => {
                spread = vector_axis.is_none();
                streams()
            }
        }
    } else {
        None
    };
    let turned = vector_axis
        .filter(|_| !has_reduction)
        .and_then(|columns| turned_axis(kernel, &accesses, columns, lanes));
    let rows = rows
        .map(|(axis, limit)| (axis, fitting(limit, size(axis))))
        .or(turned.map(|axis| (axis, lanes)))
        .filter(|&(_, count)| count > 1);
    let slides = rows
        .zip(vector_axis)
        .is_some_and(|((rows, _), columns)| slides(kernel, &dependence, rows, columns));
    let (rows, vectors) = match rows {
        Some((axis, _)) if slides => (Some((axis, fitting(SLIDING_ROWS, size(axis)))), 1),
        _ => (rows, vectors),
    };
    let vectors = match (vector_axis.and_then(size), has_reduction) {
        (Some(size), _) if size <= i64::from(lanes) => 1,
        (_, false) if turned.is_some() => 1,
        (_, false) => unbroken(kernel, &dependence, vector_axis, lanes),
        _ if rows.is_none() => 4,
        _ => vectors,
    };
    let tile = Tile {
        rows,
        spread: rows.is_some() && spread,
        vector,
        lanes,
        vectors,
        tail: tail(kernel, level),
    };
    let set = lanes * vectors;
    let chunk = if slides {
        SLIDING_SETS * set
    } else if has_reduction {
        set
    } else {
        MAP_CHUNK.next_multiple_of(set)
    };
    let mut plan = Plan {
        tile,
        chunk,
        pack: true,
        ..Plan::default()
    };
    plan.pack = !plan.packs(kernel).is_empty();
    plan.row_by_row = tile.spread
        && level.vector_bytes() >= LINE
        && !only_reads(kernel, &tile)
        && waits_for_memory(kernel, &dependence);
    plan.winograd = winograd(kernel, &plan.tile, level, transform);
    plan.second_rows = second_rows.filter(|&second| {
        let rows = plan.tile.rows.map(|(_, count)| (second, count));
        let tile = Tile { rows, ..plan.tile };
        let other = Plan {
            tile,
            ..plan.clone()
        };
        rows.is_some() && plan.packs(kernel) == other.packs(kernel)
    });
    if is_product && let Some((rows, _)) = tile.rows {
        let copies = packing::copies(kernel, &tile);
        let dense = packing::are_dense(kernel, &copies);
        if !copies.is_empty() {
            plan.pack_rows = if dense {
                COPY_ROWS
            } else {
                SCATTERED_COPY_ROWS
            };
        }
        if !plan.pack && vector_axis.is_some() {
            if dense {
                let piece = tile.vectors * level.vector_bytes();
                plan.shallow = if piece < LONG_PIECE { SHALLOW } else { 1 };
                plan.skinny_vectors = skinny_vectors(level);
            }
            if packing::along_reduced(kernel, rows).is_some() {
                if dense && level.halves_are_as_fast() {
                    plan.half_lanes = lanes / 2;
                }
                plan.narrow = match (dense, plan.half_lanes) {
                    (false, _) => lanes,
                    // Where columns can be read in place, more than half a vector of them beats horizontal sums.
                    (true, 0) => lanes / 2 + 1,
                    (true, _) => FEW_OF_HALVED,
                };
            }
        }
    }
    Some(plan)
}

/// How 3 x 3 windows use Winograd.
fn winograd(
    kernel: &VerifiedKernel,
    tile: &Tile,
    level: IsaLevel,
    transform: Transform,
) -> Option<WinogradTile> {
    let winograd = Winograd::of(kernel, tile, transform).filter(|_| level.has_fma())?;
    let features = kernel.axis(winograd.features).extent.bound();
    let size = kernel.dims().as_constant(features);
    let (rows, vectors) = contraction_shape(level, Work::Product, size, tile.lanes);
    Some(WinogradTile {
        from: WINOGRAD_POINTS,
        transform,
        rows,
        vectors,
    })
}

/// The axis along which a kernel without reductions reads contiguously what it writes along its vectors: a tile of as many
/// rows of it as a vector has lanes is transposed in registers.
fn turned_axis(
    kernel: &VerifiedKernel,
    accesses: &[Access],
    columns: AxisId,
    lanes: u32,
) -> Option<AxisId> {
    let is_plain = kernel.nodes().values().all(|data| match &data.node {
        Node::Load(load) => load.guard.is_none(),
        _ => true,
    });
    let is_long = |&axis: &AxisId| {
        let size = kernel.dims().as_constant(kernel.axis(axis).extent.bound());
        size.is_none_or(|size| size >= i64::from(lanes))
    };
    let constant = |access: &Access, axis| access.step(axis)?.as_constant();
    let is_turned = |&axis: &AxisId| {
        accesses
            .iter()
            .filter(|access| !access.is_store)
            .any(|access| {
                let is_apart =
                    access.step(columns).is_some() && constant(access, columns) != Some(0);
                let is_apart = is_apart && !matches!(constant(access, columns), Some(1 | 2));
                constant(access, axis) == Some(1) && is_apart
            })
    };
    let outer = kernel.outer().iter().copied();
    let mut others = outer.filter(|&axis| axis != columns).filter(is_long);
    let mut stores = accesses.iter().filter(|access| access.is_store);
    let is_written_along = stores.all(|store| constant(store, columns) == Some(1));
    (is_plain && is_written_along)
        .then(|| others.find(is_turned))
        .flatten()
}

/// Vectors per tile of a kernel without reductions: as many as are within one piece everywhere, where the boundaries of a
/// piecewise value are constants.
fn unbroken(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    vector: Option<AxisId>,
    lanes: u32,
) -> u32 {
    let boundaries = vector.map_or(Vec::new(), |axis| split_at(kernel, dependence, axis));
    let ends = boundaries.iter();
    let ends: Vec<i64> = ends.filter_map(|end| end.constant_end(kernel)).collect();
    let is_unbroken = |vectors: &u32| ends.iter().all(|end| end % i64::from(lanes * vectors) == 0);
    (1..=MAP_VECTORS)
        .rev()
        .find(is_unbroken)
        .unwrap_or(MAP_VECTORS)
}

/// Whether a window slides along rows, with an element per lane.
fn slides(kernel: &VerifiedKernel, dependence: &Dependence, rows: AxisId, columns: AxisId) -> bool {
    kernel.stages().values().any(|stage| {
        let StageOperation::Reduce { axes, .. } = &stage.operation else {
            return false;
        };
        let taps = axes.last();
        let window =
            taps.and_then(|&taps| sliding_window(kernel, dependence, stage.value, rows, taps));
        window.is_some_and(|window| {
            window.is_shared(SLIDING_ROWS) && dependence.depends(window.load, columns)
        })
    })
}

/// The cost of the accesses when each item is vectorised along an inner axis of its own.
fn inner_cost(kernel: &VerifiedKernel, accesses: &[Access], lanes: u32) -> f64 {
    accesses
        .iter()
        .map(|access| {
            let along = access
                .axes
                .iter()
                .map(|&axis| access.cost_along(axis, lanes) * waste(kernel, axis, lanes))
                .fold(1.0, f64::min);
            access.weight() * along
        })
        .sum()
}

/// The cost of the accesses when one outer axis is vectorised.
fn outer_cost(kernel: &VerifiedKernel, accesses: &[Access], axis: AxisId, lanes: u32) -> f64 {
    accesses
        .iter()
        .map(|access| access.weight() * access.cost_along(axis, lanes) * waste(kernel, axis, lanes))
        .sum()
}

/// The factor by which masked lanes raise the cost of an element.
fn waste(kernel: &VerifiedKernel, axis: AxisId, lanes: u32) -> f64 {
    match kernel.dims().as_constant(kernel.axis(axis).extent.bound()) {
        Some(size) if size > 0 => {
            let lanes = i64::from(lanes);
            let used = size
                .checked_add(lanes - 1)
                .map_or(size, |size| size / lanes * lanes);
            used as f64 / size as f64
        }
        _ => 1.0,
    }
}

/// An axis whose points are reduced together although they share no loads, and how many of them.
///
/// A sum waits for the addition before it, so several sums take no longer than one; and several rows are several streams,
/// which keep more of memory busy.
fn stream_axis(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    vector: VectorAxis,
) -> Option<(AxisId, u32)> {
    let outer = kernel.outer();
    let (axis, count) = match vector {
        // The axis next to the vectors: its points read neighbouring memory.
        VectorAxis::Outer(vector) => {
            let axis = outer.iter().rfind(|&&axis| axis != vector)?;
            (*axis, STREAMS)
        }
        _ if kernel.items().iter().any(|item| fills_array(kernel, item)) => return None,
        _ if kernel.items().iter().all(|item| is_scalar(kernel, item)) => (*outer.last()?, STREAMS),
        _ => (*outer.last()?, KEPT_STREAMS),
    };
    rows_allowed(kernel, dependence, axis).then_some((axis, count))
}

/// Whether an item keeps values along inner axes.
fn fills_array(kernel: &VerifiedKernel, item: &Item) -> bool {
    match item {
        Item::Stage(stage) => !kernel.stage(*stage).axes.is_empty(),
        Item::Store(_) => false,
        Item::Carry(_) => true,
    }
}

/// Whether an item has one value per point of the outer axes.
fn is_scalar(kernel: &VerifiedKernel, item: &Item) -> bool {
    match item {
        Item::Stage(stage) => kernel.stage(*stage).axes.is_empty(),
        Item::Store(store) => store.axes.is_empty(),
        Item::Carry(_) => false,
    }
}

/// Vectorising an outer axis requires locals that fit registers, and loops of equal length in every lane.
fn outer_vectors_allowed(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> bool {
    let arrays = kernel
        .stages()
        .iter()
        .all(|(id, stage)| stage.axes.is_empty() || !dependence.stage_depends(id, axis));
    arrays && rows_allowed(kernel, dependence, axis)
}

/// Rows require loops of equal length in every row.
fn rows_allowed(kernel: &VerifiedKernel, dependence: &Dependence, axis: AxisId) -> bool {
    let even = kernel.axes().values().all(|other| match other.extent {
        Extent::Size(_) => true,
        Extent::Clamped { value, .. } => !dependence.depends(value, axis),
    });
    even && !kernel
        .items()
        .iter()
        .any(|item| matches!(item, Item::Carry(_)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows of 417 elements times weights of this many columns.
    fn product(columns: &str) -> VerifiedKernel {
        let text = format!(
            "kernel @mm(%x: in f32[M, 417], %y: const f32[417, {columns}], %o: out f32[M, {columns}]) {{
               outer m < M, n < {columns}
               s = reduce add[k < 417] %x[m, k] * %y[k, n]
               store %o[m, n] = s
             }}"
        );
        kiln_kernel::verify(kiln_kernel::text::read(&text).unwrap()).unwrap()
    }

    fn vector(columns: &str) -> VectorAxis {
        plan(&product(columns), IsaLevel::Avx2Fma, Transform::default())
            .unwrap()
            .tile
            .vector
    }

    /// Vectors along the rows would gather: nine columns are too few to pack for.
    #[test]
    fn vectors_run_along_few_columns_rather_than_along_rows_that_few_read() {
        let VectorAxis::Outer(axis) = vector("9") else {
            panic!("columns are packed");
        };
        assert_eq!(VectorAxis::Outer(axis), vector("N"), "the columns");
        assert_eq!(vector("2"), VectorAxis::Inner);
    }

    #[test]
    fn halves_of_vectors_are_for_columns_that_leave_much_of_whole_ones_idle() {
        let has_idle_lanes = |columns: &str| {
            let kernel = product(columns);
            let plan = plan_in(&kernel, IsaLevel::Avx512, Transform::default(), 16).unwrap();
            has_idle_lanes(&kernel, &plan.tile)
        };
        let idle = ["24", "40", "72", "8"].map(has_idle_lanes);
        let busy = ["32", "48", "31", "88", "N"].map(has_idle_lanes);
        assert_eq!((idle, busy), ([true; 4], [false; 5]));
    }
}
