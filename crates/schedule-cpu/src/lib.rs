//! CPU schedules for kernels: tiles, operand layouts, tasks and cost estimates. Schedules are plain data: nothing here
//! emits code or needs LLVM.
//!
//! - [`candidates`]: the schedules for a kernel, best first; the last one is the fallback, which suits any kernel. The
//!   loops of a schedule are proposed by *strategies*, each in a file of `strategies`, in the order of a table.
//! - [`loops`]: the loop-nest IR, with its text form, reader and verifier.
//! - [`Scheduled`]: a kernel under a schedule: a [`ScheduledNest`] for each condition on sizes, with the division of
//!   its points into tasks, and the memory layout of operands ([`Layout`], [`PackedCopy`]).
//! - [`target_of`], [`level_of`], [`features_of`]: the targets that these schedules are for.
//! - [`StoredCode`]: stands in for the compiler in builds without one.
//!
//! A [`Schedule`](kiln_backend::Schedule) is the text of a kernel's loops. Nests are built from the text alone, so the text
//! is exactly what was compiled.
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
//! assert_eq!(scheduled.nests[0].loops.tile.lanes, 8);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod target;

mod candidates;
mod stored_code;

pub mod loops;
mod strategies;

mod cost;
mod loop_splitting;
mod register_tile;
mod rows_allowed;
mod sliding;
mod tile;
mod tile_choice;
mod tile_costs;
mod tile_order;
mod value_cost;
mod window_edges;
mod work;

mod accumulator_splitting;
mod annotate;
mod narrow_products;
mod non_temporal;
mod register_transpose;
mod row_remainder;
mod scaled_bytes;
mod split_reductions;
mod tables;
mod transposing_reduction;
pub mod winograd;

mod launch_packing;
mod layout;
mod nest;
mod packing;
mod preferred_layout;
mod prefetch;
mod strides;

#[cfg(test)]
mod testing;

pub use accumulator_splitting::factors;
pub use candidates::{adapted, candidates, smaller_tile, with_tile};
pub use error::ScheduleError;
pub use launch_packing::PackedCopy;
pub use layout::Layout;
pub use loop_splitting::{split_at, unswitched};
pub use narrow_products::{bf16_factors, byte_factors, narrow_factors};
pub use nest::{Scheduled, ScheduledNest};
pub use non_temporal::plain_stores;
pub use prefetch::Prefetch;
pub use register_transpose::transposed_loads;
pub use row_remainder::{RowRemainder, least_rows};
pub use scaled_bytes::{ByteStep, Offset, ScaledBytes, UnsignedByte};
pub use sliding::sliding_window;
pub use split_reductions::{SplitReduction, SplitReductions};
pub use stored_code::StoredCode;
pub use strides::{bound, local_strides, packed_points, packed_strides};
pub use tables::{Table, Tables, Window, permutes, vectors_of_window};
pub use target::{BACKEND, features_of, host_target, level_of, target_of};
pub use tile::{Tail, Tile, VectorAxis};
pub use tile_choice::{TILED_VECTORS, contraction_tiles};
pub use value_cost::{is_plain, n_operations};
