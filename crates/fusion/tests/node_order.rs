//! Fusion's decisions do not depend on the order in which a graph's ops were written.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test may panic, and say what it did"
)]

mod node_order {
    pub(crate) mod wire;
}

use arbitrary::Unstructured;
use cranelift_entity::{EntityRef, SecondaryMap};
use kiln_fusion::{FusionOptions, FusionPlan, plan};
use kiln_ir::{Definition, Graph, OpId, Rebuild, RegionId, ValueId, Visit, text};
use kiln_onnx::{ImportOptions, Model, NoFiles, import};
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::read_graph;
use kiln_testkit::generate::{GraphOptions, random_graph};
use kiln_testkit::laws::blobs_of;
use kiln_testkit::random::{SplitMix64, seeded_bytes};
use node_order::wire;
use std::collections::HashSet;
use std::convert::Infallible;

fn planned(graph: Graph) -> FusionPlan {
    let mut passes = PassOptions {
        verify: false,
        ..PassOptions::default()
    };
    let (graph, _) = optimize(graph, &mut passes).unwrap();
    plan(&graph, &FusionOptions::new()).unwrap()
}

/// A plan without the names of values: its nodes in order, with their kernels.
fn decided(plan: &FusionPlan) -> Vec<String> {
    let nodes = plan.nodes().map(|node| {
        let kernel = node.kernel.as_ref().map(|lowered| {
            let kernel = kiln_kernel::verify(lowered.kernel.clone()).unwrap();
            kiln_kernel::canonicalize(&kernel).text()
        });
        let (kind, name, ops) = (&node.kind, &node.name, node.ops.len());
        let again = node.recomputed.len();
        format!(
            "{kind} {name} {ops} {again}\n{}",
            kernel.unwrap_or_default()
        )
    });
    nodes.collect()
}

fn assert_same(what: &str, expected: &[String], found: &[String]) {
    let pairs = expected.iter().zip(found).enumerate();
    if let Some((at, (expected, found))) = pairs.into_iter().find(|(_, (a, b))| a != b) {
        panic!("{what}: node {at} is\n{found}\nand was\n{expected}");
    }
    assert_eq!(expected.len(), found.len(), "{what}");
}

/// The ops of every region in some order that respects dependencies.
fn shuffled(graph: &Graph, random: &mut SplitMix64) -> SecondaryMap<RegionId, Vec<OpId>> {
    let mut orders: SecondaryMap<RegionId, Vec<OpId>> = SecondaryMap::new();
    for region in (0..graph.n_regions()).map(RegionId::new) {
        let ops = &graph.region(region).ops;
        let mut left = ops.clone();
        while !left.is_empty() {
            let ready: Vec<usize> = (0..left.len())
                .filter(|&at| {
                    let needed = needed_by(graph, left[at]);
                    left.iter().all(|other| !needed.contains(other))
                })
                .collect();
            let at = ready[random.below(ready.len() as u64) as usize];
            orders[region].push(left.remove(at));
        }
    }
    orders
}

/// The ops that define the operands or symbols of an op, or of one inside it.
fn needed_by(graph: &Graph, op: OpId) -> Vec<OpId> {
    let values = operands_within(graph, op).into_iter();
    let mut needed: Vec<OpId> = values
        .filter_map(|value| match graph.value(value).definition {
            Definition::Result { op, .. } => Some(op),
            _ => None,
        })
        .collect();
    // An op that binds a symbol stays before everything that followed it, which is stricter than necessary.
    let givers = graph.ops().filter(|(_, data)| !data.symbols.is_empty());
    needed.extend(givers.map(|(id, _)| id).filter(|&giver| giver < op));
    needed.retain(|&other| other != op);
    needed
}

/// Whether there are ops that no result needs, counting ops that only bind sizes.
fn keeps_unneeded(graph: &Graph) -> bool {
    let body = graph.region(graph.body());
    let mut needed: HashSet<OpId> = HashSet::new();
    let mut pending = body.results.clone();
    while let Some(value) = pending.pop() {
        if let Definition::Result { op, .. } = graph.value(value).definition
            && needed.insert(op)
        {
            pending.extend(operands_within(graph, op));
        }
    }
    body.ops.iter().any(|op| !needed.contains(op))
}

/// The operands of an op and of the ops inside it.
fn operands_within(graph: &Graph, op: OpId) -> Vec<ValueId> {
    let mut values = Vec::new();
    let mut pending = vec![op];
    while let Some(inner) = pending.pop() {
        let data = graph.op(inner);
        values.extend(data.operands.iter().copied());
        for &region in &data.regions {
            values.extend(graph.region(region).results.iter().copied());
            pending.extend(graph.region(region).ops.iter().copied());
        }
    }
    values
}

#[test]
fn fusion_of_random_graphs_does_not_depend_on_op_order() {
    let mut changed = 0;
    for seed in 0..40 {
        let bytes = seeded_bytes(seed, 4096);
        let mut choices = Unstructured::new(&bytes);
        let graph = random_graph(&mut choices, &GraphOptions::default()).unwrap();
        // An op that no result needs keeps its order if it may reject a call.
        let mut passes = PassOptions::default();
        let (optimized, _) = optimize(graph.clone(), &mut passes).unwrap();
        if keeps_unneeded(&optimized) {
            continue;
        }
        let expected = decided(&planned(graph.clone()));
        let mut random = SplitMix64::new(seed);
        for _ in 0..4 {
            let orders = shuffled(&graph, &mut random);
            let Ok(other) = Rebuild::new(&graph)
                .in_order(orders)
                .run::<Infallible>(&mut |_, _, _| Ok(Visit::Copy));
            // Reads the graph again, so that sizes are numbered in the new order too.
            let source = text::print(&other);
            changed += usize::from(source != text::print(&graph));
            let other = read_graph(&source, &blobs_of(&graph)).unwrap();
            assert_same(&source, &expected, &decided(&planned(other)));
        }
    }
    assert!(changed > 80, "{changed} orders differ");
}

/// One step of a decoder with a key-value cache, as an exporter writes it, in several orders of its nodes. Planning did not
/// terminate for some of them.
#[test]
fn fusion_of_a_decoder_with_a_cache_does_not_depend_on_op_order() {
    let bytes = include_bytes!("data/decoder_with_cache.onnx");
    let of = |bytes: &[u8]| {
        let model = Model::from_bytes(bytes, &NoFiles).unwrap();
        decided(&planned(import(&model, &ImportOptions::new()).unwrap()))
    };
    let expected = of(bytes);
    let mut random = SplitMix64::new(6);
    for round in 0..5 {
        let other = wire::with_shuffled_nodes(bytes, &mut random);
        assert_ne!(other.as_slice(), bytes);
        assert_same(&format!("round {round}"), &expected, &of(&other));
    }
}
