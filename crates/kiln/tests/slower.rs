//! Random graphs at large sizes: compiled code is not slower than the interpreter.
//!
//! A kernel that computes something repeatedly still gives the right result, and passes every other test. The
//! interpreter computes each value once, op by op, so it is faster than any kernel that recomputes.

#![cfg(feature = "llvm")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a test may panic, and prints what it measured"
)]

use arbitrary::Unstructured;
use kiln::internals::ir::Graph;
use kiln::internals::symbolic_shape::Binding;
use kiln::{Cache, Device, Model, Options, Passes, Source, Tensor};
use kiln_testkit::generate::{Flavor, GraphOptions, input_tensors, random_graph, shapes_under};
use kiln_testkit::random::seeded_bytes;
use std::time::{Duration, Instant};

/// Sizes to choose from; a symbol gets the first one that it allows.
const SIZES: [i64; 8] = [48, 40, 36, 24, 12, 7, 3, 1];

/// Shorter times are ignored: they may be the call's overhead.
const SHORT: Duration = Duration::from_millis(2);

/// The shapes of a graph's inputs, with all symbols large.
fn large_shapes(graph: &Graph) -> Option<Vec<Vec<usize>>> {
    let dims = graph.dims();
    let mut binding = Binding::new();
    for &input in graph.inputs() {
        for &dim in graph.ty(input).innermost().dims.iter() {
            let Some(symbol) = dims.as_symbol(dim) else {
                continue;
            };
            let info = dims.symbol_info(symbol);
            let size = SIZES.into_iter().find(|&size| info.allows(size))?;
            // A symbol seen before keeps its size.
            let _ = binding.set(symbol, size);
        }
    }
    dims.check(&binding).ok()?;
    shapes_under(graph, &binding)
}

/// The minimum time of two calls.
fn time(model: &Model, inputs: &[(&str, &Tensor)]) -> Option<Duration> {
    let call = || {
        let begin = Instant::now();
        model.run(inputs).ok()?;
        Some(begin.elapsed())
    };
    Some(call()?.min(call()?))
}

/// The times of a graph, compiled and interpreted; `None` if they are short, or if the graph is rejected.
fn times(seed: u64) -> Option<(Duration, Duration, Graph)> {
    let bytes = seeded_bytes(seed, 4096);
    let mut choices = Unstructured::new(&bytes);
    let kind = GraphOptions {
        max_ops: 8,
        smooth: true,
    };
    let graph = random_graph(&mut choices, &kind).expect("bytes enough");
    let shapes = large_shapes(&graph)?;
    if shapes
        .iter()
        .any(|shape| shape.iter().product::<usize>() > 1 << 22)
    {
        return None;
    }
    let tensors = input_tensors(&mut choices, &graph, &shapes, Flavor::Small).ok()?;
    let options = |device| {
        let options = Options::new().device(device).threads(1);
        options.passes(Passes::None).cache(Cache::off())
    };
    let compiled = options(Device::cpu())
        .load(Source::graph(graph.clone()))
        .ok()?;
    let names: Vec<String> = compiled
        .inputs()
        .iter()
        .map(|input| input.name().to_owned())
        .collect();
    let inputs: Vec<(&str, &Tensor)> = names.iter().map(String::as_str).zip(&tensors).collect();
    let compiled = time(&compiled, &inputs)?;
    if compiled < SHORT {
        return None;
    }
    let interpreted = options(Device::interpreter());
    let interpreted = interpreted.load(Source::graph(graph.clone())).ok()?;
    Some((compiled, time(&interpreted, &inputs)?, graph))
}

#[test]
#[ignore = "measures time: nothing else may run on the machine"]
fn compiled_graphs_are_not_slower_than_interpreted_ones() {
    let count = std::env::var("KILN_TEST_GRAPHS");
    let count: u64 = count.map_or(200, |count| count.parse().expect("a number"));
    let (mut looked_at, mut slower) = (0, 0);
    for seed in 0..count {
        let Some((compiled, interpreted, graph)) = times(seed) else {
            continue;
        };
        looked_at += 1;
        if compiled > interpreted {
            slower += 1;
            let text = kiln::internals::ir::text::print(&graph);
            println!("seed {seed}: compiled {compiled:.1?}, interpreted {interpreted:.1?}\n{text}");
        }
    }
    assert_eq!(slower, 0, "of {looked_at}");
}
