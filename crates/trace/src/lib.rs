//! Records a user's function as a graph.
//!
//! A function of [`Var`]s is called once with variables that stand for tensors; every operator it applies becomes an op
//! of a graph, with sizes that stay symbols. One recording per combination of argument dtypes and ranks therefore
//! serves tensors of any size.
//!
//! | you want to | use |
//! |---|---|
//! | record a function | [`trace`] |
//! | record it once per signature | [`Traced`] |
//! | name sizes that its arguments share | [`Traced::with_sizes`], [`AxisSize`] |
//! | record step by step, with named inputs | [`Recording`] |
//! | continue a graph, with constants as parameters | [`Recording::continuing`] |
//! | compute while recording | [`Tape`] |
//! | compute with variables | the operators and methods of [`Var`] |
//! | compute with their sizes | [`Var::size`], [`Size`] |
//! | define a custom gradient | [`custom_gradient`] |
//!
//! This crate depends on no backend: a tape evaluates its ops with the interpreter, and the facade's `jit` runs
//! recordings.
//!
//! ```
//! use kiln_tensor::DType;
//! use kiln_trace::{ArgumentType, Var, trace};
//!
//! let graph = trace(
//!     "layer",
//!     &|x: Var, w: Var, b: Var| (x.matmul(w) + b).relu(),
//!     &[ArgumentType::new(DType::F32, 2), ArgumentType::new(DType::F32, 2), ArgumentType::new(DType::F32, 1)],
//! )?;
//! assert_eq!(graph.ops().count(), 3);
//! # Ok::<(), kiln_trace::TraceError>(())
//! ```

#![forbid(unsafe_code)]

mod axis_size;
mod continued;
mod custom_gradient;
mod eager;
mod error;
mod function;
mod gradient_ops;
mod recorded;
mod recorder;
mod recording;
mod results;
mod size;
mod tape;
mod traced;
mod var;

pub use axis_size::AxisSize;
pub use continued::Continued;
pub use custom_gradient::{Backward, custom_gradient};
pub use error::TraceError;
pub use function::{Arguments, TraceFunction};
pub use recorded::Recorded;
pub use recording::Recording;
pub use results::Results;
pub use size::Size;
pub use tape::Tape;
pub use traced::{ArgumentType, Signature, Traced, trace, trace_within};
pub use var::{Axes, Operand, Step, Var, WindowOptions};

#[cfg(test)]
mod tests;
