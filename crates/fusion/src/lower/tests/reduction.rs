//! Reductions, cumulative reductions, and products.

use super::{Case, check, refused};

const SIZES: &[Case<'_>] = &[
    &[("B", 0), ("N", 3)],
    &[("B", 3), ("N", 0)],
    &[("B", 1), ("N", 1)],
    &[("B", 2), ("N", 7)],
];

#[test]
fn reductions_lower_to_one_kernel() {
    for function in ["sum", "mean", "product", "max", "min"] {
        for (keep, result) in [(true, "f32[B, 1, 1]"), (false, "f32[B]")] {
            let keep = if keep { ", keep_dims" } else { "" };
            check(
                &format!(
                    "graph @g(%x: f32[B, N, 3]) -> {result} {{
                        %0 = reduce %x {{function = {function}, axes = [1, 2]{keep}}}
                        return %0
                    }}"
                ),
                SIZES,
            );
        }
    }
    for (function, dtype) in [
        ("sum", "i8"),
        ("product", "i32"),
        ("max", "u8"),
        ("any", "bool"),
        ("all", "bool"),
    ] {
        check(
            &format!(
                "graph @g(%x: {dtype}[N, B]) -> {dtype}[B] {{
                    %0 = reduce %x {{function = {function}, axes = [0]}}
                    return %0
                }}"
            ),
            SIZES,
        );
    }
}

#[test]
fn a_reduction_over_an_axis_of_size_one_lowers() {
    check(
        "graph @g(%x: f32[B, 1]) -> f32[B] {
            %0 = reduce %x {function = mean, axes = [1]}
            return %0
        }",
        &[&[("B", 3)]],
    );
}

#[test]
fn nested_reductions_lower_to_one_kernel() {
    check(
        "graph @g(%x: f32[B, N, 5]) -> f32[] {
            %0 = reduce %x {function = max, axes = [2]}
            %1 = reduce %0 {function = sum, axes = [1]}
            %2 = reduce %1 {function = min, axes = [0]}
            return %2
        }",
        SIZES,
    );
}

#[test]
fn a_reduction_of_a_reshape_runs_over_the_operand() {
    let kernel = check(
        "graph @g(%x: f32[B, N, 3]) -> f32[3] {
            %0 = reshape %x {dims = [B*N, 3]}
            %1 = reduce %0 {function = sum, axes = [0]}
            return %1
        }",
        SIZES,
    );
    let text = kiln_kernel::text::print(&kernel);
    assert!(!text.contains("mod") && !text.contains('/'), "{text}");
}

#[test]
fn arg_reductions_lower_to_one_kernel() {
    for (extremum, last) in [
        ("max", ""),
        ("max", ", last"),
        ("min", ""),
        ("min", ", last"),
    ] {
        check(
            &format!(
                "graph @g(%x: f32[B, N]) -> i64[B] {{
                    %0 = arg_reduce %x {{extremum = {extremum}, axis = 1{last}}}
                    return %0
                }}"
            ),
            SIZES,
        );
    }
}

#[test]
fn running_reductions_lower_to_a_scan() {
    for function in ["sum", "product", "max", "min"] {
        for flags in ["", ", exclusive", ", reverse", ", exclusive, reverse"] {
            let text = format!(
                "graph @g(%x: f32[B, N]) -> f32[B, N] {{
                    %0 = cumulate %x {{function = {function}, axis = 1{flags}}}
                    %1 = neg %0
                    return %1
                }}"
            );
            let kernel = check(&text, SIZES);
            assert_eq!(kernel.classification().class, kiln_kernel::Class::Scan);
            // If a reduction reads it, there is no carry block, and the result is the same.
            let text = text.replace("neg %0", "reduce %0 {function = sum, axes = [1]}");
            check(&text.replace("-> f32[B, N]", "-> f32[B]"), SIZES);
        }
    }
}

#[test]
fn matrix_products_lower_to_one_kernel() {
    let sizes: &[Case<'_>] = &[
        &[("B", 0), ("M", 2), ("K", 3), ("N", 2)],
        &[("B", 2), ("M", 2), ("K", 0), ("N", 2)],
        &[("B", 2), ("M", 1), ("K", 5), ("N", 1)],
        &[("B", 3), ("M", 2), ("K", 3), ("N", 5)],
    ];
    check(
        "graph @g(%x: f32[B, 1, M, K], %y: f32[2, K, N]) -> f32[B, 2, M, N] {
            %0 = matmul %x, %y
            return %0
        }",
        sizes,
    );
    check(
        "graph @g(%x: i8[M, K], %y: i8[K, N], %b: f32[B]) -> i32[M, N] {
            %0 = matmul %x, %y {out = i32}
            return %0
        }",
        sizes,
    );
    check(
        "graph @g(%x: f16[M, K], %y: f16[K, N], %b: f16[N]) -> f16[M, N] {
            %0 = matmul %x, %y
            %1 = add %0, %b
            %2 = relu %1
            return %2
        }",
        &[&[("M", 2), ("K", 3), ("N", 5)]],
    );
}

#[test]
fn ops_that_no_kernel_computes_are_refused() {
    assert_eq!(
        refused(
            "graph @g(%x: f32[4]) -> (i64[1, 4], i64[]) { %0, %1 = non_zero %x return %0, %1 }"
        ),
        "E0401 expected operations that a kernel computes, found `non_zero` (op0): it is a step of its own, not part of a kernel"
    );
}
