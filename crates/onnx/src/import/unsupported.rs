//! Finds operators without an importer before anything is imported: one error lists them all.

use std::collections::{BTreeMap, BTreeSet};

use super::registry::{Importer, Registry};
use crate::{AttributeValue, Error, Function, Model, ModelNode, Opsets};

/// An operator without an importer, and where the model uses it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsupportedOperator {
    /// Domain and name, safe to print; with the version if an older one is unknown.
    pub operator: String,
    /// The number of nodes that use it.
    pub count: usize,
    /// The paths of the first few of them.
    pub nodes: Vec<String>,
}

/// The number of listed nodes per operator.
const NAMED_NODES: usize = 3;

/// Checks that every node's operator has an importer, including those of called functions.
///
/// # Errors
/// [`Error::UnsupportedOperators`] with all that have none.
pub(crate) fn check_operators(model: &Model, registry: &Registry<'_>) -> Result<(), Error> {
    let mut search = Search {
        registry,
        found: BTreeMap::new(),
        called: Vec::new(),
        seen: BTreeSet::new(),
    };
    search.nodes(model.graph().nodes(), model.opsets());
    while let Some(function) = search.called.pop() {
        search.nodes(function.nodes(), function.opsets());
    }
    if search.found.is_empty() {
        return Ok(());
    }
    let operators = search.found.into_values().collect();
    Err(Error::UnsupportedOperators { operators })
}

struct Search<'r, 'm> {
    registry: &'r Registry<'m>,
    found: BTreeMap<String, UnsupportedOperator>,
    called: Vec<&'m Function>,
    seen: BTreeSet<(&'m str, &'m str, &'m str)>,
}

impl Search<'_, '_> {
    /// Recursion is bounded by the nesting of graphs, which was bounded when the model was read.
    fn nodes(&mut self, nodes: &[ModelNode], opsets: &Opsets) {
        for node in nodes {
            match self.registry.find(node, opsets) {
                Some(Importer::Custom(_)) => {}
                Some(Importer::Function(function)) => {
                    let key = (function.domain(), function.name(), function.overload());
                    if self.seen.insert(key) {
                        self.called.push(function);
                    }
                }
                Some(Importer::Standard(operator)) => match opsets.version(node.domain()) {
                    Some(opset) if operator.version(opset).is_none() => {
                        self.add(node, format!("{} of version {opset}", node.operator()));
                    }
                    _ => {}
                },
                None => self.add(node, node.operator()),
            }
            for attribute in node.attributes().iter() {
                match &attribute.value {
                    AttributeValue::Graph(graph) => self.nodes(graph.nodes(), opsets),
                    AttributeValue::Graphs(graphs) => {
                        graphs
                            .iter()
                            .for_each(|graph| self.nodes(graph.nodes(), opsets));
                    }
                    _ => {}
                }
            }
        }
    }

    fn add(&mut self, node: &ModelNode, operator: String) {
        let entry = self
            .found
            .entry(operator)
            .or_insert_with_key(|operator| UnsupportedOperator {
                operator: operator.clone(),
                count: 0,
                nodes: Vec::new(),
            });
        entry.count += 1;
        if entry.nodes.len() < NAMED_NODES {
            entry.nodes.push(node.path());
        }
    }
}

/// Lists operators for a message.
pub(crate) fn list(operators: &[UnsupportedOperator]) -> String {
    let describe = |entry: &UnsupportedOperator| {
        let (count, plural) = (entry.count, if entry.count == 1 { "" } else { "s" });
        let more = if count > entry.nodes.len() {
            ", …"
        } else {
            ""
        };
        let nodes = entry.nodes.join(", ");
        format!("{} ({count} node{plural}: {nodes}{more})", entry.operator)
    };
    operators
        .iter()
        .map(describe)
        .collect::<Vec<_>>()
        .join("; ")
}
