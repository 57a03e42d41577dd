//! One operator call of a model.

use std::fmt::Write;
use std::sync::Arc;

use super::scope::Scope;
use super::{Attribute, Attributes};
use crate::Name;

/// A node: an operator, its operands and its results.
#[derive(Clone, Debug)]
pub struct ModelNode {
    pub(crate) scope: Arc<Scope>,
    pub(crate) index: usize,
    pub(crate) name: String,
    pub(crate) op_type: String,
    pub(crate) domain: String,
    pub(crate) overload: String,
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
    pub(crate) attributes: Vec<Attribute>,
}

impl ModelNode {
    /// The node's own name; often empty.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The operator, `Conv` for instance.
    pub fn op_type(&self) -> &str {
        &self.op_type
    }

    /// The operator's domain; empty for the standard one, also where the model writes `ai.onnx`.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// Which of a function's overloads is called; mostly empty.
    pub fn overload(&self) -> &str {
        &self.overload
    }

    /// The names of the operands. An empty name is an omitted optional operand.
    pub fn inputs(&self) -> &[String] {
        &self.inputs
    }

    /// The name of the operand at `index`, unless it is omitted.
    pub fn input(&self, index: usize) -> Option<&str> {
        self.inputs
            .get(index)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The names of the results. An empty name is an unused result.
    pub fn outputs(&self) -> &[String] {
        &self.outputs
    }

    /// The name of the result at `index`, unless it is unused.
    pub fn output(&self, index: usize) -> Option<&str> {
        self.outputs
            .get(index)
            .map(String::as_str)
            .filter(|name| !name.is_empty())
    }

    /// The attributes, to be read by name and type.
    pub fn attributes(&self) -> Attributes<'_> {
        Attributes::new(self)
    }

    /// The node's place in the model, safe to print: `node 3 "conv_0" (Conv)`, with all surrounding graphs.
    pub fn path(&self) -> String {
        format!("{}{}", self.scope, self.label())
    }

    /// The node's place within its own graph.
    pub(crate) fn label(&self) -> String {
        let mut label = format!("node {} ", self.index);
        // Writing to a string cannot fail.
        if !self.name.is_empty() {
            let _ = write!(label, "{} ", Name::from(self.name.as_str()));
        } else if let Some(output) = self.output(0) {
            let _ = write!(label, "giving {} ", Name::from(output));
        }
        let _ = write!(label, "({})", self.operator());
        label
    }

    /// Domain and operator, safe to print: `Conv`, or `com.example::Conv`.
    pub fn operator(&self) -> String {
        let plain = |text: &str| {
            let quoted = Name::from(text).to_string();
            if text
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'))
            {
                quoted.trim_matches('"').to_owned()
            } else {
                quoted
            }
        };
        if self.domain.is_empty() {
            plain(&self.op_type)
        } else {
            format!("{}::{}", plain(&self.domain), plain(&self.op_type))
        }
    }
}
