//! Symbolic dimensions: sizes that are not known yet, facts about them, and proofs about them.
//!
//! A compiler for tensors of changing shape must decide questions such as "are these two sizes always equal?" and "is this
//! one a multiple of 8?" without ever seeing a concrete size. This crate is a small prover for such questions, not an
//! algebra system:
//!
//! - [`DimTable`] holds the expressions of one graph, hash-consed in a normal form: equal ids are equal expressions. A
//!   symbol ranges over every integer from 0 up unless it is declared otherwise; 0 and 1 are never special.
//! - Three kinds of knowledge are three types: a [`ContractFact`] holds or the call is rejected, a [`PlanFact`] selects
//!   between plans, a [`Hint`] affects speed alone.
//! - [`DimTable::prove`] returns [`Proof::Proved`], [`Proof::Disproved`] or [`Proof::Unknown`] within a limit of steps.
//! - A [`SizeRequirement`] is a requirement of an operator on the sizes of each call, kept unsimplified.
//! - [`DimTable::evaluate`] computes concrete sizes with checks; [`DimTable::check`] checks them against the contract.
//! - [`SymbolicDimension`] and [`SymbolicShape`] describe sizes at the API boundary, where there is no table.
//! - [`text`] has the lexer and the diagnostics that all of Kiln's text forms share.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! use kiln_symbolic_shape::{Binding, DimTable, Predicate, SymbolicDimension};
//!
//! let mut table = DimTable::new();
//! let height = table.declare(SymbolicDimension::named("H").multiple_of(32)?)?;
//! let h = table.dim(height);
//! let (two, sixteen, thirty_two) = (table.constant(2), table.constant(16), table.constant(32));
//! let coarse = table.ceil_div(h, thirty_two)?;
//! let doubled = table.mul(two, coarse)?;
//! let fine = table.ceil_div(h, sixteen)?;
//! assert!(table.prove(&Predicate::Equal(doubled, fine)).is_proved());
//!
//! let mut sizes = Binding::new();
//! sizes.set(height, 640)?;
//! assert_eq!(table.evaluate(fine, &sizes)?, 40);
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

pub mod text;

mod binding;
mod congruence;
mod dimension;
mod error;
mod fact;
mod ids;
mod limits;
mod polynomial;
mod prove;
mod range;
mod requirement;
mod shape;
mod table;
mod work;

#[cfg(test)]
mod tests;

pub use binding::Binding;
pub use dimension::SymbolicDimension;
pub use error::{DimError, EvaluateError};
pub use fact::{ContractFact, FactOrigin, FactSelection, Hint, PlanFact, Predicate};
pub use ids::{DimId, SymbolId};
pub use limits::DimLimits;
pub use prove::{Fuel, Proof};
pub use range::DimRange;
pub use requirement::{RequirementKind, SizeRequirement, Unmet, Verdict};
pub use shape::SymbolicShape;
pub use table::{
    DimDisplay, DimExpression, DimFactor, DimImport, DimTable, DimTerm, PredicateDisplay,
    ShapeDisplay,
};
