//! Kiln's graph IR: typed SSA over symbolic shapes, with its text form, verifier and drawings.
//!
//! A [`Graph`] is a body of operations in order. Every value has a [`Type`]: usually a tensor whose
//! sizes are expressions over symbols, `f32[B, 2*S + 1]`. Sizes are attributes of operations and
//! parts of types, never operands; `dims` turns sizes into data, `bind` turns data into sizes, and
//! nothing else crosses between the two.
//!
//! The result types of an operation are defined in `shape-inference`, its meaning in `interpreter`.
//!
//! | you want to | use |
//! |---|---|
//! | build a graph with types inferred | `GraphBuilder` of `shape-inference` |
//! | build one by hand | [`Graph::append`] |
//! | change one | [`Rebuild`] |
//! | check one | [`verify`] |
//! | print and read | [`text`] |
//! | draw one | [`draw`] |
//! | compare by structure | [`structural_hash`] |
//!
//! ```
//! use kiln_ir::{BlobMap, text, verify};
//!
//! let source = "
//! graph @mlp(%x: f32[B, 128], %w: f32[128, N]) -> f32[B, N] where B >= 1, N % 8 == 0 {
//!   %2: f32[B, N] = matmul %x, %w
//!   %3: f32[B, N] = relu %2
//!   return %3
//! }";
//! let graph = text::read(source, &BlobMap::new()).expect("the text is a graph");
//! assert!(verify(&graph).is_ok());
//! assert_eq!(text::read(&text::print(&graph), &BlobMap::new()).map(|again| text::print(&again)).ok(), Some(text::print(&graph)));
//! ```

#![forbid(unsafe_code)]

pub mod draw;
pub mod text;

mod constant;
mod graph;
mod hash;
mod ids;
mod loops;
mod op;
mod rebuild;
mod ty;
mod verify;

pub use constant::{BlobMap, Constant, Digest, INLINE_LIMIT, ParseDigestError};
pub use graph::{Definition, Graph, NewOp, OpData, REGION_DEPTH_LIMIT, Region, ValueData};
pub use hash::structural_hash;
pub use ids::{OpId, RegionId, ValueId};
pub use loops::{LoopCourse, LoopTrips};
pub use op::{
    Combine, Coordinates, CumulateFunction, Extremum, FieldVisitor, Indices, Integers,
    NearestRounding, Op, PadMode, PoolFunction, ReduceFunction, Resize, ResizeMode, Window, Word,
};
pub use rebuild::{Rebuild, Visit};
pub use ty::{Dims, TYPE_DEPTH_LIMIT, TensorType, Type};
pub use verify::{
    ERROR_LIMIT, Location, RANK_LIMIT, VerifyError, VerifyErrorKind, VerifyErrors, verify,
};
