//! The ids of a kernel's arenas: newtypes over `u32`.

use cranelift_entity::entity_impl;

/// A buffer of a kernel: an operand or a result. Prints as `buffer3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BufferId(u32);
entity_impl!(BufferId, "buffer");

/// An axis of a kernel. Prints as `axis3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AxisId(u32);
entity_impl!(AxisId, "axis");

/// A node of a kernel's scalar expressions. Prints as `node3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(u32);
entity_impl!(NodeId, "node");

/// A stage of a kernel. Prints as `stage3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StageId(u32);
entity_impl!(StageId, "stage");
