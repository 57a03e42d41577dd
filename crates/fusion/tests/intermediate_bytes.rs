//! The savings of fusion, counted: the bytes of the values that one kernel writes and another reads, computed from the
//! buffers of the program's kernels at given sizes. Nothing is estimated and nothing runs.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and say what it counted"
)]

use kiln_fusion::{FusionOptions, plan};
use kiln_interpreter::bind_symbols;
use kiln_ir::{BlobMap, Graph};
use kiln_program::{Action, Block, BufferId, BuildOptions, Place, Program, RowMajor, build};
use kiln_shape_inference::read_graph;
use kiln_symbolic_shape::Binding;
use std::collections::BTreeSet;

fn read(text: &str) -> Graph {
    read_graph(text, &BlobMap::new()).unwrap()
}

fn program(graph: &Graph, fuse: bool) -> Program {
    let options = FusionOptions::new().with_fusion(fuse);
    let fusion = plan(graph, &options).unwrap();
    // Each value has separate memory, which shows the values that are written.
    let options = BuildOptions {
        share_memory: false,
        ..BuildOptions::default()
    };
    build(graph.clone(), &fusion, &RowMajor, &options).unwrap()
}

/// The bytes that steps write to or read from memory other than inputs, constants and results.
fn intermediate_bytes(program: &Program, binding: &Binding) -> u64 {
    let block = program.block(program.body());
    let steps = block.segments.iter().flat_map(|segment| &segment.steps);
    steps
        .map(|step| {
            assert!(matches!(step.action, Action::Kernel(_)), "{}", step.name);
            let moved = [program.reads(&step.action), program.writes(&step.action)].concat();
            let buffers: BTreeSet<BufferId> = moved.into_iter().collect();
            let between = buffers
                .into_iter()
                .filter(|&buffer| is_between(block, buffer));
            between
                .map(|buffer| bytes(program, block, buffer, binding))
                .sum::<u64>()
        })
        .sum()
}

fn is_between(block: &Block, buffer: BufferId) -> bool {
    match block.buffers[buffer].place {
        Place::View { of, .. } => is_between(block, of),
        Place::Parameter(_) | Place::Constant(_) => false,
        Place::Slot { .. } | Place::Own | Place::Brought => !block.results.contains(&buffer),
    }
}

fn bytes(program: &Program, block: &Block, buffer: BufferId, binding: &Binding) -> u64 {
    let buffer = &block.buffers[buffer];
    let dims = program.graph().dims();
    let size = |&size| dims.evaluate(program.sizes().dim(size), binding).unwrap();
    let elements: i64 = buffer.shape.iter().map(size).product();
    u64::try_from(elements).unwrap() * buffer.dtype.size_in_bytes() as u64
}

/// Fused and unfused, for inputs of these shapes.
fn counted(text: &str, shapes: &[&[usize]]) -> (u64, u64) {
    let graph = read(text);
    let binding = bind_symbols(&graph, shapes).unwrap();
    let count = |fuse| intermediate_bytes(&program(&graph, fuse), &binding);
    let (fused, apart) = (count(true), count(false));
    println!("{}: {fused} bytes fused, {apart} apart", graph.name());
    (fused, apart)
}

#[test]
fn matmul_bias_relu_moves_a_third_of_the_intermediate_bytes_at_most() {
    let (fused, apart) = counted(
        "graph @layer(%x: f32[M, K], %w: f32[K, N], %b: f32[N]) -> f32[M, N] {
          %product = matmul %x, %w
          %sum = add %product, %b
          %y = relu %sum
          return %y
        }",
        &[&[128, 384], &[384, 1536], &[1536]],
    );
    // The product and the sum, each written and read.
    assert_eq!(apart, 4 * 128 * 1536 * 4);
    assert!(fused * 3 <= apart, "{fused} for {apart}");
    assert_eq!(fused, 0);
}

#[test]
fn two_layers_move_a_third_of_the_intermediate_bytes_at_most() {
    let (fused, apart) = counted(
        "graph @layers(%x: f32[M, K], %w: f32[K, N], %b: f32[N], %u: f32[N, L], %c: f32[L]) -> f32[M, L] {
          %first = matmul %x, %w
          %biased = add %first, %b
          %hidden = relu %biased
          %second = matmul %hidden, %u
          %sum = add %second, %c
          %y = relu %sum
          return %y
        }",
        &[&[7, 5], &[5, 64], &[64], &[64, 3], &[3]],
    );
    // The values between the layers remain; all others are gone.
    assert_eq!(fused, 2 * 7 * 64 * 4);
    assert!(fused * 3 <= apart, "{fused} for {apart}");
}

#[test]
fn softmax_intermediates_never_reach_memory() {
    let (fused, apart) = counted(
        "graph @softmax(%x: f32[M, N]) -> f32[M, N] {
          %max = reduce %x {function = max, axes = [1], keep_dims}
          %less = sub %x, %max
          %exp = exp %less
          %sum = reduce %exp {function = sum, axes = [1], keep_dims}
          %y = div %exp, %sum
          return %y
        }",
        &[&[33, 257]],
    );
    assert_eq!(fused, 0);
    assert!(apart > 4 * 33 * 257 * 4, "{apart}");
}
