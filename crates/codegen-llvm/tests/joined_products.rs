//! Several products of one operand whose sums are joined: the step of a recurrent cell, around the height of a tile and the
//! width of a vector.

mod support;

use support::check_sizes;

/// The gates of an LSTM's step over `hidden` units, from weights that are constants or operands.
fn step(hidden: &str, weights: &str) -> String {
    let weight = |gate: &str| format!("%{gate}: {weights} f32[K, {hidden}]");
    format!(
        "kernel @step(%h: in f32[B, K], %c: in f32[B, {hidden}], %x: in f32[T, B, 4 * {hidden}], %t: in i64[], {}, {}, {}, {}, %hn: out f32[B, {hidden}], %cn: out f32[B, {hidden}]) where T >= 1 {{
          outer n < B, e < {hidden}
          i = reduce add[a < K] %h[n, a] * %wi[a, e]
          o = reduce add[b < K] %h[n, b] * %wo[b, e]
          f = reduce add[d < K] %h[n, d] * %wf[d, e]
          g = reduce add[k < K] %h[n, k] * %wg[k, e]
          store %cn[n, e] = sigmoid(%x[%t[], n, e + 2 * {hidden}] + f) * %c[n, e] + sigmoid(%x[%t[], n, e] + i) * tanh(%x[%t[], n, e + 3 * {hidden}] + g)
          store %hn[n, e] = sigmoid(%x[%t[], n, e + {hidden}] + o) * tanh(%c[n, e])
        }}",
        weight("wi"),
        weight("wo"),
        weight("wf"),
        weight("wg"),
    )
}

const SIZES: [[i64; 3]; 9] = [
    [0, 1, 3],
    [1, 1, 0],
    [1, 2, 1],
    [1, 1, 17],
    [2, 1, 16],
    [3, 2, 7],
    [6, 1, 5],
    [7, 2, 9],
    [13, 1, 4],
];

#[test]
fn units_whose_number_is_known() {
    for hidden in ["1", "7", "16", "17", "64"] {
        check_sizes(&step(hidden, "const"), ["B", "T", "K"], &SIZES);
    }
}

#[test]
fn weights_that_are_operands() {
    for hidden in ["7", "32"] {
        check_sizes(&step(hidden, "in"), ["B", "T", "K"], &SIZES);
    }
}
