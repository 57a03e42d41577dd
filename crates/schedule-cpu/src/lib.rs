//! How a kernel's loops run on a CPU: tiles, layouts of operands, tasks, and what they cost. Numbers alone: nothing here
//! writes code, and nothing needs LLVM.
//!
//! - [`candidates`]: the schedules for a kernel, best first; the last one is the fallback, which suits any kernel. What they
//!   cost is estimated from [`contraction_tiles`] and a table of measured times.
//! - [`Scheduled`]: what one schedule means for a kernel: a [`LoopNest`] for each kind of sizes, each with a [`Tile`], how
//!   points are shared out as tasks, and where operands lie ([`Layout`], [`PackedCopy`]).
//! - [`target_of`], [`level_of`], [`features_of`]: the targets that these schedules are for.
//! - [`StoredCode`]: stands for the compiler in a build that has none.
//!
//! A [`Schedule`](kiln_backend::Schedule) names a class's file and carries the numbers of a plan; a nest is made from these
//! alone, so that what a schedule's text says is what was compiled.
//!
//! ```
//! use kiln_backend::IsaLevel;
//! use kiln_kernel::{text, verify};
//! use kiln_schedule_cpu::{Scheduled, candidates, winograd::Transform};
//!
//! let source = "kernel @linear(%x: in f32[M, K], %w: const f32[K, N], %y: out f32[M, N]) {
//!   outer m < M, n < N
//!   s = reduce add[k < K] %x[m, k] * %w[k, n]
//!   store %y[m, n] = s
//! }";
//! let kernel = text::read(source).map_err(|errors| errors.render(source))?;
//! let kernel = verify(kernel)?;
//! let best = candidates(&kernel, IsaLevel::Avx2Fma, Transform::default()).remove(0);
//! let scheduled = Scheduled::new(&kernel, &best.schedule)?;
//! assert_eq!(scheduled.packs.len(), 1, "the weights are packed");
//! assert_eq!(scheduled.nests[0].tile.lanes, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod target;
mod tile;

mod candidates;
mod fallback;
mod plan;
mod scan;
mod stored_code;
mod tiled;

mod cost;
mod loop_splitting;
mod register_tile;
mod sliding;
mod tile_choice;
mod tile_costs;
mod value_cost;
mod work;

mod launch_packing;
mod layout;
mod nest;
mod packing;
mod preferred_layout;
mod prefetch;
mod regime;
mod row_remainder;
mod split_reductions;
mod strides;
mod tile_order;
pub mod winograd;

pub use candidates::{candidates, smaller_tile};
pub use error::ScheduleError;
pub use launch_packing::PackedCopy;
pub use layout::Layout;
pub use loop_splitting::split_at;
pub use nest::{LoopNest, Scheduled};
pub use prefetch::Prefetch;
pub use row_remainder::{RowRemainder, least_rows};
pub use sliding::sliding_window;
pub use split_reductions::{SplitReduction, SplitReductions};
pub use stored_code::StoredCode;
pub use strides::{bound, local_strides, packed_points, packed_strides};
pub use target::{BACKEND, features_of, host_target, level_of, target_of};
pub use tile::{Tail, Tile, VectorAxis};
pub use tile_choice::{TILED_VECTORS, contraction_tiles};
pub use value_cost::{is_plain, n_operations};
