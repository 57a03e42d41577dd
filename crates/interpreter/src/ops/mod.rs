//! The computation of each op, in files by family, grouped as in the graph.
//!
//! Invariant: an op here returns a result or a fault for any operands; it never panics.

pub(crate) mod random;
pub(crate) mod source;

pub(crate) mod elementwise;

pub(crate) mod movement;
pub(crate) mod pad;

pub(crate) mod gather;
pub(crate) mod scatter;
pub(crate) mod update_slice;

pub(crate) mod contraction;
pub(crate) mod conv;
pub(crate) mod conv_transpose;
pub(crate) mod geometry;
pub(crate) mod matmul;

pub(crate) mod arg_pool;
pub(crate) mod arg_reduce;
pub(crate) mod cumulate;
pub(crate) mod lanes;
pub(crate) mod reduce;

pub(crate) mod pool;
pub(crate) mod resize;

pub(crate) mod non_zero;
pub(crate) mod suppress;
pub(crate) mod top_k;

#[cfg(test)]
pub(crate) mod testing;
