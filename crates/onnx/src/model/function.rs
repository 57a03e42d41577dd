//! An operator that a model defines in terms of other operators.

use super::{Attribute, ModelNode, Opsets};

/// A function of the model.
#[derive(Clone, Debug)]
pub struct Function {
    pub(crate) domain: String,
    pub(crate) name: String,
    pub(crate) overload: String,
    pub(crate) opsets: Opsets,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) required_attributes: Vec<String>,
    pub(crate) optional_attributes: Vec<Attribute>,
    pub(crate) nodes: Vec<ModelNode>,
}

impl Function {
    /// The domain of the operator it defines; empty for the standard one.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// The operator it defines.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Which overload of the operator it defines; mostly empty.
    pub fn overload(&self) -> &str {
        &self.overload
    }

    /// The operator sets that its nodes use.
    pub fn opsets(&self) -> &Opsets {
        &self.opsets
    }

    /// The names of its parameters.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The names of its results.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// The attributes that a caller must pass.
    pub fn required_attributes(&self) -> &[String] {
        &self.required_attributes
    }

    /// The attributes that a caller may pass, with their defaults.
    pub fn optional_attributes(&self) -> &[Attribute] {
        &self.optional_attributes
    }

    /// Its nodes, in order. Their attributes may refer to the function's own.
    pub fn nodes(&self) -> &[ModelNode] {
        &self.nodes
    }
}
