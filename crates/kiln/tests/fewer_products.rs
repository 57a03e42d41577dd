//! `Options::fewer_products`: Winograd's F(4x4, 3x3) for models that enable it, and no others.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::diagnose::{self, Stage};
use kiln::internals::backend::IsaLevel;
use kiln::{Cache, Compiling, Device, Model, Options, Source, Tensor};
use kiln_testkit::oracle::{Tolerance, compare_all};

const CHANNELS: usize = 16;
const SIDE: usize = 29;

fn model(device: Device, fewer_products: bool) -> Model {
    let weights = |taps: usize| {
        let weights = (0..CHANNELS * CHANNELS * taps * taps)
            .map(|place| format!("{:?}", ((place * 31) % 97) as f32 / 97.0 - 0.5));
        let weights: Vec<String> = weights.collect();
        let weights = weights.join(", ");
        format!("f32[{CHANNELS}, {CHANNELS}, {taps}, {taps}] = constant [{weights}]")
    };
    let window = |border: usize| {
        let border = format!("low = [{border}, {border}], high = [{border}, {border}]");
        format!("{{strides = [1, 1], dilations = [1, 1], {border}, groups = 1}}")
    };
    // The compiler may choose the layout between two convolutions.
    let (point, three) = (weights(1), weights(3));
    let text = format!(
        "graph @main(%x: f32[N, {CHANNELS}, H, W]) -> f32[N, {CHANNELS}, H, W] {{
          %v: {point}
          %w: {three}
          %a = conv %x, %v {of_point}
          %b = conv %a, %w {of_three}
          %y = conv %b, %v {of_point}
          return %y
        }}",
        of_point = window(0),
        of_three = window(1),
    );
    let options = Options::new()
        .device(device)
        .threads(2)
        .cache(Cache::off())
        .compiling(Compiling {
            variants: None,
            fewer_products,
            ..Compiling::default()
        });
    options
        .load(Source::text(&text))
        .unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn run(model: &Model) -> Vec<Tensor> {
    let elements: Vec<f32> = (0..CHANNELS * SIDE * SIDE)
        .map(|place| ((place * 37) % 101) as f32 / 101.0 - 0.5)
        .collect();
    let x = Tensor::from_vec(&[1, CHANNELS, SIDE, SIDE], elements).unwrap();
    vec![model.run([("x", &x)]).unwrap()[0].clone()]
}

/// The number of sums along an axis of a tile, from the window's loops; `None` if the convolution does not use
/// Winograd.
fn sums(model: &Model) -> Option<i64> {
    let loops = diagnose::inspect(model, Stage::Loops).unwrap();
    let mut lines = loops.lines().map(str::trim);
    lines.find_map(|line| line.strip_prefix("winograd ")?.parse().ok())
}

#[test]
fn enabling_fewer_products_changes_the_code_and_barely_the_results() {
    let (usual, fewer) = (model(Device::cpu(), false), model(Device::cpu(), true));
    let expected = run(&model(Device::interpreter(), false));
    let (by_usual, by_fewer) = (run(&usual), run(&fewer));
    for found in [&by_usual, &by_fewer] {
        compare_all(&expected, found, Tolerance::OfLargest(1e-5)).unwrap();
    }
    // A machine without FMA uses neither tile size.
    let has_fma = IsaLevel::host().is_some_and(IsaLevel::has_fma);
    assert_eq!(sums(&usual), has_fma.then_some(2));
    assert_eq!(sums(&fewer), has_fma.then_some(4));
    assert_eq!(by_usual[0].bit_equal(&by_fewer[0]), !has_fma);
}
