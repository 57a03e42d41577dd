//! Gathers and scatters: positions that are data.

use super::{Case, check_with, refused};
use kiln_tensor::Tensor;

/// Positions in `-limit..limit`, the first ones out of bounds if `beyond`.
fn positions(shape: &[usize], limit: i64, beyond: bool) -> Option<Tensor> {
    let count: usize = shape.iter().product();
    let values = (0..count as i64).map(|at| match (beyond, at) {
        (true, 0) => limit,
        _ => (at * 7 + 3).rem_euclid(2 * limit) - limit,
    });
    Tensor::from_vec(shape, values.collect()).ok()
}

const SIZES: &[Case<'_>] = &[
    &[("B", 0), ("N", 3)],
    &[("B", 1), ("N", 1)],
    &[("B", 2), ("N", 7)],
];

fn check_indexed(text: &str, limit: i64) {
    for beyond in [false, true] {
        let given = |name: &str, shape: &[usize]| {
            (name == "i")
                .then(|| positions(shape, limit, beyond))
                .flatten()
        };
        check_with(text, SIZES, &given);
    }
}

#[test]
fn gathers_lower_to_one_kernel() {
    check_indexed(
        "graph @g(%x: f32[B, 5, 2], %i: i64[N, B]) -> f32[B, N, B, 2] {
            %0 = gather %x, %i {axis = 1}
            %1 = neg %0
            return %1
        }",
        5,
    );
    check_indexed(
        "graph @g(%x: f32[B, 5], %i: i64[B, N]) -> f32[B, N] {
            %e = exp %x
            %0 = gather_elements %e, %i {axis = 1}
            return %0
        }",
        5,
    );
    check_indexed(
        "graph @g(%x: f32[B, 3, 4, 2], %i: i64[B, N, 2]) -> f32[B, N, 2] {
            %0 = gather_nd %x, %i {batch_axes = 1}
            return %0
        }",
        3,
    );
}

#[test]
fn indices_into_a_constant_are_checked() {
    check_indexed(
        "graph @g(%i: i64[N], %b: f32[B]) -> f32[N] {
            %x: f32[3] = constant [1.0, 1.0, 1.0]
            %0 = gather %x, %i {axis = 0}
            return %0
        }",
        3,
    );
}

#[test]
fn gathers_from_computed_values_are_refused() {
    assert_eq!(
        refused(
            "graph @g(%x: f32[B], %y: f32[B], %i: i64[N]) -> f32[N] {
                %0 = add %x, %y
                %1 = gather %0, %i {axis = 0}
                return %1
            }"
        ),
        "E0405 expected %3 in memory where positions are data, found it computed in the same kernel"
    );
}

#[test]
fn scatters_lower_to_one_kernel() {
    for combine in ["set", "add", "mul", "min", "max"] {
        check_indexed(
            &format!(
                "graph @g(%x: f32[B, 5], %i: i64[B, N], %u: f32[B, N]) -> f32[B, 5] {{
                    %e = exp %u
                    %0 = scatter_elements %x, %i, %e {{axis = 1, combine = {combine}}}
                    return %0
                }}"
            ),
            5,
        );
        check_indexed(
            &format!(
                "graph @g(%x: f32[4, 5, B], %i: i64[N, 2], %u: f32[N, B]) -> f32[4, 5, B] {{
                    %0 = scatter_nd %x, %i, %u {{combine = {combine}}}
                    return %0
                }}"
            ),
            4,
        );
    }
}

#[test]
fn a_scatter_must_be_the_only_output() {
    assert_eq!(
        refused(
            "graph @g(%x: f32[5], %i: i64[N], %u: f32[N]) -> f32[5] {
                %0 = scatter_elements %x, %i, %u {axis = 0, combine = add}
                %1 = exp %0
                return %1
            }"
        ),
        "E0409 expected a scatter to be the kernel's only output, found %3 used otherwise"
    );
}
