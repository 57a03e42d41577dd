//! Matmul, convolution, transposed convolution, pooling, resize.

use super::types;
use insta::assert_snapshot;

const PLAIN: &str = "strides = [1, 1], dilations = [1, 1], low = [0, 0], high = [0, 0]";

#[test]
fn matmul_broadcasts_batches_and_equates_inner_sizes() {
    assert_snapshot!(types("%x: f32[B, S, 384], %w: f32[384, 1536]", "%y = matmul %x, %w {out = f32}"), @"y: f32[B, S, 1536]");
    assert_snapshot!(
        types("%x: f32[B, 12, S, D], %w: f32[A, 1, E, T]", "%y = matmul %x, %w {out = f32} from \"attention/MatMul\""),
        @"
    y: f32[bcast(A, B), 12, S, T]
    requires D == E by matmul (attention/MatMul): inner sizes
    plan B == A by matmul (attention/MatMul)
    "
    );
    assert_snapshot!(types("%x: i8[M, K], %w: i8[K, N]", "%y = matmul %x, %w {out = i32}"), @"y: i32[M, N]");
    assert_snapshot!(types("%x: f32[M, 0], %w: f32[0, N]", "%y = matmul %x, %w {out = f32}"), @"y: f32[M, N]");
}

#[test]
fn matmul_errors_name_both_operands() {
    assert_snapshot!(types("%x: f32[B, 128], %w: f32[64, N]", "%y = matmul %x, %w {out = f32} from \"fc1\""), @"[E0112] matmul (fc1): inner sizes of %x: f32[B, 128] and %w: f32[64, N] differ: expected 128, found 64 [E0331]");
    assert_snapshot!(types("%x: f32[B, 128], %w: f32[128]", "%y = matmul %x, %w {out = f32}"), @"[E0112] matmul (%2): operand 1: expected a tensor of rank 2 or more, found %w: f32[128] [E0332]");
    assert_snapshot!(types("%x: f32[128], %w: f32[128, 4]", "%y = matmul %x, %w {out = f32}"), @"[E0112] matmul (%2): operand 0: expected a tensor of rank 2 or more, found %x: f32[128] [E0332]");
    assert_snapshot!(types("%x: f32[B, 4], %w: f16[4, N]", "%y = matmul %x, %w {out = f32}"), @"[E0112] matmul (%2): operand 1: expected a tensor of f32, as the result, found %w: f16[4, N] [E0332]");
    assert_snapshot!(types("%x: f32[2, B, 4], %w: f32[3, 4, N]", "%y = matmul %x, %w {out = f32}"), @"[E0112] matmul (%2): cannot broadcast %x: f32[2, B, 4] with %w: f32[3, 4, N]: expected sizes that are equal or 1, found 2 and 3 [E0330]");
}

#[test]
fn convolutions_count_windows() {
    assert_snapshot!(
        types(
            "%x: f32[N, 3, H, W], %w: f32[64, 3, 7, 7]",
            "%y = conv %x, %w {strides = [2, 2], dilations = [1, 2], low = [3, 0], high = [3, 0], groups = 1, out = f32}",
        ),
        @"y: f32[N, 64, (H + 1) / 2, (W + 1) / 2 - 6]"
    );
    // A 3x3 window of stride 1 and padding 1 keeps sizes.
    assert_snapshot!(
        types(
            "%x: f32[N, 32, H, W], %w: f32[32, 1, 3, 3]",
            "%y = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 32, out = f32}",
        ),
        @"y: f32[N, 32, H, W]"
    );
    // Stride 2 on inputs of 1x1.
    assert_snapshot!(
        types(
            "%x: f32[N, 8, 1, 1], %w: f32[8, 8, 1, 1]",
            "%y = conv %x, %w {strides = [2, 2], dilations = [1, 1], low = [0, 0], high = [0, 0], groups = 1, out = f32}",
        ),
        @"y: f32[N, 8, 1, 1]"
    );
    // Symbolic channels, filters and kernels.
    assert_snapshot!(
        types("%x: f32[N, C, L], %w: f32[O, D, K]", "%y = conv %x, %w {strides = [1], dilations = [1], low = [0], high = [0], groups = 2, out = f32}"),
        @"
    y: f32[N, O, -K + L + 1]
    requires 2*D == C by conv (%2): channels
    requires O % 2 == 0 by conv (%2): groups
    "
    );
}

#[test]
fn convolution_errors_name_the_mismatch() {
    let conv = |inputs: &str, groups: usize| {
        types(
            inputs,
            &format!("%y = conv %x, %w {{{PLAIN}, groups = {groups}, out = f32}} from \"c\""),
        )
    };
    assert_snapshot!(conv("%x: f32[N, 3, H, W], %w: f32[8, 4, 3, 3]", 1), @"[E0112] conv (c): channels of %w: f32[8, 4, 3, 3] and %x: f32[N, 3, H, W] differ: expected 4, found 3 [E0331]");
    assert_snapshot!(conv("%x: f32[N, 4, H, W], %w: f32[9, 2, 3, 3]", 2), @"[E0112] conv (c): attribute groups: expected a divisor of 9, found 2 [E0333]");
    assert_snapshot!(conv("%x: f32[N, 4, 2, 2], %w: f32[8, 4, 5, 5]", 1), @"[E0112] conv (c): the result's spatial size 0 is negative: expected at least 0, found -2 [E0334]");
    assert_snapshot!(conv("%x: f32[N, 4, H], %w: f32[8, 4, 3]", 1), @"[E0112] conv (c): attribute strides: expected 1 entries, found 2 [E0333]");
    assert_snapshot!(conv("%x: f32[N, 4, H, W], %w: f32[8, 4, 3]", 1), @"[E0112] conv (c): operand 1: expected a tensor of rank 4, as the input, found %w: f32[8, 4, 3] [E0332]");
    assert_snapshot!(conv("%x: f32[N, 4, H, W], %w: f32[8, 4, 3, 3]", 0), @"[E0112] conv (c): attribute groups: expected at least 1, found 0 [E0333]");
    assert_snapshot!(conv("%x: f32[N], %w: f32[8]", 1), @"[E0112] conv (c): operand 0: expected a tensor of rank 2 or more, found %x: f32[N] [E0332]");
}

#[test]
fn transposed_convolutions_undo_strides() {
    let ops = "%y = conv_transpose %x, %w {strides = [2, 2], dilations = [1, 1], low = [1, 0], high = [1, 0], output_padding = [1, 0], groups = 2}";
    assert_snapshot!(types("%x: f32[N, 4, H, W], %w: f32[4, 3, 3, 2]", ops), @"y: f32[N, 6, 2*H, 2*W]");
    assert_snapshot!(types("%x: f32[N, 5, H, W], %w: f32[5, 3, 3, 2]", ops), @"[E0112] conv_transpose (%2): attribute groups: expected a divisor of 5, found 2 [E0333]");
}

#[test]
fn an_output_padding_restores_what_a_strided_convolution_divided() {
    let back = |padding: &str| {
        let ops = format!(
            "%c = conv %x, %w {{strides = [3], dilations = [2], low = [1], high = [2], groups = 1}}
             %y = conv_transpose %c, %w {{strides = [3], dilations = [2], low = [1], high = [2], output_padding = [{padding}], groups = 1}}"
        );
        types("%x: f32[N, 4, H], %w: f32[5, 4, 3]", &ops)
    };
    assert_snapshot!(back("H - (3*((H - 2) / 3) + 2)"), @"
    c: f32[N, 5, (H + 1) / 3]
    y: f32[N, 4, H]
    ");
    assert_snapshot!(back("(H + 1) % 3"), @"
    c: f32[N, 5, (H + 1) / 3]
    y: f32[N, 4, H]
    ");
    assert_snapshot!(back("-1"), @"[E0112] conv_transpose (%3): output padding 0 is negative: expected at least 0, found -1 [E0334]");
}

#[test]
fn pools_count_windows() {
    let pool = |inputs: &str| {
        types(
            inputs,
            "%y = pool %x {function = max, size = [3, 2], strides = [2, 2], dilations = [1, 1], low = [1, 0], high = [1, 0]}",
        )
    };
    assert_snapshot!(pool("%x: f32[N, C, H, W]"), @"y: f32[N, C, (H + 1) / 2, W / 2]");
    assert_snapshot!(pool("%x: f32[N, C, 1, 0]"), @"y: f32[N, C, 1, 0]");
    assert_snapshot!(
        types("%x: u8[N, C, H, W]", "%y = arg_pool %x {size = [3, 2], strides = [2, 2], dilations = [1, 1], low = [1, 0], high = [1, 0]}"),
        @"y: i64[N, C, (H + 1) / 2, W / 2]"
    );
    assert_snapshot!(pool("%x: f32[N, C, H]"), @"[E0112] pool (%1): attribute strides: expected 1 entries, found 2 [E0333]");
    assert_snapshot!(
        types("%x: f32[N, C, H]", "%y = pool %x {function = max, size = [0], strides = [1], dilations = [1], low = [0], high = [0]}"),
        @"[E0112] pool (%1): attribute size: expected sizes of at least 1, found 0 [E0333]"
    );
}

#[test]
fn resizes_take_the_stated_sizes() {
    let rest =
        "mode = nearest, coordinates = asymmetric, rounding = floor, cubic_coefficient = -0.75";
    assert_snapshot!(
        types("%x: f32[N, C, H, W]", &format!("%y = resize %x {{axes = [2, 3], sizes = [2 * H, W + 1], scales = [2.0, 0.0], {rest}}}")),
        @"y: f32[N, C, 2*H, W + 1]"
    );
    assert_snapshot!(
        types("%x: f32[N, C]", &format!("%y = resize %x {{axes = [2], sizes = [4], scales = [0.0], {rest}}}")),
        @"[E0112] resize (%1): attribute axes: expected an axis below the rank, 2, found 2 [E0333]"
    );
}

#[test]
fn windows_need_positive_strides_and_dilations() {
    for steps in [
        "strides = [0], dilations = [1]",
        "strides = [1], dilations = [-1]",
    ] {
        let text = types(
            "%x: f32[N, C, L]",
            &format!("%y = pool %x {{function = sum, size = [1], {steps}, low = [0], high = [0]}}"),
        );
        assert!(text.contains("expected steps of at least 1"), "{text}");
    }
}
