//! The kernel form between fusion and the backends.

#![forbid(unsafe_code)]

mod form;

mod artifact;
mod builtin;
mod canonicalize;
mod classify;
mod compile;
mod error;
mod evaluate;
mod execute;
mod key;
mod pack;
mod pool;
mod quantity;
pub mod text;
mod verified;
mod verify;

pub use artifact::{Artifact, ArtifactBuffer, Phase};
pub use builtin::{Builtin, BuiltinOperand};
pub use canonicalize::{CanonicalKernel, CanonicalPolicy, canonicalize, canonicalize_with};
pub use classify::{AxisRole, Class, Classification, Contraction};
pub use compile::{
    Candidate, CompileError, CompileObserver, CompilePhase, FALLBACK_SCHEDULE, KernelCompiler,
    Listing, Schedule, Target, Unobserved,
};
pub use error::{KernelError, KernelErrors};
pub use evaluate::{EvaluateError, evaluate};
pub use execute::{
    ExecuteError, Execution, Fault, FaultCause, KernelExecutor, Launch, LoadedKernel, Memory,
    MemorySlice, PhaseLaunch,
};
pub use form::{
    Axes, Axis, AxisId, Buffer, BufferId, Carry, Combine, Dims, Extent, Item, Kernel,
    KernelBuilder, Load, LoadGuard, Node, NodeData, NodeId, Nodes, Reduction, Role, Stage, StageId,
    StageOperation, Store,
};
pub use key::{Key, KeyError, KeyFields, stable_key};
pub use pack::{PackAxis, PackError, PackSpec};
pub use pool::{CallerOnly, Job, TaskPool};
pub use quantity::{LaunchContext, Quantity, QuantityError};
pub use verified::{IndexClass, KernelInfo, StoreInfo, VerifiedKernel};
pub use verify::verify;
