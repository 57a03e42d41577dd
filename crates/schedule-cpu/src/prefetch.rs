//! Software prefetch in row kernels: which memory is prefetched while rows are computed.
//!
//! A row kernel makes several passes over a row: the first is bound by memory, while the later ones find the row in the
//! cache and leave memory idle. The later passes prefetch the next row, and the first pass prefetches the lines of the
//! row's results.

use std::collections::{BTreeMap, BTreeSet};

use kiln_backend::Quantity;
use kiln_kernel::analysis::{Dependence, expression_nodes};
use kiln_kernel::{
    AxisId, BufferId, Extent, Item, Node, NodeId, StageOperation, Store, VerifiedKernel,
};

use crate::loops::{LoopNest, Prefetches};
use crate::tile::{Tile, VectorAxis};

/// If more tiles than this read the same block, the first one's wait is negligible.
const FEW_TILES: i64 = 8;

/// The prefetches of a nest.
#[derive(Clone, Debug, Default)]
pub struct Prefetch {
    /// Loads that prefetch the elements of the next rows: those of all items except the first that read a buffer along
    /// their own inner axes.
    loads: BTreeSet<NodeId>,
    /// The axis that the first of these items reduces, and the stores whose lines it prefetches: those over axes of the
    /// same length, by position in the list of items.
    stores: Option<(AxisId, Vec<(usize, AxisId)>)>,
    /// The distance in rows from this tile to the next.
    pub rows_ahead: u32,
    /// Whether the next tile covers other columns, as a quantity.
    columns_first: Option<Quantity>,
}

impl Prefetch {
    /// The profitable prefetches of a tile. Rows are prefetched only if items are vectorised along their own axes.
    pub(crate) fn wanted(
        kernel: &VerifiedKernel,
        dependence: &Dependence,
        tile: &Tile,
    ) -> Prefetches {
        let lines = match tile.vector {
            VectorAxis::Inner => Self::of_rows(kernel, dependence, tile),
            VectorAxis::None | VectorAxis::Outer(_) => Self::default(),
        };
        Prefetches {
            rows: !lines.loads.is_empty(),
            results: lines.stores.is_some(),
            ..Prefetches::default()
        }
    }

    /// The prefetches of a nest.
    pub(crate) fn of(
        kernel: &VerifiedKernel,
        dependence: &Dependence,
        nest: &LoopNest,
        columns_first: Quantity,
    ) -> Self {
        let mut prefetch = match nest.prefetch.rows || nest.prefetch.results {
            true => Self::of_rows(kernel, dependence, &nest.tile),
            false => Self::default(),
        };
        if !nest.prefetch.rows {
            prefetch.loads.clear();
        }
        if !nest.prefetch.results {
            prefetch.stores = None;
        }
        prefetch.columns_first = Some(columns_first);
        prefetch
    }

    fn of_rows(kernel: &VerifiedKernel, dependence: &Dependence, tile: &Tile) -> Self {
        let rows = tile.rows.map_or(1, |(_, rows)| rows);
        let mut readers: BTreeMap<BufferId, Vec<(usize, Vec<NodeId>)>> = BTreeMap::new();
        for (position, item) in kernel.items().iter().enumerate() {
            let mut loads: BTreeMap<BufferId, Vec<NodeId>> = BTreeMap::new();
            for node in nodes_of(kernel, item) {
                if let Node::Load(load) = kernel.node(node) {
                    let is_inner =
                        |axis| !kernel.outer().contains(&axis) && dependence.depends(node, axis);
                    if kernel.axes().keys().any(is_inner) {
                        loads.entry(load.buffer).or_default().push(node);
                    }
                }
            }
            for (buffer, loads) in loads {
                readers.entry(buffer).or_default().push((position, loads));
            }
        }
        let mut prefetch = Self {
            rows_ahead: if tile.spread { 1 } else { rows },
            ..Self::default()
        };
        for readers in readers.into_values() {
            // A single loop keeps memory busy.
            if let [(first, _), later @ ..] = readers.as_slice()
                && !later.is_empty()
            {
                let later = later.iter().flat_map(|(_, loads)| loads);
                prefetch.loads.extend(later.copied());
                // For several rows at once it would take too many registers.
                if prefetch.stores.is_none() && rows == 1 {
                    prefetch.stores = stores_after(kernel, *first);
                }
            }
        }
        prefetch
    }

    /// Whether a load prefetches the elements of the next rows.
    pub fn is_ahead(&self, load: NodeId) -> bool {
        self.loads.contains(&load)
    }

    /// The stores, each with its axis, whose lines are prefetched in a loop over a reduced axis.
    pub fn stores_along<'k>(
        &self,
        kernel: &'k VerifiedKernel,
        reduced: AxisId,
    ) -> Vec<(&'k Store, AxisId)> {
        let stores = self.stores.iter().filter(|(axis, _)| *axis == reduced);
        let stores = stores.flat_map(|(_, stores)| stores);
        let store = |&(position, axis): &(usize, AxisId)| match kernel.items().get(position) {
            Some(Item::Store(store)) => Some((store, axis)),
            _ => None,
        };
        stores.filter_map(store).collect()
    }

    /// 1 if a few consecutive tiles read the same block, each for some of the rows; otherwise 0.
    pub fn shares_blocks(&self, all: &Quantity, mine: &Quantity) -> Quantity {
        let one = Quantity::constant(1);
        let others = (all.clone() - mine.clone()).max(Quantity::constant(0));
        let few = (mine.clone() * Quantity::constant(FEW_TILES)).floor_div(all.clone());
        let rows_first = match &self.columns_first {
            Some(columns_first) => one.clone() - columns_first.clone(),
            None => one.clone(),
        };
        others.min(one.clone()) * few.min(one) * rows_first
    }
}

/// The axis that an item reduces, and the stores after it over one axis of the same length.
fn stores_after(kernel: &VerifiedKernel, first: usize) -> Option<(AxisId, Vec<(usize, AxisId)>)> {
    let Item::Stage(stage) = kernel.items().get(first)? else {
        return None;
    };
    let StageOperation::Reduce { axes, .. } = &kernel.stage(*stage).operation else {
        return None;
    };
    let &[reduced] = axes.as_slice() else {
        return None;
    };
    let Extent::Size(length) = kernel.axis(reduced).extent else {
        return None;
    };
    let mut stores = Vec::new();
    for (position, item) in kernel.items().iter().enumerate().skip(first) {
        if let Item::Store(store) = item
            && let &[axis] = store.axes.as_slice()
            && kernel.axis(axis).extent == Extent::Size(length)
            && store.combine.is_none()
        {
            stores.push((position, axis));
        }
    }
    Some((reduced, stores))
}

/// The nodes below an item; empty for a carry block, which processes its rows step by step.
fn nodes_of(kernel: &VerifiedKernel, item: &Item) -> BTreeSet<NodeId> {
    let root = match item {
        Item::Stage(stage) => kernel.stage(*stage).value,
        Item::Store(store) => store.value,
        Item::Carry(_) => return BTreeSet::new(),
    };
    expression_nodes(kernel, &[root]).into_iter().collect()
}
