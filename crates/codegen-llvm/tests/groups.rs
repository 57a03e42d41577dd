//! Windows over groups of channels, whose weights are laid out group by group, and rows that fill no tile: groups around
//! the width of a vector, rows around the height of a tile.

mod support;

use support::check_sizes;

/// Heights and widths of what comes out: around tiles of six rows and of four.
const SIZES: [[i64; 2]; 14] = [
    [0, 3],
    [2, 0],
    [1, 1],
    [1, 2],
    [2, 3],
    [1, 4],
    [2, 5],
    [1, 6],
    [7, 7],
    [1, 8],
    [2, 9],
    [1, 13],
    [1, 14],
    [1, 19],
];

/// A convolution of 3 by 3 whose groups have so many channels that come out, and so many that go in.
fn convolution(groups: i64, out: i64, inner: i64) -> String {
    let (all_out, all_in) = (groups * out, groups * inner);
    format!(
        "kernel @grouped(%x: in f32[H, W, {all_in}], %w: const f32[{all_out}, {inner}, 3, 3], %b: const f32[{all_out}, 1], %y: out f32[H, W, {all_out}]) {{
          outer g < {groups}, c < {out}, h < H, w < W
          s = reduce add[p < 3, q < 3, i < {inner}] (%x[h + p - 1, w + q - 1, g * {inner} + i] if inside else 0) * %w[g * {out} + c, i, p, q]
          store %y[h, w, g * {out} + c] = max(s + %b[g * {out} + c, 0], 0)
        }}"
    )
}

#[test]
fn groups_of_whole_vectors() {
    for (groups, out, inner) in [(3, 8, 8), (2, 16, 4), (2, 24, 3), (2, 32, 2)] {
        check_sizes(&convolution(groups, out, inner), ["H", "W"], &SIZES);
    }
}

#[test]
fn groups_that_fill_no_vector() {
    for (groups, out, inner) in [
        (5, 2, 3),
        (4, 4, 4),
        (3, 7, 2),
        (2, 9, 5),
        (3, 12, 1),
        (2, 17, 3),
    ] {
        check_sizes(&convolution(groups, out, inner), ["H", "W"], &SIZES);
    }
}

/// As many rows as are known beforehand.
#[test]
fn rows_whose_number_is_known() {
    for rows in [1, 2, 5, 7, 11, 14] {
        let text = format!(
            "kernel @conv(%x: in f32[H, {rows}, 5], %w: const f32[C, 5, 3], %y: out f32[H, {rows}, C]) {{
              outer h < H, w < {rows}, c < C
              s = reduce add[q < 3, i < 5] (%x[h, w + q - 1, i] if inside else 0) * %w[c, i, q]
              store %y[h, w, c] = s
            }}"
        );
        let sizes = [[0, 8], [1, 1], [2, 7], [3, 16], [1, 17], [1, 40]];
        check_sizes(&text, ["H", "C"], &sizes);
    }
}

/// Rows of the one axis where there are many, of the other where those are few.
#[test]
fn rows_along_either_of_two_axes() {
    let text = "kernel @mm(%x: in f32[A, B, 19], %y: const f32[19, N], %o: out f32[B, A, N]) {
      outer b < B, a < A, n < N
      s = reduce add[k < 19] %x[a, b, k] * %y[k, n]
      store %o[b, a, n] = s
    }";
    let sizes = [
        [0, 5, 8],
        [5, 0, 8],
        [1, 1, 1],
        [1, 4, 17],
        [1, 7, 16],
        [3, 8, 24],
        [4, 9, 8],
        [7, 1, 33],
        [13, 2, 5],
        [14, 14, 16],
    ];
    check_sizes(text, ["A", "B", "N"], &sizes);
}
