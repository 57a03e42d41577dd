//! Reshape, broadcast, transpose, slice, pad, concat.

use super::types;
use insta::assert_snapshot;

#[test]
fn reshapes_keep_the_number_of_elements() {
    assert_snapshot!(
        types(
            "%x: f32[B, S, 384], %n: f32[N]",
            "%y = reshape %x {dims = [B, S, 12, 32]}\n%z = reshape %y {dims = [B * S, 384]}\n%w = reshape %x {dims = [N, 384]}",
        ),
        @"
    y: f32[B, S, 12, 32]
    z: f32[B*S, 384]
    w: f32[N, 384]
    requires product(B, S, 384) == product(N, 384) by reshape (%4): number of elements
    "
    );
    assert_snapshot!(types("%x: f32[0, N], %m: f32[M]", "%y = reshape %x {dims = [0]}\n%z = reshape %x {dims = [M, 0]}"), @"
    y: f32[0]
    z: f32[M, 0]
    ");
    assert_snapshot!(types("%x: f32[]", "%y = reshape %x {dims = [1, 1]}\n%z = reshape %y {dims = []}"), @"
    y: f32[1, 1]
    z: f32[]
    ");
}

#[test]
fn reshapes_that_never_fit_are_errors() {
    assert_snapshot!(types("%x: f32[2, 3]", "%y = reshape %x {dims = [7]}"), @"[E0112] reshape (%1): cannot reshape %x: f32[2, 3] to [7]: expected 6 elements, found 7 [E0335]");
    assert_snapshot!(types("%x: f32[B, 4]", "%y = reshape %x {dims = [B, 5]}"), @"
    y: f32[B, 5]
    requires product(B, 4) == product(B, 5) by reshape (%1): number of elements
    ");
    assert_snapshot!(types("%x: f32[2, 3]", "%y = reshape %x {dims = [-2, -3]}"), @"[E0112] reshape (%1): size 0 is negative: expected at least 0, found -2 [E0334]");
}

#[test]
fn broadcasts_take_the_stated_sizes() {
    assert_snapshot!(types("%x: f32[S, 1], %s: f32[B, T, N]", "%y = broadcast %x {dims = [B, S, N]}\n%z = broadcast %y {dims = [B, T, N]}"), @"
    y: f32[B, S, N]
    z: f32[B, T, N]
    plan S == T by broadcast (%3)
    ");
    assert_snapshot!(types("%x: f32[3]", "%y = broadcast %x {dims = [4]}"), @"[E0112] broadcast (%1): cannot broadcast %x: f32[3] with [4]: expected sizes that are equal or 1, found 3 and 4 [E0330]");
    assert_snapshot!(types("%x: f32[3, 1]", "%y = broadcast %x {dims = [4]}"), @"[E0112] broadcast (%1): attribute dims: expected at least 2 sizes, found 1 [E0333]");
}

#[test]
fn transposes_reorder() {
    assert_snapshot!(types("%x: f32[B, S, 12, 32]", "%y = transpose %x {permutation = [0, 2, 3, 1]}"), @"y: f32[B, 12, 32, S]");
    assert_snapshot!(types("%x: f32[B, S]", "%y = transpose %x {permutation = [0, 0]}"), @"[E0112] transpose (%1): attribute permutation: expected each of 2 axes once, found [0, 0] [E0333]");
}

#[test]
fn slices_have_the_stated_sizes() {
    assert_snapshot!(types("%x: f32[B, S]", "%y = slice %x {starts = [0, S - 1], sizes = [B, S], steps = [1, -1]}"), @"y: f32[B, S]");
    assert_snapshot!(types("%x: f32[8]", "%y = slice %x {starts = [0], sizes = [3], steps = [3]}"), @"y: f32[3]");
}

#[test]
fn slices_that_are_always_out_of_bounds_are_errors() {
    assert_snapshot!(types("%x: f32[8]", "%y = slice %x {starts = [0], sizes = [4], steps = [3]}"), @"[E0112] slice (%1): the last index on axis 0 of %x: f32[8] is out of bounds: expected an index in [0, 8), found 9 [E0339]");
    assert_snapshot!(types("%x: f32[8]", "%y = slice %x {starts = [-1], sizes = [1], steps = [1]}"), @"[E0112] slice (%1): the first index on axis 0 of %x: f32[8] is out of bounds: expected an index in [0, 8), found -1 [E0339]");
    assert_snapshot!(types("%x: f32[B]", "%y = slice %x {starts = [B], sizes = [1], steps = [1]}"), @"[E0112] slice (%1): the first index on axis 0 of %x: f32[B] is out of bounds: expected an index in [0, B), found B [E0339]");
    assert_snapshot!(types("%x: f32[B]", "%y = slice %x {starts = [0], sizes = [-1], steps = [1]}"), @"[E0112] slice (%1): size 0 is negative: expected at least 0, found -1 [E0334]");
    assert_snapshot!(types("%x: f32[B]", "%y = slice %x {starts = [0], sizes = [1], steps = [0]}"), @"[E0112] slice (%1): attribute steps: expected steps that are not 0, found 0 [E0333]");
    assert_snapshot!(types("%x: f32[B]", "%y = slice %x {starts = [0, 0], sizes = [1], steps = [1]}"), @"[E0112] slice (%1): attribute starts: expected 1 entries, found 2 [E0333]");
}

#[test]
fn pads_add_both_sides() {
    assert_snapshot!(
        types("%x: f32[B, H], %v: f32[], %s: f32[p]", "%y = pad %x, %v {low = [0, 1], high = [p, 2], mode = constant}"),
        @"y: f32[B + p, H + 3]"
    );
    assert_snapshot!(types("%x: f32[B], %v: f32[]", "%y = pad %x, %v {low = [-1], high = [0], mode = edge}"), @"[E0112] pad (%2): the padding before axis 0 is negative: expected at least 0, found -1 [E0334]");
    assert_snapshot!(types("%x: f32[B], %v: f32[1]", "%y = pad %x, %v {low = [0], high = [0], mode = edge}"), @"[E0112] pad (%2): operand 1: expected a scalar, found %v: f32[1] [E0332]");
    assert_snapshot!(types("%x: f32[B], %v: f64[]", "%y = pad %x, %v {low = [0], high = [0], mode = constant}"), @"[E0112] pad (%2): operand 1: expected a tensor of f32, as operand 0, found a tensor of f64 [E0332]");
}

#[test]
fn concats_add_up_one_axis_and_equate_the_others() {
    assert_snapshot!(
        types("%x: f32[B, S, 8], %y: f32[B, T, 8], %z: f32[A, 1, 8]", "%w = concat %x, %y, %z {axis = 1} from \"cat\""),
        @"
    w: f32[B, S + T + 1, 8]
    requires B == A by concat (cat): sizes of axis 0
    "
    );
    assert_snapshot!(types("%x: f32[n, 2], %y: f32[5, 3]", "%w = concat %x, %y {axis = 1}"), @"
    w: f32[5, 5]
    requires n == 5 by concat (%2): sizes of axis 0
    ");
    assert_snapshot!(types("%x: f32[B, 8], %y: f32[B, 9]", "%w = concat %x, %y {axis = 0}"), @"[E0112] concat (%2): sizes of axis 1 of %x: f32[B, 8] and %y: f32[B, 9] differ: expected 8, found 9 [E0331]");
    assert_snapshot!(types("%x: f32[B, 8], %y: f32[B]", "%w = concat %x, %y {axis = 0}"), @"[E0112] concat (%2): operand 1: expected a tensor of rank 2, as operand 0, found %y: f32[B] [E0332]");
    assert_snapshot!(types("%x: f32[B, 8], %y: f32[B, 8]", "%w = concat %x, %y {axis = 2}"), @"[E0112] concat (%2): attribute axis: expected an axis below the rank, 2, found 2 [E0333]");
}
