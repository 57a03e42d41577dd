//! The shape of a register tile: lanes, vectors and rows that fit in the registers of a level.

use kiln_kernel::analysis::{Dependence, expression_nodes};
use kiln_kernel::{AxisId, Class, Node, NodeId, VerifiedKernel};
use kiln_scalar::Function;
use kiln_tensor::DType;

use super::cost::Access;
use super::tile::Tail;
use super::tile_choice::contraction_tiles;
use super::tile_choice::{self, Work};
use kiln_backend::IsaLevel;

/// The distance in elements between words of one block of random bits: adjacent vectors of this many lanes use words of the
/// same blocks.
const RANDOM_LANES: u32 = 8;

/// Elements per vector: as many of the widest float (or the widest loaded element) as a register holds. A map with random
/// bits computes these in 64 bits anyway, and shares their blocks in narrower vectors.
pub(super) fn lanes(kernel: &VerifiedKernel, level: IsaLevel) -> u32 {
    let is_map = kernel.classification().class == Class::Map;
    let is_wide_data = |node: NodeId| {
        let data = &kernel.nodes()[node];
        let is_data = !matches!(data.node, Node::Axis(_) | Node::Size(_) | Node::Literal(_));
        is_data && data.dtype == DType::F64
    };
    let mut wide = kernel
        .nodes()
        .keys()
        .filter(|&node| is_wide_data(node))
        .peekable();
    let is_wide = match is_map && wide.peek().is_some() {
        true => {
            let dependence = Dependence::of(kernel);
            !wide.all(|node| is_of_one_axis(kernel, &dependence, node))
        }
        false => wide.peek().is_some(),
    };
    let widest = if is_wide { 64 } else { 32 };
    match is_map && has_random_bits(kernel) {
        true => level.lanes(widest).min(RANDOM_LANES),
        false => level.lanes(widest),
    }
}

/// Whether a value is arithmetic on the index of one axis: it is tabulated, or the same in all lanes.
fn is_of_one_axis(kernel: &VerifiedKernel, dependence: &Dependence, node: NodeId) -> bool {
    let axes = kernel.axes().keys();
    let n_axes = axes.filter(|&axis| dependence.depends(node, axis)).count();
    let is_arithmetic =
        |&below: &NodeId| !matches!(kernel.node(below), Node::Load(_) | Node::Local { .. });
    n_axes <= 1 && expression_nodes(kernel, &[node]).iter().all(is_arithmetic)
}

fn has_random_bits(kernel: &VerifiedKernel) -> bool {
    let is_random = |node: &Node| matches!(node, Node::Call { function, .. } if *function == Function::random_bits());
    kernel.nodes().values().any(|data| is_random(&data.node))
}

/// How a level handles a partial vector: by masks, if it has masked loads and stores of the kernel's dtypes.
pub(super) fn tail(kernel: &VerifiedKernel, level: IsaLevel) -> Tail {
    let wide = |bits: u32| {
        kernel
            .buffers()
            .values()
            .all(|buffer| buffer.dtype.bits() >= bits)
    };
    match level {
        _ if level.has_mask_registers() => Tail::Masked,
        IsaLevel::Avx2Fma if wide(32) => Tail::Masked,
        _ => Tail::Scalar,
    }
}

/// Rows and vectors of a contraction's tile: one of the level's tiles.
///
/// If the vectorised axis has `size` elements, this is the cheapest tile measured for such a row; if the size is
/// unknown, or makes no difference, the one that suits the work.
pub(super) fn contraction_shape(
    level: IsaLevel,
    work: Work,
    size: Option<i64>,
    lanes: u32,
) -> (u32, u32) {
    let tiles = contraction_tiles(level);
    let width = size
        .and_then(|size| u32::try_from(size).ok())
        .map(|size| size.div_ceil(lanes.max(1)));
    tile_choice::cheapest(level, work, tiles, width.filter(|&width| width > 0))
}

/// Rows and vectors of the tile of a kernel with several contractions: of the level's tiles, the one with the most
/// vectors whose number divides a row. Such a tile does more than sum, so units of work should be equal, and several
/// vectors hide each other's latency.
pub(super) fn joined_shape(
    level: IsaLevel,
    work: Work,
    size: Option<i64>,
    lanes: u32,
) -> (u32, u32) {
    let divides = |&&(_, vectors): &&(u32, u32)| {
        let piece = i64::from(vectors) * i64::from(lanes);
        size.is_some_and(|size| size % piece == 0)
    };
    let tiles = contraction_tiles(level).iter();
    let widest = tiles.filter(divides).max_by_key(|&&(_, vectors)| vectors);
    match widest {
        Some(&tile) => tile,
        None => contraction_shape(level, work, size, lanes),
    }
}

/// Vectors per tile of a skinny GEMM: the number that fits next to the accumulators of three rows.
pub(super) fn skinny_vectors(level: IsaLevel) -> u32 {
    const ROWS: u32 = 3;
    // Registers for an element per row, and for the vectors being loaded.
    const OTHERS: u32 = ROWS + 3;
    (level.n_vector_registers() - OTHERS) / ROWS
}

/// The row count, at most `limit`, that wastes least of an axis of `size` points.
pub(super) fn fitting(limit: u32, size: Option<i64>) -> u32 {
    let Some(size) = size
        .and_then(|size| u32::try_from(size).ok())
        .filter(|&size| size > 0)
    else {
        return limit;
    };
    let waste = |rows: u32| size.div_ceil(rows) * rows - size;
    // Fewer rows share fewer loads: dropping a row must save more than it costs.
    (limit.div_ceil(2)..=limit)
        .rev()
        .min_by_key(|&rows| (waste(rows) * 100 / size, u32::MAX - rows))
        .map_or(limit, |rows| rows.min(size))
}

/// The outer axis on which most of the loads in reductions do not depend, but the result does.
pub(super) fn row_axis(
    kernel: &VerifiedKernel,
    accesses: &[Access],
    vector: Option<AxisId>,
    allowed: &dyn Fn(AxisId) -> bool,
) -> Option<AxisId> {
    let mut best: Option<(i64, AxisId)> = None;
    for &axis in kernel.outer() {
        if Some(axis) == vector || !allowed(axis) {
            continue;
        }
        let mut shared = 0;
        let mut own = 0;
        for access in accesses.iter().filter(|access| access.depth > 0) {
            let weight = if vector.is_none_or(|vector| access.depends(vector)) {
                4
            } else {
                1
            };
            if access.depends(axis) {
                own += 1;
            } else {
                shared += weight;
            }
        }
        // If no access moves along the axis, every load is shared, but only copies are computed.
        if shared > 1 && own > 0 && best.is_none_or(|(so_far, _)| shared >= so_far) {
            best = Some((shared, axis));
        }
    }
    best.map(|(_, axis)| axis)
}
