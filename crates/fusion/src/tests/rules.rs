//! What a rule is worth. What rules make one kernel is in files (`testkit/testdata/fusion`).

#[test]
fn matmul_bias_relu_moves_a_third_of_the_intermediate_bytes() {
    let (_, plan) = super::planned(
        "graph @main(%x: f32[512, 64], %w: f32[64, 512], %b: f32[512]) {
        %1 = matmul %x, %w
        %2 = add %1, %b
        %3 = relu %2
        return %3
    }",
    );
    let node = plan.nodes().next().unwrap();
    // Apart, the product and the sum are written and read, and the result is written: five times the tensor.
    let tensor = 512 * 512 * 4;
    assert_eq!(node.benefit.bytes_saved, 4 * tensor);
    let between = node.benefit.bytes_saved + tensor;
    assert!(between >= 3 * tensor);
}

#[test]
fn convolution_takes_its_norm_activation_residual_and_gate() {
    // A norm whose scale and shift are inputs: nothing could be folded into the weights.
    assert_snapshot!(nodes("graph @main(%x: f32[N, 8, H, W], %w: f32[16, 8, 3, 3], %scale: f32[16, 1, 1], %shift: f32[16, 1, 1], %r: f32[N, 16, H, W], %gate: f32[N, 16, 1, 1]) {
        %1 = conv %x, %w {strides = [1, 1], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 1}
        %2 = mul %1, %scale
        %3 = add %2, %shift
        %4 = hard_swish %3
        %5 = mul %4, %gate
        %6 = add %5, %r
        return %6
    }"), @"conv_mul_add_hard_swish_2_more (window)");
    assert_snapshot!(nodes("graph @main(%x: f32[2, 4, 10, 10], %w: f32[4, 1, 3, 3]) {
        %1 = conv %x, %w {strides = [2, 2], dilations = [1, 1], low = [1, 1], high = [1, 1], groups = 4}
        %2 = relu %1
        return %2
    }"), @"conv_relu (window)");
}

#[test]
fn reductions_take_prologues_and_epilogues() {
    assert_snapshot!(nodes("graph @main(%x: f32[A, B]) {
        %1 = square %x
        %2 = reduce %1 {function = mean, axes = [1]}
        %3 = sqrt %2
        return %3
    }"), @"square_norm (row)");
}

#[test]
fn softmax_and_norms_are_one_row_each() {
    assert_snapshot!(nodes("graph @main(%x: f32[A, B]) {
        %1 = reduce %x {function = max, axes = [1], keep_dims}
        %2 = sub %x, %1
        %3 = exp %2
        %4 = reduce %3 {function = sum, axes = [1], keep_dims}
        %5 = div %3, %4
        return %5
    }"), @"softmax (row)");
    assert_snapshot!(nodes("graph @main(%x: f32[A, B]) {
        %1 = reduce %x {function = max, axes = [1], keep_dims}
        %2 = sub %x, %1
        %3 = exp %2
        %4 = reduce %3 {function = sum, axes = [1], keep_dims}
        %5 = log %4
        %6 = sub %2, %5
        return %6
    }"), @"log_softmax (row)");
    assert_snapshot!(nodes("graph @main(%x: f32[A, S, 384], %r: f32[A, S, 384], %g: f32[384], %b: f32[384], %e: f32[]) {
        %0 = add %x, %r
        %1 = reduce %0 {function = mean, axes = [2], keep_dims}
        %2 = sub %0, %1
        %3 = square %2
        %4 = reduce %3 {function = mean, axes = [2], keep_dims}
        %5 = add %4, %e
        %6 = rsqrt %5
        %7 = mul %2, %6
        %8 = mul %7, %g
        %9 = add %8, %b
        return %0, %9
    }"), @"add_norm (row)");
    assert_snapshot!(nodes("graph @main(%x: f32[N, C, H, W], %e: f32[]) {
        %1 = reduce %x {function = mean, axes = [2, 3], keep_dims}
        %2 = sub %x, %1
        %3 = square %2
        %4 = reduce %3 {function = mean, axes = [2, 3], keep_dims}
        %5 = add %4, %e
        %6 = rsqrt %5
        %7 = mul %2, %6
        return %7
    }"), @"norm (row)");
}

#[test]
fn data_movement_is_read_in_place() {
    assert_snapshot!(nodes("graph @main(%x: f32[A, B], %y: f32[B, A]) where A >= 1 {
        %1 = transpose %x {permutation = [1, 0]}
        %2 = add %1, %y
        %3 = slice %2 {starts = [0, 0], sizes = [B, 1], steps = [1, 1]}
        %4 = exp %3
        return %4
    }"), @"add_exp (map)");
    assert_snapshot!(nodes("graph @main(%x: f32[A, 8], %y: f32[A, 4]) {
        %1 = relu %x
        %2 = neg %y
        %3 = concat %1, %2 {axis = 1}
        %4 = abs %3
        return %4
    }"), @"relu_neg_concat_abs (map)");
    // A transpose goes into the product, and one with two readers is recomputed by both.
    assert_snapshot!(nodes("graph @main(%x: f32[A, B], %y: f32[A, C], %z: f32[A, D]) {
        %1 = transpose %x {permutation = [1, 0]}
        %2 = matmul %1, %y
        %3 = matmul %1, %z
        return %2, %3
    }"), @"matmul (contraction); matmul (contraction)");
}

#[test]
fn a_reshape_of_memory_is_a_view() {
    assert_snapshot!(nodes("graph @main(%x: f32[A, 384], %w: f32[384, 384]) {
        %1 = matmul %x, %w
        %2 = reshape %1 {dims = [A, 12, 32]}
        %3 = reduce %2 {function = sum, axes = [2]}
        return %3
    }"), @"matmul (contraction); reshape [view]; reduce (row)");
    // Sizes of 1 come and go without notice.
    assert_snapshot!(nodes("graph @main(%x: f32[A, B]) {
        %1 = exp %x
        %2 = reshape %1 {dims = [A, 1, B]}
        %3 = neg %2
        return %3
    }"), @"exp_neg (map)");
    // Between two maps it is read in place.
    assert_snapshot!(nodes("graph @main(%x: f32[A, 384]) {
        %1 = exp %x
        %2 = reshape %1 {dims = [A, 12, 32]}
        %3 = neg %2
        return %3
    }"), @"exp_neg (map)");
}

#[test]
fn scores_softmax_and_weighted_sum_fuse_into_attention() {
    let attention = |b: &str, s: &str| {
        nodes(&format!("graph @main(%q: f32[{b}, 12, {s}, 32], %k: f32[{b}, 12, {s}, 32], %v: f32[{b}, 12, {s}, 32], %mask: f32[{b}, 1, 1, {s}]) {{
        %c: f32[] = constant [0.17677669]
        %0 = transpose %k {{permutation = [0, 1, 3, 2]}}
        %1 = matmul %q, %0
        %2 = mul %1, %c
        %3 = add %2, %mask
        %4 = reduce %3 {{function = max, axes = [3], keep_dims}}
        %5 = sub %3, %4
        %6 = exp %5
        %7 = reduce %6 {{function = sum, axes = [3], keep_dims}}
        %8 = div %6, %7
        %9 = matmul %8, %v
        %10 = transpose %9 {{permutation = [0, 2, 1, 3]}}
        return %10
    }}"))
    };
    assert_snapshot!(attention("B", "S"), @"attention (attention)");
    assert_snapshot!(attention("2", "16"), @"attention (attention)");
}

#[test]
fn control_flow_and_data_dependent_sizes_get_ordered_nodes() {
    assert_snapshot!(nodes("graph @main(%c: bool[], %x: f32[A]) {
        %1 = exp %x
        %2 = if %c, %1
            region(%a: f32[A]) {
                %n = neg %a
                %m = abs %n
                yield %m
            }
            region(%b: f32[A]) {
                yield %b
            }
        %5 = relu %2
        return %5
    }"), @"exp (map); if [control]; relu (map)");
}

/// The numbers below a threshold, from a key that is data, and the rest of a dropout.
const DROPOUT: &str = "%bits = random_bits %key {dims = [B, S, D]}
        %eight: u32[] = constant [8]
        %whole = shr %bits, %eight
        %numbers = cast %whole {to = f32}
        %step: f32[] = constant [5.9604645e-8]
        %uniform = mul %numbers, %step
        %share: f32[] = constant [0.125]
        %kept = ge %uniform, %share
        %zero: f32[] = constant [0.0]
        %scale: f32[] = constant [1.142857]";

#[test]
fn a_dropout_fuses_with_its_neighbours() {
    let text = format!(
        "graph @main(%x: f32[B, S, D], %b: f32[D], %r: f32[B, S, D], %key: u64[2]) {{
        {DROPOUT}
        %1 = add %x, %b
        %2 = gelu %1
        %3 = select %kept, %2, %zero
        %4 = mul %3, %scale
        %5 = add %4, %r
        return %5
    }}"
    );
    assert_snapshot!(nodes(&text), @"random_bits_shr_cast_mul_6_more (map)");
}

#[test]
fn a_dropout_is_a_reductions_prologue_and_a_contractions_epilogue() {
    let text = format!(
        "graph @main(%x: f32[B, S, D], %key: u64[2]) {{
        {DROPOUT}
        %1 = select %kept, %x, %zero
        %2 = mul %1, %scale
        %3 = reduce %2 {{function = sum, axes = [2]}}
        return %3
    }}"
    );
    assert_snapshot!(nodes(&text), @"random_bits_shr_cast_mul_4_more (row)");
    let text = format!(
        "graph @main(%x: f32[B, S, K], %w: f32[K, D], %key: u64[2]) {{
        {DROPOUT}
        %1 = matmul %x, %w
        %2 = select %kept, %1, %zero
        %3 = mul %2, %scale
        return %3
    }}"
    );
    assert_snapshot!(nodes(&text), @"random_bits_shr_cast_mul_4_more (contraction)");
}

#[test]
fn random_bits_are_computed_once_where_a_contraction_reads_them_often() {
    let text = format!(
        "graph @main(%x: f32[B, S, D], %w: f32[D, N], %key: u64[2]) {{
        {DROPOUT}
        %1 = select %kept, %x, %zero
        %2 = mul %1, %scale
        %3 = matmul %2, %w
        return %3
    }}"
    );
    assert_snapshot!(nodes(&text), @"random_bits_shr_cast_mul_3_more (map); matmul (contraction)");
}

#[test]
fn products_of_one_operand_whose_sums_are_joined_are_one_contraction() {
    // The gates of a cell, in one kernel with the states that they produce.
    assert_snapshot!(nodes("graph @cell(%h: f32[B, 16], %c: f32[B, 16], %x: f32[B, 64], %i: f32[16, 16], %o: f32[16, 16], %f: f32[16, 16], %g: f32[16, 16]) {
      %1 = slice %x {starts = [0, 0], sizes = [B, 16], steps = [1, 1]}
      %2 = slice %x {starts = [0, 16], sizes = [B, 16], steps = [1, 1]}
      %3 = slice %x {starts = [0, 32], sizes = [B, 16], steps = [1, 1]}
      %4 = slice %x {starts = [0, 48], sizes = [B, 16], steps = [1, 1]}
      %5 = matmul %h, %i
      %6 = add %1, %5
      %7 = sigmoid %6
      %8 = matmul %h, %o
      %9 = add %2, %8
      %10 = sigmoid %9
      %11 = matmul %h, %f
      %12 = add %3, %11
      %13 = sigmoid %12
      %14 = matmul %h, %g
      %15 = add %4, %14
      %16 = tanh %15
      %17 = mul %13, %c
      %18 = mul %7, %16
      %19 = add %17, %18
      %20 = tanh %19
      %21 = mul %10, %20
      return %19, %21
    }"), @"matmul_add_sigmoid_matmul_12_more (contraction)");
}

#[test]
fn products_that_are_not_joined_or_of_other_operands_stay_apart() {
    // Nothing reads both.
    assert_snapshot!(nodes("graph @apart(%x: f32[B, 16], %v: f32[16, 16], %w: f32[16, 16]) {
      %1 = matmul %x, %v
      %2 = relu %1
      %3 = matmul %x, %w
      %4 = relu %3
      return %2, %4
    }"), @"matmul_relu (contraction); matmul_relu (contraction)");
    // The left operands differ.
    assert_snapshot!(nodes("graph @others(%x: f32[B, 16], %y: f32[B, 16], %v: f32[16, 16], %w: f32[16, 16]) {
      %1 = matmul %x, %v
      %2 = matmul %y, %w
      %3 = add %1, %2
      return %3
    }"), @"matmul (contraction); matmul_add (contraction)");
    // One product is an operand of the other.
    assert_snapshot!(nodes("graph @chained(%x: f32[B, 16], %v: f32[16, 16]) {
      %1 = matmul %x, %v
      %2 = relu %1
      %3 = matmul %2, %v
      %4 = add %1, %3
      return %4
    }"), @"matmul_relu (contraction); matmul_add (contraction)");
    // Five sums are more than are kept.
    assert_snapshot!(nodes("graph @five(%x: f32[B, 16], %a: f32[16, 16], %b: f32[16, 16], %c: f32[16, 16], %d: f32[16, 16], %e: f32[16, 16]) {
      %1 = matmul %x, %a
      %2 = matmul %x, %b
      %3 = matmul %x, %c
      %4 = matmul %x, %d
      %5 = matmul %x, %e
      %6 = add %1, %2
      %7 = add %3, %4
      %8 = add %6, %7
      %9 = add %8, %5
      return %9
    }"), @"matmul_add (contraction); matmul_add (contraction)");
}
