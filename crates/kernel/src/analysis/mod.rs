//! Questions about a kernel that more than one backend asks: what a value depends on and is computed from, how an index
//! moves, where a loop may be split, what may be computed early.
//!
//! - [`Dependence`]: the axes that a value changes along, and how far an index moves along one.
//! - [`expression_nodes`], [`arithmetic_operations`]: what a value is computed from, and how much that is.
//! - [`accesses`], [`item_axes`], [`is_multiple`], [`must_run_in_order`]: the loops of a kernel, and what is read and written in them.
//! - [`GroupedIndex`], [`GuardedIndex`], [`Reach`], [`SlidingWindow`]: forms of indices.
//! - [`Boundary`]: where loops are split, as at the parts of a concatenation.
//! - [`Unconditional`]: what may be computed whether or not it is needed.
//! - [`is_never_positive`], [`elementwise_reader`]: what is known of values, and of who reads them.
//! - [`points`]: how much a kernel computes.
//! - [`may_share`]: which results may be computed in the memory of an operand.
//!
//! Each analysis reads a kernel and changes nothing. What is not recognised gets the conservative result, which each one
//! documents. Nothing here knows a target or a schedule.

mod accesses;
mod boundary;
mod dependence;
mod elementwise;
mod expression;
mod grouped_index;
mod guarded_index;
mod loops;
mod may_share;
mod never_positive;
mod points;
mod reach;
mod sliding_window;
mod unconditional;

#[cfg(test)]
mod testing;

pub use accesses::{Access, accesses};
pub use boundary::Boundary;
pub use dependence::Dependence;
pub(crate) use dependence::integer_literal;
pub use elementwise::{ElementwiseReader, elementwise_reader};
pub use expression::{arithmetic_operations, expression_nodes};
pub use grouped_index::GroupedIndex;
pub use guarded_index::GuardedIndex;
pub use loops::{is_multiple, item_axes, must_run_in_order};
pub use may_share::{SharedPair, may_share};
pub use never_positive::is_never_positive;
pub use points::points;
pub use reach::{AxisPoints, Reach};
pub use sliding_window::SlidingWindow;
pub(crate) use unconditional::may_fault;
pub use unconditional::{Unconditional, is_fixed_load};
