//! Windows that slide along the rows of a tile, each of whose elements is loaded once for several taps: strides, dilations,
//! borders on either side, and widths around the tile's.

mod support;

use support::check_sizes;

/// Heights and widths of what comes out, and channels.
const SIZES: [[i64; 3]; 16] = [
    [0, 9, 8],
    [2, 0, 8],
    [1, 1, 1],
    [1, 2, 3],
    [2, 3, 8],
    [1, 4, 9],
    [3, 5, 7],
    [2, 7, 16],
    [1, 8, 17],
    [3, 9, 8],
    [2, 11, 5],
    [1, 13, 33],
    [2, 16, 24],
    [1, 17, 71],
    [4, 19, 8],
    [1, 31, 15],
];

fn check(text: &str) {
    check_sizes(text, ["H", "W", "C"], &SIZES);
}

#[test]
fn five_taps_with_a_border_on_either_side() {
    check(
        "kernel @depthwise(%x: in f32[H, W, C], %w: const f32[C, 5, 5], %y: out f32[H, W, C]) {
          outer h < H, w < W, c < C
          s = reduce add[p < 5, q < 5] (%x[h + p - 2, w + q - 2, c] if inside else 0) * %w[c, p, q]
          store %y[h, w, c] = max(s, 0)
        }",
    );
}

#[test]
fn every_other_element_with_more_border_after_than_before() {
    check(
        "kernel @depthwise(%x: in f32[2 * H, 2 * W, C], %w: const f32[C, 3, 3], %b: const f32[C], %y: out f32[H, W, C]) {
          outer h < H, w < W, c < C
          s = reduce add[p < 3, q < 3] (%x[2 * h + p, 2 * w + q, c] if inside else 0) * %w[c, p, q]
          store %y[h, w, c] = s + %b[c]
        }",
    );
}

#[test]
fn taps_that_are_apart() {
    check(
        "kernel @depthwise(%x: in f64[H + 4, W + 6, C], %w: const f64[C, 3, 4], %y: out f64[H, W, C]) {
          outer h < H, w < W, c < C
          s = reduce add[p < 3, q < 4] %x[h + 2 * p, w + 2 * q, c] * %w[c, p, q]
          store %y[h, w, c] = s
        }",
    );
}

#[test]
fn the_largest_of_a_window() {
    check(
        "kernel @pool(%x: in f32[H, W, C], %y: out f32[H, W, C]) {
          outer h < H, w < W, c < C
          s = reduce max[p < 3, q < 3] (%x[h + p - 1, w + q - 1, c] if inside else -1000)
          store %y[h, w, c] = s
        }",
    );
}

/// Borders that are no zeros, and a weight for each place.
#[test]
fn weights_that_differ_along_the_row() {
    check(
        "kernel @local(%x: in f32[H, W, C], %w: in f32[W, C, 3], %y: out f32[H, W, C]) {
          outer h < H, w < W, c < C
          s = reduce add[q < 3] (%x[h, w + q - 1, c] if inside else 2) * %w[w, c, q]
          store %y[h, w, c] = s
        }",
    );
}

/// Beyond the border is what each window's own column says, which its neighbours do not share.
#[test]
fn borders_that_differ_from_window_to_window() {
    check(
        "kernel @depthwise(%x: in f32[H, W, C], %w: const f32[C, 5, 5], %y: out f32[H, W, C]) {
          outer h < H, w < W, c < C
          s = reduce add[p < 5, q < 5] (%x[h + p - 2, w + q - 2, c] if inside else f32(w)) * %w[c, p, q]
          store %y[h, w, c] = s
        }",
    );
}
