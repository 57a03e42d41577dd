//! Memory works while rows are computed.
//!
//! A row kernel goes through a row in one loop after the other: the first waits for memory, the others find the row in
//! the cache and leave memory idle. So those ask for the row that the first will want next, and the first for the memory
//! that the row's results will be written to.

use std::collections::{BTreeMap, BTreeSet};

use kiln_backend::Quantity;
use kiln_kernel::analysis::Dependence;
use kiln_kernel::{
    AxisId, BufferId, Extent, Item, Load, Node, NodeId, StageOperation, Store, VerifiedKernel,
};

use super::access::Address;
use super::context::Lowering;
use super::packed::packed_strides;
use super::scope::{Coordinate, Form, Rows, Scope, Vectors};
use super::tile::Tile;
use crate::emit::{Intent, Value};
use crate::error::LlvmError;

/// How many bytes ahead packed operands are asked for: what a tile uses while memory answers.
const AHEAD: i64 = 8192;

/// A tile of so many rows takes less time with a line than memory takes to bring it.
const WAITING_ROWS: u32 = 4;

/// Of more tiles that read the same block, the first does not count.
const FEW_TILES: i64 = 8;

/// Bytes that a fetch brings.
const LINE: u32 = 64;

/// What is asked for ahead of its use, and where.
#[derive(Debug, Default)]
pub(crate) struct Prefetch {
    /// Loads that ask for what they will load in the next rows: those of all items but the first that read a buffer along
    /// axes of their own.
    loads: BTreeSet<NodeId>,
    /// The axis that the first of these items reduces, and the stores over axes just as long, by position in the list
    /// of items, whose lines it asks for.
    stores: Option<(AxisId, Vec<(usize, AxisId)>)>,
    /// How far the rows of the next tile are from those of this one.
    next: u32,
    /// Whether the next tile is of other columns, as a quantity.
    pub(super) columns_first: Option<Quantity>,
}

impl Prefetch {
    /// What a kernel whose items have vectors along axes of their own should ask for.
    pub(super) fn of(kernel: &VerifiedKernel, dependence: &Dependence, tile: &Tile) -> Self {
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
            next: if tile.spread { 1 } else { rows },
            ..Self::default()
        };
        for readers in readers.into_values() {
            // A loop that is all there is keeps memory busy by itself.
            if let [(first, _), later @ ..] = readers.as_slice()
                && !later.is_empty()
            {
                prefetch
                    .loads
                    .extend(later.iter().flat_map(|(_, loads)| loads).copied());
                // For several rows at once it would take too many registers.
                if prefetch.stores.is_none() && rows == 1 {
                    prefetch.stores = stores_after(kernel, *first);
                }
            }
        }
        prefetch
    }

    /// 1 where a few tiles one after the other, of some of all rows each, read the same block, else 0.
    fn is_shared(&self, all: &Quantity, mine: &Quantity) -> Quantity {
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

/// The nodes below an item; none of what a carry block holds, which goes through its rows step by step.
fn nodes_of(kernel: &VerifiedKernel, item: &Item) -> BTreeSet<NodeId> {
    let mut pending = match item {
        Item::Stage(stage) => vec![kernel.stage(*stage).value],
        Item::Store(store) => vec![store.value],
        Item::Carry(_) => Vec::new(),
    };
    let mut seen = BTreeSet::new();
    while let Some(node) = pending.pop() {
        if seen.insert(node) {
            let operands = &mut |operand| pending.push(operand);
            kernel.node(node).for_each_operand(operands);
        }
    }
    seen
}

impl<'ctx> Lowering<'_, '_, 'ctx> {
    /// Asks for what lies further on in a packed operand. A tile of many rows computes for so long with each line that a
    /// core, which looks a few hundred instructions ahead, would ask for the next ones too late.
    pub(super) fn fetch_further_blocks(
        &self,
        scope: &Scope<'ctx>,
        load: &Load,
        pointer: Value<'ctx>,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let (Some(rows), Some(vectors), Some(pack)) =
            (scope.rows, scope.vectors, self.pack(load.buffer))
        else {
            return Ok(());
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let (strides, _) = packed_strides(self.kernel, pack);
        // What is needed of a short block is there soon enough.
        let is_long = strides.first().is_some_and(|block| {
            let elements = AHEAD / dtype.size_in_bytes() as i64;
            block.as_constant().is_none_or(|block| block > elements)
        });
        if !is_long || !starts_line(&vectors, dtype.size_in_bytes(), at) {
            return Ok(());
        }
        match rows.count {
            ..2 => {}
            2..=WAITING_ROWS => self.fetch_share_of_next_block(scope, &rows, load, at)?,
            _ => {
                let ahead = self.emit.offset(pointer, self.emit.i64(AHEAD));
                self.emit.prefetch(ahead, Intent::ReadLater);
            }
        }
        Ok(())
    }

    /// Asks for what a tile of a few rows, or the one after it, will read.
    ///
    /// Where few such tiles read a block, one after the other, the first would wait for memory, and memory for the others.
    /// So each of them asks for a share of the next block, as large as its share of the rows.
    fn fetch_share_of_next_block(
        &self,
        scope: &Scope<'ctx>,
        rows: &Rows<'ctx>,
        load: &Load,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let emit = &self.emit;
        let Some(pack) = self.pack(load.buffer) else {
            return Ok(());
        };
        let (mut strides, _) = packed_strides(self.kernel, pack);
        let [block, inner @ .., _] = strides.as_mut_slice() else {
            return Ok(());
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        let all = self.bound(rows.axis).max(Quantity::constant(1));
        let mine = Quantity::constant(i64::from(rows.count));
        let shared = self.prefetch.is_shared(&all, &mine);
        let alone = Quantity::constant(1) - shared.clone();
        for stride in inner {
            let share = (stride.clone() * mine.clone()).floor_div(all.clone());
            *stride = alone.clone() * stride.clone() + shared.clone() * share;
        }
        let ahead = Quantity::constant(AHEAD / dtype.size_in_bytes() as i64);
        let ahead = alone * ahead + shared.clone() * block.clone();
        let per_row = shared * block.clone().floor_div(all);
        let place = self.packed_place(scope, (pack, &strides), &load.indices, at)?;
        let ahead = emit.iadd(self.quantity(&ahead), emit.i64(place.fixed));
        let ahead = emit.iadd(ahead, emit.imul(rows.base, self.quantity(&per_row)));
        let element = emit.iadd(place.element, ahead);
        let pointer = emit.element(self.base(load.buffer), dtype, element);
        emit.prefetch(pointer, Intent::ReadLater);
        Ok(())
    }

    /// Asks for what a load reads in the next rows, if it is one that does.
    pub(super) fn fetch_next_rows(
        &self,
        scope: &Scope<'ctx>,
        node: NodeId,
        load: &Load,
        pointer: Value<'ctx>,
        at: Coordinate,
    ) {
        let asks = self.prefetch.loads.contains(&node);
        let Some(vectors) = scope.vectors.filter(|_| asks) else {
            return;
        };
        // In the order of units the rows of a tile come first, else the last of the outer axes.
        let (axis, rows) = match (scope.rows, self.kernel.outer().last()) {
            (Some(rows), _) => (rows.axis, self.prefetch.next),
            (None, Some(&axis)) => (axis, 1),
            (None, None) => return,
        };
        let dtype = self.kernel.buffer(load.buffer).dtype;
        if !starts_line(&vectors, dtype.size_in_bytes(), at) {
            return;
        }
        if let Some(step) = self.step_along(load, axis) {
            let emit = &self.emit;
            let step = step * Quantity::constant(i64::from(rows));
            let next = emit.element(pointer, dtype, self.quantity(&step));
            emit.prefetch(next, Intent::Read);
        }
    }

    /// Asks for the lines that will be written at some points of the tile, in a loop over the axis that the first item
    /// reduces.
    pub(super) fn fetch_results(
        &self,
        scope: &Scope<'ctx>,
        points: &[Coordinate],
    ) -> Result<(), LlvmError> {
        let (Some(vectors), Some((reduced, stores))) = (scope.vectors, &self.prefetch.stores)
        else {
            return Ok(());
        };
        if vectors.axis != *reduced {
            return Ok(());
        }
        for &(position, axis) in stores {
            let Some(Item::Store(store)) = self.kernel.items().get(position) else {
                unreachable!("stores are where they were found")
            };
            let scope = scope.with_vectors(Vectors { axis, ..vectors });
            for &at in points {
                self.fetch_result(&scope, &vectors, store, at)?;
            }
        }
        Ok(())
    }

    fn fetch_result(
        &self,
        scope: &Scope<'ctx>,
        vectors: &Vectors<'ctx>,
        store: &Store,
        at: Coordinate,
    ) -> Result<(), LlvmError> {
        let dtype = self.kernel.buffer(store.buffer).dtype;
        if starts_line(vectors, dtype.size_in_bytes(), at) {
            let address =
                self.buffer_address(scope, store.buffer, &store.indices, at, Form::Lanes)?;
            if let Address::Consecutive(pointer) = address {
                // What goes past the caches must not be brought into them.
                let streamed = self.is_large(store.buffer);
                let pointer = self.emit.select(streamed, self.dummy(), pointer);
                self.emit.prefetch(pointer, Intent::Write);
            }
        }
        Ok(())
    }

    fn step_along(&self, load: &Load, axis: AxisId) -> Option<Quantity> {
        let mut step = Quantity::constant(0);
        for (position, &index) in load.indices.iter().enumerate() {
            let along = self.dependence.step_along(self.kernel, index, axis)?;
            step = step + self.stride(load.buffer, position) * Quantity::constant(along);
        }
        (step.as_constant() != Some(0)).then_some(step)
    }
}

/// Whether a vector is the first of its line: one fetch per line is enough.
fn starts_line(vectors: &Vectors<'_>, bytes: usize, at: Coordinate) -> bool {
    let of_vector = vectors.lanes * bytes as u32;
    at.vector.is_multiple_of((LINE / of_vector.max(1)).max(1))
}
