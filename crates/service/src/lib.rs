//! The kernel service: compiles kernels once for many callers, validates and distributes them, and rolls them out
//! gradually.
//!
//! | you want to | use |
//! |---|---|
//! | describe a computation as a document | [`blueprint::Blueprint`] |
//! | convert it to a graph, or to Rust code that builds the graph | [`convert::GraphConverter`] |
//! | compile it into a checked package | [`BlueprintCompiler`] |
//! | choose how a kernel runs by measuring it | [`KernelOptimizer`] |
//! | check a kernel | [`KernelValidator`] |
//! | keep packages in a folder | [`PackageStore`] |
//! | do all of this for many callers | [`KernelService`] |
//! | run layers on stored kernels, rolled out gradually | [`layer::CompiledLayer`], [`layer::Switches`] |
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
