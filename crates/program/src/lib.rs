//! Programs as plain data: what a graph has become when it is ready to run.
//!
//! A [`Program`] has a block for the graph's body and one for each region of a control step. A block is *segments* of
//! *steps* over *buffers*: a segment ends where data become sizes, so that everything within it can be evaluated
//! ahead, once per combination of sizes. A step launches a kernel, has the executor run a builtin, binds symbols,
//! runs other blocks, or asks the interpreter. Where each buffer lies is decided here, with sizes still symbols:
//! buffers that are never needed at once share a slot of the arena if one is provably as large as the other.
//!
//! Nothing here runs, and nothing here knows a backend. `lazy-runtime` runs programs.
//!
//! | you want to | use |
//! |---|---|
//! | make one | [`build`] |
//! | see one | its `Display` |
//! | keep one | [`Program::store`], [`Program::load`] |
//! | know what it asks of a call | [`Segment::check`], [`Segment::requirements`] |
//! | know what sizes decide | [`PlanOperation`] |
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
mod plan_operation;
mod program;
mod sizes;
mod step;
mod store;

pub use buffer::{Buffer, Place, Slot};
pub use build::{BuildOptions, LayoutPreferences, RowMajor, build};
pub use error::ProgramError;
pub use ids::{BlockId, BufferId, ConstantId, KernelId, SizeId};
pub use plan_operation::{DispatchCase, PlanOperation, RuntimeShapeInjector, UnknownFact};
pub use program::{Block, Donation, Program, ProgramKernel, Requirement, Segment};
pub use sizes::{SizeList, Sizes};
pub use step::{Action, Course, KernelLaunch, Step};
pub use store::StoredProgram;
