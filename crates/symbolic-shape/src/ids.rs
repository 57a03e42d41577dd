//! The newtype ids of a [`DimTable`](crate::DimTable).
//!
//! An id is valid only in the table that created it; check with [`DimTable::contains`](crate::DimTable::contains)
//! before using one of unknown origin.

use cranelift_entity::entity_impl;

/// A dimension expression of one table. Equal ids are equal expressions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DimId(u32);
entity_impl!(DimId, "d");

/// A symbol of one table.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SymbolId(u32);
entity_impl!(SymbolId, "s");

/// An indivisible factor of a dimension expression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct AtomId(u32);
entity_impl!(AtomId, "a");
