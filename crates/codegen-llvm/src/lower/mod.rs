//! Lowers loop nests: the loops, the computations in them, and their loads and stores.
//!
//! The same code lowers every schedule. It iterates over the outer points of a kernel by
//! [`Tile`](kiln_schedule_cpu::Tile)s: some points of one outer axis at once (*rows*, sharing what does not depend on
//! them), and vectors along one axis, outer or inner. Without rows and vectors the nest is plain loops, which compile any
//! verified kernel.
//!
//! - `launch`: the arguments of the code, its phases, and the sites that can fault.
//! - `context`: the kernel, the function being emitted and its parameters.
//! - `scope`: the position in the nest; `expression`, `load`, `access`: values and memory there.
//! - `packing`: operands packed at launch; `packed`: addresses in packed operands.
//! - `item`, `reduce`, `carry`: the items of a kernel. `nest`: the loops over outer points.
//! - `arg_reduction`: the index of the best value.
//! - `accumulator_splitting`, `transposing_reduction`, `register_transpose`, `sliding_window`, `loop_splitting`, `fused_map`,
//!   `non_temporal`, `prefetch`, `scaled_bytes`, `split_reduction`, `strided_load`, `tables`, `winograd`: one optimisation each.

mod access;
mod accumulator_splitting;
mod address;
mod adjacent_steps;
mod arg_reduction;
mod carry;
mod context;
mod edge_rows;
mod expression;
mod fours;
mod fused_map;
mod hoist;
mod identity;
mod interior;
mod item;
mod launch;
mod load;
mod loop_splitting;
mod loops;
mod nest;
mod non_temporal;
mod packed;
mod packing;
mod padding;
mod pairs;
mod prefetch;
mod reduce;
mod register_transpose;
mod row_remainder;
mod scaled_bytes;
mod scope;
mod sliding_window;
mod split_reduction;
mod strided_load;
mod tables;
mod transposing_reduction;
mod vectors;
mod winograd;

pub(crate) use launch::LaunchBuilder;
pub(crate) use nest::emit_nest;
