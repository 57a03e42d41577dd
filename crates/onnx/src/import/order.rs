//! The order in which the nodes of a graph or body are imported.
//!
//! ONNX asks for nodes in an order in which they can run; graph optimisers do not always keep it. Nodes that are in such an
//! order keep it, and others are moved no further than what they read makes necessary. A cycle has no order.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use super::captures::captures_of;
use super::names::Names;
use crate::{AttributeValue, Error, Node};

/// Positions of `nodes` in an order in which they can run; `names` are those that have values already. A name that nothing
/// gives is left to the node that reads it.
///
/// # Errors
/// [`Error::Cycle`] when nodes wait for each other's results.
pub(super) fn runnable_order(nodes: &[Node], names: &Names) -> Result<Vec<usize>, Error> {
    let mut givers: HashMap<&str, usize> = HashMap::new();
    for (position, node) in nodes.iter().enumerate() {
        for name in node.outputs() {
            if !name.is_empty() && names.get(name).is_none() {
                givers.entry(name).or_insert(position);
            }
        }
    }
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waits: Vec<usize> = vec![0; nodes.len()];
    for (position, node) in nodes.iter().enumerate() {
        for giver in reads(node).filter_map(|name| givers.get(name)) {
            if let (Some(readers), Some(waits)) = (readers.get_mut(*giver), waits.get_mut(position))
            {
                readers.push(position);
                *waits += 1;
            }
        }
    }
    let ready = waits.iter().enumerate().filter(|&(_, &waits)| waits == 0);
    let mut ready: BinaryHeap<Reverse<usize>> = ready.map(|(node, _)| Reverse(node)).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(position)) = ready.pop() {
        order.push(position);
        for &reader in readers.get(position).into_iter().flatten() {
            if let Some(waits) = waits.get_mut(reader) {
                *waits -= 1;
                if *waits == 0 {
                    ready.push(Reverse(reader));
                }
            }
        }
    }
    if order.len() == nodes.len() {
        return Ok(order);
    }
    Err(Error::Cycle {
        nodes: cycle(nodes, &readers, &waits),
    })
}

/// The names that a node reads, those of its bodies among them; one that is read twice may come twice.
fn reads(node: &Node) -> impl Iterator<Item = &str> {
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

/// The paths of the nodes of one cycle, each giving a name that the one before it reads, for nodes of which some wait.
fn cycle(nodes: &[Node], readers: &[Vec<usize>], waits: &[usize]) -> Vec<String> {
    let is_waiting = |node: usize| waits.get(node).is_some_and(|&waits| waits > 0);
    // Each waiting node waits for one that waits, so going from giver to giver comes back.
    let mut giver_of: HashMap<usize, usize> = HashMap::new();
    for (giver, readers) in readers.iter().enumerate() {
        if is_waiting(giver) {
            for &reader in readers {
                giver_of.entry(reader).or_insert(giver);
            }
        }
    }
    let mut visited: HashMap<usize, usize> = HashMap::new();
    let mut path = Vec::new();
    let mut at = (0..nodes.len()).find(|&node| is_waiting(node));
    while let Some(node) = at {
        if let Some(&begin) = visited.get(&node) {
            path.drain(..begin);
            break;
        }
        visited.insert(node, path.len());
        path.push(node);
        at = giver_of.get(&node).copied();
    }
    let nodes = path.into_iter().filter_map(|node| nodes.get(node));
    nodes.map(Node::path).collect()
}
