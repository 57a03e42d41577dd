//! The order in which the nodes of a graph or body are imported.
//!
//! ONNX requires nodes in an order in which they can run; graph optimisers do not always preserve it. The chosen order does
//! not depend on how the nodes are listed: the post-order of a depth-first walk from the results. Unneeded nodes come after
//! it. A cycle has no order.

use std::collections::HashMap;

use super::captures::captures_of;
use super::names::Names;
use crate::{AttributeValue, Error, ModelNode};

/// Positions of `nodes` in the order of a walk from `results`; `names` are those that already have values. A name that
/// nothing produces is left to the node that reads it.
///
/// # Errors
/// [`Error::Cycle`] when nodes depend on each other's results.
pub(super) fn runnable_order(
    nodes: &[ModelNode],
    results: &[&str],
    names: &Names,
) -> Result<Vec<usize>, Error> {
    let mut givers: HashMap<&str, usize> = HashMap::new();
    for (position, node) in nodes.iter().enumerate() {
        for name in node.outputs() {
            if !name.is_empty() && names.get(name).is_none() {
                givers.entry(name).or_insert(position);
            }
        }
    }
    let read: Vec<Vec<usize>> = nodes
        .iter()
        .map(|node| {
            let givers = reads(node).filter_map(|name| givers.get(name));
            givers.copied().collect()
        })
        .collect();
    let needed = results.iter().filter_map(|&name| givers.get(name).copied());
    let mut walk = Walk {
        read: &read,
        states: vec![State::New; nodes.len()],
        order: Vec::with_capacity(nodes.len()),
    };
    for root in needed.chain(0..nodes.len()) {
        if let Err(cycle) = walk.visit(root) {
            let nodes = cycle.into_iter().filter_map(|node| nodes.get(node));
            return Err(Error::Cycle {
                nodes: nodes.map(ModelNode::path).collect(),
            });
        }
    }
    Ok(walk.order)
}

/// The state of the walk for a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    New,
    /// Its operands are being visited.
    Open,
    Done,
}

struct Walk<'a> {
    /// Per node, the nodes that produce its operands.
    read: &'a [Vec<usize>],
    states: Vec<State>,
    order: Vec<usize>,
}

impl Walk<'_> {
    /// Appends a node after all its dependencies.
    ///
    /// # Errors
    /// The nodes of a cycle, starting with the one listed first, each producing a name that the previous one reads.
    fn visit(&mut self, root: usize) -> Result<(), Vec<usize>> {
        // Open nodes, with the number of visited operands.
        let mut open: Vec<(usize, usize)> = Vec::new();
        self.enter(root, &mut open)?;
        while let Some((node, next)) = open.last_mut() {
            let given = self.read.get(*node).and_then(|read| read.get(*next));
            match given.copied() {
                Some(giver) => {
                    *next += 1;
                    self.enter(giver, &mut open)?;
                }
                None => {
                    let node = *node;
                    self.states[node] = State::Done;
                    self.order.push(node);
                    open.pop();
                }
            }
        }
        Ok(())
    }

    fn enter(&mut self, node: usize, open: &mut Vec<(usize, usize)>) -> Result<(), Vec<usize>> {
        match self.states[node] {
            State::Done => Ok(()),
            State::New => {
                self.states[node] = State::Open;
                open.push((node, 0));
                Ok(())
            }
            State::Open => {
                let path = open.iter().map(|&(node, _)| node);
                let mut cycle: Vec<usize> = path.skip_while(|&other| other != node).collect();
                let first = cycle.iter().enumerate().min_by_key(|&(_, &node)| node);
                let first = first.map_or(0, |(at, _)| at);
                cycle.rotate_left(first);
                Err(cycle)
            }
        }
    }
}

/// The names that a node reads, including those of its bodies; possibly with duplicates.
fn reads(node: &ModelNode) -> impl Iterator<Item = &str> {
    let bodies = node.attributes().iter().flat_map(|attribute| {
        let graphs = match &attribute.value {
            AttributeValue::Graph(graph) => std::slice::from_ref(graph),
            AttributeValue::Graphs(graphs) => graphs.as_slice(),
            _ => &[],
        };
        graphs.iter().flat_map(captures_of)
    });
    node.inputs().iter().map(String::as_str).chain(bodies)
}
