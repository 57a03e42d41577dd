//! Reductions, and ops whose sizes depend on data.

use super::types;
use insta::assert_snapshot;

#[test]
fn reductions_drop_or_keep_axes() {
    assert_snapshot!(
        types(
            "%x: f32[B, S, 384]",
            "%a = reduce %x {function = mean, axes = [2], keep_dims}\n%b = reduce %x {function = sum, axes = [0, 2]}\n%c = reduce %x {function = max, axes = []}\n%d = reduce %x {function = min, axes = [0, 1, 2]}",
        ),
        @"
    a: f32[B, S, 1]
    b: f32[S]
    c: f32[B, S, 384]
    d: f32[]
    "
    );
    assert_snapshot!(types("%x: f32[B, S]", "%a = reduce %x {function = sum, axes = [2]}"), @"[E0112] reduce (%1): attribute axes: expected an axis below the rank, 2, found 2 [E0333]");
    assert_snapshot!(types("%x: f32[B, S]", "%a = reduce %x {function = sum, axes = [1, 0]}"), @"[E0112] reduce (%1): attribute axes: expected ascending axes, found [1, 0] [E0333]");
}

#[test]
fn arg_reductions_give_i64_and_running_ones_keep_the_type() {
    assert_snapshot!(
        types(
            "%x: f32[B, S]",
            "%a = arg_reduce %x {extremum = max, axis = 1}\n%b = arg_reduce %x {extremum = min, axis = 0, keep_dims, last}\n%c = cumulate %x {function = sum, axis = 1, exclusive}",
        ),
        @"
    a: i64[B]
    b: i64[1, S]
    c: f32[B, S]
    "
    );
    assert_snapshot!(types("%x: f32[B, S]", "%a = arg_reduce %x {extremum = max, axis = 2}"), @"[E0112] arg_reduce (%1): attribute axis: expected an axis below the rank, 2, found 2 [E0333]");
}

#[test]
fn source_ops_state_their_sizes() {
    assert_snapshot!(
        types(
            "%k: u64[2], %x: f32[B, 2]",
            "%a = iota {dims = [B, 4], axis = 1, dtype = i32}\n%b = dims {sizes = [B, 4, B * 2]}\n%c = random_bits %k {dims = [B, B]}\n%d: f32[2] = constant [1.0, 2.0]",
        ),
        @"
    a: i32[B, 4]
    b: i64[3]
    c: u32[B, B]
    d: f32[2]
    "
    );
    assert_snapshot!(types("%k: u64[3]", "%c = random_bits %k {dims = [4]}"), @"[E0112] random_bits (%1): type of the key: expected u64[2], found u64[3] [E0336]");
    assert_snapshot!(types("", "%a = iota {dims = [-1], axis = 0, dtype = i32}"), @"[E0112] iota (%0): size 0 is negative: expected at least 0, found -1 [E0334]");
    assert_snapshot!(types("", "%a = iota {dims = [1], axis = 1, dtype = i32}"), @"[E0112] iota (%0): attribute axis: expected an axis below the rank, 1, found 1 [E0333]");
}

#[test]
fn data_become_sizes() {
    assert_snapshot!(
        types(
            "%x: f32[B, 8], %s: i64[2]",
            "%v, %i = top_k %x {k = 3, axis = 1, extremum = max}\n%z, %c = non_zero %x\nbind %c -> (n)\nbind %s -> (h, w)\n%y = slice %z {starts = [0, 0], sizes = [2, n], steps = [1, 1]}\n%r = iota {dims = [h, w], axis = 0, dtype = f32}",
        ),
        @"
    v: f32[B, 3]
    i: i64[B, 3]
    z: i64[2, 8*B]
    c: i64[]
    y: i64[2, n]
    r: f32[h, w]
    "
    );
    assert_snapshot!(types("%x: f32[B, 2]", "%v, %i = top_k %x {k = 3, axis = 1, extremum = max}"), @"[E0112] top_k (%1): k of %x: f32[B, 2] is out of bounds: expected at most 2, found 3 [E0339]");
    assert_snapshot!(types("%s: i64[3]", "bind %s -> (h, w)"), @"[E0112] bind (%1): operand 0: expected an integer for each of 2 symbols, found %s: i64[3] [E0332]");
    assert_snapshot!(types("%s: f32[1]", "bind %s -> (h)"), @"[E0112] bind (%1): operand 0: expected an integer for each of 1 symbols, found %s: f32[1] [E0332]");
}
