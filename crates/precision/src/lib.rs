//! Reduced precision, as a rewrite of the graph.
//!
//! [`reduce_precision`] replaces `f32` products by products with narrower operands, as a [`Precision`] specifies: one
//! [`Format`] for the whole graph, and others for individual ops by name. The result is an ordinary graph of casts,
//! scales and packed integers, so the interpreter defines its meaning, and compiled code is tested against that. A
//! [`PrecisionReport`] lists what changed, and what did not and why.
//!
//! | format | operands of a product | accumulator |
//! |---|---|---|
//! | `f32` | unchanged | f32 |
//! | `bf16`, `f16` | both rounded | f32 |
//! | `int8-weights` | weights as i8, one scale per column or per group of rows | f32 |
//! | `int4-weights` | weights as 4 bits, two per byte, likewise | f32 |
//! | `int4-int8` | weights as `int4-weights`; activations as i8, with a per-row scale computed by each call | f32 |
//! | `int8` | weights as i8; activations as i8, with a per-row scale computed by each call | i32 |
//!
//! A product is a `matmul` or a `conv`. Weights are operands that depend on constants alone; they are quantised here, once.
//!
//! ```
//! use kiln_ir::{BlobMap, text};
//! use kiln_precision::{Format, Precision, reduce_precision};
//!
//! let graph = text::read("
//! graph @main(%x: f32[B, 2]) -> f32[B, 1] {
//!   %w: f32[2, 1] = constant [1.0, -0.5]
//!   %y: f32[B, 1] = matmul %x, %w
//!   return %y
//! }", &BlobMap::new()).expect("the text is a graph");
//! let precision = Precision::of("int8-weights".parse()?).and("y", Format::BF16)?;
//! let (graph, report) = reduce_precision(&graph, &precision)?;
//! assert_eq!(report.changes.len(), 1);
//! assert_eq!(report.changes[0].weight_error, Some(0.0));
//! # let _ = graph;
//! # Ok::<(), kiln_precision::PrecisionError>(())
//! ```
#![forbid(unsafe_code)]

mod format;
mod precision;
mod report;

mod error;

mod emit;
mod groups;
mod product;
mod rewrite;

pub use error::PrecisionError;
pub use format::{Bits, Format, GroupFormat, WeightFormat};
pub use groups::{Layout, Quantized, quantize};
pub use precision::Precision;
pub use report::{Change, PrecisionReport, Reason, Unchanged};
pub use rewrite::reduce_precision;

#[cfg(test)]
mod tests;
