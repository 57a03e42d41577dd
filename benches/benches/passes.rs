//! The cost of optimising: all passes, with weights folded and frozen.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use kiln::internals::passes::{PassOptions, optimize};
use kiln_benches::graphs;

fn passes(c: &mut Criterion) {
    for (name, graph) in graphs().expect("the models are whole") {
        for (what, freeze) in [("optimize", true), ("optimize_unfrozen", false)] {
            c.bench_function(&format!("passes/{what}_{name}"), |b| {
                b.iter_batched(
                    || graph.clone(),
                    |graph| {
                        let mut options = PassOptions {
                            freeze,
                            verify: false,
                            ..PassOptions::default()
                        };
                        optimize(graph, &mut options).expect("the graph is valid")
                    },
                    BatchSize::LargeInput,
                );
            });
        }
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = passes
}
criterion_main!(benches);
