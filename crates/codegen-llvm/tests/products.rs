//! Products of operands that are given at the call, around the sizes where one way of doing them gives way to another:
//! few columns, few rows, and rows enough that what they share is laid out anew first.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot go on panics"
)]

mod support;

use kiln_backend::IsaLevel;
use kiln_backend::{KernelCompiler, Unobserved};
use kiln_codegen_llvm::LlvmCompiler;
use support::{check_sizes, check_variants, compiled_as, kernel, loops_of, with_loops};

/// Rows, inner sizes and columns.
const SIZES: [[i64; 3]; 42] = [
    [0, 3, 9],
    [3, 0, 9],
    [13, 0, 17],
    [33, 2, 0],
    [1, 1, 1],
    [2, 5, 3],
    [3, 9, 16],
    [3, 17, 65],
    [1, 33, 130],
    [4, 8, 7],
    [5, 16, 8],
    [6, 7, 15],
    [7, 3, 17],
    [11, 10, 24],
    [12, 4, 25],
    [13, 9, 31],
    [31, 2, 33],
    [32, 8, 16],
    [33, 7, 1],
    [34, 16, 15],
    [37, 11, 17],
    [40, 5, 71],
    [50, 1, 9],
    [35, 24, 6],
    [2, 100, 9],
    [64, 9, 80],
    [8, 13, 33],
    [9, 30, 2],
    [10, 12, 48],
    [20, 6, 40],
    [23, 5, 33],
    [2, 47, 129],
    [3, 4, 257],
    [3, 60, 5],
    [14, 48, 4],
    [15, 200, 8],
    [30, 3, 1030],
    [14, 7, 2049],
    [45, 6, 40],
    [34, 9, 50],
    [47, 3, 35],
    [41, 13, 4],
];

/// Two factors as they come.
const PRODUCT: &str = "kernel @mm(%x: in f32[M, K], %y: in f32[K, N], %o: out f32[M, N]) {
  outer m < M, n < N
  s = reduce add[k < K] %x[m, k] * %y[k, n]
  store %o[m, n] = s
}";

/// Compares at all sizes; of sentences and heads there are two each.
fn check(text: &str) {
    let sizes = SIZES.map(|[m, k, n]| [m, k, n, 2]);
    check_sizes(text, ["M", "K", "N", "B"], &sizes);
}

#[test]
fn as_they_come() {
    check(PRODUCT);
}

/// As on a machine whose half vectors are as fast as whole ones.
#[test]
fn few_columns_in_halves_of_vectors() {
    let kernel = kernel(PRODUCT);
    let variants = compiled_as(&kernel, |loops| {
        for nest in &mut loops.nests {
            nest.tile.lanes /= 2;
        }
    });
    check_variants(&kernel, &variants, ["M", "K", "N"], &SIZES);
}

/// A second result that is the same in every row, stored beside the first.
#[test]
fn beside_a_result_that_rows_share() {
    check(
        "kernel @mm(%x: in f32[M, K], %y: in f32[K, N], %b: in f32[N], %o: out f32[M, N], %p: out f32[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[m, k] * %y[k, n]
          store %o[m, n] = s
          store %p[m, n] = relu(%b[n])
        }",
    );
}

#[test]
fn by_a_transposed_factor() {
    check(
        "kernel @mm(%x: in f32[M, K], %y: in f32[N, K], %b: in f32[N], %o: out f32[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[m, k] * %y[n, k]
          store %o[m, n] = relu(s + %b[n])
        }",
    );
}

#[test]
fn of_two_transposed_factors_in_f64() {
    check(
        "kernel @mm(%x: in f64[K, M], %y: in f64[N, K], %o: out f64[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[k, m] * %y[n, k]
          store %o[m, n] = s
        }",
    );
}

#[test]
fn one_for_each_of_a_batch() {
    check(
        "kernel @mm(%x: in f32[B, M, K], %y: in f32[B, K, N], %o: out f32[M, B, N]) {
          outer b < B, m < M, n < N
          s = reduce add[k < K] %x[b, m, k] * %y[b, k, n]
          store %o[m, b, n] = s * 0.5
        }",
    );
}

#[test]
fn of_a_factor_that_is_part_of_another_array() {
    check(
        "kernel @mm(%x: in f32[M, K], %y: in f32[K, N] strides [N + 3, 1], %o: out f32[M, N]) {
          outer m < M, n < N
          s = reduce add[k < K] %x[m, k] * %y[k, n]
          store %o[m, n] = s
        }",
    );
}

#[test]
fn attention_of_keys_between_those_of_other_heads() {
    check(
        "kernel @attention(%q: in f32[B, M, 2, 8], %k: in f32[B, N, 2, 8], %v: in f32[B, N, 2, 8], %o: out f32[B, M, 2, 8]) {
          outer b < B, m < M, h < 2
          s[j < N] = reduce add[d < 8] %q[b, m, h, d] * %k[b, j, h, d]
          t = reduce max[j < N] s[j]
          p[j < N] = exp(s[j] - t)
          z = reduce add[j < N] p[j]
          o[e < 8] = reduce add[j < N] p[j] * %v[b, j, h, e]
          store %o[b, m, h, e < 8] = o[e] / max(z, 1.0)
        }",
    );
}

#[test]
fn attention_with_masked_scores() {
    check(
        "kernel @attention(%q: in f32[B, M, 8], %k: in f32[B, N, 8], %v: in f32[B, N, 8], %a: in f32[N], %b: in f32[M, N], %o: out f32[B, M, 8]) {
          outer b < B, m < M
          s[j < N] = reduce add[d < 8] %q[b, m, d] * %k[b, j, d]
          w[j < N] = (s[j] + %a[j]) * 0.25 + %b[m, j]
          t = reduce max[j < N] w[j]
          p[j < N] = exp(w[j] - t)
          z = reduce add[j < N] p[j]
          o[e < 8] = reduce add[j < N] p[j] * %v[b, j, e]
          store %o[b, m, e < 8] = o[e] / max(z, 1.0)
        }",
    );
}

/// An array that others read too is kept as it is; one that is read at other places than its own is none to finish.
#[test]
fn scores_that_are_read_again_or_elsewhere() {
    check(
        "kernel @attention(%q: in f32[B, M, 8], %k: in f32[B, N, 8], %a: in f32[N], %o: out f32[B, M, N]) {
          outer b < B, m < M
          s[j < N] = reduce add[d < 8] %q[b, m, d] * %k[b, j, d]
          w[j < N] = s[j] * 0.25 + %a[j]
          t = reduce max[j < N] w[j] * s[j]
          u[j < N] = w[N - 1 - j] * 0.5 + %a[j]
          z = reduce add[j < N] u[j] * w[j]
          store %o[b, m, j < N] = w[j] + t * z
        }",
    );
}

/// A tile of more sums than there are registers is not what comes out.
#[test]
fn tiles_that_do_not_fit_the_registers_give_way() {
    let kernel = kernel(PRODUCT);
    let compiler = LlvmCompiler::new();
    let target = LlvmCompiler::target(IsaLevel::Avx2Fma);
    let asked = compiler.schedules(&kernel, &target).remove(0).schedule;
    let asked = with_loops(&kernel, &asked, |loops| {
        for nest in &mut loops.nests {
            nest.tile.rows = nest.tile.rows.map(|(axis, _)| (axis, 16));
        }
    });
    let artifact = compiler
        .compile(&kernel, &target, &asked, &mut Unobserved)
        .unwrap();
    let loops = loops_of(&kernel, &artifact.schedule);
    let rows = loops.nests.last().unwrap().tile.rows;
    assert!(
        rows.is_none_or(|(_, rows)| rows < 16),
        "{}",
        artifact.schedule.text
    );
    // The same kernel as it is asked for when nobody meddles keeps its tile.
    let usual = compiler.schedules(&kernel, &target).remove(0).schedule;
    let artifact = compiler
        .compile(&kernel, &target, &usual, &mut Unobserved)
        .unwrap();
    assert_eq!(artifact.schedule, usual);
}
