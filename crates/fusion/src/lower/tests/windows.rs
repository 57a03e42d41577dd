//! Convolutions, pools and resizes.

use super::{Case, check};

const SIZES: &[Case<'_>] = &[
    &[("B", 0), ("H", 4)],
    &[("B", 1), ("H", 3)],
    &[("B", 2), ("H", 7)],
    &[("B", 1), ("H", 10)],
];

fn conv(x: &str, w: &str, window: &str, groups: usize, out: &str, result: &str) {
    check(
        &format!(
            "graph @g(%x: {x}, %w: {w}) -> {result} {{
                %0 = conv %x, %w {{{window}, groups = {groups}, out = {out}}}
                return %0
            }}"
        ),
        SIZES,
    );
}

#[test]
fn convolutions_lower_to_one_kernel() {
    let same = "strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1]";
    let valid = "strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0]";
    let wide = "strides = [2, 3], dilations = [2, 1], low = [2, 0], high = [1, 2]";
    conv(
        "f32[B, 2, H, 4]",
        "f32[3, 2, 3, 3]",
        same,
        1,
        "f32",
        "f32[B, 3, H, 4]",
    );
    conv(
        "f32[B, 2, H, 4]",
        "f32[3, 2, 3, 3]",
        valid,
        1,
        "f32",
        "f32[B, 3, H - 2, 2]",
    );
    conv(
        "f32[B, 2, H, 4]",
        "f32[3, 2, 1, 1]",
        valid,
        1,
        "f32",
        "f32[B, 3, H, 4]",
    );
    conv(
        "f32[B, 4, H, 4]",
        "f32[6, 2, 3, 3]",
        same,
        2,
        "f32",
        "f32[B, 6, H, 4]",
    );
    conv(
        "f32[B, 4, H, 4]",
        "f32[4, 1, 3, 3]",
        same,
        4,
        "f32",
        "f32[B, 4, H, 4]",
    );
    conv(
        "f32[B, 2, H, 6]",
        "f32[3, 2, 3, 2]",
        wide,
        1,
        "f32",
        "f32[B, 3, (H - 2) / 2 + 1, 3]",
    );
    conv(
        "i8[B, 2, H, 4]",
        "i8[3, 2, 3, 3]",
        same,
        1,
        "i32",
        "i32[B, 3, H, 4]",
    );
    conv(
        "f32[B, 2]",
        "f32[3, 2]",
        "strides = [], dilations = [], low = [], high = []",
        1,
        "f32",
        "f32[B, 3]",
    );
}

fn transposed(w: &str, window: &str, padding: &str, groups: usize, result: &str) {
    check(
        &format!(
            "graph @g(%x: f32[B, 4, H], %w: {w}) -> {result} {{
                %0 = conv_transpose %x, %w {{{window}, output_padding = {padding}, groups = {groups}}}
                %1 = relu %0
                return %1
            }}"
        ),
        SIZES,
    );
}

#[test]
fn transposed_convolutions_lower_to_one_kernel() {
    let tiles = "strides = [2], dilations = [1], low = [0], high = [0]";
    transposed("f32[4, 3, 2]", tiles, "[0]", 1, "f32[B, 3, 2*H]");
    transposed("f32[4, 3, 3]", tiles, "[1]", 1, "f32[B, 3, 2*H + 2]");
    let cut = "strides = [3], dilations = [1], low = [1], high = [2]";
    transposed("f32[4, 3, 5]", cut, "[0]", 2, "f32[B, 6, 3*H - 1]");
    let dilated = "strides = [2], dilations = [2], low = [1], high = [0]";
    transposed("f32[4, 1, 3]", dilated, "[0]", 4, "f32[B, 4, 2*H + 2]");
    let plain = "strides = [1], dilations = [1], low = [1], high = [1]";
    transposed("f32[4, 2, 3]", plain, "[0]", 1, "f32[B, 2, H]");
}

#[test]
fn a_tiling_transposed_convolution_visits_one_tap() {
    let kernel = check(
        "graph @g(%x: f32[B, 4, H, 5], %w: f32[4, 3, 2, 2]) -> f32[B, 3, 2*H, 10] {
            %0 = conv_transpose %x, %w {strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0], output_padding = [0, 0], groups = 1}
            return %0
        }",
        SIZES,
    );
    assert_eq!(kernel.outer().len(), 6);
    let text = kiln_kernel::text::print(&kernel);
    assert!(!text.contains("mod") && !text.contains(" / "), "{text}");
}

#[test]
fn arg_pools_lower_to_one_kernel() {
    let arg_pool = |x: &str, size: &str, window: &str, result: &str| {
        check(
            &format!(
                "graph @g(%x: {x}) -> i64{result} {{
                    %0 = arg_pool %x {{size = {size}, {window}}}
                    %1 = neg %0
                    return %1
                }}"
            ),
            SIZES,
        )
    };
    let padded = "strides = [1, 2], dilations = [1, 2], low = [1, 1], high = [1, 2]";
    arg_pool("f32[B, 2, H, 6]", "[3, 2]", padded, "[B, 2, H, 4]");
    let far = "strides = [2, 1], dilations = [2, 1], low = [3, 0], high = [2, 1]";
    arg_pool(
        "i8[B, 2, H, 6]",
        "[2, 1]",
        far,
        "[B, 2, (H + 2) / 2 + 1, 7]",
    );
    let inside = "strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0]";
    let kernel = arg_pool(
        "f32[B, 2, H, 6]",
        "[3, 2]",
        inside,
        "[B, 2, (H - 3) / 2 + 1, 3]",
    );
    let text = kiln_kernel::text::print(&kernel);
    assert!(
        !text.contains("inside") && !text.contains("select"),
        "{text}"
    );
    let none = "strides = [], dilations = [], low = [], high = []";
    arg_pool("f32[B, H]", "[]", none, "[B, H]");
}

#[test]
fn pools_lower_to_one_kernel() {
    for function in ["max", "sum", "mean", "mean_with_padding"] {
        for window in [
            "strides = [1, 2], dilations = [1, 2], low = [1, 1], high = [1, 2]",
            "strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0]",
        ] {
            let result = if window.contains("low = [0") {
                "f32[B, 2, (H - 3) / 2 + 1, 3]"
            } else {
                "f32[B, 2, H, 4]"
            };
            check(
                &format!(
                    "graph @g(%x: f32[B, 2, H, 6]) -> {result} {{
                        %0 = pool %x {{function = {function}, size = [3, 2], {window}}}
                        return %0
                    }}"
                ),
                SIZES,
            );
        }
    }
}

/// A resize of two axes, to each of three kinds of sizes.
fn resize(coordinates: &str, rest: &str) {
    for (target, scales) in [
        ("[2*H, 3*W]", "[2.0, 0.0]"),
        ("[4, 5]", "[0.0, 0.0]"),
        ("[2*H + 1, W]", "[2.5, 0.7]"),
    ] {
        let (h, w) = target.trim_matches(['[', ']']).split_once(", ").unwrap();
        check(
            &format!(
                "graph @g(%x: f32[B, H, W]) -> f32[B, {h}, {w}] {{
                    %0 = resize %x {{axes = [1, 2], sizes = {target}, scales = {scales}, coordinates = {coordinates}, cubic_coefficient = -0.75, {rest}}}
                    return %0
                }}"
            ),
            &[
                &[("B", 0), ("H", 4), ("W", 3)],
                &[("B", 1), ("H", 0), ("W", 3)],
                &[("B", 2), ("H", 1), ("W", 1)],
                &[("B", 1), ("H", 3), ("W", 5)],
            ],
        );
    }
}

#[test]
fn nearest_resizes_lower_to_one_kernel() {
    for rounding in ["floor", "prefer_floor", "ceil", "prefer_ceil"] {
        for coordinates in ["half_pixel", "align_corners", "asymmetric"] {
            resize(
                coordinates,
                &format!("mode = nearest, rounding = {rounding}"),
            );
        }
    }
}

#[test]
fn linear_and_cubic_resizes_lower_to_one_kernel() {
    for coordinates in [
        "half_pixel",
        "half_pixel_symmetric",
        "pytorch_half_pixel",
        "align_corners",
    ] {
        resize(coordinates, "mode = linear, rounding = floor");
    }
    for rest in [
        "mode = cubic, rounding = floor",
        "mode = cubic, rounding = floor, exclude_outside",
        "mode = linear, rounding = floor, antialias",
        "mode = cubic, rounding = floor, antialias, exclude_outside",
    ] {
        resize("half_pixel", rest);
    }
}

#[test]
fn a_doubling_resize_is_a_division() {
    let kernel = check(
        "graph @g(%x: f32[B, H]) -> f32[B, 2*H] {
            %0 = resize %x {axes = [1], sizes = [2*H], scales = [2.0], coordinates = asymmetric, cubic_coefficient = -0.75, mode = nearest, rounding = floor}
            return %0
        }",
        SIZES,
    );
    assert!(!kiln_kernel::text::print(&kernel).contains("f64"));
}

#[test]
fn widened_operands_beside_borders_are_read_as_they_are_in_memory() {
    for narrow in ["bf16", "f16"] {
        let kernel = check(
            &format!(
                "graph @g(%x: {narrow}[B, 2, H, 4], %w: {narrow}[3, 2, 3, 3]) -> f32[B, 3, H, 4] {{
                    %0 = cast %x {{to = f32}}
                    %1 = cast %w {{to = f32}}
                    %2 = conv %0, %1 {{strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}}
                    return %2
                }}"
            ),
            SIZES,
        );
        let text = kiln_kernel::text::print(&kernel);
        let fill = format!("if inside else {narrow}(0.0)) * f32(");
        assert!(text.contains(&fill) && !text.contains("select"), "{text}");
    }
}
