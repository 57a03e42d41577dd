//! Regions of several ops, as fusion forms them in models.

use kiln_kernel::{Class, Kernel};

use super::{Case, check, class_of};

const ROWS: &[Case<'_>] = &[
    &[("B", 0), ("N", 3)],
    &[("B", 2), ("N", 0)],
    &[("B", 1), ("N", 1)],
    &[("B", 3), ("N", 7)],
];

#[test]
fn equal_layers_become_equal_kernels_in_any_order_of_commutative_operands() {
    let kernel_of = |sum: &str| {
        let text = format!(
            "graph @g(%q: f32[B, N], %k: f32[N, N], %m: f32[N]) -> f32[B, N] {{
                %s = matmul %q, %k
                %t = add {sum}
                %h = reduce %t {{function = max, axes = [1], keep_dims}}
                %y = sub %t, %h
                return %y
            }}"
        );
        let kernel = check(&text, ROWS);
        kiln_kernel::canonicalize(&kernel).text()
    };
    assert_eq!(kernel_of("%s, %m"), kernel_of("%m, %s"));
}

#[test]
fn softmax_is_a_row() {
    let text = "graph @g(%x: f32[B, N]) -> f32[B, N] {
            %m = reduce %x {function = max, axes = [1], keep_dims}
            %c = sub %x, %m
            %e = exp %c
            %s = reduce %e {function = sum, axes = [1], keep_dims}
            %y = div %e, %s
            return %y
        }";
    let kernel = check(text, ROWS);
    assert_eq!((kernel.outer().len(), class_of(text)), (1, Class::Row));
    // The exponentials are an array: the sum and the quotient both read it.
    let arrays = |kernel: &Kernel| {
        let stages = kernel.stages().values();
        stages.filter(|stage| !stage.axes.is_empty()).count()
    };
    assert_eq!((kernel.stages().len(), arrays(&kernel)), (3, 1));
}

#[test]
fn costly_values_of_several_loops_are_computed_once() {
    // Of two costly values the later one becomes an array, which leaves the other a single reader.
    let kernel = check(
        "graph @g(%x: f32[B, N]) -> f32[B, N] {
            %e = exp %x
            %l = log1p %e
            %s = reduce %l {function = sum, axes = [1], keep_dims}
            %y = mul %l, %s
            return %y
        }",
        ROWS,
    );
    let text = kiln_kernel::text::print(&kernel);
    assert_eq!(
        (text.matches("exp(").count(), text.matches("log1p(").count()),
        (1, 1),
        "{text}"
    );
    // An array whose elements are computed by separate stages.
    check(
        "graph @g(%x: f32[B, N]) -> f32[B, 5] where N >= 1 {
            %r = resize %x {axes = [1], sizes = [5], scales = [0.0], mode = linear, coordinates = pytorch_half_pixel, rounding = floor, cubic_coefficient = -0.75, exclude_outside}
            %m = reduce %r {function = max, axes = [1], keep_dims}
            %y = sub %r, %m
            return %y
        }",
        &[&[("B", 2), ("N", 3)], &[("B", 1), ("N", 1)], &[("B", 3), ("N", 7)]],
    );
    // Recomputing sums and products is cheaper than memory accesses.
    let kernel = check(
        "graph @g(%x: f32[B, N], %m: f32[B, 1]) -> f32[B, N] {
            %c = sub %x, %m
            %s = reduce %c {function = sum, axes = [1], keep_dims}
            %y = mul %c, %s
            return %y
        }",
        ROWS,
    );
    assert!(kernel.stages().values().all(|stage| stage.axes.is_empty()));
}

#[test]
fn log_softmax_along_the_first_axis() {
    let kernel = check(
        "graph @g(%x: f32[B, N]) -> f32[B, N] {
            %m = reduce %x {function = max, axes = [0], keep_dims}
            %c = sub %x, %m
            %e = exp %c
            %s = reduce %e {function = sum, axes = [0], keep_dims}
            %l = log %s
            %y = sub %c, %l
            return %y
        }",
        ROWS,
    );
    assert_eq!(kernel.outer().len(), 1);
}

const LAYER_NORM: &str =
    "graph @g(%x: f32[B, N, 8], %r: f32[B, N, 8], %g: f32[8], %b: f32[8]) -> f32[B, N, 8] {
            %eps: f32[] = constant [0.00001]
            %a = add %x, %r
            %m = reduce %a {function = mean, axes = [2], keep_dims}
            %c = sub %a, %m
            %q = mul %c, %c
            %v = reduce %q {function = mean, axes = [2], keep_dims}
            %w = add %v, %eps
            %i = rsqrt %w
            %n = mul %c, %i
            %s = mul %n, %g
            %y = add %s, %b
            return %y
        }";

#[test]
fn normalizations_are_row_kernels() {
    let kernel = check(LAYER_NORM, ROWS);
    assert_eq!((kernel.outer().len(), kernel.stages().len()), (2, 2));
    assert_eq!(kernel.classification().class, Class::Row);
    let rms = check(
        "graph @g(%x: f32[B, N], %g: f32[N]) -> f32[B, N] {
            %q = mul %x, %x
            %v = reduce %q {function = mean, axes = [1], keep_dims}
            %i = rsqrt %v
            %n = mul %x, %i
            %y = mul %n, %g
            return %y
        }",
        &[&[("B", 2), ("N", 5)]],
    );
    assert_eq!(rms.classification().class, Class::Row);
}

#[test]
fn a_row_kernel_may_also_output_its_reduction() {
    let kernel = check(
        "graph @g(%x: f32[B, N]) -> (f32[B], f32[B, N]) {
            %m = reduce %x {function = max, axes = [1], keep_dims}
            %c = sub %x, %m
            %r = reshape %m {dims = [B]}
            return %r, %c
        }",
        ROWS,
    );
    assert_eq!((kernel.outer().len(), kernel.stages().len()), (1, 1));
}

#[test]
fn products_take_epilogues_without_index_divisions() {
    let text =
        "graph @g(%x: f32[B, N, 6], %w: f32[6, 8], %b: f32[8], %r: f32[B, N, 8]) -> f32[B, N, 8] {
            %f = reshape %x {dims = [B*N, 6]}
            %p = matmul %f, %w
            %q = reshape %p {dims = [B, N, 8]}
            %a = add %q, %b
            %g = gelu %a
            %y = add %g, %r
            return %y
        }";
    let kernel = check(text, ROWS);
    assert_eq!(kernel.classification().class, Class::Contraction);
    let printed = kiln_kernel::text::print(&kernel);
    assert!(
        !printed.contains(" / ") && !printed.contains("mod"),
        "{printed}"
    );
}

#[test]
fn a_product_normalised_along_its_rows() {
    let kernel = check(
        "graph @g(%x: f32[B, 6], %w: f32[6, N]) -> f32[B, N] {
            %p = matmul %x, %w
            %m = reduce %p {function = max, axes = [1], keep_dims}
            %y = sub %p, %m
            return %y
        }",
        ROWS,
    );
    assert_eq!((kernel.outer().len(), kernel.stages().len()), (1, 2));
}

const ATTENTION: &str = "graph @g(%q: f32[B, S, 6], %k: f32[B, S, 6], %v: f32[B, S, 6], %m: f32[B, 1, 1, S]) -> f32[B, S, 6] {
            %scale: f32[] = constant [0.5]
            %q1 = reshape %q {dims = [B, S, 2, 3]}
            %q2 = transpose %q1 {permutation = [0, 2, 1, 3]}
            %k1 = reshape %k {dims = [B, S, 2, 3]}
            %k2 = transpose %k1 {permutation = [0, 2, 3, 1]}
            %v1 = reshape %v {dims = [B, S, 2, 3]}
            %v2 = transpose %v1 {permutation = [0, 2, 1, 3]}
            %s = matmul %q2, %k2
            %t = mul %s, %scale
            %a = add %t, %m
            %x = reduce %a {function = max, axes = [3], keep_dims}
            %c = sub %a, %x
            %e = exp %c
            %l = reduce %e {function = sum, axes = [3], keep_dims}
            %p = div %e, %l
            %o = matmul %p, %v2
            %o1 = transpose %o {permutation = [0, 2, 1, 3]}
            %y = reshape %o1 {dims = [B, S, 6]}
            return %y
        }";

#[test]
fn attention_is_one_kernel() {
    let kernel = check(
        ATTENTION,
        &[
            &[("B", 0), ("S", 3)],
            &[("B", 1), ("S", 0)],
            &[("B", 2), ("S", 1)],
            &[("B", 2), ("S", 5)],
        ],
    );
    assert_eq!(kernel.classification().class, Class::Attention);
    assert_eq!(kernel.outer().len(), 3);
    // The exponentials are summed; the result is divided by their sum.
    let text = kiln_kernel::text::print(&kernel);
    let divided: Vec<&str> = text.lines().filter(|line| line.contains(" / ")).collect();
    assert!(
        matches!(divided.as_slice(), [line] if line.trim_start().starts_with("store")),
        "{text}"
    );
}

/// Scores are read for their maximum and for the exponentials, so the array holds the scaled and masked scores.
#[test]
fn values_derived_from_a_local_array_are_kept_if_read_twice() {
    let attention = |score: &str| {
        let text = format!(
            "graph @g(%q: f32[B, N, 4], %k: f32[B, 4, N], %v: f32[B, N, 3], %mask: f32[B, 1, N]) -> f32[B, N, 3] {{
               %c: f32[] = constant [0.5]
               %p = matmul %q, %k
               {score}
               %m = reduce %s {{function = max, axes = [2], keep_dims}}
               %d = sub %s, %m
               %e = exp %d
               %z = reduce %e {{function = sum, axes = [2], keep_dims}}
               %w = div %e, %z
               %y = matmul %w, %v
               return %y
             }}"
        );
        kiln_kernel::text::print(&check(&text, ROWS))
    };
    let masked = attention("%t = mul %p, %c\n %s = add %t, %mask");
    // The mask is added once, for both readers.
    assert_eq!(masked.matches("* 0.5 + ").count(), 1, "{masked}");
    // A product is cheaper to recompute than to read and write.
    let scaled = attention("%s = mul %p, %c");
    assert_eq!(scaled.matches("* 0.5").count(), 2, "{scaled}");
}

/// A quotient by something other than the sum of exponentials is unchanged.
#[test]
fn only_softmax_quotients_are_divided_after_the_product() {
    for (whole, dtype) in [("sum", "f16"), ("max", "f32")] {
        let text = format!(
            "graph @g(%s: {dtype}[B, 5], %v: {dtype}[5, 3]) -> {dtype}[B, 3] {{
                %e = exp %s
                %l = reduce %e {{function = {whole}, axes = [1], keep_dims}}
                %p = div %e, %l
                %o = matmul %p, %v
                return %o
            }}"
        );
        let kernel = check(&text, &[&[("B", 1)], &[("B", 4)]]);
        let text = kiln_kernel::text::print(&kernel);
        let store = text
            .lines()
            .find(|line| line.trim_start().starts_with("store"));
        assert!(store.is_some_and(|line| !line.contains(" / ")), "{text}");
    }
}

#[test]
fn a_convolution_takes_norm_and_activation_epilogues() {
    let text = "graph @g(%x: f32[B, 2, H, W], %w: f32[4, 2, 3, 3], %s: f32[4, 1, 1], %b: f32[4, 1, 1], %r: f32[B, 4, H, W], %e: f32[B, 4, 1, 1]) -> f32[B, 4, H, W] {
            %c = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1, out = f32}
            %0 = mul %c, %s
            %1 = add %0, %b
            %2 = hard_swish %1
            %3 = mul %2, %e
            %4 = add %3, %r
            return %4
        }";
    let kernel = check(
        text,
        &[
            &[("B", 1), ("H", 3), ("W", 4)],
            &[("B", 2), ("H", 1), ("W", 1)],
        ],
    );
    assert_eq!(kernel.classification().class, Class::Window);
}

#[test]
fn prologues_of_convolutions_are_guarded() {
    check(
        "graph @g(%x: f32[B, 2, N], %w: f32[4, 2, 3]) -> f32[B, 4, N] {
            %one: f32[] = constant [1.0]
            %p = add %x, %one
            %c = conv %p, %w {strides = [1], dilations = [1], low = [1], high = [1], groups = 1, out = f32}
            return %c
        }",
        ROWS,
    );
}

#[test]
fn a_global_mean_scales_its_operand() {
    let kernel = check(
        "graph @g(%x: f32[B, 3, N, 2]) -> f32[B, 3, N, 2] {
            %m = reduce %x {function = mean, axes = [2, 3], keep_dims}
            %s = sigmoid %m
            %y = mul %x, %s
            return %y
        }",
        ROWS,
    );
    assert_eq!(kernel.outer().len(), 2);
}
