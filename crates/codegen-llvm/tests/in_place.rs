//! Results that are written over an operand: the same bits as beside it, with every schedule.
//!
//! The comparison itself is part of every check of a kernel, random ones among them; here are kernels that have pairs by
//! design.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may panic")]

mod support;

use kiln_kernel::analysis::may_share;
use support::{check_sizes, kernel};

/// Checks a kernel that has so many pairs.
fn check<const N: usize>(text: &str, pairs: usize, names: [&str; N], sizes: &[[i64; N]]) {
    assert_eq!(may_share(kernel(text).kernel()).len(), pairs, "{text}");
    check_sizes(text, names, sizes);
}

const ROWS_AND_COLUMNS: [[i64; 2]; 12] = [
    [0, 3],
    [1, 1],
    [1, 2],
    [2, 7],
    [3, 8],
    [5, 9],
    [4, 15],
    [7, 16],
    [2, 17],
    [3, 33],
    [13, 127],
    [61, 257],
];

#[test]
fn maps_with_broadcast_operands() {
    let text = "kernel @map(%x: in f32[N, M], %y: in f32[N, M], %b: in f32[M], %c: in f32[N], %o: out f32[N, M]) {
           outer n < N, m < M
           store %o[n, m] = gelu(%x[n, m]) * %y[n, m] + %b[m] - %c[n]
         }";
    check(text, 2, ["N", "M"], &ROWS_AND_COLUMNS);
}

#[test]
fn maps_between_dtypes_of_one_width() {
    let text =
        "kernel @cast(%x: in f32[N, M], %h: in f16[N, M], %o: out i32[N, M], %p: out bf16[N, M]) {
           outer n < N, m < M
           store %o[n, m] = i32(%x[n, m])
           store %p[n, m] = bf16(f32(%h[n, m]) * 2.0)
         }";
    check(text, 2, ["N", "M"], &ROWS_AND_COLUMNS);
}

#[test]
fn maps_over_axes_in_another_order() {
    let text = "kernel @turned(%x: in f32[N, M] strides [1, N], %y: in f32[N, M], %o: out f32[N, M] strides [1, N]) {
           outer n < N, m < M
           store %o[n, m] = %x[n, m] * %y[n, m]
         }";
    check(text, 1, ["N", "M"], &ROWS_AND_COLUMNS);
}

#[test]
fn an_update_of_parameters_and_their_momentum() {
    let text = "kernel @momentum(%p: in f32[N], %m: in f32[N], %g: in f32[N], %q: out f32[N], %n: out f32[N]) {
           outer i < N
           store %q[i] = %p[i] - 0.1 * (0.9 * %m[i] + %g[i])
           store %n[i] = 0.9 * %m[i] + %g[i]
         }";
    let sizes = [0, 1, 2, 15, 16, 17, 1021].map(|size| [size]);
    check(text, 4, ["N"], &sizes);
}
