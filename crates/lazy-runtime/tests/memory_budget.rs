//! Memory budgets: steps are recomputed instead of keeping their results, on a device that poisons freed memory.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use std::fmt::Write;
use std::sync::Arc;

use arbitrary::Unstructured;
use kiln_autodiff::{GradientRequest, differentiate};
use kiln_interpreter::{InterpretLimits, InterpretOptions, interpret};
use kiln_ir::Graph;
use kiln_lazy_runtime::{CompiledProgram, Runtime, RuntimeOptions};
use kiln_program::{BuildOptions, MemoryBudget};
use kiln_tensor::Tensor;
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::oracle::{Tolerance, compare_all};
use kiln_testkit::random::seeded_bytes;
use support::{FakeCompiler, TestPlanner, expect_same, graph, ramp, runtime};

fn within(
    runtime: &Arc<Runtime>,
    graph: &Graph,
    fuse: bool,
    memory: MemoryBudget,
) -> CompiledProgram {
    let build = BuildOptions {
        memory,
        ..BuildOptions::default()
    };
    let planner = TestPlanner {
        graph: graph.clone(),
        fuse,
        build,
    };
    CompiledProgram::new(Arc::clone(runtime), Arc::new(planner))
        .unwrap_or_else(|error| panic!("{error}"))
}

/// The loss of a network whose layers have the same width, and its gradients for all weights.
fn deep(layers: usize) -> Graph {
    let weights: Vec<String> = (0..layers).map(|at| format!("%w{at}: f32[W, W]")).collect();
    let mut text = format!(
        "graph @deep(%x: f32[B, W], {}) -> f32[] {{\n",
        weights.join(", ")
    );
    let mut last = "x".to_owned();
    for at in 0..layers {
        let _ = writeln!(
            text,
            "%p{at} = matmul %{last}, %w{at}\n%h{at} = tanh %p{at}"
        );
        last = format!("h{at}");
    }
    let _ = writeln!(
        text,
        "%s = square %{last}\n%loss = reduce %s {{function = mean, axes = [0, 1]}}\nreturn %loss\n}}"
    );
    let inputs: Vec<usize> = (1..=layers).collect();
    differentiate(&graph(&text), &GradientRequest::of_scalar(0, &inputs))
        .unwrap()
        .graph
}

fn n_again(program: &CompiledProgram) -> usize {
    let again = |step: &&kiln_program::Step| step.name.ends_with("_again");
    program.program().steps().filter(again).count()
}

/// The bytes of a call's arena, which contains the values between steps.
fn arena(program: &CompiledProgram, shapes: &[Vec<usize>]) -> usize {
    program.call_memory(shapes).unwrap().unwrap().arena
}

const LAYERS: usize = 12;

fn shapes(batch: usize, width: usize) -> Vec<Vec<usize>> {
    let mut shapes = vec![vec![batch, width]];
    shapes.extend(vec![vec![width, width]; LAYERS]);
    shapes
}

#[test]
fn half_of_the_memory_is_enough_for_a_gradient_and_changes_no_bit() {
    let graph = deep(LAYERS);
    let runtime = runtime();
    for fuse in [false, true] {
        let usual = within(&runtime, &graph, fuse, MemoryBudget::Unlimited);
        let half = within(&runtime, &graph, fuse, MemoryBudget::Fraction(0.5));
        let least = within(&runtime, &graph, fuse, MemoryBudget::Bytes(0));
        assert_eq!(n_again(&usual), 0);
        let n_steps = usual.program().steps().count();
        assert!(
            (1..n_steps / 3).contains(&n_again(&half)),
            "{}",
            half.program()
        );
        assert!(n_again(&least) > n_again(&half));
        // The choice was made for sizes of 64, and is used for all sizes.
        for (batch, width) in [(0, 3), (1, 1), (2, 5), (7, 2), (13, 11)] {
            let inputs: Vec<Tensor> = shapes(batch, width).iter().map(|s| ramp(s)).collect();
            let expected = expect_same(&usual, &graph, &inputs);
            for program in [&half, &least] {
                let found = program.run(&inputs).unwrap();
                compare_all(&expected, &found, Tolerance::Exact)
                    .unwrap_or_else(|error| panic!("{error}\n{}", program.program()));
            }
        }
        for (batch, width) in [(64, 64), (200, 32), (1000, 8)] {
            let shapes = shapes(batch, width);
            let (all, some) = (arena(&usual, &shapes), arena(&half, &shapes));
            assert!(
                10 * some <= 6 * all,
                "{some} of {all} bytes at {batch} x {width}\n{}",
                half.program()
            );
            assert!(arena(&least, &shapes) < some);
        }
    }
}

/// Activations live until their gradient has been computed, not until all have been: a step that frees memory is not
/// delayed.
#[test]
fn gradients_of_a_layer_come_before_those_of_the_layers_before_it() {
    let program = within(&runtime(), &deep(LAYERS), true, MemoryBudget::Unlimited);
    let value = 4 * 64 * 64;
    let live = program.call_memory(&shapes(64, 64)).unwrap().unwrap();
    // The activations, the gradient that is propagated back through them, and what a step writes.
    assert!(
        live.largest_live_set - live.results <= (LAYERS + 3) * value,
        "{live:?}\n{}",
        program.program()
    );
}

#[test]
fn random_graphs_compute_the_same_within_any_budget() {
    let limits = InterpretLimits {
        live_bytes: 1 << 20,
        iterations: 50,
        ..InterpretLimits::default()
    };
    let options = InterpretOptions {
        limits,
        ..InterpretOptions::default()
    };
    let (mut compared, mut repeated) = (0, 0);
    for seed in 0..80 {
        let bytes = seeded_bytes(7000 + seed, 4096);
        let mut choices = Unstructured::new(&bytes);
        let smooth = GraphOptions {
            max_ops: 24,
            smooth: true,
        };
        let graph = random_graph(&mut choices, &smooth).unwrap();
        let device = Arc::new(support::FakeDevice::default());
        let compiler = Arc::new(FakeCompiler::default());
        let runtime = Arc::new(Runtime::new(Some(compiler), device, RuntimeOptions::new()));
        let fuse = seed % 2 == 0;
        let usual = within(&runtime, &graph, fuse, MemoryBudget::Unlimited);
        let part = [0.0, 0.3, 0.7][seed as usize % 3];
        let less = within(&runtime, &graph, fuse, MemoryBudget::Fraction(part));
        repeated += usize::from(n_again(&less) > 0);
        let Some(shapes) = input_shapes(&mut choices, &graph).unwrap() else {
            continue;
        };
        if shapes.iter().flatten().any(|&size| size > 40) {
            continue;
        }
        let Ok(inputs) = input_tensors(&mut choices, &graph, &shapes, Flavor::Small) else {
            continue;
        };
        if interpret(&graph, &inputs, &options).is_err() {
            continue;
        }
        let found = [&usual, &less].map(|program| program.run(&inputs).unwrap());
        compare_all(&found[0], &found[1], Tolerance::Exact)
            .unwrap_or_else(|error| panic!("seed {seed}: {error}\n{}", less.program()));
        compared += 1;
    }
    assert!(compared >= 20 && repeated >= 5, "{compared}, {repeated}");
}
