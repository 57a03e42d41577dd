//! Register tiles are transposed beside sums of rows; other maps that transpose are files of `testkit/testdata/movement`.

mod support;

use kiln_schedule_cpu::loops;
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
/// Sums and an operand that is transposed in one tile of as many rows as a vector has lanes.
const BY_ROWS_OF_N: &str = "loops {
  nest by_rows_of_n {
    rows n * 4
    vectors m * 2 * 4
    chunk 8
    remainder 3 [2, 1]
    cut m: whole 2, whole 1, scalar
    unroll 20
    body {
      s: together
      store %y: together, register_transpose
    }
  }
}";

#[test]
fn beside_sums_of_rows_that_repeat_the_last() {
    let kernel = kernel(
        "kernel @turn(%x: in f32[M, B, N], %w: in f32[M, M], %z: in f32[M, B, N], %y: out f32[M, N, B]) {
          outer m < M, b < B, n < N
          s = reduce add[r < M] %x[r, b, n] * %w[r, m]
          store %y[m, n, b] = %z[m, b, n] + s
        }",
    );
    let variants = compiled_as(&kernel, |loops| {
        *loops = loops::read(&kernel, BY_ROWS_OF_N).unwrap();
    });
    check_variants(&kernel, &variants, ["B", "M", "N"], &SIZES);
}
