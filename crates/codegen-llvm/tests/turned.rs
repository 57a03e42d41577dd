//! Maps that write along one axis what they read along another: squares turned in registers, and what fills no square.

mod support;

use kiln_schedule_cpu::loops;
use support::{check_sizes, check_variants, compiled_as, kernel};

const SIZES: [[i64; 3]; 14] = [
    [0, 9, 8],
    [2, 0, 8],
    [2, 8, 0],
    [1, 1, 1],
    [1, 2, 9],
    [2, 7, 7],
    [1, 8, 8],
    [2, 9, 16],
    [1, 16, 9],
    [1, 17, 24],
    [3, 15, 31],
    [1, 24, 5],
    [1, 64, 67],
    [1, 3, 130],
];

fn check(text: &str) {
    check_sizes(text, ["B", "M", "N"], &SIZES);
}

#[test]
fn one_operand() {
    check(
        "kernel @turn(%x: in f32[B, M, N], %y: out f32[B, N, M]) {
          outer b < B, n < N, m < M
          store %y[b, n, m] = %x[b, m, n]
        }",
    );
}

#[test]
fn doubles_and_integers() {
    for dtype in ["f64", "i32", "i64", "i8", "bool"] {
        check(&format!(
            "kernel @turn(%x: in {dtype}[B, M, N], %y: out {dtype}[B, N, M]) {{
              outer b < B, n < N, m < M
              store %y[b, n, m] = %x[b, m, n]
            }}"
        ));
    }
}

/// One operand is turned, others are not or are the same for all.
#[test]
fn beside_others_and_with_arithmetic() {
    check(
        "kernel @turn(%x: in f32[B, M, N], %z: in f32[B, N, M], %w: in f32[M], %v: in f32[N, 1], %y: out f32[B, N, M], %t: out f32[B, N, M]) {
          outer b < B, n < N, m < M
          store %y[b, n, m] = max(%x[b, m, n] * %w[m] + %z[b, n, m], %v[n, 0])
          store %t[b, n, m] = exp(%x[b, m, n]) - %x[b, m, n]
        }",
    );
}

#[test]
fn two_operands_that_move_differently() {
    check(
        "kernel @turn(%x: in f32[B, M, N], %z: in f32[M, B, 2 * N], %y: out f32[B, N, M]) {
          outer b < B, n < N, m < M
          store %y[b, n, m] = %x[b, m, n] + %z[m, b, 2 * n] - %z[m, b, n + 1]
        }",
    );
}

/// A guard keeps to gathering.
#[test]
fn a_border() {
    check(
        "kernel @turn(%x: in f32[B, M, N], %y: out f32[B, N, M]) {
          outer b < B, n < N, m < M
          store %y[b, n, m] = (%x[b, m - 1, n] if inside else 7)
        }",
    );
}

/// Rows left over are done as many at once as there are lanes, and yet are no square: the last one is there again.
/// Sums and an operand that is transposed in one tile of as many rows as a vector has lanes.
const BY_ROWS_OF_N: &str = "loops {
  nest by_rows_of_n {
    rows n * 4
    vectors m * 2 * 4
    chunk 8
    remainder 3 [2, 1]
    cut m: whole 2, whole 1, scalar
    unroll 20
    body {
      s: together
      store %y: together, register_transpose
    }
  }
}";

#[test]
fn beside_sums_of_rows_that_repeat_the_last() {
    let kernel = kernel(
        "kernel @turn(%x: in f32[M, B, N], %w: in f32[M, M], %z: in f32[M, B, N], %y: out f32[M, N, B]) {
          outer m < M, b < B, n < N
          s = reduce add[r < M] %x[r, b, n] * %w[r, m]
          store %y[m, n, b] = %z[m, b, n] + s
        }",
    );
    let variants = compiled_as(&kernel, |loops| {
        *loops = loops::read(&kernel, BY_ROWS_OF_N).unwrap();
    });
    check_variants(&kernel, &variants, ["B", "M", "N"], &SIZES);
}
