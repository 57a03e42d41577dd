//! Infallible rebuilding of a graph.
//!
//! The copying is done by `kiln_ir::Rebuild`.

use kiln_ir::{Graph, OpId, Rebuild, RegionId, Visit};
use std::convert::Infallible;

/// Rebuilds a graph with a visit that cannot fail.
pub(crate) fn rebuild_with(
    graph: &Graph,
    visit: &mut dyn FnMut(&mut Rebuild<'_>, RegionId, OpId) -> Visit,
) -> Graph {
    let built: Result<Graph, Infallible> =
        Rebuild::new(graph).run(&mut |rebuild, region, op| Ok(visit(rebuild, region, op)));
    match built {
        Ok(graph) => graph,
        Err(never) => match never {},
    }
}
