//! Copying ops, regions and graphs where nothing can fail: what `Rebuild` leaves to passes.
//!
//! [`copy_op`] and [`copy_ops`] follow nested regions by recursion, which the verifier's limit on
//! their depth bounds.

use kiln_ir::{Graph, NewOp, OpId, Rebuild, RegionId, ValueId, Visit};
use kiln_symbolic_shape::SymbolId;
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

/// Copies every op of an old region whose parameters are mapped; answers what it yields.
pub(crate) fn copy_ops(rebuild: &mut Rebuild<'_>, from: RegionId, into: RegionId) -> Vec<ValueId> {
    let old = rebuild.old();
    for &op in &old.region(from).ops {
        copy_op(rebuild, into, op);
    }
    old.region(from)
        .results
        .iter()
        .map(|&value| rebuild.value(value))
        .collect()
}

/// Copies an op with its regions.
pub(crate) fn copy_op(rebuild: &mut Rebuild<'_>, into: RegionId, op: OpId) {
    let old = rebuild.old();
    let data = old.op(op);
    let mut new = NewOp::new(
        data.op.clone(),
        data.operands.iter().map(|&value| rebuild.value(value)),
        data.results.iter().map(|&value| old.ty(value).clone()),
    );
    new.symbols.clone_from(&data.symbols);
    new.origin.clone_from(&data.origin);
    for &region in &data.regions {
        let copy = rebuild.new_graph_mut().add_region();
        open_region(rebuild, region, copy, |_| true, |_| true);
        let results = copy_ops(rebuild, region, copy);
        rebuild.new_graph_mut().set_results(copy, results);
        new.regions.push(copy);
    }
    append_mapped(rebuild, into, new, &data.results);
}

/// Gives a new region those symbols of an old one that are kept, and copies of those parameters
/// that are, by position.
pub(crate) fn open_region(
    rebuild: &mut Rebuild<'_>,
    from: RegionId,
    into: RegionId,
    keep_parameter: impl Fn(usize) -> bool,
    keep_symbol: impl Fn(SymbolId) -> bool,
) {
    let old = rebuild.old();
    for &symbol in old
        .region(from)
        .symbols
        .iter()
        .filter(|&&symbol| keep_symbol(symbol))
    {
        rebuild.new_graph_mut().add_region_symbol(into, symbol);
    }
    for (index, &parameter) in old.region(from).parameters.iter().enumerate() {
        if keep_parameter(index) {
            let copy = rebuild
                .new_graph_mut()
                .add_parameter(into, old.ty(parameter).clone());
            rebuild.map(parameter, copy);
        }
    }
}

/// Appends an op whose results stand for those old values, in order.
pub(crate) fn append_mapped(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    new: NewOp,
    results: &[ValueId],
) {
    let id = rebuild.append(into, new);
    let copies = rebuild.new_graph().op(id).results.clone();
    for (&from, &to) in results.iter().zip(&copies) {
        rebuild.map(from, to);
    }
}
