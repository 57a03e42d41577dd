//! Symbolic dimensions: expressions over sizes that are not known yet, what is known about them, and proofs.
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
mod table;

pub use binding::Binding;
pub use dimension::SymbolicDimension;
pub use error::{DimError, EvaluateError};
pub use fact::{ContractFact, FactOrigin, Hint, PlanFact, Predicate};
pub use ids::{DimId, SymbolId};
pub use limits::DimLimits;
pub use prove::{Fuel, Proof};
pub use range::DimRange;
pub use table::{DimDisplay, DimImport, DimTable, PredicateDisplay, ShapeDisplay};
