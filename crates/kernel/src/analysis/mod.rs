//! Questions about a kernel that every backend asks: what a value depends on, how an index moves, what it is made of.
//!
//! Each analysis reads a kernel and changes nothing. What is not recognised is answered conservatively, and each says what
//! that means for it. Nothing here knows a target, a schedule or what an instruction costs.

mod dependence;
mod grouped_index;
mod may_share;

pub use dependence::{Dependence, integer_literal};
pub use grouped_index::GroupedIndex;
pub use may_share::{SharedPair, may_share};
