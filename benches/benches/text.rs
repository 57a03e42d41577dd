//! The speed of printing and reading graphs: bytes of text per second, without large constants.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kiln::internals::ir::{BlobMap, Graph, Op, structural_hash, text};
use kiln::internals::shape_inference::read_graph;
use kiln_benches::graphs;

fn blobs_of(graph: &Graph) -> BlobMap {
    let mut blobs = BlobMap::new();
    for (_, data) in graph.ops() {
        if let Op::Constant(constant) = &data.op {
            blobs.insert(constant.clone());
        }
    }
    blobs
}

fn texts(c: &mut Criterion) {
    for (name, graph) in graphs().expect("the models are whole") {
        let (printed, blobs) = (text::print(&graph), blobs_of(&graph));
        let mut group = c.benchmark_group(format!("text/{name}"));
        group.sample_size(10);
        group.throughput(Throughput::Bytes(printed.len() as u64));
        group.bench_function("print", |b| b.iter(|| text::print(&graph)));
        group.bench_function("read", |b| {
            b.iter(|| text::read(&printed, &blobs).expect("what was printed reads back"));
        });
        group.bench_function("read_with_inference", |b| {
            b.iter(|| read_graph(&printed, &blobs).expect("what was printed reads back"));
        });
        group.bench_function("structural_hash", |b| b.iter(|| structural_hash(&graph)));
        group.finish();
    }
}

criterion_group!(benches, texts);
criterion_main!(benches);
