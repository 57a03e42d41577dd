//! Gathers and scatters.

use super::types;
use insta::assert_snapshot;

#[test]
fn gathers_put_indices_in_place_of_the_axis() {
    assert_snapshot!(
        types("%t: f32[30522, 384], %i: i64[B, S], %j: i32[]", "%x = gather %t, %i {axis = 0}\n%y = gather %t, %j {axis = 1}"),
        @"
    x: f32[B, S, 384]
    y: f32[30522]
    "
    );
    assert_snapshot!(types("%t: f32[V], %i: f32[B]", "%x = gather %t, %i {axis = 0}"), @"[E0112] gather (%2): operand 1: expected a tensor of integers, found %i: f32[B] [E0332]");
    assert_snapshot!(types("%t: f32[V], %i: i32[B]", "%x = gather %t, %i {axis = 1}"), @"[E0112] gather (%2): attribute axis: expected an axis below the rank, 1, found 1 [E0333]");
}

#[test]
fn gathers_of_elements_have_the_sizes_of_the_indices() {
    assert_snapshot!(types("%x: f32[B, 8], %i: i64[C, 3]", "%y = gather_elements %x, %i {axis = 1}"), @"y: f32[C, 3]");
    assert_snapshot!(types("%x: f32[4, 8], %i: i64[5, 3]", "%y = gather_elements %x, %i {axis = 1}"), @"[E0112] gather_elements (%2): size 0 of the indices of %x: f32[4, 8] is out of bounds: expected at most 4, found 5 [E0339]");
    assert_snapshot!(types("%x: f32[4, 8], %i: i64[5]", "%y = gather_elements %x, %i {axis = 1}"), @"[E0112] gather_elements (%2): operand 1: expected a tensor of rank 2, found %i: i64[5] [E0332]");
}

#[test]
fn gather_nd_reads_addresses_from_the_last_axis() {
    assert_snapshot!(
        types(
            "%x: f32[B, C, H, W], %i: i64[N, 2], %j: i64[B, M, 1]",
            "%y = gather_nd %x, %i {batch_axes = 0}\n%z = gather_nd %x, %j {batch_axes = 1}",
        ),
        @"
    y: f32[N, H, W]
    z: f32[B, M, H, W]
    "
    );
    assert_snapshot!(types("%x: f32[B, C], %i: i64[A, 1]", "%y = gather_nd %x, %i {batch_axes = 1}"), @"
    y: f32[A]
    requires B == A by gather_nd (%2): sizes of batch axis 0
    ");
    assert_snapshot!(types("%x: f32[B, C], %i: i64[A, k]", "%y = gather_nd %x, %i {batch_axes = 0}"), @"[E0112] gather_nd (%2): operand 1: expected indices whose innermost size is known, found %i: i64[A, k] [E0332]");
    assert_snapshot!(types("%x: f32[B], %i: i64[A, 2]", "%y = gather_nd %x, %i {batch_axes = 0}"), @"[E0112] gather_nd (%2): operand 1: expected indices that address at most 1 axes, found %i: i64[A, 2] [E0332]");
    assert_snapshot!(types("%x: f32[B], %i: i64[1]", "%y = gather_nd %x, %i {batch_axes = 1}"), @"[E0112] gather_nd (%2): attribute batch_axes: expected at most 0, found 1 [E0333]");
}

#[test]
fn scatters_keep_the_operand_and_check_updates() {
    assert_snapshot!(
        types(
            "%x: f32[B, 8], %i: i64[C, 3], %u: f32[D, 3]",
            "%y = scatter_elements %x, %i, %u {axis = 1, combine = add} from \"s\"",
        ),
        @"
    y: f32[B, 8]
    requires C == D by scatter_elements (s): sizes of axis 0
    "
    );
    assert_snapshot!(
        types("%x: f32[B, 8], %i: i64[N, 1], %u: f32[N, 8]", "%y = scatter_nd %x, %i, %u {combine = set}"),
        @"y: f32[B, 8]"
    );
    assert_snapshot!(
        types("%x: f32[B, 8], %i: i64[N, 1], %u: f32[N, 7]", "%y = scatter_nd %x, %i, %u {combine = set}"),
        @"[E0112] scatter_nd (%3): sizes of axis 1 of %i: i64[N, 1] and %u: f32[N, 7] differ: expected 8, found 7 [E0331]"
    );
    assert_snapshot!(
        types("%x: f32[B, 8], %i: i64[N, 1], %u: f64[N, 8]", "%y = scatter_nd %x, %i, %u {combine = set}"),
        @"[E0112] scatter_nd (%3): operand 2: expected a tensor of f32, as operand 0, found a tensor of f64 [E0332]"
    );
    assert_snapshot!(
        types("%x: f32[B, 8], %i: i64[N, 1], %u: f32[N]", "%y = scatter_nd %x, %i, %u {combine = set}"),
        @"[E0112] scatter_nd (%3): operand 2: expected a tensor of rank 2, found %u: f32[N] [E0332]"
    );
}
