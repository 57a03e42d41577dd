//! A stable structural hash: BLAKE3 of the graph's canonical text.
//!
//! Two graphs have the same hash exactly when they compute the same thing in the same way: names of values, of the
//! graph and of source nodes, and metadata are excluded; input and output names are included, as callers use them. It
//! never depends on `derive(Hash)`, addresses or map order.

use crate::constant::Digest;
use crate::graph::Graph;
use crate::text::{PrintOptions, print_with};

/// The structural hash of a graph.
pub fn structural_hash(graph: &Graph) -> Digest {
    Digest::of_text(&print_with(graph, PrintOptions::canonical()))
}
