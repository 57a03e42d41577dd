//! Ops that move elements.

use super::{Case, check};

const SIZES: &[Case<'_>] = &[
    &[("B", 0), ("N", 3)],
    &[("B", 1), ("N", 1)],
    &[("B", 2), ("N", 7)],
    &[("B", 5), ("N", 2)],
];

#[test]
fn broadcasts_and_transposes() {
    check(
        "graph @g(%x: f32[B, 1, N]) -> f32[N, 4, B] {
            %0 = broadcast %x {dims = [B, 4, N]}
            %1 = transpose %0 {permutation = [2, 1, 0]}
            return %1
        }",
        SIZES,
    );
}

#[test]
fn reshapes_split_and_merge() {
    check(
        "graph @g(%x: f32[B, N, 6]) -> f32[B*N, 2, 3] {
            %0 = reshape %x {dims = [B*N, 2, 3]}
            %1 = exp %0
            return %1
        }",
        SIZES,
    );
    check(
        "graph @g(%x: f32[B, N, 6]) -> f32[6, B*N] {
            %0 = reshape %x {dims = [B*N, 6]}
            %1 = transpose %0 {permutation = [1, 0]}
            return %1
        }",
        SIZES,
    );
    // Groups that share no boundary.
    check(
        "graph @g(%x: f32[4, 6, N]) -> f32[6, 1, 4, N] {
            %0 = reshape %x {dims = [6, 1, 4, N]}
            return %0
        }",
        &[&[("N", 0)], &[("N", 3)]],
    );
}

#[test]
fn heads_are_split_and_merged_again() {
    let kernel = check(
        "graph @g(%x: f32[B, N, 12]) -> f32[B, N, 12] {
            %0 = reshape %x {dims = [B, N, 3, 4]}
            %1 = transpose %0 {permutation = [0, 2, 1, 3]}
            %2 = exp %1
            %3 = transpose %2 {permutation = [0, 2, 1, 3]}
            %4 = reshape %3 {dims = [B, N, 12]}
            return %4
        }",
        SIZES,
    );
    let text = kiln_kernel::text::print(&kernel);
    assert!(!text.contains("mod") && !text.contains('/'), "{text}");
}

#[test]
fn slices_lower_to_one_kernel() {
    check(
        "graph @g(%x: f32[B, N]) -> f32[B, N] {
            %0 = slice %x {starts = [0, N - 1], sizes = [B, N], steps = [1, -1]}
            return %0
        }",
        &[
            &[("B", 2), ("N", 1)],
            &[("B", 2), ("N", 5)],
            &[("B", 2), ("N", 0)],
        ],
    );
    check(
        "graph @g(%x: f32[B, N], %s: f32[M]) -> f32[B, M] {
            %0 = slice %x {starts = [0, 1], sizes = [B, M], steps = [1, 2]}
            %1 = add %0, %s
            return %1
        }",
        &[
            &[("B", 2), ("N", 5), ("M", 2)],
            &[("B", 2), ("N", 4), ("M", 2)],
            &[("B", 2), ("N", 3), ("M", 2)],
            &[("B", 2), ("N", 0), ("M", 0)],
        ],
    );
}

#[test]
fn pads_of_every_mode_lower_to_one_kernel() {
    for mode in ["constant", "edge", "reflect", "wrap"] {
        check(
            &format!(
                "graph @g(%x: f32[B, N], %v: f32[]) -> f32[B, N + 5] {{
                    %0 = pad %x, %v {{low = [0, 2], high = [0, 3], mode = {mode}}}
                    %1 = neg %0
                    return %1
                }}"
            ),
            &[
                &[("B", 2), ("N", 0)],
                &[("B", 0), ("N", 0)],
                &[("B", 2), ("N", 1)],
                &[("B", 2), ("N", 2)],
                &[("B", 1), ("N", 7)],
            ],
        );
    }
}

#[test]
fn a_pad_guards_computed_elements() {
    check(
        "graph @g(%x: i32[N], %y: i32[N]) -> i32[N + 2] {
            %v: i32[] = constant [7]
            %1: i32[] = constant [1]
            %2: i32[] = constant [9]
            %m = max %y, %1
            %c = min %m, %2
            %0 = div %x, %c
            %3 = pad %0, %v {low = [1], high = [1], mode = constant}
            return %3
        }",
        &[&[("N", 0)], &[("N", 4)]],
    );
}

#[test]
fn concats_lower_to_one_kernel() {
    check(
        "graph @g(%x: f32[B, N], %y: f32[B, 2], %z: f32[B, M]) -> f32[B, N + M + 2] {
            %e = exp %y
            %0 = concat %x, %e, %z {axis = 1}
            return %0
        }",
        &[
            &[("B", 2), ("N", 3), ("M", 0)],
            &[("B", 2), ("N", 0), ("M", 2)],
            &[("B", 0), ("N", 1), ("M", 1)],
        ],
    );
}

#[test]
fn slices_and_concats_are_absorbed() {
    check(
        "graph @rope(%x: f32[B, N, 8], %c: f32[N, 8], %s: f32[N, 8]) -> f32[B, N, 8] {
            %a = slice %x {starts = [0, 0, 4], sizes = [B, N, 4], steps = [1, 1, 1]}
            %b = slice %x {starts = [0, 0, 0], sizes = [B, N, 4], steps = [1, 1, 1]}
            %n = neg %a
            %r = concat %n, %b {axis = 2}
            %0 = mul %x, %c
            %1 = mul %r, %s
            %2 = add %0, %1
            return %2
        }",
        SIZES,
    );
}
