//! The kernel service: compile once for everyone, prove what was compiled, hand it out, roll it out carefully.
//!
//! | you want to | use |
//! |---|---|
//! | describe a computation as a document | [`blueprint::Blueprint`] |
//! | make a graph of it, or Rust that builds the graph | [`convert::GraphConverter`] |
//! | compile it into a checked package | [`BlueprintCompiler`] |
//! | measure and choose how a kernel runs | [`KernelOptimizer`] |
//! | check a kernel | [`KernelValidator`] |
//! | keep packages in a folder | [`PackageStore`] |
//! | do all of this for many callers | [`KernelService`] |
//! | run layers on stored kernels, step by step | [`layer::CompiledLayer`], [`layer::Switches`] |
//!
//! ```
//! use kiln_service::blueprint::{Blueprint, BlueprintLimits, STANDARD};
//! use kiln_service::convert::GraphConverter;
//!
//! let dense = Blueprint::from_json(STANDARD[0].json, &BlueprintLimits::default())?;
//! let graph = GraphConverter::default().convert(&dense)?;
//! assert_eq!(graph.inputs().len(), 3);
//! # Ok::<(), kiln_service::ServiceError>(())
//! ```

#![forbid(unsafe_code)]

pub mod blueprint;
mod compile;
pub mod convert;
mod draw;
mod error;
pub mod layer;
mod optimize;
mod package;
mod service;
mod store;
pub mod validate;

pub use compile::{
    BlueprintCompiler, CancelToken, CompilationResult, CompilationStatus, CompileTarget, Stage,
};
pub use error::{Problem, Problems, ServiceError};
pub use optimize::{
    CacheEfficiency, CacheSource, Candidate, KernelOptimizer, KernelProfile, OptimizedKernel,
};
pub use package::{PACKAGE_FORMAT, Package, PackageMetadata, Provenance};
pub use service::{KernelRequest, KernelService, ServiceMetrics, ServiceOptions, StoredKernel};
pub use store::PackageStore;
pub use validate::{
    CheckFailure, CheckKind, KernelValidator, Outcome, PerformanceBounds, ValidationResult,
};
