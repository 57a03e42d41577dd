//! Derives the transformations of a nest's loops from its tile: how each item is vectorised, peeled, split and
//! prefetched.

use std::collections::BTreeSet;

use kiln_backend::IsaLevel;
use kiln_kernel::analysis::{Dependence, GuardedIndex};
use kiln_kernel::{AxisId, Class, Item, StageId, StageOperation, Store, VerifiedKernel};

use crate::accumulator_splitting::accumulators;
use crate::launch_packing;
use crate::layout::Layout;
use crate::loop_splitting::{MAX_SPLITS, MAX_VERSIONS, split_at, unswitched};
use crate::loops::{ItemLoops, LoopNest, PeelTaps, Prefetches, VectorSteps, items, vector_steps};
use crate::narrow_products::{sums_fours, sums_pairs};
use crate::prefetch::Prefetch;
use crate::scaled_bytes::sums_scaled_fours;
use crate::sliding::sliding_window;
use crate::tile::{Tile, VectorAxis};
use crate::value_cost::n_operations;
use crate::{non_temporal, packing, register_transpose, transposing_reduction};

/// The innermost axis of a reduction is unrolled if its points times the accumulators are at most this. With more, LLVM
/// moves the loads of all points together, and spills accumulators.
const UNROLL: u32 = 20;

/// Expressions of at most this many operations are computed for all rows of a tile at once.
const TOGETHER_LIMIT: usize = 6;

/// Prefetch distance in packed operands, in bytes: what a tile reads during one memory latency.
const PACKED_AHEAD: u32 = 8192;

/// A tile of this many rows or fewer spends less time on a line than memory takes to deliver it.
const WAITING_ROWS: u32 = 4;

/// Scalar operations per task.
const TASK_OPERATIONS: i64 = 1 << 16;

/// Completes a nest whose strategy, sizes, tile, remainder and packing are decided.
pub(crate) fn annotate(
    kernel: &VerifiedKernel,
    dependence: &Dependence,
    level: IsaLevel,
    packs: &[kiln_backend::PackSpec],
    nest: &mut LoopNest,
) {
    let (copies, _) = launch_packing::place(kernel, nest.copies.clone());
    let packs = launch_packing::with_blocked(packs, &copies);
    let annotator = Annotator {
        kernel,
        dependence,
        level,
        layout: Layout::new(kernel, dependence, (&packs, &copies)),
        tile: nest.tile,
    };
    nest.task_operations = TASK_OPERATIONS;
    nest.unroll = UNROLL;
    // The addresses of windows, and of maps over all kinds of indices, benefit from it.
    let class = kernel.classification().class;
    nest.strength_reduction = matches!(class, Class::Map | Class::Window);
    nest.items = items(kernel).map(|item| annotator.item(item)).collect();
    annotator.fuse_maps(nest);
    if let VectorAxis::Outer(columns) = nest.tile.vector {
        let boundaries = split_at(kernel, dependence, columns, MAX_SPLITS);
        nest.splits = boundaries.len() as u32;
        nest.unswitch = match unswitched(kernel, dependence, &nest.tile).is_empty() {
            true => 0,
            false => MAX_VERSIONS,
        };
        nest.peel = !GuardedIndex::all(kernel).is_empty();
        let stores = non_temporal::plain_stores(kernel);
        nest.stream =
            non_temporal::can_be_non_temporal(kernel, level, &annotator.layout, &stores, columns);
    }
    nest.vectors = annotator.vectors(nest);
    nest.prefetch = match nest.split_reductions {
        // Parts of a row are short, and results are few.
        true => Prefetches::default(),
        false => Prefetch::wanted(kernel, dependence, &nest.tile),
    };
    if nest.tile.rows.is_some() && !packs.is_empty() {
        nest.prefetch.packed = PACKED_AHEAD;
        nest.prefetch.shared_rows = WAITING_ROWS;
    }
}

struct Annotator<'a> {
    kernel: &'a VerifiedKernel,
    dependence: &'a Dependence,
    level: IsaLevel,
    layout: Layout<'a>,
    tile: Tile,
}

impl Annotator<'_> {
    fn item(&self, item: &Item) -> ItemLoops {
        match item {
            Item::Stage(stage) => self.stage(*stage),
            Item::Store(store) => self.store(store),
            Item::Carry(_) => ItemLoops {
                together: true,
                ..ItemLoops::default()
            },
        }
    }

    /// Whether items are vectorised along their own axes.
    fn is_inner(&self) -> bool {
        self.tile.vector == VectorAxis::Inner && self.tile.lanes > 1
    }

    fn stage(&self, id: StageId) -> ItemLoops {
        let kernel = self.kernel;
        let stage = kernel.stage(id);
        let mut contractions = kernel.classification().contractions.iter();
        let is_contraction = contractions.any(|contraction| contraction.stage == id);
        let along = self
            .is_inner()
            .then(|| self.layout.stage_vectors(id))
            .flatten();
        let transposes =
            |along| transposing_reduction::transposes(kernel, self.tile.lanes, id, along);
        ItemLoops {
            together: is_contraction || self.is_short(stage.value),
            along,
            transposing_reduction: along.is_some_and(transposes),
            accumulators: accumulators(kernel, self.level, id),
            pairs: sums_pairs(kernel, self.dependence, self.level, id),
            fours: sums_fours(kernel, self.dependence, self.level, id),
            scaled_fours: self.sums_scaled_fours(id),
            sliding_window: self.is_sliding_window(id),
            peel_taps: self.peel_taps(id),
            ..ItemLoops::default()
        }
    }

    fn store(&self, store: &Store) -> ItemLoops {
        let kernel = self.kernel;
        let is_inner = self.is_inner() && store.combine.is_none();
        let along = is_inner.then(|| self.layout.store_vectors(store)).flatten();
        let streams = |axis: AxisId| {
            store.axes.as_slice() == [axis]
                && non_temporal::can_be_non_temporal(
                    kernel,
                    self.level,
                    &self.layout,
                    &[store],
                    axis,
                )
        };
        ItemLoops {
            together: store.axes.is_empty() && self.is_short(store.value),
            along,
            register_transpose: register_transpose::transposes(
                kernel,
                &self.layout,
                &self.tile,
                store,
            ),
            stream: along.is_some_and(streams),
            ..ItemLoops::default()
        }
    }

    /// Whether the unsigned factor of scaled bytes is packed in groups of four, and all lanes share the other one.
    fn sums_scaled_fours(&self, id: StageId) -> bool {
        let VectorAxis::Outer(columns) = self.tile.vector else {
            return false;
        };
        let Some(bytes) = sums_scaled_fours(self.kernel, self.dependence, self.level, id) else {
            return false;
        };
        let packed = bytes
            .unsigned_buffer(self.kernel)
            .and_then(|buffer| self.layout.grouped_in_pack(buffer, packing::FOURS));
        packed.is_some() && !self.dependence.depends(bytes.signed, columns)
    }

    fn is_short(&self, value: kiln_kernel::NodeId) -> bool {
        n_operations(self.kernel, value) <= TOGETHER_LIMIT
    }

    fn is_sliding_window(&self, id: StageId) -> bool {
        let stage = self.kernel.stage(id);
        let (
            Some((rows, count)),
            StageOperation::Reduce {
                axes, reduction, ..
            },
        ) = (self.tile.rows, &stage.operation)
        else {
            return false;
        };
        let window = axes.last().and_then(|&taps| {
            sliding_window(self.kernel, self.dependence, stage.value, rows, taps)
        });
        count > 1 && !self.tile.spread && !reduction.is_arg() && window.is_some()
    }

    fn peel_taps(&self, id: StageId) -> PeelTaps {
        let (kernel, stage) = (self.kernel, self.kernel.stage(id));
        let StageOperation::Reduce { axes, .. } = &stage.operation else {
            return PeelTaps::Never;
        };
        let is_fixed = |&axis: &AxisId| {
            GuardedIndex::are_fixed_along(kernel, self.dependence, stage.value, axis)
        };
        if axes.last().is_some_and(is_fixed) {
            return PeelTaps::BeforeInnermost;
        }
        let has_rows = self.tile.rows.is_some_and(|(_, count)| count > 1);
        match has_rows && !GuardedIndex::below(kernel, stage.value).is_empty() {
            true => PeelTaps::InInnermost,
            false => PeelTaps::Never,
        }
    }

    /// Marks the stages into whose loops the next map is fused.
    fn fuse_maps(&self, nest: &mut LoopNest) {
        let mut place = 0;
        for (position, item) in self.kernel.items().iter().enumerate() {
            if let (Item::Stage(stage), Some(next)) = (item, self.kernel.items().get(position + 1))
                && let Some(loops) = nest.items.get_mut(place)
            {
                loops.fuse_next = self.layout.fused_map(*stage, next, &self.tile).is_some();
            }
            place += match item {
                Item::Carry(carry) => 1 + carry.items.len(),
                _ => 1,
            };
        }
    }

    /// How every vectorised axis is cut into vectors.
    fn vectors(&self, nest: &LoopNest) -> Vec<VectorSteps> {
        let mut axes = BTreeSet::new();
        match nest.tile.vector {
            VectorAxis::Outer(axis) => axes.extend([axis]),
            VectorAxis::Inner => {
                let along = items(self.kernel).zip(&nest.items);
                axes.extend(along.filter_map(|(item, loops)| {
                    let own: &[AxisId] = match item {
                        Item::Stage(stage) => &self.kernel.stage(*stage).axes,
                        Item::Store(store) => &store.axes,
                        Item::Carry(_) => &[],
                    };
                    loops.along.filter(|axis| own.contains(axis))
                }));
                // Locals of carry blocks are initialised along their last axis.
                let carried = self.kernel.stages().values();
                let carried = carried.filter(|stage| stage.init.is_some());
                axes.extend(carried.filter_map(|stage| stage.axes.last().copied()));
            }
            VectorAxis::None => {}
        }
        let full = nest.tile.rows.map_or(1, |(_, count)| count);
        let mut others = BTreeSet::from([1]);
        others.extend(nest.remainder.rows.iter().copied());
        let mut all = Vec::new();
        for axis in axes {
            let steps = |rows| {
                vector_steps(
                    self.kernel,
                    self.dependence,
                    self.level,
                    &nest.tile,
                    (axis, rows),
                )
            };
            let usual = steps(full);
            for &rows in &others {
                let steps = steps(rows);
                if steps != usual {
                    let rows = Some(rows);
                    all.push(VectorSteps { axis, rows, steps });
                }
            }
            all.push(VectorSteps {
                axis,
                rows: None,
                steps: usual,
            });
        }
        all
    }
}
