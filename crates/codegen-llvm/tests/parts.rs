//! Values chosen by where along the vectors they are: parts that vectors fit into, parts that they do not, and parts that
//! end where only the call knows.

mod support;

use kiln_testkit::generate::Flavor;
use kiln_testkit::kernels::{Checked, Elements};
use support::{check_at, check_sizes, compiled, kernel, symbols};

const NAMES: [&str; 3] = ["R", "M", "N"];

const ROWS: [[i64; 3]; 4] = [[0, 1, 1], [1, 1, 1], [2, 1, 1], [5, 1, 1]];

#[test]
fn parts_of_whole_vectors_and_of_broken_ones() {
    for part in [8, 16, 20, 24, 3] {
        let (two, three) = (2 * part, 3 * part);
        check_sizes(
            &format!(
                "kernel @parts(%x: in f32[R, {part}], %y: in f32[R, {part}], %z: in f32[R, {part}], %o: out f32[R, {three}]) {{
                  outer r < R, c < {three}
                  store %o[r, c] = max(0, select(c < {part},
                    (%x[r, c] if inside else 0) * 2.0,
                    select(c < {two}, exp(%y[r, c - {part}] if inside else 0), %z[r, c - {two}] if inside else 0)))
                }}"
            ),
            NAMES,
            &ROWS,
        );
    }
}

#[test]
fn parts_whose_ends_the_call_brings() {
    check_sizes(
        "kernel @parts(%x: in f32[R, M], %y: in f32[R, N], %o: out f32[R, M + N]) {
          outer r < R, c < M + N
          store %o[r, c] = select(c < M, %x[r, c] if inside else 0, 0 - (%y[r, c - M] if inside else 0))
        }",
        NAMES,
        &[
            [1, 0, 0],
            [2, 0, 9],
            [2, 9, 0],
            [1, 1, 1],
            [3, 8, 8],
            [2, 31, 33],
            [2, 32, 40],
            [1, 64, 7],
            [1, 7, 64],
            [2, 100, 100],
        ],
    );
}

/// A choice does not hide a fault of the part that it does not take.
#[test]
fn an_index_out_of_range_is_reported_from_the_part_that_is_not_taken() {
    let kernel = kernel(
        "kernel @parts(%x: in f32[R, 8], %i: in i64[R, 16], %t: in f32[3], %o: out f32[R, 16]) {
          outer r < R, c < 16
          store %o[r, c] = select(c < 8, %x[r, c] if inside else 0, %t[%i[r, c]])
        }",
    );
    let variants = compiled(&kernel);
    let sizes = symbols(&kernel, &[("R", 3)]);
    let elements = Elements {
        flavor: Flavor::Smooth,
        indices: (3, 5),
    };
    let checked = check_at(&kernel, &variants, &sizes, elements, 1);
    assert_eq!(checked, Some(Checked::Faulted));
}
