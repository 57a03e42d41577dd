//! The ids of the graph's arenas: newtypes over `u32` that print as in the text form.

use cranelift_entity::entity_impl;

/// A value: a graph input, a region parameter, or the result of an op. Prints as `%3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ValueId(u32);
entity_impl!(ValueId, "%");

/// An operation of the graph. Prints as `op3`; ops have no name in the text form.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OpId(u32);
entity_impl!(OpId, "op");

/// A region: the graph's body, a branch of an `if`, the body of a `loop`. Prints as `region3`.
#[derive(Copy, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionId(u32);
entity_impl!(RegionId, "region");
