//! Shape inference for Kiln: the types of an op's results, over symbolic sizes.
//!
//! A [`ShapeInferenceRule`] defines for a family of ops how result types follow from operand types; the
//! [`ShapeInferenceEngine`] holds the rules, including those of user-defined ops. On top of it are [`GraphBuilder`],
//! which infers while a graph is built and reports the caller's mistakes where they are made; [`read_graph`], which
//! fills in omitted types in a text; [`check_types`], which verifies types by proof; and [`infer_types`], which
//! recomputes them.
//!
//! Inference also carries the elements of small integer tensors as expressions ([`KnownValue`]), so that sizes that are
//! computed as data become symbolic sizes again without being read at run time.
//!
//! ```
//! use kiln_shape_inference::GraphBuilder;
//! use kiln_tensor::DType;
//!
//! let mut builder = GraphBuilder::new("mlp");
//! let (batch, features) = (builder.symbol("B")?, builder.size(128));
//! let x = builder.input("x", DType::F32, &[batch, features]);
//! let units = builder.symbol("N")?;
//! let w = builder.input("w", DType::F32, &[features, units]);
//! let product = builder.matmul(x, w)?;
//! let y = builder.relu(product)?;
//! assert_eq!(builder.describe(y), "%3: f32[B, N]");
//! let sixty_four = builder.size(64);
//! let v = builder.input("v", DType::F32, &[sixty_four, units]);
//! assert_eq!(builder.matmul(x, v).unwrap_err().code(), "E0331");
//! let graph = builder.finish(&[("y", y)])?;
//! # Ok::<(), kiln_shape_inference::InferError>(())
//! ```

#![forbid(unsafe_code)]

mod context;
mod engine;
mod error;
mod known;
mod node;
mod number;
mod rule;
mod rules;
mod state;
mod values;

mod builder;
mod check;
mod read;
mod requirements;

pub use builder::{Disagreement, GraphBuilder, LoopBody, LoopOperands};
pub use check::{TypeChecker, check_types, check_types_with, infer_types, infer_types_with};
pub use context::{Agreement, InferenceContext, Mode};
pub use engine::ShapeInferenceEngine;
pub use error::{InferError, InferErrorKind, InferErrors};
pub use known::{Element, KNOWN_LIMIT, KnownValue, Ratio};
pub use node::OpView;
pub use number::Number;
pub use read::{InferredTypes, read_graph, read_graph_with, read_graph_within};
pub use requirements::{record_requirements, requirements_of};
pub use rule::{Inferred, ShapeInferenceRule};
pub use state::InferenceState;

#[cfg(test)]
mod tests;
