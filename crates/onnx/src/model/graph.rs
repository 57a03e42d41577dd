//! A graph of a model: the main one, or the body of a control-flow operator.

use std::collections::BTreeMap;

use super::{ModelNode, ModelTensor, ValueInfo};

/// Nodes in order, constants, inputs and outputs.
///
/// Names are those of the file; the importer checks that every name is defined once and before its use.
#[derive(Clone, Debug)]
pub struct ModelGraph {
    pub(crate) name: String,
    pub(crate) inputs: Vec<ValueInfo>,
    pub(crate) outputs: Vec<ValueInfo>,
    pub(crate) annotations: Vec<ValueInfo>,
    pub(crate) initializers: BTreeMap<String, ModelTensor>,
    pub(crate) nodes: Vec<ModelNode>,
}

impl ModelGraph {
    /// The graph's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The declared inputs, including those with an initializer: old models list their weights here.
    pub fn inputs(&self) -> &[ValueInfo] {
        &self.inputs
    }

    /// The inputs that a caller must pass: those without an initializer.
    pub fn required_inputs(&self) -> impl Iterator<Item = &ValueInfo> {
        self.inputs
            .iter()
            .filter(|input| !self.initializers.contains_key(&input.name))
    }

    /// The declared outputs.
    pub fn outputs(&self) -> &[ValueInfo] {
        &self.outputs
    }

    /// The types that the model states for inner values. They may be wrong.
    pub fn annotations(&self) -> &[ValueInfo] {
        &self.annotations
    }

    /// The constants by name.
    pub fn initializers(&self) -> &BTreeMap<String, ModelTensor> {
        &self.initializers
    }

    /// The nodes, in the model's order.
    pub fn nodes(&self) -> &[ModelNode] {
        &self.nodes
    }
}
