//! The cost of loading before any pass: from a model file to checked contents, and from those to a typed graph.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use criterion::{Criterion, criterion_group, criterion_main};
use kiln::internals::onnx::{ImportOptions, import};
use kiln::internals::shape_inference::{check_types, infer_types};
use kiln_benches::{encoder, graphs, real_models};
use std::hint::black_box;

fn infer_models(c: &mut Criterion) {
    c.bench_function("infer_models/build_encoder", |b| {
        b.iter(|| encoder(black_box(6)).expect("the sizes fit"));
    });
    for (name, model) in real_models().expect("the models are whole") {
        c.bench_function(&format!("infer_models/import_{name}"), |b| {
            b.iter(|| import(&model, &ImportOptions::new()).expect("the model imports"));
        });
    }
    for (name, graph) in graphs().expect("the models are whole") {
        c.bench_function(&format!("infer_models/check_types_of_{name}"), |b| {
            b.iter(|| check_types(&graph).expect("the types are right"));
        });
        c.bench_function(&format!("infer_models/infer_types_of_{name}"), |b| {
            b.iter_batched(
                || graph.clone(),
                |graph| infer_types(graph).expect("the types are right"),
                criterion::BatchSize::LargeInput,
            );
        });
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = infer_models
}
criterion_main!(benches);
