//! Register tiles are transposed beside sums of rows; other maps that transpose are files of `testkit/testdata/movement`.

mod support;

use kiln_backend::Schedule;
use support::{check_variants, compiled_as, kernel};

const SIZES: [[i64; 3]; 14] = [
    [0, 9, 8],
    [2, 0, 8],
    [2, 8, 0],
    [1, 1, 1],
    [1, 2, 9],
    [2, 7, 7],
    [1, 8, 8],
    [2, 9, 16],
    [1, 16, 9],
    [1, 17, 24],
    [3, 15, 31],
    [1, 24, 5],
    [1, 64, 67],
    [1, 3, 130],
];

/// Rows left over are done as many at once as there are lanes, and yet are no square: the last one is there again.
#[test]
fn beside_sums_of_rows_that_repeat_the_last() {
    let kernel = kernel(
        "kernel @turn(%x: in f32[M, B, N], %w: in f32[M, M], %z: in f32[M, B, N], %y: out f32[M, N, B]) {
          outer m < M, b < B, n < N
          s = reduce add[r < M] %x[r, b, n] * %w[r, m]
          store %y[m, n, b] = %z[m, b, n] + s
        }",
    );
    let numbers = [
        ("lanes", 4),
        ("vectors", 2),
        ("chunk", 8),
        ("vector_axis", 0),
        ("rows", 8),
        ("row_axis", 2),
    ];
    let with = |schedule: Schedule, &(name, number)| schedule.with(name, number);
    let variants = compiled_as(&kernel, |best| {
        numbers.iter().fold(Schedule::new(best.name), with)
    });
    check_variants(&kernel, &variants, ["B", "M", "N"], &SIZES);
}
