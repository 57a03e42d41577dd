//! Throughput of the reference interpreter by kind of op: products, convolutions, maps, and an encoder.
#![allow(
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark stops when its set-up is wrong; criterion generates undocumented items"
)]

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use kiln::Tensor;
use kiln::internals::interpreter::{InterpretOptions, interpret};
use kiln::internals::ir::{BlobMap, Graph};
use kiln::internals::shape_inference::read_graph;
use kiln_benches::encoder;

fn graph(source: &str) -> Graph {
    read_graph(source, &BlobMap::new()).expect("the text is a graph")
}

fn ripple(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let elements = (0..count)
        .map(|i: usize| ((i * 37) % 101) as f32 / 101.0 - 0.5)
        .collect();
    Tensor::from_vec(shape, elements).expect("as many elements as the shape has")
}

/// Measures one graph; `work` is the amount of work by which its throughput is counted.
fn measure(c: &mut Criterion, name: &str, work: Throughput, source: &str, inputs: &[Tensor]) {
    let graph = graph(source);
    let mut group = c.benchmark_group("interpret");
    group.sample_size(10).throughput(work);
    group.bench_function(name, |b| {
        b.iter(|| interpret(&graph, inputs, &InterpretOptions::default()).expect("it runs"));
    });
    group.finish();
}

fn ops(c: &mut Criterion) {
    measure(
        c,
        "matmul_256",
        Throughput::Elements(2 * 256 * 256 * 256),
        "graph @g(%x: f32[M, K], %y: f32[K, N]) -> f32[M, N] { %0 = matmul %x, %y return %0 }",
        &[ripple(&[256, 256]), ripple(&[256, 256])],
    );
    measure(
        c,
        "conv_3x3_32_to_64_on_56",
        Throughput::Elements(2 * 56 * 56 * 64 * 32 * 9),
        "graph @g(%x: f32[1, 32, H, W], %w: f32[64, 32, 3, 3]) -> f32[1, 64, H, W] {
           %0 = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
           return %0
         }",
        &[ripple(&[1, 32, 56, 56]), ripple(&[64, 32, 3, 3])],
    );
    measure(
        c,
        "depthwise_conv_5x5_64_on_56",
        Throughput::Elements(2 * 56 * 56 * 64 * 25),
        "graph @g(%x: f32[1, 64, H, W], %w: f32[64, 1, 5, 5]) -> f32[1, 64, H, W] {
           %0 = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [2, 2], high = [2, 2], groups = 64}
           return %0
         }",
        &[ripple(&[1, 64, 56, 56]), ripple(&[64, 1, 5, 5])],
    );
    for (name, function) in [("add_bias_1m", "add"), ("mul_1m", "mul")] {
        measure(
            c,
            name,
            Throughput::Elements(1 << 20),
            &format!(
                "graph @g(%x: f32[M, N], %y: f32[N]) -> f32[M, N] {{ %0 = {function} %x, %y return %0 }}"
            ),
            &[ripple(&[1024, 1024]), ripple(&[1024])],
        );
    }
    measure(
        c,
        "gelu_1m",
        Throughput::Elements(1 << 20),
        "graph @g(%x: f32[M, N]) -> f32[M, N] { %0 = gelu %x return %0 }",
        &[ripple(&[1024, 1024])],
    );
    measure(
        c,
        "sum_rows_1m",
        Throughput::Elements(1 << 20),
        "graph @g(%x: f32[M, N]) -> f32[M] { %0 = reduce %x {function = sum, axes = [1]} return %0 }",
        &[ripple(&[1024, 1024])],
    );
}

fn models(c: &mut Criterion) {
    let graph = encoder(6).expect("the sizes fit");
    let mask = Tensor::full(&[4, 32], 0.0_f32).expect("a small tensor");
    let inputs = [ripple(&[4, 32, 64]), mask];
    let mut group = c.benchmark_group("interpret");
    group.sample_size(10);
    group.bench_function("encoder_4x32", |b| {
        b.iter(|| interpret(&graph, &inputs, &InterpretOptions::default()).expect("it runs"));
    });
    group.finish();
}

criterion_group!(benches, ops, models);
criterion_main!(benches);
