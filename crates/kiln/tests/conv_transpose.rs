//! Transposed convolutions, compiled and interpreted: strides larger than, equal to and smaller than the kernel,
//! padding, dilation, groups, result sizes that are and are not multiples of the stride, and non-finite weights.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::{Cache, Device, Model, Options, Source, Tensor};
use kiln_testkit::oracle::{Tolerance, compare_all};

/// Along one axis: kernel, stride, dilation, low, high, extra elements of the result.
const AXES: [[usize; 6]; 12] = [
    [2, 2, 1, 0, 0, 0],
    [4, 2, 1, 1, 1, 0],
    [3, 2, 1, 1, 1, 1],
    [3, 2, 1, 0, 0, 0],
    [5, 1, 1, 2, 2, 0],
    [3, 1, 2, 1, 2, 0],
    [3, 3, 1, 1, 0, 1],
    [6, 3, 1, 2, 1, 0],
    [1, 2, 1, 0, 0, 1],
    [4, 2, 2, 3, 2, 1],
    [2, 3, 1, 0, 0, 1],
    [1, 1, 1, 0, 0, 0],
];

const GROUPS: usize = 2;

/// The text of a case, with one entry of the list along rows and the next along columns; weights are constants.
fn text(number: usize, weight: impl Fn(usize) -> f32) -> String {
    let (y, x) = (AXES[number], AXES[(number + 1) % AXES.len()]);
    let pair = |part: usize| format!("[{}, {}]", y[part], x[part]);
    let weights: Vec<String> = (0..4 * 3 * y[0] * x[0])
        .map(|place| format!("{:?}", weight(place)))
        .collect();
    let size = |axis: [usize; 6], symbol: &str| {
        let [kernel, stride, dilation, low, high, more] = axis.map(|part| part as i64);
        let rest = dilation * (kernel - 1) + 1 + more - low - high - stride;
        format!("{stride}*{symbol} + {rest}")
    };
    format!(
        "graph @main(%x: f32[N, 4, H, W]) -> f32[N, {}, {}, {}] where H >= 3, W >= 3 {{
          %w: f32[4, 3, {}, {}] = constant [{}]
          %y = conv_transpose %x, %w {{strides = {}, dilations = {}, low = {}, high = {}, output_padding = {}, groups = {GROUPS}}}
          return %y
        }}",
        3 * GROUPS,
        size(y, "H"),
        size(x, "W"),
        y[0],
        x[0],
        weights.join(", "),
        pair(1),
        pair(2),
        pair(3),
        pair(4),
        pair(5),
    )
}

fn check(text: &str) {
    let model = |device| {
        let options = Options::new().device(device).threads(2);
        options
            .cache(Cache::off())
            .load(Source::text(text))
            .unwrap_or_else(|error| panic!("{error}\n{text}"))
    };
    let (compiled, interpreted) = (model(Device::cpu()), model(Device::interpreter()));
    for (n, h, w) in [(1, 3, 3), (0, 4, 5), (2, 5, 4), (1, 9, 17)] {
        let elements: Vec<f32> = (0..n * 4 * h * w)
            .map(|place| ((place * 37) % 101) as f32 / 101.0 - 0.5)
            .collect();
        let x = Tensor::from_vec(&[n, 4, h, w], elements).unwrap();
        let run = |model: &Model| vec![model.run([("x", &x)]).unwrap()[0].clone()];
        let (expected, found) = (run(&interpreted), run(&compiled));
        if let Err(mismatch) = compare_all(&expected, &found, Tolerance::OfLargest(1e-5)) {
            panic!("{n} x {h} x {w}: {mismatch}\n{text}");
        }
    }
}

#[test]
fn compiled_transposed_convolutions_equal_interpreted_ones() {
    for number in 0..AXES.len() {
        check(&text(number, |place| (place % 7) as f32 * 0.25 - 0.625));
    }
}

/// A tap outside the input contributes nothing, not even a product of zero and infinity.
#[test]
fn weights_that_are_not_finite_are_not_multiplied_with_padding() {
    for number in [1, 2, 4, 7] {
        check(&text(number, |place| match place % 5 {
            0 => f32::INFINITY,
            rest => rest as f32 * 0.25,
        }));
    }
}
