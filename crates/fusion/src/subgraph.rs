//! A node's ops as a graph of their own, over the same sizes.
//!
//! What the node reads becomes an input, constants included but those that say how often a loop runs; what it gives becomes
//! an output.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use kiln_ir::{Graph, NewOp, Op, OpId, RegionId, Type, ValueId};
use kiln_symbolic_shape::{DimId, DimTable};

use crate::cost;
use crate::grow::defining;

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
    let mut copy = Extraction {
        from: graph,
        graph: Graph::with_dims(name, dims),
        values: BTreeMap::new(),
        map,
    };
    let body = copy.graph.body();
    for &op in ops {
        copy.course_of(op, body);
    }
    let inputs = cost::inputs(graph, ops).into_iter();
    let inputs: Vec<ValueId> = inputs
        .filter(|value| !copy.values.contains_key(value))
        .collect();
    for (position, value) in inputs.into_iter().enumerate() {
        let label = format!("x{position}");
        let ty = copy.ty(value);
        copy.values.insert(value, copy.graph.add_input(&label, ty));
    }
    for &op in ops {
        copy.op(op, body);
    }
    let Extraction {
        mut graph, values, ..
    } = copy;
    let named = outputs.iter().enumerate().filter_map(|(position, value)| {
        values
            .get(value)
            .map(|&value| (format!("y{position}"), value))
    });
    let named: Vec<(String, ValueId)> = named.collect();
    graph.set_outputs(named);
    Subgraph {
        graph,
        origin: values.into_iter().map(|(old, new)| (new, old)).collect(),
    }
}

/// A graph on its way to being a copy of a part of another.
struct Extraction<'a> {
    from: &'a Graph,
    graph: Graph,
    values: BTreeMap<ValueId, ValueId>,
    map: &'a mut dyn FnMut(&mut DimTable, DimId) -> DimId,
}

impl Extraction<'_> {
    fn ty(&mut self, value: ValueId) -> Type {
        let (dims, map) = (self.graph.dims_mut(), &mut self.map);
        let ty = self.from.ty(value);
        let Ok(ty) = ty.try_map_dims::<Infallible>(&mut |dim| Ok(map(dims, dim)));
        ty
    }

    /// Copies the constants by which a loop's iterations are known.
    fn course_of(&mut self, op: OpId, into: RegionId) {
        let data = self.from.op(op);
        if !matches!(data.op, Op::Loop { .. }) {
            return;
        }
        for &value in data.operands.iter().take(2) {
            if let Some(by) = defining(self.from, value)
                && matches!(self.from.op(by).op, Op::Constant(_))
                && !self.values.contains_key(&value)
            {
                self.op(by, into);
            }
        }
    }

    /// Copies an op, the regions of a loop with it: their nesting has a limit.
    fn op(&mut self, op: OpId, into: RegionId) {
        let data = self.from.op(op);
        let types: Vec<Type> = data.results.iter().map(|&value| self.ty(value)).collect();
        let mut copy = data.op.clone();
        let (dims, map) = (self.graph.dims_mut(), &mut self.map);
        let Ok(()) = copy.try_map_dims::<Infallible>(&mut |dim| Ok(map(dims, dim)));
        let operands = self.values_of(&data.operands);
        let mut new = NewOp::new(copy, operands, types);
        new.origin = data.origin.clone();
        for &region in &data.regions {
            let of = self.graph.add_region();
            for &parameter in &self.from.region(region).parameters {
                let ty = self.ty(parameter);
                let copied = self.graph.add_parameter(of, ty);
                self.values.insert(parameter, copied);
            }
            for &op in &self.from.region(region).ops {
                self.op(op, of);
            }
            let results = self.values_of(&self.from.region(region).results);
            self.graph.set_results(of, results);
            new.regions.push(of);
        }
        let added = self.graph.append(into, new);
        let results = self.graph.op(added).results.clone();
        self.values
            .extend(data.results.iter().copied().zip(results));
    }

    fn values_of(&self, values: &[ValueId]) -> Vec<ValueId> {
        let copied = values.iter().map(|value| self.values.get(value).copied());
        copied.flatten().collect()
    }
}
