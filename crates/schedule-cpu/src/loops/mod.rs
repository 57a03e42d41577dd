//! The loop-nest IR: what a schedule does with a kernel, as data with a text form.
//!
//! A [`Loops`] contains one [`LoopNest`] per strategy that handles some sizes of the kernel. A launch runs the first one
//! whose [`When`] holds. A nest names every transformation of its loops: register tile, vector remainders, peeling,
//! packing, prefetching, accumulator splitting and so on; the emitter makes no choices. It still looks up facts about the
//! kernel, such as which loads a peeled loop no longer guards.
//!
//! - `when`: conditions on sizes. `names`: the names of axes and items in the text.
//! - `print`, `read`: the text. Reading a printed text gives the same nests.
//! - `verify`: the conditions under which a nest is valid for a kernel.
//!
//! ```text
//! loops {
//!   nest half_vectors when a1 < 9 and a0 >= 4 {
//!     rows a0 * 8
//!     vectors a1 * 1 * 8 masked
//!     chunk 8
//!     task 65536
//!     remainder 1 []
//!     cut a1: masked 1
//!     unroll 20
//!     body {
//!       v0: together, accumulators 8
//!       store %b2: together
//!     }
//!   }
//!   nest skinny_gemm when a0 < 4 or a2 < 1 and a1 >= 128 {
//!     ...
//!   }
//! }
//! ```

mod names;
mod print;
mod read;
mod steps;
mod verify;
mod when;

#[cfg(test)]
mod tests;

use kiln_backend::PackSpec;
use kiln_kernel::{AxisId, Item, Kernel, StageId, Store};

use crate::row_remainder::RowRemainder;
use crate::tile::Tile;
use crate::winograd::Transform;

pub use read::read;
pub(crate) use steps::vector_steps;
pub use steps::{VectorStep, VectorSteps};
pub use verify::verify;
pub use when::{Comparison, Factor, Size, When};

/// The loop nests of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loops {
    /// How constants are packed before the first launch, for all nests.
    pub packs: Vec<PackSpec>,
    /// The nests; a launch runs the first whose condition holds.
    pub nests: Vec<LoopNest>,
}

/// The loops of a kernel at some sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoopNest {
    /// The strategy that proposed it.
    pub strategy: String,
    /// The sizes that it is for, unless an earlier nest handles them.
    pub when: When,
    /// How other operands are packed by a phase of each launch.
    pub copies: Vec<PackSpec>,
    /// The tile that the innermost body computes.
    pub tile: Tile,
    /// Elements of a vectorised outer axis per unit of work; a multiple of the tile's.
    pub chunk: u32,
    /// The sizes at which consecutive units differ in their columns instead of their rows.
    pub columns_first: When,
    /// Scalar operations per task.
    pub task_operations: i64,
    /// How the row remainder is computed.
    pub remainder: RowRemainder,
    /// How vectorised axes are cut into vectors, by axis and row count.
    pub vectors: Vec<VectorSteps>,
    /// Boundaries of a piecewise value at which the loop over the vectorised outer axis is split.
    pub splits: u32,
    /// The maximum number of versions of a unit's loops, for the sides of selections that are the same at all points of
    /// a tile.
    pub unswitch: u32,
    /// Values along the vectorised outer axis that a phase before this one computes once.
    pub tables: u32,
    /// Whether loads at tabulated indices are a window of consecutive elements and a permutation, where possible.
    pub windows: bool,
    /// Whether tiles within all bounds have a separate version, without masks.
    pub peel: bool,
    /// Whether the vectorised outer axis is written by non-temporal stores if results exceed the caches.
    pub stream: bool,
    /// The prefetches.
    pub prefetch: Prefetches,
    /// The Winograd transform of a 3 x 3 convolution.
    pub winograd: Option<Transform>,
    /// Whether reductions to few results are split over parts of a reduced axis.
    pub split_reductions: bool,
    /// The innermost axis of a reduction is unrolled if its points times the accumulators are at most this.
    pub unroll: u32,
    /// Whether LLVM may strength-reduce addresses; other loops keep one counter and compute addresses from it.
    pub strength_reduction: bool,
    /// One for each stage, store and carry block, those within carry blocks included, in the kernel's order.
    pub items: Vec<ItemLoops>,
}

/// The prefetches of a nest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefetches {
    /// Whether later passes over a row prefetch the next one.
    pub rows: bool,
    /// Whether the first pass over a row prefetches the lines of its results.
    pub results: bool,
    /// Distance in packed operands, in bytes; 0 for never.
    pub packed: u32,
    /// Tiles of at most this many rows share the prefetching of the next packed block.
    pub shared_rows: u32,
}

/// The loops of one item.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemLoops {
    /// Whether all rows of a tile are computed together, rather than one after the other.
    pub together: bool,
    /// The inner axis that is vectorised.
    pub along: Option<AxisId>,
    /// Whether the map after this stage is fused into its loop, while elements are in registers.
    pub fuse_next: bool,
    /// Whether dot products are reduced a vector of them at a time, by transposing partial sums.
    pub transposing_reduction: bool,
    /// The number of accumulators over which a reduction with fewer sums is split; 0 for no splitting.
    pub accumulators: u32,
    /// Whether products of 16-bit integers, or of bf16, are summed in pairs, along vectors of an outer axis.
    pub pairs: bool,
    /// Whether products of 8-bit integers are summed four at a time, in vectors that have the instruction.
    pub fours: bool,
    /// Whether products of scaled bytes are summed as integers, four at a time, and each sum is scaled.
    pub scaled_fours: bool,
    /// Whether the taps of a window that slides along the rows are unrolled, to load each element once.
    pub sliding_window: bool,
    /// Whether full tiles load operands along the rows and transpose them in registers.
    pub register_transpose: bool,
    /// Where the bounds of a guarded window are tested once for many iterations.
    pub peel_taps: PeelTaps,
    /// Whether vectors along the inner axis are written by non-temporal stores if results exceed the caches.
    pub stream: bool,
}

/// Where the bounds of a window are tested once for many iterations.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeelTaps {
    /// Nowhere.
    #[default]
    Never,
    /// Before the innermost loop of the reduction, in which they are invariant.
    BeforeInnermost,
    /// In each iteration of the innermost loop, for all rows of the tile.
    InInnermost,
}

impl LoopNest {
    /// Plain loops at all sizes, without any transformation.
    pub fn new(strategy: &str, n_items: usize) -> Self {
        Self {
            strategy: strategy.to_owned(),
            when: When::always(),
            copies: Vec::new(),
            tile: Tile::scalar(),
            chunk: 1,
            columns_first: When::never(),
            task_operations: 1,
            remainder: RowRemainder::default(),
            vectors: Vec::new(),
            splits: 0,
            unswitch: 0,
            tables: 0,
            windows: false,
            peel: false,
            stream: false,
            prefetch: Prefetches::default(),
            winograd: None,
            split_reductions: false,
            unroll: 0,
            strength_reduction: false,
            items: vec![ItemLoops::default(); n_items],
        }
    }

    /// The loops of a stage.
    pub fn of_stage(&self, kernel: &Kernel, stage: StageId) -> ItemLoops {
        let is_it = |item: &Item| matches!(item, Item::Stage(other) if *other == stage);
        self.find(kernel, is_it)
    }

    /// The loops of a store.
    pub fn of_store(&self, kernel: &Kernel, store: &Store) -> ItemLoops {
        let is_it = |item: &Item| matches!(item, Item::Store(other) if other == store);
        self.find(kernel, is_it)
    }

    /// The loops of an item.
    pub fn of_item(&self, kernel: &Kernel, item: &Item) -> ItemLoops {
        self.find(kernel, |other| other == item)
    }

    fn find(&self, kernel: &Kernel, is_it: impl Fn(&Item) -> bool) -> ItemLoops {
        let place = items(kernel).position(is_it);
        let loops = place.and_then(|place| self.items.get(place));
        loops.copied().unwrap_or_default()
    }

    /// How an axis is cut into vectors in a tile of this many rows.
    pub fn steps(&self, axis: AxisId, rows: u32) -> &[VectorStep] {
        let of_axis = || self.vectors.iter().filter(|steps| steps.axis == axis);
        let exact = of_axis().find(|steps| steps.rows == Some(rows));
        let general = of_axis().find(|steps| steps.rows.is_none());
        exact.or(general).map_or(&[], |found| &found.steps)
    }
}

/// Every item of a kernel in order, a carry block before its items.
pub(crate) fn items(kernel: &Kernel) -> impl Iterator<Item = &Item> {
    kernel.items().iter().flat_map(|item| {
        let inner: &[Item] = match item {
            Item::Carry(carry) => &carry.items,
            _ => &[],
        };
        std::iter::once(item).chain(inner)
    })
}
