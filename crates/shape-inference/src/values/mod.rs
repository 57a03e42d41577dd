//! Propagation of known elements through ops.
//!
//! Sizes are never derived from known elements implicitly (they are attributes); builders query them to turn data into
//! sizes without a `bind`. The files: [`grid`] small tensors of elements, [`moves`] ops that rearrange them, [`integers`]
//! and [`ratios`] arithmetic on one element.

mod elementwise;
mod grid;
mod integers;
mod moves;
mod ratios;
mod reduce;
mod sources;

pub(crate) use elementwise::{of_cast, of_map};
pub(crate) use moves::{of_gather, of_movement};
pub(crate) use reduce::of_reduce;
pub(crate) use sources::{of_constant, of_iota, of_sizes};
