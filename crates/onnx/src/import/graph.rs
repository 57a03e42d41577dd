//! Imports the nodes of a graph, a body or a function, in an order in which they can run.
//!
//! Nested bodies and nested function calls recurse; both are bounded, by the nesting of the file's messages and by
//! `Limits::call_depth`.

use std::cell::Cell;
use std::sync::Arc;

use kiln_ir::ValueId;
use kiln_shape_inference::GraphBuilder;
use smallvec::SmallVec;

use super::context::{NodeContext, Outputs};
use super::function;
use super::item::Item;
use super::moved;
use super::names::{Binding, Names};
use super::order::runnable_order;
use super::questions::Questions;
use super::registry::{Importer, Registry, Takes};
use crate::{
    ElementType, Error, LimitKind, Limits, ModelGraph, ModelNode, ModelTensor, Name, Opsets,
};

/// The shared state of the nodes of one graph or function body.
pub(crate) struct Frame<'m> {
    pub(crate) registry: &'m Registry<'m>,
    pub(crate) limits: &'m Limits,
    /// The operator sets that the nodes use.
    pub(crate) opsets: &'m Opsets,
    /// The surrounding calls, each followed by `/`.
    pub(crate) path: Arc<str>,
    /// The number of surrounding calls.
    pub(crate) depth: u64,
    /// The nodes created so far that are not in the file.
    pub(crate) made: &'m Made,
    /// Whether the nodes are in a region, which may never run.
    pub(crate) is_nested: bool,
}

/// Created nodes and entries that are not in the file, counted against the limits; and the questions.
#[derive(Debug, Default)]
pub(crate) struct Made {
    nodes: Cell<u64>,
    entries: Cell<u64>,
    pub(super) questions: Questions,
}

impl Made {
    /// Nothing yet.
    pub(super) fn new(questions: Questions) -> Self {
        Self {
            questions,
            ..Self::default()
        }
    }
}

impl<'m> Frame<'m> {
    /// Counts items about to be created: inlined nodes or entries of sequences.
    ///
    /// # Errors
    /// When the total exceeds the limit of that kind; nothing is counted then.
    pub(crate) fn count(&self, kind: LimitKind, count: usize) -> Result<(), Error> {
        let made = match kind {
            LimitKind::SequenceEntries => &self.made.entries,
            _ => &self.made.nodes,
        };
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        let total = made.get().saturating_add(count);
        self.limits.check(kind, total)?;
        made.set(total);
        Ok(())
    }

    /// The same for a body, which becomes a region or is imported in place.
    pub(crate) fn within_region(&self, becomes_region: bool) -> Frame<'m> {
        Frame {
            path: Arc::clone(&self.path),
            is_nested: self.is_nested || becomes_region,
            ..*self
        }
    }
}

/// Imports a graph's constants and nodes; `names` holds its inputs.
pub(crate) fn import_graph(
    frame: &Frame<'_>,
    builder: &mut GraphBuilder,
    graph: &ModelGraph,
    names: &mut Names,
) -> Result<(), Error> {
    bind_initializers(builder, graph, names)?;
    let results = graph.outputs().iter().map(|output| output.name.as_str());
    let results: Vec<&str> = results.collect();
    import_nodes(frame, builder, graph.nodes(), &results, names)
}

/// Imports a body and returns its results, in order.
pub(crate) fn import_body(
    frame: &Frame<'_>,
    builder: &mut GraphBuilder,
    graph: &ModelGraph,
    names: &mut Names,
) -> Result<Vec<Item>, Error> {
    import_graph(frame, builder, graph, names)?;
    let outputs = graph.outputs().iter();
    outputs
        .map(|output| output_value(names, &output.name))
        .collect()
}

/// The value of an output, by name.
pub(crate) fn output_value(names: &Names, name: &str) -> Result<Item, Error> {
    match names.get(name) {
        Some(Binding::Value(item)) => Ok(item.clone()),
        Some(Binding::Missing(node)) => Err(Error::Unsupported {
            node: node.clone(),
            what: format!("its result {}", Name::from(name)),
        }),
        None => Err(Error::Structure {
            reason: format!("the output {} is undefined", Name::from(name)),
        }),
    }
}

/// Creates values for the initializers. One without a supported dtype is an error where it is used.
fn bind_initializers(
    builder: &mut GraphBuilder,
    graph: &ModelGraph,
    names: &mut Names,
) -> Result<(), Error> {
    builder.clear_origin();
    for (name, tensor) in graph.initializers() {
        if tensor.tensor().is_err() && !is_output(graph, name) && !is_read(graph, name) {
            continue;
        }
        let value = import_tensor(builder, tensor)?;
        builder.name(value, name);
        names.bind(name, Binding::Value(typed(value, tensor.element())));
    }
    Ok(())
}

fn is_output(graph: &ModelGraph, name: &str) -> bool {
    graph.outputs().iter().any(|output| output.name == name)
}

fn is_read(graph: &ModelGraph, name: &str) -> bool {
    let mut inputs = graph.nodes().iter().flat_map(ModelNode::inputs);
    inputs.any(|input| input == name)
}

/// A tensor type with elements of this type.
pub(crate) fn typed(value: ValueId, element: ElementType) -> Item {
    match element {
        ElementType::Narrow(narrow) => Item::Narrow(value, narrow),
        _ => Item::Tensor(value),
    }
}

/// Adds a tensor of the model as a constant.
pub(crate) fn import_tensor(
    builder: &mut GraphBuilder,
    tensor: &ModelTensor,
) -> Result<ValueId, Error> {
    let content = tensor.tensor()?.clone();
    builder.constant(content).map_err(|source| Error::Infer {
        node: format!("tensor {}", tensor.name()),
        source,
    })
}

/// Imports the nodes that produce `results`, each after those whose results it reads, and then all others.
pub(crate) fn import_nodes(
    frame: &Frame<'_>,
    builder: &mut GraphBuilder,
    nodes: &[ModelNode],
    results: &[&str],
    names: &mut Names,
) -> Result<(), Error> {
    let order = runnable_order(nodes, results, names)?;
    for node in order.into_iter().filter_map(|position| nodes.get(position)) {
        let outputs = import_node(frame, builder, node, names)?;
        for (index, name) in node.outputs().iter().enumerate() {
            if name.is_empty() {
                continue;
            }
            let binding = match outputs.get(index) {
                Some(item) => Binding::Value(item.clone()),
                None => Binding::Missing(node.path()),
            };
            if let Binding::Value(item) = &binding
                && let Some(value) = item.value()
                && builder.graph().value(value).name.is_none()
            {
                builder.name(value, name);
            }
            if !names.bind(name, binding) {
                let name = Name::from(name.as_str());
                return Err(Error::Redefined {
                    node: node.path(),
                    name,
                });
            }
        }
    }
    Ok(())
}

fn import_node(
    frame: &Frame<'_>,
    builder: &mut GraphBuilder,
    node: &ModelNode,
    names: &Names,
) -> Result<Outputs, Error> {
    builder.origin(&origin_of(frame, node));
    let inputs = read_inputs(node, names)?;
    match frame.registry.find(node, frame.opsets) {
        Some(Importer::Function(called)) => function::inline(frame, builder, node, called, &inputs),
        Some(Importer::Standard(operator)) => {
            let opset = opset_of(frame, node)?;
            let version = operator.version(opset).unwrap_or(opset);
            let mut ctx = NodeContext {
                frame,
                builder,
                names,
                node,
                inputs,
                version,
            };
            expect_operands(&ctx, operator.takes)?;
            moved::check(&ctx, opset)?;
            let mut outputs = (operator.import)(&mut ctx)?;
            if operator.takes == Takes::Moved
                && let Some(narrow) = ctx.narrow_type(0)
            {
                for output in &mut outputs {
                    if let Item::Tensor(value) = *output {
                        *output = Item::Narrow(value, narrow);
                    }
                }
            }
            Ok(outputs)
        }
        Some(Importer::Custom(importer)) => {
            let version = frame.opsets.version(node.domain()).unwrap_or(0);
            let mut ctx = NodeContext {
                frame,
                builder,
                names,
                node,
                inputs,
                version,
            };
            expect_operands(&ctx, Takes::Tensors)?;
            let outputs = importer.import(&mut ctx)?;
            Ok(outputs.into_iter().map(Item::Tensor).collect())
        }
        // The search for unsupported operators was done earlier.
        None => Err(Error::Unsupported {
            node: node.path(),
            what: format!("operator {}", node.operator()),
        }),
    }
}

/// Checks that the operator accepts operands of these kinds.
fn expect_operands(ctx: &NodeContext<'_>, takes: Takes) -> Result<(), Error> {
    for index in 0..ctx.n_inputs() {
        let expected = match ctx.item(index) {
            None | Some(Item::Tensor(_)) => continue,
            Some(Item::Narrow(..)) if takes != Takes::Tensors => continue,
            Some(Item::Narrow(..)) => {
                "a tensor of a type that Kiln computes with; cast it before, or dequantise it"
            }
            Some(_) if takes == Takes::Items => continue,
            Some(_) => "a tensor",
        };
        let found = ctx.item(index).map_or_else(String::new, Item::kind);
        return Err(ctx.unsupported(format!(
            "operand {index}: expected {expected}, found {found}"
        )));
    }
    Ok(())
}

fn read_inputs(node: &ModelNode, names: &Names) -> Result<SmallVec<[Option<Item>; 4]>, Error> {
    let mut inputs: SmallVec<[Option<Item>; 4]> = SmallVec::new();
    for name in node.inputs() {
        inputs.push(match names.get(name) {
            _ if name.is_empty() => None,
            Some(Binding::Value(item)) => Some(item.clone()),
            Some(Binding::Missing(giver)) => {
                return Err(Error::Unsupported {
                    node: giver.clone(),
                    what: format!(
                        "its result {}, which {} reads",
                        Name::from(name.as_str()),
                        node.label()
                    ),
                });
            }
            None => {
                return Err(Error::Undefined {
                    node: node.path(),
                    name: Name::from(name.as_str()),
                });
            }
        });
    }
    while let Some(None) = inputs.last() {
        inputs.pop();
    }
    Ok(inputs)
}

/// The version of the node's operator set. A domain that a model uses without importing it counts as its first.
fn opset_of(frame: &Frame<'_>, node: &ModelNode) -> Result<i64, Error> {
    if !node.domain().is_empty() {
        return Ok(frame.opsets.version(node.domain()).unwrap_or(1));
    }
    frame.opsets.standard().ok_or_else(|| Error::Structure {
        reason: format!(
            "{}: the model imports no version of the standard operators",
            node.path()
        ),
    })
}

/// The origin of a node's operations in messages and profiles.
pub(super) fn origin_of(frame: &Frame<'_>, node: &ModelNode) -> String {
    match (node.name(), node.output(0)) {
        ("", Some(output)) => format!("{}{}:{output}", frame.path, node.op_type()),
        ("", None) => format!("{}{}", frame.path, node.op_type()),
        (name, _) => format!("{}{name}", frame.path),
    }
}
