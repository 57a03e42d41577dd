//! Functions, casts and sources.

use super::{Case, check, refused};
use insta::assert_snapshot;

const SIZES: &[Case<'_>] = &[
    &[("B", 0), ("N", 3)],
    &[("B", 1), ("N", 1)],
    &[("B", 2), ("N", 7)],
];

#[test]
fn elementwise_ops_broadcast_their_operands() {
    check(
        "graph @g(%x: f32[B, N], %y: f32[N], %z: f32[B, 1], %s: f32[]) -> f32[B, N] {
            %0 = add %x, %y
            %1 = mul %0, %z
            %2 = gelu %1
            %3 = sub %2, %s
            return %3
        }",
        SIZES,
    );
}

#[test]
fn broadcast_sizes_assume_the_plan_fact() {
    let text = "graph @g(%x: f32[B], %y: f32[N]) -> f32[bcast(B, N)] {
            %0 = add %x, %y
            return %0
        }";
    // These assume the plan fact `B == N`.
    check(text, &[&[("B", 0), ("N", 0)], &[("B", 3), ("N", 3)]]);
}

#[test]
fn elementwise_kernels_mix_dtypes() {
    check(
        "graph @g(%x: f16[N], %i: i32[N], %b: bool[N]) -> (f16[N], i64[N], u8[N], f16[N]) {
            %0 = exp %x
            %1 = cast %i {to = f16}
            %2 = add %0, %1
            %3 = cast %2 {to = i64}
            %4 = cast %b {to = u8}
            %5 = select %b, %x, %2
            return %2, %3, %4, %5
        }",
        &[&[("N", 0)], &[("N", 1)], &[("N", 5)]],
    );
}

#[test]
fn a_cast_to_half_precision_rounds_though_no_half_is_stored() {
    for half in ["f16", "bf16"] {
        let text = format!(
            "graph @g(%x: f32[N], %i: i32[N]) -> (f32[N], f32[N]) {{
                %0 = cast %x {{to = {half}}}
                %1 = cast %0 {{to = f32}}
                %2 = sub %x, %1
                %3: f32[] = constant [16384.0]
                %4 = mul %2, %3
                %5 = cast %i {{to = {half}}}
                %6 = cast %5 {{to = f32}}
                return %4, %6
            }}"
        );
        check(&text, &[&[("N", 1)], &[("N", 5)]]);
    }
}

#[test]
fn constants_are_literals_or_buffers() {
    let kernel = check(
        "graph @g(%x: f32[N, 3]) -> f32[N, 3] {
            %0: f32[] = constant [2.0]
            %1: f32[3] = constant [1.0, 1.0, 1.0]
            %2: f32[3] = constant [1.0, 2.0, 3.0]
            %3 = mul %x, %0
            %4 = add %3, %1
            %5 = add %4, %2
            return %5
        }",
        &[&[("N", 2)]],
    );
    assert_eq!(kernel.buffers().len(), 3);
}

#[test]
fn kernels_that_differ_only_in_learned_constants_are_equal() {
    let kernel = |scale: &str, shift: &str| {
        let graph = "graph @g(%x: f32[N, 3]) -> f32[N, 3] {
            %0: f32[] = constant [SCALE]
            %1: f32[1] = constant [SHIFT]
            %2 = mul %x, %0
            %3 = add %2, %1
            return %3
        }";
        let graph = graph.replace("SCALE", scale).replace("SHIFT", shift);
        let kernel = check(&graph, &[&[("N", 0)], &[("N", 1)], &[("N", 5)]]);
        kiln_kernel::text::print(&kernel)
    };
    let learned = kernel("1.0387241", "-0.27154672");
    assert_eq!(learned, kernel("0.71203816", "0.082517736"));
    assert!(!learned.contains("1.038"), "{learned}");
    // A number with few digits is not taken for a learned one, and stays a literal.
    assert_ne!(kernel("0.5", "3.0"), kernel("0.25", "3.0"));
}

#[test]
fn iota_and_dims_need_no_input_buffer() {
    check(
        "graph @g(%x: f32[B, N]) -> (f32[B, N], i64[2], i8[B, 300]) {
            %0 = iota {dims = [B, N], axis = 1, dtype = f32}
            %1 = add %x, %0
            return %1, %1, %1
        }"
        .replace("-> (f32[B, N], i64[2], i8[B, 300])", "-> f32[B, N]")
        .replace("return %1, %1, %1", "return %1")
        .as_str(),
        SIZES,
    );
    check(
        "graph @g(%x: f32[B, N]) -> i64[3] {
            %0 = dims {sizes = [B, N, 2*B + 1]}
            return %0
        }",
        SIZES,
    );
    check(
        "graph @g(%x: f32[B]) -> i8[B, 300] {
            %0 = iota {dims = [B, 300], axis = 1, dtype = i8}
            return %0
        }",
        &[&[("B", 2)]],
    );
}

#[test]
fn outputs_of_one_kernel_share_one_domain() {
    check(
        "graph @g(%x: f32[B, N]) -> (f32[B, N], f32[B, N]) {
            %0 = exp %x
            %1 = neg %0
            return %0, %1
        }",
        SIZES,
    );
    assert_eq!(
        refused(
            "graph @g(%x: f32[B], %y: f32[N]) -> (f32[B], f32[N]) {
                %0 = exp %x
                %1 = exp %y
                return %0, %1
            }"
        ),
        "E0403 expected outputs over the same points, found %2 over [B] and %3 over [N]"
    );
}

#[test]
fn random_bits_lower_at_every_shape() {
    let text = "graph @g(%k: u64[2], %x: f32[B, N]) -> u32[B, 3, N] {
            %0 = random_bits %k {dims = [B, 3, N]}
            return %0
        }";
    check(text, SIZES);
    for dims in ["[]", "[1, 5, 1]"] {
        let text = format!(
            "graph @g(%k: u64[2]) -> u32{dims} {{
                %0 = random_bits %k {{dims = {dims}}}
                return %0
            }}"
        );
        check(&text, &[&[]]);
    }
}

#[test]
fn random_bits_fuse_into_their_readers() {
    // Random bits that are transposed, padded, reduced, and have a computed key.
    check(
        "graph @g(%k: u64[2], %s: u64[], %x: f32[N, B]) -> (f32[N, B], f32[B]) {
            %seeds = add %k, %s
            %bits = random_bits %seeds {dims = [B, N]}
            %turned = transpose %bits {permutation = [1, 0]}
            %numbers = cast %turned {to = f32}
            %0 = mul %x, %numbers
            %1 = reduce %0 {function = sum, axes = [0]}
            return %0, %1
        }",
        SIZES,
    );
    check(
        "graph @g(%k: u64[2], %x: f32[B, N]) -> u32[B + 3, N] {
            %zero: u32[] = constant [0]
            %bits = random_bits %k {dims = [B, N]}
            %0 = pad %bits, %zero {low = [1, 0], high = [2, 0], mode = constant}
            return %0
        }",
        SIZES,
    );
}

#[test]
fn random_bits_are_one_call_on_the_position() {
    let kernel = check(
        "graph @g(%k: u64[2], %x: f32[B, N]) -> u32[B, N] {
            %0 = random_bits %k {dims = [B, N]}
            return %0
        }",
        &[],
    );
    assert_snapshot!(kiln_kernel::text::print(&kernel), @"
    kernel @test(%v0: in u64[2], %v2: out u32[B, N]) {
      outer i0 < B, i1 < N
      store %v2[i0, i1] = philox_4x32_10(u64(i0 * N + i1), %v0[0], %v0[1])
    }
    ");
}
