//! Broadcasting, and the dtypes of scalar functions.

use super::types;
use insta::assert_snapshot;

#[test]
fn operands_broadcast_from_the_innermost_axis() {
    assert_snapshot!(
        types(
            "%x: f32[B, S, 384], %b: f32[384], %s: f32[], %c: f32[B, 1, 1]",
            "%y = add %x, %b\n%z = mul %s, %y\n%w = sub %c, %z\n%v = add %b, %c",
        ),
        @"
    y: f32[B, S, 384]
    z: f32[B, S, 384]
    w: f32[B, S, 384]
    v: f32[B, 1, 384]
    "
    );
}

#[test]
fn sizes_not_proved_equal_become_expected_facts() {
    assert_snapshot!(types("%x: f32[a, 8], %y: f32[b, n]", "%z = add %x, %y\n%w = mul %z, %y"), @"
    z: f32[bcast(a, b), 8]
    w: f32[bcast(a, b), 8]
    plan a == b by add (%2)
    plan 8 == n by add (%2)
    ");
}

#[test]
fn zero_and_one_broadcast() {
    assert_snapshot!(types("%x: f32[0, 1], %y: f32[1, 0]", "%z = add %x, %y\n%w = mul %z, %z"), @"
    z: f32[0, 0]
    w: f32[0, 0]
    ");
}

#[test]
fn selections_take_a_condition_and_two_branches() {
    assert_snapshot!(types("%c: bool[B, 1], %x: f16[N], %y: f16[]", "%z = select %c, %x, %y\n%w = eq %z, %y"), @"
    z: f16[B, N]
    w: bool[B, N]
    ");
}

#[test]
fn casts_keep_sizes() {
    assert_snapshot!(types("%x: i32[B, 0]", "%y = cast %x {to = f64}"), @"y: f64[B, 0]");
}

#[test]
fn sizes_that_never_broadcast_are_named_with_both_shapes() {
    assert_snapshot!(types("%x: f32[B, 3], %y: f32[4]", "%z = add %x, %y from \"block/Add_3\""), @"[E0112] add (block/Add_3): cannot broadcast %x: f32[B, 3] with %y: f32[4]: expected sizes that are equal or 1, found 3 and 4 [E0330]");
    assert_snapshot!(types("%x: f32[0], %y: f32[2]", "%z = add %x, %y"), @"[E0112] add (%2): cannot broadcast %x: f32[0] with %y: f32[2]: expected sizes that are equal or 1, found 0 and 2 [E0330]");
}

#[test]
fn dtypes_are_not_promoted() {
    assert_snapshot!(types("%x: f32[B], %y: f64[B]", "%z = add %x, %y"), @"[E0112] add (%2): operand 0: expected operands of add (`add` expects two numbers of one dtype, found f32, f64: convert with `cast`), found %x: f32[B], %y: f64[B] [E0332]");
    assert_snapshot!(types("%x: i32[B]", "%z = gelu %x"), @"[E0112] gelu (%1): operand 0: expected operands of gelu (i32 cannot represent the number 0.7071067811865476: use a float dtype, or another parameter), found %x: i32[B] [E0332]");
    assert_snapshot!(types("%x: i32[B]", "%z = add %x"), @"[E0112] add (%1): operand 1: expected 2 operands, found 1 [E0332]");
}
