//! Graphs in reduced precision: their products use tensor cores, on operands stored as 16-bit floats, and on the host
//! their kernels match the evaluator. The second part needs g++; without it the test prints a message.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and print what it did"
)]

mod support;

use kiln_backend::Schedule;
use kiln_codegen_cuda::CudaCompiler;
use kiln_fusion::FusionOptions;
use kiln_ir::BlobMap;
use kiln_kernel::VerifiedKernel;
use kiln_passes::{PassOptions, optimize};
use kiln_precision::{Precision, reduce_precision};
use kiln_program::{BuildOptions, RowMajor};
use support::{check_everywhere, lacks_compiler, smooth};

/// The kernels of a graph whose products have operands of this format, fused for a device of this backend.
fn kernels(text: &str, format: &str) -> Vec<VerifiedKernel> {
    let graph = kiln_shape_inference::read_graph(text, &BlobMap::new())
        .unwrap_or_else(|errors| panic!("{}", errors.render(text)));
    let precision = Precision::of(format.parse().unwrap());
    let (graph, _) = reduce_precision(&graph, &precision).unwrap();
    let mut options = PassOptions {
        widen_constants: false,
        ..PassOptions::default()
    };
    let (graph, _) = optimize(graph, &mut options).unwrap();
    let options = FusionOptions::new().with_widening_in_windows(true);
    let plan = kiln_fusion::plan(&graph, &options).unwrap();
    let build = BuildOptions::default();
    let program = kiln_program::build(graph, &plan, &RowMajor, &build).unwrap();
    let kernels = program.kernels().values();
    kernels.map(|kernel| kernel.kernel.clone()).collect()
}

/// A kernel's best schedule for a device, if it is a contraction or an attention.
fn product(kernel: &VerifiedKernel) -> Option<Schedule> {
    let best = CudaCompiler::offered(kernel).into_iter().next()?.schedule;
    ["contraction", "attention"]
        .contains(&best.name.as_str())
        .then_some(best)
}

/// The number of a product's operands that are copied to tiles directly when their lines are aligned.
fn copied(kernel: &VerifiedKernel, schedule: &Schedule) -> usize {
    let source = CudaCompiler::host_source(kernel, schedule).unwrap().text;
    let mut names: Vec<&str> = source
        .lines()
        .filter_map(|line| line.trim().strip_prefix("const bool "))
        .filter_map(|line| line.split_once("_async = "))
        .filter(|(_, test)| !test.starts_with("false"))
        .map(|(name, _)| name)
        .collect();
    names.sort_unstable();
    names.dedup();
    names.len()
}

/// Two products: the second reads the result of the first.
const PRODUCTS: &str =
    "graph @products(%x: f32[M, K], %w: f32[K, N], %b: f32[N], %v: f32[N, P]) -> f32[M, P] {
  %0 = matmul %x, %w
  %1 = add %0, %b
  %2 = gelu %1
  %3 = matmul %2, %v
  return %3
}";

const ATTENTION: &str = "graph @attention(%q: f32[B, 2, S, 16], %k: f32[B, 2, S, 16], %v: f32[B, 2, S, 16], %m: f32[B, 1, 1, S]) -> f32[B, S, 2, 16] {
  %c: f32[] = constant [0.25]
  %0 = transpose %k {permutation = [0, 1, 3, 2]}
  %1 = matmul %q, %0
  %2 = mul %1, %c
  %3 = add %2, %m
  %4 = reduce %3 {function = max, axes = [3], keep_dims}
  %5 = sub %3, %4
  %6 = exp %5
  %7 = reduce %6 {function = sum, axes = [3], keep_dims}
  %8 = div %6, %7
  %9 = matmul %8, %v
  %10 = transpose %9 {permutation = [0, 2, 1, 3]}
  return %10
}";

/// Windows with and without borders, with groups, and 1x1; the weights of one are a small constant.
const WINDOWS: &str = "graph @windows(%x: f32[N, 4, H, W], %w: f32[6, 4, 3, 3], %b: f32[6, 1, 1], %v: f32[8, 3, 3, 3]) -> f32[N, 2, H, W] {
  %0 = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
  %1 = add %0, %b
  %2 = relu %1
  %3 = conv %2, %v {strides = [1, 1], dilations = [2, 2], low = [2, 2], high = [2, 2], groups = 2}
  %u: f32[2, 8, 1, 1] = constant [0.5, 1.0, -0.5, 2.0, 0.25, 1.0, 3.0, -1.0, 1.0, 0.5, 0.125, -2.0, 1.5, 0.75, 1.0, -0.25]
  %4 = conv %3, %u {strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0], groups = 1}
  return %4
}";

/// Each graph, with the number of copied operands of each product; there is one kernel per product.
const GRAPHS: [(&str, &[usize]); 3] = [
    (PRODUCTS, &[2, 2]),
    // The values are an input, which is narrowed when it is read.
    (ATTENTION, &[2]),
    // With borders, only the weights are copied.
    (WINDOWS, &[1, 1, 2]),
];

#[test]
fn products_are_multiplied_by_tensor_cores() {
    for (text, operands) in GRAPHS {
        for format in ["bf16", "f16"] {
            let kernels = kernels(text, format);
            let products = kernels
                .iter()
                .filter_map(|kernel| Some((kernel, product(kernel)?)));
            let mut found = Vec::new();
            for (kernel, schedule) in products {
                let unit = schedule.text.split_whitespace().nth(1);
                let shown = kiln_kernel::text::print(kernel);
                assert_eq!(
                    unit,
                    Some(format),
                    "{schedule} `{}` of {shown}",
                    schedule.text
                );
                found.push(copied(kernel, &schedule));
            }
            assert_eq!(found, operands, "{format} of {text}");
        }
    }
}

#[test]
fn kernels_do_what_they_mean() {
    if lacks_compiler() {
        return;
    }
    let mut failures = Vec::new();
    for (text, _) in GRAPHS {
        for format in ["bf16", "f16"] {
            for kernel in kernels(text, format) {
                if product(&kernel).is_none() {
                    continue;
                }
                let symbols = kernel.dims().symbols().count();
                // The same value for all sizes, and different ones.
                let edges = [0, 1, 2, 7, 17].map(|size| vec![size; symbols]);
                let others = [[1, 5, 9, 3], [2, 3, 1, 19], [3, 1, 33, 2]];
                let others = others.map(|sizes| sizes.into_iter().cycle().take(symbols).collect());
                let sizes: Vec<Vec<i64>> = edges.into_iter().chain(others).collect();
                failures.extend(check_everywhere(&kernel, &[], &sizes, smooth).err());
            }
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}
