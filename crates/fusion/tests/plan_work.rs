//! The work of planning, in steps rather than time, for growing graphs of one kind: it grows with the number of ops.
//!
//! Every counter is checked: proofs about sizes (of passes, of the plan and of each kernel's own table), steps of the
//! plan, and the nodes of the kernels to compile.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln_fusion::{FusionOptions, plan};
use kiln_ir::{BlobMap, Graph};
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::read_graph;
use kiln_symbolic_shape::FactSelection;

/// The inputs `%x0 … ` of a graph, each with a separate size.
fn inputs(n: usize) -> String {
    let inputs = (0..n).map(|i| format!("%x{i}: f32[N{i}]"));
    inputs.collect::<Vec<_>>().join(", ")
}

fn graph(n_inputs: usize, ops: &str, result: &str) -> Graph {
    let inputs = inputs(n_inputs);
    let source = format!("graph @main({inputs}) -> () {{\n{ops}  return\n}}");
    let mut graph = read_graph(&source, &BlobMap::new()).unwrap();
    let value = graph
        .ops()
        .flat_map(|(_, data)| data.results.iter().copied())
        .find(|&value| graph.value(value).name.as_deref() == Some(result))
        .unwrap();
    graph.set_outputs([(result, value)]);
    graph
}

/// `((x0 + x1) + x2) + …`
fn broadcast_chain(n: usize) -> Graph {
    let mut ops = String::from("  %y0 = neg %x0\n");
    for i in 1..=n {
        ops.push_str(&format!("  %y{i} = add %y{}, %x{i}\n", i - 1));
    }
    graph(n + 1, &ops, &format!("y{n}"))
}

/// `concat(…, concat(concat(x0, x1), x2), …)`
fn concat_chain(n: usize) -> Graph {
    let mut ops = String::from("  %y0 = neg %x0\n");
    for i in 1..=n {
        ops.push_str(&format!(
            "  %y{i} = concat %y{}, %x{i} {{axis = 0}}\n",
            i - 1
        ));
    }
    graph(n + 1, &ops, &format!("y{n}"))
}

/// One concatenation of `n`.
fn wide_concat(n: usize) -> Graph {
    let operands: Vec<String> = (0..n).map(|i| format!("%x{i}")).collect();
    let ops = format!("  %y = concat {} {{axis = 0}}\n", operands.join(", "));
    graph(n, &ops, "y")
}

/// `n` nested concatenations, each of `width` copies of the previous one.
fn nested_concats(n: usize, width: usize) -> Graph {
    let mut ops = String::from("  %y0 = neg %x0\n");
    for i in 1..=n {
        let operands = vec![format!("%y{}", i - 1); width].join(", ");
        ops.push_str(&format!("  %y{i} = concat {operands} {{axis = 0}}\n"));
    }
    graph(1, &ops, &format!("y{n}"))
}

/// The steps that a graph takes from the passes to its kernels.
fn work(graph: Graph, facts: &FactSelection) -> u64 {
    let before = graph.dims().prover_steps();
    let mut passes = PassOptions {
        verify: false,
        ..PassOptions::default()
    };
    let (graph, _) = optimize(graph, &mut passes).unwrap();
    let options = FusionOptions::new().with_facts(facts.clone());
    let plan = plan(&graph, &options).unwrap();
    assert!(!plan.is_budget_spent(), "{plan}");
    let kernels = plan.nodes().filter_map(|node| node.kernel.as_ref());
    let of_kernels = kernels.map(|lowered| {
        let kernel = &lowered.kernel;
        kernel.nodes().len() as u64 + kernel.dims().prover_steps()
    });
    before + graph.dims().prover_steps() + plan.work() + of_kernels.sum::<u64>()
}

/// Numbers of ops or operands, each twice the previous one.
const SIZES: &[usize] = &[5, 10, 20, 40, 80];

/// Twice the ops take about twice the work; a little more, since their sizes also have more terms.
fn is_linear(what: &str, sizes: &[usize], made: impl Fn(usize) -> Graph) {
    for facts in [FactSelection::All, FactSelection::None] {
        let works: Vec<u64> = sizes.iter().map(|&n| work(made(n), &facts)).collect();
        for pair in works.windows(2) {
            assert!(
                4 * pair[1] <= 11 * pair[0],
                "{what}, with facts {facts:?}: {works:?} steps"
            );
        }
    }
}

#[test]
fn work_of_broadcast_chains_is_linear_in_their_ops() {
    is_linear("a chain of broadcasts", SIZES, broadcast_chain);
}

#[test]
fn work_of_concat_chains_is_linear_in_their_ops() {
    is_linear("a chain of concatenations", SIZES, concat_chain);
}

#[test]
fn work_of_a_concat_is_linear_in_its_operands() {
    is_linear("one concatenation", &SIZES[..3], wide_concat);
    // More than 32 operands become several.
    is_linear(
        "one concatenation of many",
        &[40, 80, 160, 320],
        wide_concat,
    );
}

#[test]
fn work_of_nested_concats_is_linear_in_depth_and_width() {
    // Sizes are products here, which must fit into 64 bits.
    for (width, depths) in [(2, &SIZES[..4]), (5, &SIZES[..3]), (40, &SIZES[..2])] {
        is_linear("nested", depths, |n| nested_concats(n, width));
    }
    for widths in [&SIZES[..3], &[40, 80, 160]] {
        is_linear("in width", widths, |width| nested_concats(4, width));
    }
}
