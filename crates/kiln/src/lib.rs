//! A just-in-time compiler for tensor programs whose shapes change from call to call.
//!
//! Load a model, look at what it takes, call it with tensors of any size that its symbols allow:
//!
//! ```
//! use kiln::{Model, Tensor};
//!
//! let model = Model::from_text(
//!     "graph @mlp(%x: f32[B, 2], %w: f32[2, 3]) -> f32[B, 3] {
//!        %y = matmul %x, %w
//!        %z = relu %y
//!        return %z
//!      }",
//! )?;
//! assert_eq!(model.inputs()[0].to_string(), "x: f32[B, 2]");
//!
//! let x = Tensor::from_slice(&[1, 2], &[1.0f32, -1.0])?;
//! let w = Tensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 3.0, 2.0, 1.0])?;
//! let outputs = model.run([("x", &x), ("w", &w)])?;
//! assert_eq!(outputs[0].to_vec::<f32>()?, [0.0, 0.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # What to use for what
//!
//! | you want to | use |
//! |---|---|
//! | load an ONNX model or a graph's text | [`Model::load`] |
//! | compile a function of your own | [`jit`] with [`Var`]s |
//! | say more about its dimensions | [`Options::dim`] with a [`Dim`] |
//! | decide about inputs when a model is imported | [`Options::fix`], [`Options::length`], [`Options::absent`] |
//! | build a graph in Rust | `GraphBuilder` of [`shape_inference`], then [`Model::from_graph`] |
//! | see what became of it | [`Model::inspect`], [`Model::stage`], [`ir::draw`] |
//! | know why ops did or did not become one kernel | [`Model::explain`], [`Model::explain_pair`] |
//! | check compiled code against the interpreter | [`Model::reference`], [`Model::compare`] |
//! | see what each step costs, and what was compiled | [`Model::run_profiled`], [`Model::compilation_stats`] |
//! | say when kernels are compiled, and where they are kept | [`Options::policy`], [`Options::cache`] |
//! | survive crashes and hangs of LLVM | [`Options::compiler`] with [`Compiler::worker`] |
//! | know where the time went | [`Model::timing`], [`Options::timing`], [`Options::on_timing`] |
//! | compile before a call needs it | [`Model::compile`], [`Model::precompile`], [`Model::shape_profile`] |
//! | bound and watch the memory of calls | [`Options::memory`], [`Model::memory_stats`], [`Model::trim_memory`] |
//! | say whether outputs stay on their device | [`Options::outputs`] |
//! | end a call early | [`Model::run_with`] with a [`Cancellation`] or a time limit |
//! | follow long work | [`Options::on_progress`], and `tracing` spans |
//! | tell errors apart | [`Error::kind`] and [`Error::code`] |
//!
//! Every library crate of the project is a module of this one, by its name.
//!
//! # What executes a model
//!
//! Native code ([`Device::cpu`]): ops are fused into kernels while their sizes are still symbols,
//! and each kernel is compiled when a call first needs it, once for all sizes. The reference
//! interpreter ([`Device::interpreter`]) says what every op means: right, and slow. Debug builds
//! interpret unless [`Options::device`] says otherwise.
//!
//! # Features
//!
//! | feature | gives | default |
//! |---|---|---|
//! | `llvm` | compiling native code; needs LLVM to build; implies `native` | yes |
//! | `native` | running native code that was compiled before, from a bundle or a cache | yes |
//! | `onnx` | reading ONNX models | yes |
//! | `cuda` | reserved | no |

#![deny(unsafe_code)]

mod cache;
mod compare;
#[cfg(feature = "llvm")]
pub mod compile_worker;
mod compiled;
#[cfg(feature = "llvm")]
mod compiler;
mod description;
pub mod device;
mod dim;
mod environment;
mod error;
mod explain;
mod guard;
mod importing;
mod jit;
mod limits;
mod machine_memory;
mod model;
mod notice;
mod options;
mod outputs;
mod progress;
mod recording;
mod repro;
mod session;

pub use cache::Cache;
pub use compare::{Comparison, Difference, OutputComparison, Reference, Verdict, WorstElement};
#[cfg(feature = "llvm")]
pub use compiler::Compiler;
pub use description::ValueDescription;
pub use device::{Device, targets};
pub use dim::Dim;
pub use error::{Error, ErrorKind};
pub use explain::{Explained, ExplainedStep};
pub use jit::{Jit, jit};
pub use kiln_kernel_cache::SealKey;
pub use limits::Limits;
pub use model::Model;
pub use notice::Notice;
pub use options::Options;
pub use outputs::Outputs;
pub use progress::{Progress, Work};
pub use repro::{Extent, Repro};
pub use session::{Session, SessionBuilder};

pub use kiln_backend::{MemoryLimits, MemoryStats};
pub use kiln_lazy_runtime::{
    CallMemory, CallOptions, Cancellation, CompilationStats, CompilePolicy, CompileRecord,
    DonationFate, Donations, OutputPlacement, ProfiledShapes, ShapeProfile, ShapeVariantGenerator,
    StepProfile, VariantFate, VariantOptions, VariantReason, VariantRecord,
};
pub use kiln_scalar::Mode as InterpreterMode;
pub use kiln_shape_inference::Mode;
pub use kiln_tensor::{DType, Tensor};
pub use kiln_trace::{ArgumentType, Size, Var};

pub use kiln_backend as backend;
#[cfg(feature = "llvm")]
pub use kiln_codegen_llvm as codegen_llvm;
pub use kiln_fusion as fusion;
pub use kiln_interpreter as interpreter;
pub use kiln_ir as ir;
pub use kiln_kernel as kernel;
pub use kiln_kernel_cache as kernel_cache;
pub use kiln_lazy_runtime as lazy_runtime;
#[cfg(feature = "native")]
pub use kiln_native as native;
#[cfg(feature = "onnx")]
pub use kiln_onnx as onnx;
pub use kiln_passes as passes;
pub use kiln_program as program;
pub use kiln_scalar as scalar;
#[cfg(feature = "native")]
pub use kiln_schedule_cpu as schedule_cpu;
pub use kiln_shape_inference as shape_inference;
pub use kiln_symbolic_shape as symbolic_shape;
pub use kiln_tensor as tensor;
pub use kiln_timing as timing;
pub use kiln_trace as trace;
