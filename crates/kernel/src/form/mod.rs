//! The data model of a kernel.

mod buffer;
mod builder;
mod ids;
mod item;
mod kernel;
mod node;
mod reorder;
mod walk;

pub use buffer::{Buffer, Dims, Role};
pub(crate) use builder::Interned;
pub use builder::KernelBuilder;
pub use ids::{AxisId, BufferId, NodeId, StageId};
pub use item::{Axes, Axis, Carry, Combine, Extent, Item, Reduction, Stage, StageOperation, Store};
pub use kernel::{Kernel, NodeData};
pub use node::{Load, LoadGuard, Node, Nodes};
pub(crate) use walk::{reachable, stores};
