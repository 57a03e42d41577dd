//! Blueprints: declarative, versioned JSON graphs, with limits on their sizes and a position in every error.
//!
//! A blueprint is data and may be untrusted. The meaning of each kind of node is defined in `convert`.
//!
//! *Invariant:* a blueprint that passed [`Blueprint::validate`] has unique names, no cycles, and only operands that exist.

mod document;
mod limits;
mod of_graph;
mod place;
mod schema;
mod standard;
mod tensor;
mod validate;

pub use document::{
    Blueprint, BlueprintInput, BlueprintNode, BlueprintOutput, BlueprintSymbol, InputRole, Size,
    VERSION,
};
pub use limits::BlueprintLimits;
pub use place::Place;
pub use schema::json_schema;
pub use standard::{STANDARD, StandardBlueprint};
pub(crate) use tensor::tensor_from_json;
