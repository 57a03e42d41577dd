//! Kiln's crates, re-exported by name, and functions that take their types.
//!
//! **None of this is stable**: any version may change, move or remove an item here. It is for code that uses a single
//! part of Kiln, adds a device or an operator, or is a tool; programs that load and call models do not need it. An item
//! elsewhere in `kiln` that names a type of these crates, such as the graph that
//! [`diagnose::graph`](crate::diagnose::graph) returns, is as stable as that type.

pub use kiln_autodiff as autodiff;
pub use kiln_backend as backend;
#[cfg(feature = "cuda")]
pub use kiln_codegen_cuda as codegen_cuda;
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
pub use kiln_precision as precision;
pub use kiln_program as program;
pub use kiln_scalar as scalar;
#[cfg(feature = "native")]
pub use kiln_schedule_cpu as schedule_cpu;
pub use kiln_shape_inference as shape_inference;
pub use kiln_symbolic_shape as symbolic_shape;
pub use kiln_tensor as tensor;
pub use kiln_timing as timing;
pub use kiln_trace as trace;

/// The parts of a device, for [`Device::register`](crate::Device::register).
pub mod device {
    pub use crate::device::{DeviceEntry, DeviceProblem, DeviceSetup, StoredBy};
}

use crate::options::Options;
use kiln_lazy_runtime::Runtime;
use std::sync::Arc;

/// Options to run compiled code on this runtime, with a compiler, a device and threads supplied by the caller; the
/// options' settings for threads, target and sharing are then ignored. The device set in the options is the one that
/// reports name, and it determines the limits of fusion.
#[must_use]
pub fn on_runtime(options: Options, runtime: Arc<Runtime>) -> Options {
    Options {
        runtime: Some(runtime),
        ..options
    }
}
