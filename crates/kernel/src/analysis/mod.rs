//! Queries about a kernel that more than one backend needs: what a value depends on and is computed from, how an index
//! varies, where a loop can be split, what can be computed early.
//!
//! - [`Dependence`]: the axes along which a value varies, and the stride of an index along one.
//! - [`expression_nodes`], [`arithmetic_operations`]: the nodes of a value's expression, and its amount of arithmetic.
//! - [`accesses`], [`item_axes`], [`is_multiple`], [`must_run_in_order`]: the loops of a kernel, and its loads and stores.
//! - [`GroupedIndex`], [`GuardedIndex`], [`Reach`], [`SlidingWindow`]: forms of indices.
//! - [`Boundary`], [`invariant_conditions`]: where loops can be split or unswitched, such as at the boundaries of a
//!   concatenation.
//! - [`Unconditional`], [`may_fault`]: what can be computed speculatively.
//! - [`MaskBound`]: which elements remain under a mask by position.
//! - [`is_never_positive`], [`is_clamped_to`], [`elementwise_reader`]: properties of values, and of their readers.
//! - [`points`]: the amount of work of a kernel.
//! - [`may_share`]: which results can be computed in the memory of an operand.
//!
//! Each analysis reads a kernel and changes nothing. An unrecognised form gets the conservative result, which each
//! analysis documents. Nothing here depends on a target or a schedule.

mod accesses;
mod boundary;
mod clamped;
mod dependence;
mod elementwise;
mod expression;
mod grouped_index;
mod guarded_index;
mod loops;
mod mask_bound;
mod may_share;
mod never_positive;
mod points;
mod reach;
mod sliding_window;
mod unconditional;

#[cfg(test)]
mod testing;

pub use accesses::{Access, accesses};
pub use boundary::{Boundary, invariant_conditions};
pub use clamped::is_clamped_to;
pub use dependence::Dependence;
pub(crate) use dependence::integer_literal;
pub use elementwise::{ElementwiseReader, elementwise_reader};
pub use expression::{arithmetic_operations, expression_nodes};
pub use grouped_index::GroupedIndex;
pub use guarded_index::GuardedIndex;
pub use loops::{is_multiple, item_axes, must_run_in_order};
pub use mask_bound::MaskBound;
pub use may_share::{SharedPair, may_share};
pub use never_positive::is_never_positive;
pub use points::points;
pub use reach::{AxisPoints, Reach};
pub use sliding_window::SlidingWindow;
pub use unconditional::{Unconditional, is_fixed_load, may_fault};
