//! Drawings of a graph: DOT for graphviz, and SVG that needs no other program.
//!
//! Both draw the same `scene`: one box per op with its attributes and constants, one per input and output, types on the
//! edges, nested regions inside their op. Drawings are for people: they shorten long texts and omit boxes beyond
//! [`NODE_LIMIT`], with a note. Deterministic; pure functions of the graph, which need not be verified. [`arrange`] lays out the boxes of other
//! drawings in the same way.

mod arrange;
mod constants;
mod dot;
mod labels;
mod layout;
mod palette;
mod scene;
mod svg;

pub use arrange::{Arrangement, BoxSize, arrange};
pub use dot::dot;
pub use svg::svg;

/// A drawing has at most this many boxes; a note gives the number of omitted ops.
pub const NODE_LIMIT: usize = 2000;

#[cfg(test)]
mod tests;
