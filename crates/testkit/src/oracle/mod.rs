//! Whether two results are equal, within the required tolerance.
//!
//! [`compare`] and [`compare_all`] compare tensors, [`run_both`] runs two graphs that must compute the same, [`explain`]
//! judges rounding by two references, [`may_fail_with`] the codes of faults. NaN is equal to NaN whatever its bits; where
//! one side has a NaN, the other must.

mod compare;
mod fault;
mod promoted;
mod run;

pub use compare::{Mismatch, Tolerance, compare, compare_all};
pub use fault::{is_of_data, may_fail_with, may_leave_out};
pub use promoted::{Unexplained, explain, explain_near};
pub use run::{Agreement, Disagreement, run_both, small_limits};
