//! Loops that append to sequences, one entry per iteration, with a trip count that is data: the entries are stacked.
//!
//! This is how torch exports a list that is filled by a loop and consumed by `torch.stack` or `torch.cat`. If such a
//! sequence is used in any other way, the loop is unrolled (see [`unroll`](super::unroll)).

use super::captures::captures_of;
use super::context::NodeContext;
use super::item::Item;
use crate::{AttributeValue, ModelGraph, ModelNode};

impl NodeContext<'_> {
    /// Whether every sequence that a loop carries is initially empty, and the only use that the body makes of it is to
    /// append one entry.
    pub(super) fn only_appends(&self, body: &ModelGraph, carried: &[Item]) -> bool {
        let mut carried = carried.iter().enumerate();
        carried.all(|(index, item)| match item {
            Item::Tensor(_) => true,
            Item::Sequence(entries) => entries.is_empty() && appends_to(body, index).is_some(),
            _ => false,
        })
    }
}

/// The node by which a body appends to the sequence that is its carried input `index`, if that is its only use.
fn appends_to(body: &ModelGraph, index: usize) -> Option<&ModelNode> {
    let before = body.inputs().get(index + 2)?.name.as_str();
    let after = body.outputs().get(index + 1)?.name.as_str();
    let mut readers = body.nodes().iter().filter(|node| reads(node, before));
    let (Some(append), None) = (readers.next(), readers.next()) else {
        return None;
    };
    let is_append = append.op_type() == "SequenceInsert"
        && append.domain().is_empty()
        && matches!(append.inputs(), [list, entry] if list == before && entry != before)
        && append.output(0) == Some(after);
    let mut outputs = body.outputs().iter().enumerate();
    let is_given_once = outputs.all(|(at, output)| {
        let is_it = output.name == after || output.name == before;
        !is_it || at == index + 1
    });
    let is_read_again = body.nodes().iter().any(|node| reads(node, after));
    (is_append && is_given_once && !is_read_again).then_some(append)
}

/// Whether a node, or one of its bodies, reads a name.
fn reads(node: &ModelNode, name: &str) -> bool {
    let captures = |body: &ModelGraph| captures_of(body).contains(&name);
    node.inputs().iter().any(|input| input == name)
        || node
            .attributes()
            .iter()
            .any(|attribute| match &attribute.value {
                AttributeValue::Graph(body) => captures(body),
                AttributeValue::Graphs(bodies) => bodies.iter().any(captures),
                _ => false,
            })
}
