//! The layer of each box: below everything it reads.
//!
//! Longest path from the top; then boxes without operands move down to their first reader, except inputs, which people look
//! for at the top.

use crate::draw::scene::{NodeKind, Scene};

/// The layer of every node; an edge always leads to a higher one.
pub(super) fn assign(scene: &Scene) -> Vec<usize> {
    let mut layers = vec![0_usize; scene.nodes.len()];
    let mut reads = vec![false; scene.nodes.len()];
    // Edges are in the order of their target boxes, so one pass is enough.
    for edge in &scene.edges {
        layers[edge.to] = layers[edge.to].max(layers[edge.from] + 1);
        reads[edge.to] = true;
    }
    let mut first_reader = vec![usize::MAX; scene.nodes.len()];
    for edge in &scene.edges {
        first_reader[edge.from] = first_reader[edge.from].min(layers[edge.to]);
    }
    let last = layers.iter().copied().max().unwrap_or(0);
    for (index, node) in scene.nodes.iter().enumerate() {
        match node.kind {
            NodeKind::Input => {}
            NodeKind::Note => layers[index] = last + usize::from(index > 0),
            _ if !reads[index] && first_reader[index] != usize::MAX => {
                layers[index] = first_reader[index].saturating_sub(1);
            }
            _ => {}
        }
    }
    layers
}
