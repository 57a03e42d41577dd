//! Register-tile transposes: maps whose operand is contiguous along the tile's rows and strided along its vectors.

use kiln_backend::Quantity;
use kiln_kernel::analysis::expression_nodes;
use kiln_kernel::{AxisId, IndexClass, Load, Node, NodeId, Store, VerifiedKernel};

use crate::layout::Layout;
use crate::tile::{Tile, VectorAxis};
use crate::value_cost::n_operations;

/// Expressions of at most this many operations are emitted once for each row of a transposed tile.
const OPERATIONS_LIMIT: usize = 32;

/// Whether a store's tiles of as many rows as a vector has lanes load operands along the rows and transpose them.
pub(crate) fn transposes(
    kernel: &VerifiedKernel,
    layout: &Layout<'_>,
    tile: &Tile,
    store: &Store,
) -> bool {
    let (Some((rows, count)), VectorAxis::Outer(columns)) = (tile.rows, tile.vector) else {
        return false;
    };
    count == tile.lanes
        && !tile.spread
        && n_operations(kernel, store.value) <= OPERATIONS_LIMIT
        && !transposed_loads(kernel, layout, store, rows, columns).is_empty()
}

/// The loads of a store that are transposed, with their stride along the vectors.
pub fn transposed_loads<'k>(
    kernel: &'k VerifiedKernel,
    layout: &Layout<'_>,
    store: &Store,
    rows: AxisId,
    columns: AxisId,
) -> Vec<(NodeId, &'k Load, Quantity)> {
    if !store.axes.is_empty() {
        return Vec::new();
    }
    let below = expression_nodes(kernel, &[store.value]).into_iter();
    below
        .filter_map(|node| {
            let Node::Load(load) = kernel.node(node) else {
                return None;
            };
            let mut classes = kernel.info().loads[node].iter();
            let is_there = load.guard.is_none()
                && layout.pack(load.buffer).is_none()
                && classes.all(|class| *class == IndexClass::Proved);
            let along_rows = layout.movement(node, rows)?;
            let step = layout.movement(node, columns)?;
            let is_apart = !matches!(step.as_constant(), Some(0..=2));
            (is_there && along_rows.as_constant() == Some(1) && is_apart)
                .then_some((node, load, step))
        })
        .collect()
}
