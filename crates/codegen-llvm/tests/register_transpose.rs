//! Register-tile transposes in a kernel with a reduction; transposing maps are files of `testkit/testdata/movement`.

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

/// A sum and a transposed operand in one tile of as many rows as a vector has lanes. A remainder tile that repeats its last
/// row has as many rows, but they are not consecutive.
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
fn register_transpose_beside_a_sum_with_a_repeated_last_row() {
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
