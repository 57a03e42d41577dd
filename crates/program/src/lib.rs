//! Programs as plain data: the executable form of a graph.
//!
//! A [`Program`] has a block for the graph's body and one for each region of a control step. A block consists of
//! *segments* of *steps* over *buffers*: a segment ends where data become sizes, so everything within it can be
//! evaluated in advance, once per combination of sizes. A step launches a kernel, runs a builtin on the executor, binds
//! symbols, runs other blocks, or calls the interpreter. Buffers are placed here, while sizes are still symbolic:
//! buffers that are never live at the same time share a slot of the arena if one is provably as large as the other.
//!
//! Nothing here runs programs or knows a backend; `lazy-runtime` runs them.
//!
//! | you want to | use |
//! |---|---|
//! | build one | [`build`] |
//! | print one | its `Display` |
//! | store one | [`Program::store`], [`Program::load`] |
//! | find out what it requires of a call | [`Segment::check`], [`Segment::requirements`] |
//! | find out what depends on sizes | [`PlanOperation`] |
//!
//! ```
//! use kiln_fusion::{FusionOptions, plan};
//! use kiln_ir::{BlobMap, text};
//! use kiln_program::{BuildOptions, RowMajor, build};
//!
//! let graph = text::read("graph @f(%x: f32[N]) -> f32[N] {
//!   %1: f32[N] = exp %x
//!   %2: f32[N] = neg %1
//!   return %2
//! }", &BlobMap::new())?;
//! let plan = plan(&graph, &FusionOptions::new())?;
//! let program = build(graph, &plan, &RowMajor, &BuildOptions::default())?;
//! assert_eq!(program.counts()["kernel"], 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod build;

mod buffer;
mod display;
mod entity;
mod error;
mod ids;
mod memory_budget;
mod operations;
mod plan_operation;
mod program;
mod sizes;
mod step;
mod store;

pub use buffer::{Buffer, Place, Slot};
pub use build::{BuildOptions, LayoutPreferences, RowMajor, build};
pub use error::ProgramError;
pub use ids::{BlockId, BufferId, ConstantId, KernelId, SizeId};
pub use memory_budget::{MemoryBudget, UnknownMemoryBudget};
pub use operations::kernel_operations;
pub use plan_operation::{DispatchCase, PlanOperation, RuntimeShapeInjector, UnknownFact};
pub use program::{Block, Donation, Program, ProgramKernel, Requirement, Segment};
pub use sizes::{SizeList, SizeTable};
pub use step::{Action, Course, KernelLaunch, Step};
pub use store::StoredProgram;
