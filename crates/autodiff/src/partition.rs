//! Partition of a joint graph into a forward and a backward graph, and the choice of what is saved between them.
//!
//! Either graph is correct for every choice and all sizes; the choice is optimised for one set of sizes, which is a
//! hint.

mod cut;
#[cfg(test)]
mod tests;

use crate::Result;
use crate::joint::JointGraph;
use crate::size_hints::SIZE_HINT;
use cut::{Costs, Network};
use kiln_ir::{Graph, OpId, Rebuild, RegionId, ValueId, verify};
use kiln_symbolic_shape::SymbolId;
use std::collections::{BTreeSet, HashSet};

/// How much of the forward graph the backward graph may rematerialise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rematerialization {
    /// Nothing: every value that the backward graph reads is saved.
    Nothing,
    /// Ops that cost no more than reading their result: elementwise functions and data movement. Of all such choices,
    /// the one that saves the fewest bytes is taken.
    #[default]
    Cheap,
    /// As [`Cheap`](Self::Cheap), and then the ops with the least arithmetic per byte saved, until the saved values fit
    /// into this many bytes, or no op is left that may be rematerialised.
    Within(u64),
}

/// How a joint graph is partitioned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionOptions {
    /// What may be rematerialised.
    pub rematerialization: Rematerialization,
    /// The value assumed for every symbol when bytes are compared.
    pub size_hint: i64,
}

impl Default for PartitionOptions {
    fn default() -> Self {
        Self {
            rematerialization: Rematerialization::default(),
            size_hint: SIZE_HINT,
        }
    }
}

/// A joint graph in two halves.
#[derive(Clone, Debug)]
pub struct Partition {
    /// Inputs: those of the source graph. Outputs: those of the source graph, then the saved values.
    pub forward: Graph,
    /// Inputs: those of the joint graph (the source's, then the cotangents), then the saved values. Outputs: the gradients.
    pub backward: Graph,
    /// The number of outputs of the source graph.
    pub n_outputs: usize,
    /// The number of saved values.
    pub n_saved: usize,
    /// The bytes of the saved values, with the size hint for each symbol.
    pub saved_bytes: u64,
}

/// Partitions a joint graph.
///
/// # Errors
/// When a half is not well formed, which is a defect of this crate.
pub fn partition(joint: &JointGraph, options: &PartitionOptions) -> Result<Partition> {
    let graph = &joint.graph;
    let halves = Halves::of(joint);
    let mut costs = Costs::new(graph, options.size_hint);
    let mut saved: BTreeSet<ValueId> = match options.rematerialization {
        Rematerialization::Nothing => halves.needed.clone(),
        Rematerialization::Cheap | Rematerialization::Within(_) => {
            Network::of(graph, &halves, &costs).cut()
        }
    };
    if let Rematerialization::Within(limit) = options.rematerialization {
        // Each round allows one more op, so this ends.
        while costs.total(&saved) > limit && costs.allow_cheapest(&saved) {
            saved = Network::of(graph, &halves, &costs).cut();
        }
    }
    if defines_sizes_twice(graph, &graph.outputs()[joint.n_outputs..], &saved) {
        // Without saved values, each size has one definition; everything is rematerialised.
        saved.clear();
    }
    let saved_bytes = costs.total(&saved);
    let saved: Vec<ValueId> = saved.into_iter().collect();
    let forward = forward(joint, &saved)?;
    let backward = backward(joint, &saved)?;
    Ok(Partition {
        forward,
        backward,
        n_outputs: joint.n_outputs,
        n_saved: saved.len(),
        saved_bytes,
    })
}

/// The ops of a joint graph's body by the half that needs them.
struct Halves {
    /// Ops that the source's outputs depend on.
    forward: HashSet<OpId>,
    /// Results of forward ops that backward ops read, or that are gradients themselves.
    needed: BTreeSet<ValueId>,
}

impl Halves {
    fn of(joint: &JointGraph) -> Self {
        let graph = &joint.graph;
        let (outputs, gradients) = graph.outputs().split_at(joint.n_outputs);
        // Sizes that data define are needed in both halves.
        let defines = |op: OpId| !graph.op(op).symbols.is_empty();
        let forward = live(graph, outputs, &HashSet::new(), &defines);
        let mut needed = BTreeSet::new();
        let computed: HashSet<ValueId> = forward
            .iter()
            .flat_map(|&op| graph.op(op).results.iter().copied())
            .collect();
        let both = live(graph, gradients, &computed, &|_| false);
        for &op in both.difference(&forward) {
            let operands = graph.op(op).operands.iter().copied();
            needed.extend(operands.filter(|operand| computed.contains(operand)));
        }
        needed.extend(gradients.iter().copied().filter(|g| computed.contains(g)));
        // The operands of definitions of sizes are saved or rematerialised like any others.
        for &op in forward.iter().filter(|&&op| defines(op)) {
            let operands = graph.op(op).operands.iter().copied();
            needed.extend(operands.filter(|operand| computed.contains(operand)));
        }
        Self { forward, needed }
    }
}

/// The ops of the body that `results` depend on, without following the values of `ends`, and those for which `always`
/// holds.
fn live(
    graph: &Graph,
    results: &[ValueId],
    ends: &HashSet<ValueId>,
    always: &dyn Fn(OpId) -> bool,
) -> HashSet<OpId> {
    let mut wanted: HashSet<ValueId> = results.iter().copied().collect();
    let mut ops = HashSet::new();
    for &op in graph.region(graph.body()).ops.iter().rev() {
        let data = graph.op(op);
        let is_read = |result: &ValueId| wanted.contains(result) && !ends.contains(result);
        if always(op) || data.results.iter().any(is_read) {
            wanted.extend(data.operands.iter().copied());
            ops.insert(op);
        }
    }
    ops
}

/// The graph that computes the source's outputs and the saved values.
fn forward(joint: &JointGraph, saved: &[ValueId]) -> Result<Graph> {
    let source = &joint.graph;
    let outputs: Vec<ValueId> = source.outputs()[..joint.n_outputs].to_vec();
    let results: Vec<ValueId> = outputs.iter().chain(saved).copied().collect();
    let mut names: Vec<String> = source.output_names()[..joint.n_outputs]
        .iter()
        .map(ToString::to_string)
        .collect();
    names.extend(saved_names(source, saved.len()));
    half(source, &results, &names, &[], &joint.cotangents)
}

/// The graph that computes the gradients from the inputs, the cotangents and the saved values.
fn backward(joint: &JointGraph, saved: &[ValueId]) -> Result<Graph> {
    let source = &joint.graph;
    let results = &source.outputs()[joint.n_outputs..];
    let names: Vec<String> = source.output_names()[joint.n_outputs..]
        .iter()
        .map(ToString::to_string)
        .collect();
    half(source, results, &names, saved, &[])
}

/// Names that no input or output of the graph has.
fn saved_names(graph: &Graph, count: usize) -> Vec<String> {
    let inputs = graph.inputs().iter().map(|&input| graph.input_name(input));
    let outputs = graph.output_names().iter().map(ToString::to_string);
    let taken: HashSet<String> = inputs.chain(outputs).collect();
    let mut names = Vec::with_capacity(count);
    let mut number = 0;
    while names.len() < count {
        let name = format!("saved_{number}");
        number += 1;
        if !taken.contains(&name) {
            names.push(name);
        }
    }
    names
}

/// The graph of the ops that `results` depend on, with the values `given` as additional inputs and without the inputs
/// at positions `dropped`.
fn half(
    source: &Graph,
    results: &[ValueId],
    names: &[String],
    given: &[ValueId],
    dropped: &[usize],
) -> Result<Graph> {
    let ends: HashSet<ValueId> = given.iter().copied().collect();
    let kept = kept_beside(source, results, given);
    let mut rebuild = Rebuild::with_inputs(source, |input| !dropped.contains(&input));
    for (&value, name) in given.iter().zip(saved_names(source, given.len())) {
        let ty = source.ty(value).clone();
        let input = rebuild.new_graph_mut().add_input(&name, ty);
        rebuild.map(value, input);
    }
    let body = source.body();
    let target = rebuild.new_graph().body();
    for &op in &source.region(body).ops {
        if kept.contains(&op) {
            copy_beside(&mut rebuild, source, target, op, &ends);
        }
    }
    let outputs: Vec<ValueId> = results.iter().map(|&value| rebuild.value(value)).collect();
    let mut graph = rebuild.new_graph().clone();
    graph.set_outputs(names.iter().zip(outputs));
    verify(&graph)?;
    Ok(graph)
}

/// The ops of a half with the values `given`: those that `results` depend on, and definitions of sizes that no given
/// value has.
fn kept_beside(source: &Graph, results: &[ValueId], given: &[ValueId]) -> HashSet<OpId> {
    let bound = bound_by(source, given);
    let ends: HashSet<ValueId> = given.iter().copied().collect();
    let defines = |op: OpId| {
        let mut symbols = source.op(op).symbols.iter();
        symbols.any(|symbol| !bound.contains(symbol))
    };
    live(source, results, &ends, &defines)
}

/// Whether the backward half would have an op that defines a size that a saved value, as an input, also defines.
fn defines_sizes_twice(source: &Graph, gradients: &[ValueId], saved: &BTreeSet<ValueId>) -> bool {
    let saved: Vec<ValueId> = saved.iter().copied().collect();
    let bound = bound_by(source, &saved);
    let kept = kept_beside(source, gradients, &saved);
    let mut symbols = kept.iter().flat_map(|&op| &source.op(op).symbols);
    symbols.any(|symbol| bound.contains(symbol))
}

/// The symbols that these values define as inputs.
fn bound_by(source: &Graph, values: &[ValueId]) -> HashSet<SymbolId> {
    let dims = values
        .iter()
        .flat_map(|&value| &source.ty(value).innermost().dims);
    dims.filter_map(|&dim| source.dims().as_symbol(dim))
        .collect()
}

/// Copies an op; results that are given keep their inputs.
fn copy_beside(
    rebuild: &mut Rebuild<'_>,
    source: &Graph,
    into: RegionId,
    op: OpId,
    given: &HashSet<ValueId>,
) {
    let results = &source.op(op).results;
    let kept: Vec<(ValueId, ValueId)> = results
        .iter()
        .filter(|result| given.contains(result))
        .map(|&result| (result, rebuild.value(result)))
        .collect();
    rebuild.copy_op(into, op);
    for (from, to) in kept {
        rebuild.map(from, to);
    }
}
