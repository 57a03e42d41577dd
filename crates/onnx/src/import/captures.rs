//! The values that a nested graph reads from the surrounding graphs.
//!
//! Regions of the graph are isolated, so captures become operands of the control operation.

use std::collections::HashSet;

use crate::{AttributeValue, ModelGraph};

/// The names that `graph` reads and does not define, in the order of their first use.
pub(crate) fn captures_of(graph: &ModelGraph) -> Vec<&str> {
    let mut found = Found::default();
    visit(graph, &mut Vec::new(), &mut found);
    found.order
}

#[derive(Default)]
struct Found<'m> {
    order: Vec<&'m str>,
    seen: HashSet<&'m str>,
}

/// Recursion is bounded by the nesting of graphs, which was bounded when the model was read.
fn visit<'m>(graph: &'m ModelGraph, around: &mut Vec<HashSet<&'m str>>, found: &mut Found<'m>) {
    let inputs = graph.inputs().iter().map(|input| input.name.as_str());
    let initializers = graph.initializers().keys().map(String::as_str);
    // Nodes may be out of order, so their results are collected before their operands are checked.
    let results = graph.nodes().iter().flat_map(|node| node.outputs());
    let results = results.map(String::as_str);
    around.push(inputs.chain(initializers).chain(results).collect());
    for node in graph.nodes() {
        for name in node.inputs() {
            read(name, around, found);
        }
        for attribute in node.attributes().iter() {
            match &attribute.value {
                AttributeValue::Graph(inner) => visit(inner, around, found),
                AttributeValue::Graphs(inner) => {
                    inner.iter().for_each(|inner| visit(inner, around, found));
                }
                _ => {}
            }
        }
    }
    for output in graph.outputs() {
        read(&output.name, around, found);
    }
    around.pop();
}

fn read<'m>(name: &'m str, around: &[HashSet<&'m str>], found: &mut Found<'m>) {
    let defined = || around.iter().any(|names| names.contains(name));
    if !name.is_empty() && !found.seen.contains(name) && !defined() {
        found.seen.insert(name);
        found.order.push(name);
    }
}
