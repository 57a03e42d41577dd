//! Stopping compiled code: every phase of every class of kernel, with every schedule at every level, polls its stop
//! word.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

mod support;

use kiln_backend::{KernelCompiler, Listing};
use kiln_codegen_llvm::LlvmCompiler;
use support::{kernel, targets};

/// One kernel of each class.
const KERNELS: [&str; 9] = [
    // A single task with one result.
    "kernel @full(%x: in f32[K], %o: out f32[]) {
           s = reduce add[a < A, k < K] tanh(%x[k])
           store %o[] = s
         }",
    "kernel @long(%x: in f32[K], %o: out f32[2]) {
           outer i < 2
           s = reduce max[k < K] exp(%x[k])
           store %o[i] = s
         }",
    "kernel @map(%x: in f32[N], %o: out f32[N]) {
           outer n < N
           store %o[n] = tanh(exp(%x[n]))
         }",
    "kernel @softmax(%x: in f32[M, N], %o: out f32[M, N]) {
           outer m < M
           most = reduce max[n < N] %x[m, n]
           sum = reduce add[n < N] exp(%x[m, n] - most)
           store[i < N] %o[m, i] = exp(%x[m, i] - most) / sum
         }",
    "kernel @product(%x: in f32[M, K], %y: in f32[K, N], %o: out f32[M, N]) {
           outer m < M, n < N
           s = reduce add[k < K] %x[m, k] * %y[k, n]
           store %o[m, n] = s
         }",
    "kernel @deep(%x: in f32[K], %y: in f32[N], %o: out f32[M, N]) {
           outer m < M, n < N
           s = reduce add[a < A, k < K] %x[k] * %y[n]
           store %o[m, n] = s
         }",
    "kernel @window(%x: in f32[H + 4, W + 4, C], %w: const f32[5, 5, C], %o: out f32[H, W, C]) {
           outer i < H, j < W, c < C
           s = reduce add[p < 5, q < 5] %x[i + p, j + q, c] * %w[p, q, c]
           store %o[i, j, c] = s
         }",
    "kernel @count(%x: in f32[K], %o: out i64[]) {
           s = reduce argmax[k < K] exp(%x[k])
           store %o[] = s
         }",
    "kernel @scatter(%i: in i64[K], %x: in f32[K], %o: inout f32[4]) {
           outer k < K
           store add %o[%i[k]] = tanh(exp(%x[k]))
         }",
];

#[test]
fn every_phase_polls() {
    for text in KERNELS {
        let kernel = kernel(text);
        let compiler = LlvmCompiler::new();
        for target in targets() {
            for candidate in compiler.schedules(&kernel, &target) {
                let ir = compiler
                    .listing(&kernel, &target, &candidate.schedule, Listing::Source)
                    .unwrap();
                let functions = ir.split("\ndefine ").skip(1);
                for function in functions.filter(|function| function.contains("@phase")) {
                    let body = function.split("\n}").next().unwrap_or_default();
                    let what = format!("{target} {}", candidate.schedule);
                    assert!(body.contains("load volatile i32"), "{what}\n{body}");
                }
            }
        }
    }
}
