//! A node's ops as a graph of their own, over the same sizes.
//!
//! What the node reads becomes an input, constants included; what it gives becomes an output.

use std::collections::{BTreeMap, BTreeSet};

use kiln_ir::{Graph, NewOp, OpId, Type, ValueId};
use kiln_symbolic_shape::{DimId, DimTable};

use crate::cost;

/// A graph made from some ops of another, and where its values come from.
#[derive(Clone, Debug)]
pub(crate) struct Subgraph {
    pub(crate) graph: Graph,
    /// The value of the whole graph that each value stands for.
    pub(crate) origin: BTreeMap<ValueId, ValueId>,
}

/// What some ops give to others or to the caller.
pub(crate) fn outputs(graph: &Graph, ops: &BTreeSet<OpId>) -> Vec<ValueId> {
    let results: Vec<ValueId> = ops
        .iter()
        .flat_map(|&op| graph.op(op).results.iter().copied())
        .collect();
    let mut read: BTreeSet<ValueId> = BTreeSet::new();
    for (op, data) in graph.ops() {
        if !ops.contains(&op) {
            read.extend(&data.operands);
        }
        for &region in &data.regions {
            read.extend(&graph.region(region).results);
        }
    }
    read.extend(graph.outputs());
    results
        .into_iter()
        .filter(|value| read.contains(value))
        .collect()
}

/// The ops as a graph, with `dims` as its table and every size replaced by what `map` answers.
pub(crate) fn extract(
    graph: &Graph,
    name: &str,
    ops: &BTreeSet<OpId>,
    outputs: &[ValueId],
    dims: DimTable,
    map: &mut dyn FnMut(&mut DimTable, DimId) -> DimId,
) -> Subgraph {
    let mut dims = dims;
    let mut retype = |dims: &mut DimTable, ty: &Type| {
        let mapped = ty.try_map_dims::<std::convert::Infallible>(&mut |dim| Ok(map(dims, dim)));
        match mapped {
            Ok(ty) => ty,
        }
    };
    let inputs = cost::inputs(graph, ops);
    let input_types: Vec<Type> = inputs
        .iter()
        .map(|&value| retype(&mut dims, graph.ty(value)))
        .collect();
    let mut pieces = Vec::new();
    for &op in ops {
        let data = graph.op(op);
        let types: Vec<Type> = data
            .results
            .iter()
            .map(|&value| retype(&mut dims, graph.ty(value)))
            .collect();
        pieces.push((op, types));
    }
    let mut new_ops = BTreeMap::new();
    for &op in ops {
        let mut copy = graph.op(op).op.clone();
        let mapped =
            copy.try_map_dims::<std::convert::Infallible>(&mut |dim| Ok(map(&mut dims, dim)));
        match mapped {
            Ok(()) => new_ops.insert(op, copy),
        };
    }
    let mut result = Graph::with_dims(name, dims);
    let mut values: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for (position, (&value, ty)) in inputs.iter().zip(input_types).enumerate() {
        let label = format!("x{position}");
        values.insert(value, result.add_input(&label, ty));
    }
    let body = result.body();
    for (op, types) in pieces {
        let data = graph.op(op);
        let operands = data
            .operands
            .iter()
            .filter_map(|value| values.get(value).copied());
        let Some(copy) = new_ops.remove(&op) else {
            continue;
        };
        let mut new = NewOp::new(copy, operands.collect::<Vec<_>>(), types);
        new.origin = data.origin.clone();
        let added = result.append(body, new);
        let results = result.op(added).results.clone();
        values.extend(data.results.iter().copied().zip(results));
    }
    let named = outputs.iter().enumerate().filter_map(|(position, value)| {
        values
            .get(value)
            .map(|&value| (format!("y{position}"), value))
    });
    let named: Vec<(String, ValueId)> = named.collect();
    result.set_outputs(named);
    Subgraph {
        graph: result,
        origin: values.into_iter().map(|(old, new)| (new, old)).collect(),
    }
}
