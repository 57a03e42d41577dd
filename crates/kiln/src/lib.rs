//! A just-in-time compiler for tensor programs whose shapes change from call to call.
//!
//! Load a model, look at its inputs, and call it with tensors of any size that its symbols allow:
//!
//! ```
//! use kiln::{Model, Source, Tensor};
//!
//! let model = Model::load(Source::text(
//!     "graph @mlp(%x: f32[B, 2], %w: f32[2, 3]) -> f32[B, 3] {
//!        %y = matmul %x, %w
//!        %z = relu %y
//!        return %z
//!      }",
//! ))?;
//! assert_eq!(model.inputs()[0].to_string(), "x: f32[B, 2]");
//!
//! let x = Tensor::from_slice(&[1, 2], &[1.0f32, -1.0])?;
//! let w = Tensor::from_slice(&[2, 3], &[1.0f32, 2.0, 3.0, 3.0, 2.0, 1.0])?;
//! let outputs = model.run([("x", &x), ("w", &w)])?;
//! assert_eq!(outputs[0].to_vec::<f32>()?, [0.0, 0.0, 2.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Where to start
//!
//! | you want to | use |
//! |---|---|
//! | load an ONNX model or a graph's text | [`Model::load`] with a path or a [`Source`] |
//! | load a model with options | [`Options::load`] |
//! | compute gradients | [`Options::gradients`] with [`Gradients`], [`Jit::value_and_grad`] |
//! | compute eagerly and take gradients, compiled or not | [`GradientTape`], [`GraphCompiler`] |
//! | compile your own function | [`jit`] with [`Var`]s |
//! | define a custom gradient | [`custom_gradient`] |
//! | record a graph with named inputs | [`Recording`] |
//! | call a model | [`Model::run`] with [`Inputs`] by name or position |
//! | write into preallocated outputs, cancel a call, profile it | [`Model::call`], a [`Call`] |
//! | keep tensors from call to call | [`Model::session`], a [`Session`] |
//! | generate text token by token | [`decode::Decoder`], [`decode::Sampler`] |
//! | constrain the dimensions of a model | [`Options::dim`] with a [`Dim`] |
//! | make decisions about inputs when a model is imported | [`Options::import`] with an [`Import`] |
//! | write a model with narrower weights, as ONNX | `Quantization` |
//! | set when, where and for how long kernels are compiled | [`Options::compiling`] with [`Compiling`] |
//! | set where compiled code is kept | [`Options::cache`] with a [`Cache`] |
//! | bound memory, time and sizes | [`Options::limits`] with [`Limits`] |
//! | measure where time is spent, follow progress | [`Options::observe`] with an [`Observation`], [`Model::timing`] |
//! | choose how a graph runs by measuring it | `AutoTuner` |
//! | compile before a call needs it | [`Model::compile`], [`Model::precompile`], [`Model::shape_profile`] |
//! | keep a model with its code and weights in one file | [`Model::open_sealed_bundle`], [`Model::open_bundle`] |
//! | inspect or explain a model, or compare it with the interpreter | [`diagnose`] |
//! | distinguish errors | [`Error::kind`] and [`Error::code`] |
//!
//! # What is stable
//!
//! Everything except [`internals`], which re-exports all of Kiln's crates, for building graphs in Rust, adding devices
//! and writing tools.
//!
//! # What executes a model
//!
//! Native code ([`Device::cpu`]): ops are fused into kernels while their sizes are still symbols, and each kernel is
//! compiled when a call first needs it, once for all sizes. With the feature `cuda`, `Device::cuda` does the same for
//! NVIDIA GPUs. The reference interpreter ([`Device::interpreter`]) defines the meaning of every op; it is correct and
//! slow. Debug builds interpret unless [`Options::device`] is set.
//!
//! # Features
//!
//! | feature | provides | default |
//! |---|---|---|
//! | `llvm` | compiling native code; needs LLVM to build; implies `native` | yes |
//! | `native` | running native code that was compiled before, from a bundle or a cache | yes |
//! | `onnx` | reading ONNX models | yes |
//! | `cuda` | compiling and running code for NVIDIA GPUs; needs neither CUDA nor LLVM to build; implies `native` | no |
//! | `remote` | sharing compiled code among machines, through a store; implies `native` | no |

#![deny(unsafe_code)]

mod cache;
mod call;
#[cfg(feature = "llvm")]
pub mod compile_worker;
mod compiled;
mod compiled_graph;
#[cfg(feature = "llvm")]
mod compiler;
mod compiling;
pub mod decode;
mod description;
mod device;
pub mod diagnose;
mod dim;
mod environment;
mod error;
mod gradients;
mod guard;
mod import;
mod inputs;
pub mod internals;
mod jit;
mod limits;
mod machine_memory;
mod model;
mod notice;
mod observation;
mod options;
mod outputs;
mod progress;
#[cfg(feature = "onnx")]
mod quantization;
mod recording;
#[cfg(feature = "remote")]
pub mod remote;
mod session;
mod source;
mod stores;
mod tape;
pub mod timing;
#[cfg(feature = "native")]
mod tuning;

pub use model::Model;
pub use source::Source;

pub use options::{Options, Passes};

pub use cache::Cache;
#[cfg(feature = "llvm")]
pub use compiler::Compiler;
pub use compiling::Compiling;
pub use device::Device;
pub use dim::Dim;
pub use gradients::Gradients;
pub use import::Import;
pub use limits::Limits;
pub use observation::Observation;

pub use call::Call;
pub use inputs::{Input, Inputs};
pub use outputs::Outputs;
pub use session::{Session, SessionBuilder};

pub use description::ValueDescription;
pub use error::{Error, ErrorKind};
pub use notice::Notice;
pub use progress::{Progress, Work};

pub use compiled_graph::{CompiledGraph, GraphCompiler, SavedValues};
pub use tape::GradientTape;

#[cfg(feature = "native")]
pub use tuning::{AutoTuner, Measured, OptimizationConfig, TuningReport};

#[cfg(feature = "onnx")]
pub use quantization::{Calibration, Quantization, QuantizedModel};

pub use jit::{Jit, JitGradient, jit};

pub use kiln_backend::{MemoryLimits, MemoryStats};
pub use kiln_kernel_cache::{SealKey, Tier};
pub use kiln_lazy_runtime::{
    Cancellation, CompilationStats, CompilePolicy, DonationFate, Donations, OutputPlacement,
    ProfiledShapes, ShapeProfile, ShapeVariantGenerator, VariantOptions,
};
pub use kiln_precision::{
    Bits, Change, Format, GroupFormat, Precision, PrecisionReport, Reason, Unchanged, WeightFormat,
};
pub use kiln_program::MemoryBudget;
pub use kiln_shape_inference::Mode;
pub use kiln_tensor::{DType, Tensor};
pub use kiln_trace::{
    ArgumentType, AxisSize, Backward, Continued, Recording, Size, Step, TraceError, Var,
    WindowOptions, custom_gradient,
};
