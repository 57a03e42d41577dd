//! Axes that end where the index of another, or an element, says: their lanes and rows must not be done together.

#![allow(clippy::panic, reason = "a test that cannot go on panics")]

mod support;

use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::Elements;
use support::{SMOOTH, check_text};

fn check(text: &str, elements: Elements) {
    let (agreed, faulted) = check_text(text, elements, 20_000.0);
    assert!(agreed > 0, "no call has a result:\n{text}");
    assert_eq!(faulted, 0, "{text}");
}

#[test]
fn sums_end_at_the_diagonal() {
    check(
        "kernel @triangle(%x: in f32[M, N], %y: out f32[M]) {
          outer i < M
          s = reduce add[r < clamp(i + 1, N)] %x[i, r]
          store %y[i] = s
        }",
        SMOOTH,
    );
}

#[test]
fn rows_are_as_long_as_an_element_says() {
    check(
        "kernel @ragged(%x: in f32[M, N], %n: in i64[M], %y: out f32[M]) {
          outer i < M
          s = reduce max[r < clamp(%n[i], N)] %x[i, r]
          store %y[i] = s
        }",
        Elements {
            flavor: Flavor::Smooth,
            indices: (-3, 70),
        },
    );
}

/// What is read lies one by one along the axis that ends the other: vectors would suit it best.
#[test]
fn a_sum_over_both_axes_of_a_triangle() {
    check(
        "kernel @both(%x: in f32[N, M] strides [1, N], %y: in f32[N], %z: out f32[]) {
          s = reduce add[r < N, q < clamp(r + 1, M)] %x[r, q] * %y[r]
          store %z[] = s
        }",
        SMOOTH,
    );
}

#[test]
fn kept_values_along_the_axis_that_ends_their_sums() {
    check(
        "kernel @kept(%x: in f32[B, M, N] strides [M*N, 1, M], %y: out f32[B, M]) {
          outer b < B
          p[j < M] = reduce add[r < clamp(j + 1, N)] %x[b, j, r]
          m = reduce max[j < M] p[j]
          store %y[b, j < M] = p[j] - m
        }",
        SMOOTH,
    );
}
