//! Calls of the model's own functions are inlined.
//!
//! A body's attributes may refer to the call's; they are filled in on a copy of the nodes. Depth and total size are
//! bounded, because functions that call each other can describe far more nodes than a file contains.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use kiln_shape_inference::GraphBuilder;

use super::context::Outputs;
use super::graph::{Frame, import_nodes, output_value};
use super::item::Item;
use super::names::{Binding, Names};
use crate::{Attribute, AttributeValue, Error, Function, LimitKind, ModelGraph, ModelNode, Name};

/// Imports a call.
pub(crate) fn inline(
    frame: &Frame<'_>,
    builder: &mut GraphBuilder,
    call: &ModelNode,
    function: &Function,
    inputs: &[Option<Item>],
) -> Result<Outputs, Error> {
    let depth = frame.depth + 1;
    frame.limits.check(LimitKind::CallDepth, depth)?;
    let nodes = with_arguments(frame, call, function)?;
    let mut names = Names::default();
    for (parameter, argument) in function.inputs().iter().zip(inputs) {
        if let Some(item) = argument {
            names.bind(parameter, Binding::Value(item.clone()));
        }
    }
    let label = if call.name().is_empty() {
        call.op_type()
    } else {
        call.name()
    };
    let inner = Frame {
        opsets: function.opsets(),
        path: Arc::from(format!("{}{label}/", frame.path)),
        depth,
        ..*frame
    };
    let results: Vec<&str> = function.outputs().iter().map(String::as_str).collect();
    import_nodes(&inner, builder, &nodes, &results, &mut names)?;
    let wanted = function.outputs().iter().take(call.outputs().len());
    wanted.map(|name| output_value(&names, name)).collect()
}

/// The function's nodes for this call: attributes filled in, operands omitted where the call omits them.
fn with_arguments(
    frame: &Frame<'_>,
    call: &ModelNode,
    function: &Function,
) -> Result<Vec<ModelNode>, Error> {
    let mut arguments: BTreeMap<&str, &AttributeValue> = BTreeMap::new();
    for attribute in function.optional_attributes() {
        arguments.insert(&attribute.name, &attribute.value);
    }
    for attribute in call.attributes().iter() {
        arguments.insert(&attribute.name, &attribute.value);
    }
    for required in function.required_attributes() {
        if !arguments.contains_key(required.as_str()) {
            return Err(Error::MissingAttribute {
                node: call.path(),
                attribute: Name::from(required.as_str()),
                expected: "the function's choice",
            });
        }
    }
    let given = |position: usize| call.input(position).is_some();
    let parameters = function.inputs().iter().enumerate();
    let absent: BTreeSet<&str> = parameters
        .filter(|&(position, _)| !given(position))
        .map(|(_, name)| name.as_str())
        .collect();
    let substitution = Substitution {
        frame,
        arguments,
        absent,
    };
    function
        .nodes()
        .iter()
        .map(|node| substitution.node(node))
        .collect()
}

struct Substitution<'a> {
    frame: &'a Frame<'a>,
    arguments: BTreeMap<&'a str, &'a AttributeValue>,
    absent: BTreeSet<&'a str>,
}

impl Substitution<'_> {
    /// A copy of a node; counts it.
    fn node(&self, node: &ModelNode) -> Result<ModelNode, Error> {
        self.frame.count(LimitKind::InlinedNodes, 1)?;
        let attributes = node.attributes.iter();
        let attributes = attributes.filter_map(|attribute| self.attribute(attribute).transpose());
        let inputs = node.inputs.iter().map(|name| {
            let absent = self.absent.contains(name.as_str());
            if absent { String::new() } else { name.clone() }
        });
        Ok(ModelNode {
            scope: Arc::clone(&node.scope),
            index: node.index,
            name: node.name.clone(),
            op_type: node.op_type.clone(),
            domain: node.domain.clone(),
            overload: node.overload.clone(),
            inputs: inputs.collect(),
            outputs: node.outputs.clone(),
            attributes: attributes.collect::<Result<_, _>>()?,
        })
    }

    /// The attribute with references resolved; `None` when the call omits the referenced one.
    fn attribute(&self, attribute: &Attribute) -> Result<Option<Attribute>, Error> {
        let value = match &attribute.value {
            AttributeValue::Reference(name) => match self.arguments.get(name.as_str()) {
                Some(&argument) => argument.clone(),
                None => return Ok(None),
            },
            AttributeValue::Graph(graph) => AttributeValue::Graph(self.graph(graph)?),
            AttributeValue::Graphs(graphs) => {
                let graphs = graphs.iter().map(|graph| self.graph(graph));
                AttributeValue::Graphs(graphs.collect::<Result<_, _>>()?)
            }
            other => other.clone(),
        };
        Ok(Some(Attribute {
            name: attribute.name.clone(),
            value,
        }))
    }

    fn graph(&self, graph: &ModelGraph) -> Result<ModelGraph, Error> {
        let nodes = graph.nodes.iter().map(|node| self.node(node));
        Ok(ModelGraph {
            name: graph.name.clone(),
            inputs: graph.inputs.clone(),
            outputs: graph.outputs.clone(),
            annotations: graph.annotations.clone(),
            initializers: graph.initializers.clone(),
            nodes: nodes.collect::<Result<_, _>>()?,
        })
    }
}
