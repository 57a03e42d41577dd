//! The input of strategies: a kernel, a level, and the vectorised axis.

use kiln_backend::{IsaLevel, PackSpec};
use kiln_kernel::analysis::{Dependence, arithmetic_operations};
use kiln_kernel::{AxisId, Class, Item, Node, Role, StageOperation, VerifiedKernel};

use crate::cost::Access;
use crate::packing;
use crate::rows_allowed::{arrays_of_vectors, outer_vectors_allowed, rows_allowed};
use crate::split_reductions::SplitReductions;
use crate::tile::{Tile, VectorAxis};
use crate::winograd::Transform;
use crate::work;

/// The cost of a horizontal sum, in loads.
const ADD_LANES: f64 = 1.0;

/// The cost of combining lanes over the few elements of a window, in other reductions, in loads.
const COMBINE_LANES: f64 = 4.0;

/// The number of steps from which the sums of a product almost alone decide along which axis vectors run.
const LONG_SUM: f64 = 1024.0;

/// The weight of other accesses in that decision.
const BESIDE_LONG_SUMS: f64 = 1.0 / 64.0;

/// Vectors of half the width must save at least one idle lane out of this many.
const IDLE: u64 = 10;

/// A kernel to be scheduled.
pub(crate) struct Problem<'k> {
    pub(crate) kernel: &'k VerifiedKernel,
    pub(crate) level: IsaLevel,
    /// The largest allowed Winograd transform: the sums of a tile along each axis.
    pub(super) transform: Transform,
    pub(crate) dependence: Dependence,
    /// Every load and store.
    pub(super) accesses: Vec<Access>,
    /// Elements per vector.
    pub(super) lanes: u32,
    /// The vectorised axis.
    pub(super) vector: VectorAxis,
    /// The usual tile.
    pub(super) base: Base,
    /// How constants are packed, for all nests.
    pub(crate) packs: Vec<PackSpec>,
}

/// The usual tile of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Base {
    /// The kind of kernel.
    pub(super) kind: Kind,
    /// The tile.
    pub(super) tile: Tile,
    /// Elements of a vectorised outer axis per unit of work.
    pub(super) chunk: u32,
    /// Another axis that may serve as rows, for sizes at which the tile's row axis has too few points.
    pub(super) other_rows: Option<AxisId>,
}

/// The kinds of kernels, by the bottleneck of their computation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Plain loops.
    Fallback,
    /// Points that depend on each other.
    Scan,
    /// No reduction.
    Map,
    /// No reduction, and an operand that is contiguous across the vectors.
    Transpose,
    /// Sliding windows along the rows, with an element per lane.
    SlidingWindow,
    /// Products whose operands are shared between rows.
    Contraction,
    /// Other reductions.
    Reduction,
}

impl Problem<'_> {
    /// Whether the usual tile has rows.
    pub(crate) fn has_rows(&self) -> bool {
        self.base.tile.rows.is_some()
    }

    /// Elements per vector.
    pub(crate) fn lanes(&self) -> u32 {
        self.lanes
    }

    /// The same with other rows and vectors in the usual tile, if that has rows.
    pub(crate) fn with_tile(mut self, rows: u32, vectors: u32) -> Self {
        let tile = &mut self.base.tile;
        let Some((axis, _)) = tile.rows else {
            return self;
        };
        tile.rows = (rows > 1).then_some((axis, rows));
        tile.spread &= tile.rows.is_some();
        if tile.vectors != vectors {
            tile.vectors = vectors;
            self.base.chunk = tile.lanes * vectors;
        }
        if !self.packs.is_empty() {
            self.packs = self.packs_of(&self.base.tile);
        }
        self
    }

    /// How constants are packed for a tile. They are not packed if a nest splits a reduction, whose vectors run along
    /// the reduced axis and would cross blocks.
    pub(super) fn packs_of(&self, tile: &Tile) -> Vec<PackSpec> {
        match SplitReductions::applies(self.kernel) {
            true => Vec::new(),
            false => packing::specs(self.kernel, (&self.dependence, self.level), tile),
        }
    }

    /// The points of an axis, if they are constant.
    pub(super) fn size(&self, axis: AxisId) -> Option<i64> {
        let kernel = self.kernel;
        kernel.dims().as_constant(kernel.axis(axis).extent.bound())
    }

    /// The vectorised outer axis.
    pub(super) fn columns(&self) -> Option<AxisId> {
        match self.vector {
            VectorAxis::Outer(axis) => Some(axis),
            _ => None,
        }
    }

    /// Whether it is a sum of products.
    pub(super) fn is_product(&self) -> bool {
        !self.kernel.classification().contractions.is_empty()
    }

    /// Whether it is a GEMM: one contraction, over one or more axes, whose results are stored.
    pub(super) fn is_contraction(&self) -> bool {
        self.kernel.classification().class == Class::Contraction
    }

    /// The rows and columns of a product without an operand that is packed ahead of time.
    pub(super) fn unpacked_product(&self) -> Option<(AxisId, AxisId)> {
        let is_unpacked = self.is_product() && self.packs.is_empty();
        let (rows, _) = self.base.tile.rows.filter(|_| is_unpacked)?;
        Some((rows, self.columns()?))
    }

    pub(super) fn has_reduction(&self) -> bool {
        let mut stages = self.kernel.stages().values();
        stages.any(|stage| matches!(stage.operation, StageOperation::Reduce { .. }))
    }

    /// Whether an axis may be the rows of a tile.
    pub(super) fn rows_allowed(&self, axis: AxisId) -> bool {
        rows_allowed(self.kernel, &self.dependence, axis)
    }

    /// Vectors along one outer axis (all items together), or along inner ones (each item separately), whichever makes the
    /// accesses cheaper. Locals that differ between the lanes are in registers.
    pub(super) fn cheapest_vectors(&self) -> VectorAxis {
        let sum = match self.kernel.classification().class {
            _ if self.is_product() => ADD_LANES,
            Class::Window => COMBINE_LANES,
            _ => 0.0,
        };
        let is_kept = |axis| arrays_of_vectors(self.kernel, &self.dependence, axis).is_empty();
        match self.cheaper_outer_axis(sum, &is_kept) {
            Some(axis) => VectorAxis::Outer(axis),
            None => VectorAxis::Inner,
        }
    }

    /// Of some outer axes, the one along which vectors make the accesses cheapest, if that is cheaper than vectors
    /// along inner axes at an additional cost.
    pub(super) fn cheaper_outer_axis(
        &self,
        additional: f64,
        among: &dyn Fn(AxisId) -> bool,
    ) -> Option<AxisId> {
        // Without inner axes, vectors of none are a loop over single points.
        let inner = match self.has_inner_axes() {
            true => self.inner_cost() + additional,
            false => f64::INFINITY,
        };
        let mut best = (inner, None);
        for &axis in self.kernel.outer() {
            if !among(axis) || !outer_vectors_allowed(self.kernel, &self.dependence, axis) {
                continue;
            }
            let cost = self.outer_cost(axis);
            // Among equal costs the innermost axis is chosen.
            if cost <= best.0 {
                best = (cost, Some(axis));
            }
        }
        best.1
    }

    fn has_inner_axes(&self) -> bool {
        let mut axes = self.kernel.axes().keys();
        axes.any(|axis| !self.kernel.outer().contains(&axis))
    }

    /// The cost of the accesses if each item is vectorised along its own inner axis.
    fn inner_cost(&self) -> f64 {
        let cost = |access: &Access| {
            let along = access.axes.iter();
            let along = along.map(|&axis| self.cost_along(access, axis) * self.waste(axis));
            self.weight(access) * along.fold(1.0, f64::min)
        };
        self.accesses.iter().map(cost).sum()
    }

    /// The cost of the accesses if one outer axis is vectorised.
    fn outer_cost(&self, axis: AxisId) -> f64 {
        let cost = |access: &Access| {
            self.weight(access) * self.cost_along(access, axis) * self.waste(axis)
        };
        self.accesses.iter().map(cost).sum()
    }

    /// The weight of an access in the choice of vectors.
    fn weight(&self, access: &Access) -> f64 {
        match access.depth {
            0 if self.has_long_sums() => access.weight() * BESIDE_LONG_SUMS,
            _ => access.weight(),
        }
    }

    /// Whether it is a product of data whose sums are long, as those of a gradient of weights are, which run over a
    /// batch: an optimiser's update of each result costs little beside its sum. A constant factor is packed for the
    /// axis along which the results are contiguous, whichever that is.
    pub(super) fn has_long_sums(&self) -> bool {
        let kernel = self.kernel;
        let mut contractions = kernel.classification().contractions.iter();
        let mut buffers = kernel.buffers().values();
        buffers.all(|buffer| buffer.role != Role::Const || buffer.rank() < 2)
            && contractions.any(|contraction| {
                let stage = kernel.stage(contraction.stage);
                let StageOperation::Reduce { axes, .. } = &stage.operation else {
                    return false;
                };
                let steps = |&axis: &AxisId| work::guess(kernel, kernel.axis(axis).extent.bound());
                axes.iter().map(steps).product::<f64>() >= LONG_SUM
            })
    }

    /// The cost per element of an access along an axis.
    fn cost_along(&self, access: &Access, axis: AxisId) -> f64 {
        access.cost_along(axis, self.lanes, self.is_product())
    }

    /// The factor by which masked lanes raise the cost of an element.
    fn waste(&self, axis: AxisId) -> f64 {
        match self.size(axis) {
            Some(size) if size > 0 => {
                let lanes = i64::from(self.lanes);
                let used = size
                    .checked_add(lanes - 1)
                    .map_or(size, |size| size / lanes * lanes);
                used as f64 / size as f64
            }
            _ => 1.0,
        }
    }

    /// Whether vectors of half the width are better, on a level where they are as fast.
    pub(super) fn suits_half_vectors(&self) -> bool {
        self.has_idle_lanes() || self.only_reads()
    }

    /// Whether vectors of half as many lanes would leave fewer idle, in products shared by many sums.
    pub(super) fn has_idle_lanes(&self) -> bool {
        let tile = &self.base.tile;
        let size = self.columns().and_then(|axis| self.size(axis));
        let (Some(size), Some(_), true) = (size, tile.rows, self.is_product()) else {
            return false;
        };
        let padded = |lanes: u32| size.unsigned_abs().next_multiple_of(lanes.into());
        let (whole, half) = (padded(tile.lanes), padded(tile.lanes / 2));
        (whole - half) * IDLE >= whole
    }

    /// Whether it reads several rows at once and only sums their elements. Memory delivers more of them to vectors of half
    /// the width: 64 MB were read at 31 GB/s instead of 27; the maximum of one core is 34.
    pub(super) fn only_reads(&self) -> bool {
        let kernel = self.kernel;
        let is_read = |value| matches!(kernel.node(value), Node::Load(_));
        let mut stages = kernel.stages().values();
        self.base.tile.spread
            && stages.all(|stage| match stage.operation {
                StageOperation::Reduce { .. } => is_read(stage.value),
                StageOperation::Map => stage.axes.is_empty(),
            })
            && kernel.items().iter().all(|item| self.is_scalar(item))
    }

    /// Whether an item has one value per point of the outer axes.
    pub(super) fn is_scalar(&self, item: &Item) -> bool {
        match item {
            Item::Stage(stage) => self.kernel.stage(*stage).axes.is_empty(),
            Item::Store(store) => store.axes.is_empty(),
            Item::Carry(_) => false,
        }
    }

    /// Whether it is so cheap per element that it is bound by memory if there are many rows.
    pub(super) fn waits_for_memory(&self) -> bool {
        let kernel = self.kernel;
        let is_inner = |axis: &AxisId| !kernel.outer().contains(axis);
        let inner: Vec<AxisId> = kernel.axes().keys().filter(is_inner).collect();
        let varies = |node| {
            inner
                .iter()
                .any(|&axis| self.dependence.depends(node, axis))
        };
        let mut nodes = kernel.nodes().keys();
        nodes.all(|node| !varies(node) || arithmetic_operations(kernel, node).is_some())
    }
}
