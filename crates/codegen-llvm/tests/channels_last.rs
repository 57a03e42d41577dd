//! Small convolutional networks whose compiler prefers channels innermost: compiled at every level, and compared with the
//! interpreter at sizes around the vector widths.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test that cannot continue panics"
)]

#[path = "channels_last/random.rs"]
mod random;
mod support;

use std::fmt::Write as _;

use kiln_ir::{BlobMap, Constant, Graph};
use kiln_symbolic_shape::Binding;
use kiln_tensor::Tensor;
use kiln_testkit::generate::{Flavor, random_tensor};
use kiln_testkit::programs::Compared;
use kiln_testkit::random::SplitMix64;

/// Numbers of images, rows and columns: `N`, `A`, `B`.
const SIZES: [[usize; 3]; 10] = [
    [1, 7, 8],
    [0, 3, 3],
    [2, 0, 5],
    [2, 1, 2],
    [1, 3, 1],
    [2, 5, 3],
    [1, 9, 9],
    [1, 2, 17],
    [1, 16, 3],
    [1, 4, 31],
];

/// The elements of weights and inputs.
#[derive(Clone, Copy)]
enum Elements {
    Smooth,
    /// This number in the middle and the corners of the image and of each convolution's weights.
    With(f32),
}

/// A network from a text with abbreviations: `weights` stands for constants, `window(s, d, p)` for a window with a
/// stride, a dilation and a padding on all sides.
fn graph(text: &str, elements: Elements) -> Graph {
    let mut blobs = BlobMap::new();
    let mut random = SplitMix64::new(7);
    let mut full = String::new();
    for line in text.lines() {
        if let Some(start) = line.strip_suffix(" = weights") {
            let (name, shape) = start.split_once('[').unwrap();
            let dtype = name.rsplit_once(' ').unwrap().1.parse().unwrap();
            let shape: Vec<usize> = shape
                .trim_end_matches(']')
                .split(", ")
                .map(|size| size.parse().unwrap())
                .collect();
            let tensor = random_tensor(&mut random, dtype, &shape, Flavor::Smooth).unwrap();
            let tensor = match elements {
                Elements::With(number) if shape.len() == 4 => with(tensor, &[0], number),
                _ => tensor,
            };
            let constant = Constant::new(tensor).unwrap();
            writeln!(full, "{start} = constant \"{}\"", constant.digest()).unwrap();
            blobs.insert(constant);
        } else if let Some((start, window)) = line.split_once("window(") {
            let (numbers, end) = window.split_once(')').unwrap();
            let [s, d, p] = numbers.split(", ").collect::<Vec<_>>()[..] else {
                panic!("{line}")
            };
            writeln!(
                full,
                "{start}strides = [{s}, {s}], dilations = [{d}, {d}], low = [{p}, {p}], high = [{p}, {p}]{end}"
            )
            .unwrap();
        } else {
            writeln!(full, "{line}").unwrap();
        }
    }
    kiln_shape_inference::read_graph(&full, &blobs)
        .unwrap_or_else(|errors| panic!("{}", errors.render(&full)))
}

/// A tensor with a number in the middle and at some other positions.
fn with(mut tensor: Tensor, places: &[usize], number: f32) -> Tensor {
    let middle = tensor.len() / 2;
    let elements = tensor.as_mut_slice::<f32>().unwrap();
    for place in places.iter().copied().chain([middle]) {
        if let Some(element) = elements.get_mut(place) {
            *element = number;
        }
    }
    tensor
}

/// Compares a network, fused and unfused, at every level.
fn check(text: &str) {
    check_with(text, Elements::Smooth);
}

fn check_with(text: &str, elements: Elements) {
    for fuse in [true, false] {
        if let Err(message) = compare(text, elements, fuse, &SIZES) {
            panic!("{message}");
        }
    }
}

fn compare(text: &str, elements: Elements, fuse: bool, sizes: &[[usize; 3]]) -> Result<(), String> {
    let graph = graph(text, elements);
    let runtimes = support::graphs::runtimes();
    let compared =
        Compared::new(&graph, &runtimes, fuse).map_err(|finding| format!("{finding}\n{text}"))?;
    let mut agreed = 0;
    for (seed, sizes) in (1..).zip(sizes) {
        let dims = graph.dims();
        let mut binding = Binding::new();
        for symbol in dims.symbols() {
            // The other symbols are determined at run time.
            if let Some(place) = "NAB".find(dims.symbol_name(symbol)) {
                binding.set(symbol, sizes[place] as i64).unwrap();
            }
        }
        let size = |&dim: &_| dims.evaluate(dim, &binding).unwrap() as usize;
        let mut random = SplitMix64::new(seed);
        let mut input = |&value| {
            let ty = graph.tensor_ty(value).unwrap();
            let shape: Vec<usize> = ty.dims.iter().map(size).collect();
            let tensor = random_tensor(&mut random, ty.dtype, &shape, Flavor::Smooth).unwrap();
            match elements {
                Elements::Smooth => tensor,
                Elements::With(number) => {
                    let last = tensor.len().saturating_sub(1);
                    with(tensor, &[0, last], number)
                }
            }
        };
        let inputs: Vec<Tensor> = graph.inputs().iter().map(&mut input).collect();
        let ran = compared.check(&inputs);
        let is_run = ran.map_err(|finding| {
            format!(
                "N, A, B = {sizes:?}, fuse {fuse}: {finding}\n{text}\n{}",
                compared.programs()[0].program()
            )
        })?;
        agreed += usize::from(is_run);
    }
    for runtime in &runtimes {
        let records = runtime.compile_records();
        if let Some(error) = records.iter().find_map(|record| record.error.clone()) {
            return Err(format!("a kernel that does not compile: {error}\n{text}"));
        }
    }
    assert!(agreed >= sizes.len().min(5), "{agreed} runs\n{text}");
    Ok(())
}

/// The buffers whose channels are innermost, for the first level and the last.
fn channels_last(text: &str) -> [Vec<String>; 2] {
    let graph = graph(text, Elements::Smooth);
    let runtimes = support::graphs::runtimes();
    let compared = Compared::new(&graph, &runtimes, true).unwrap();
    let programs = compared.programs();
    [programs.first(), programs.last()].map(|program| {
        let program = program.unwrap().program();
        let dims = program.graph().dims();
        let body = program.block(program.body());
        let buffers = body.buffers.values().filter(|buffer| {
            let channel = buffer.strides.as_ref().and_then(|strides| strides.get(1));
            channel.is_some_and(|&stride| dims.as_constant(program.sizes().dim(stride)) == Some(1))
        });
        buffers.map(|buffer| buffer.name.clone()).collect()
    })
}

const WIDER: &str = "graph @wider(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
  %w: f32[24, 8, 3, 3] = weights
  %u: f32[24, 1, 1] = weights
  %v: f32[8, 24, 3, 3] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = add %a, %u
  %c = relu %b
  %d = conv %c, %v {window(1, 1, 1), groups = 1, out = f32}
  %e = relu %d
  return %e
}";

#[test]
fn expanding_and_reducing_channels() {
    check(WIDER);
}

#[test]
fn other_float_types() {
    for dtype in ["f64", "f16", "bf16"] {
        check(&WIDER.replace("f32", dtype));
    }
}

/// Enough work for several threads, and rows of windows that touch no border.
#[test]
fn larger_images() {
    for stride in [1, 2] {
        let text = format!(
            "graph @large(%x: f32[N, 3, A, B]) -> f32[N, 8, (A + {stride} - 1) / {stride}, (B + {stride} - 1) / {stride}] {{
  %w: f32[16, 3, 3, 3] = weights
  %v: f32[24, 16, 3, 3] = weights
  %u: f32[24, 1, 5, 5] = weights
  %t: f32[8, 24, 1, 1] = weights
  %a = conv %x, %w {{window(1, 1, 1), groups = 1, out = f32}}
  %b = relu %a
  %c = conv %b, %v {{window({stride}, 1, 1), groups = 1, out = f32}}
  %d = conv %c, %u {{window(1, 1, 2), groups = 24, out = f32}}
  %e = conv %d, %t {{window(1, 1, 0), groups = 1, out = f32}}
  return %e
}}"
        );
        compare(&text, Elements::Smooth, true, &[[1, 37, 53], [3, 16, 40]])
            .unwrap_or_else(|message| panic!("{message}"));
    }
}

#[test]
fn values_between_convolutions_have_channels_innermost() {
    // Eight channels fill a vector of some levels; there the operand and the result are copied.
    const COPIED: [&str; 2] = ["x", "e"];
    for found in channels_last(WIDER) {
        let (between, copies) = found.split_first().unwrap();
        assert_eq!(between, "c");
        assert!(copies.is_empty() || copies == COPIED, "{copies:?}");
    }
    for found in channels_last(BRANCHES) {
        assert_eq!(found, ["s", "a", "b", "c", "d", "e"]);
    }
}

#[test]
fn strided_windows() {
    check(
        "graph @strided(%x: f32[N, 3, A, B]) -> f32[N, 8, (A + 1) / 2, (B + 1) / 2] {
  %w: f32[16, 3, 3, 3] = weights
  %v: f32[24, 16, 3, 3] = weights
  %u: f32[8, 24, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = relu %a
  %c = conv %b, %v {window(2, 1, 1), groups = 1, out = f32}
  %d = relu %c
  %e = conv %d, %u {window(1, 1, 0), groups = 1, out = f32}
  return %e
}",
    );
}

/// Strides, dilations and borders that differ between rows and columns.
#[test]
fn windows_that_differ_between_axes() {
    check(
        "graph @uneven(%x: f32[N, 8, A, B]) -> f32[N, 24, A + 1, (B + 2) / 3] {
  %w: f32[24, 8, 3, 2] = weights
  %v: f32[24, 24, 2, 3] = weights
  %a = conv %x, %w {strides = [1, 3], dilations = [2, 1], low = [0, 1], high = [4, 0], groups = 1, out = f32}
  %b = relu %a
  %c = conv %b, %v {strides = [1, 1], dilations = [1, 2], low = [2, 0], high = [0, 4], groups = 1, out = f32}
  return %c
}",
    );
}

#[test]
fn dilated_windows() {
    check(
        "graph @dilated(%x: f32[N, 7, A, B]) -> f32[N, 12, A, B] {
  %w: f32[24, 7, 3, 3] = weights
  %v: f32[12, 24, 3, 3] = weights
  %a = conv %x, %w {window(1, 2, 2), groups = 1, out = f32}
  %b = relu %a
  %c = conv %b, %v {window(1, 2, 2), groups = 1, out = f32}
  return %c
}",
    );
}

#[test]
fn depthwise_windows() {
    check(
        "graph @depthwise(%x: f32[N, 12, A, B]) -> f32[N, 16, A, B] {
  %three: f32[] = constant [3.0]
  %six: f32[] = constant [6.0]
  %zero: f32[] = constant [0.0]
  %w: f32[40, 12, 1, 1] = weights
  %v: f32[40, 1, 5, 5] = weights
  %u: f32[16, 40, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 0), groups = 1, out = f32}
  %b = relu %a
  %c = conv %b, %v {window(1, 1, 2), groups = 40, out = f32}
  %d = add %c, %three
  %e = max %d, %zero
  %f = min %e, %six
  %g = mul %c, %f
  %h = div %g, %six
  %i = conv %h, %u {window(1, 1, 0), groups = 1, out = f32}
  return %i
}",
    );
}

#[test]
fn grouped_windows() {
    check(
        "graph @grouped(%x: f32[N, 16, A, B]) -> f32[N, 8, A, B] {
  %w: f32[32, 8, 3, 3] = weights
  %v: f32[8, 8, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 2, out = f32}
  %b = relu %a
  %c = conv %b, %v {window(1, 1, 0), groups = 4, out = f32}
  return %c
}",
    );
}

#[test]
fn residual_connections() {
    check(
        "graph @residual(%x: f32[N, 8, A, B]) -> f32[N, 24, A, B] {
  %w: f32[24, 8, 1, 1] = weights
  %v: f32[8, 24, 1, 1] = weights
  %u: f32[24, 8, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 0), groups = 1, out = f32}
  %b = relu %a
  %c = conv %b, %v {window(1, 1, 0), groups = 1, out = f32}
  %d = relu %c
  %e = conv %d, %u {window(1, 1, 0), groups = 1, out = f32}
  %f = add %e, %a
  %g = tanh %f
  %h = add %g, %b
  return %h
}",
    );
}

#[test]
fn squeeze_and_excitation() {
    check(
        "graph @squeeze(%x: f32[N, 8, A, B]) -> f32[N, 12, A, B] where A >= 1, B >= 1 {
  %w: f32[24, 8, 3, 3] = weights
  %v: f32[8, 24, 1, 1] = weights
  %u: f32[24, 8, 1, 1] = weights
  %t: f32[12, 24, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = relu %a
  %c = reduce %b {function = mean, axes = [2, 3], keep_dims}
  %d = conv %c, %v {window(1, 1, 0), groups = 1, out = f32}
  %e = relu %d
  %f = conv %e, %u {window(1, 1, 0), groups = 1, out = f32}
  %g = sigmoid %f
  %h = mul %b, %g
  %i = conv %h, %t {window(1, 1, 0), groups = 1, out = f32}
  return %i
}",
    );
}

const BRANCHES: &str = "graph @branches(%x: f32[N, 3, A, B]) -> f32[N, 1, A, B] {
  %w: f32[24, 3, 1, 1] = weights
  %wa: f32[8, 24, 1, 1] = weights
  %wb: f32[16, 24, 3, 3] = weights
  %wc: f32[24, 24, 1, 1] = weights
  %wd: f32[16, 24, 3, 3] = weights
  %v: f32[1, 64, 1, 1] = weights
  %r = conv %x, %w {window(1, 1, 0), groups = 1, out = f32}
  %s = relu %r
  %a = conv %s, %wa {window(1, 1, 0), groups = 1, out = f32}
  %b = conv %s, %wb {window(1, 1, 1), groups = 1, out = f32}
  %c = conv %s, %wc {window(1, 1, 0), groups = 1, out = f32}
  %d = conv %s, %wd {window(1, 1, 1), groups = 1, out = f32}
  %e = concat %a, %b, %c, %d {axis = 1}
  %f = conv %e, %v {window(1, 1, 0), groups = 1, out = f32}
  return %f
}";

#[test]
fn concatenated_branches() {
    check(BRANCHES);
}

fn concatenation(axis: usize, shape: &str) -> String {
    format!(
        "graph @joined(%x: f32[N, 8, A, B]) -> f32[{shape}] {{
  %w: f32[24, 8, 1, 1] = weights
  %v: f32[24, 8, 3, 3] = weights
  %u: f32[8, 24, 1, 1] = weights
  %a = conv %x, %w {{window(1, 1, 0), groups = 1, out = f32}}
  %b = conv %x, %v {{window(1, 1, 1), groups = 1, out = f32}}
  %c = concat %a, %b {{axis = {axis}}}
  %d = conv %c, %u {{window(1, 1, 0), groups = 1, out = f32}}
  return %d
}}"
    )
}

#[test]
fn concatenation_along_rows_and_columns() {
    check(&concatenation(2, "N, 8, 2*A, B"));
    check(&concatenation(3, "N, 8, A, 2*B"));
}

#[test]
fn concatenation_of_images() {
    check(&concatenation(0, "2*N, 8, A, B"));
}

#[test]
fn transposed_convolution() {
    check(
        "graph @transposed(%x: f32[N, 8, A, B]) -> f32[N, 8, 2*A, 2*B] {
  %w: f32[24, 8, 1, 1] = weights
  %v: f32[24, 16, 2, 2] = weights
  %u: f32[8, 16, 3, 3] = weights
  %a = conv %x, %w {window(1, 1, 0), groups = 1, out = f32}
  %b = relu %a
  %c = conv_transpose %b, %v {window(2, 1, 0), output_padding = [0, 0], groups = 1}
  %d = relu %c
  %e = conv %d, %u {window(1, 1, 1), groups = 1, out = f32}
  return %e
}",
    );
}

#[test]
fn resized_and_added() {
    check(
        "graph @enlarged(%x: f32[N, 8, A, B], %y: f32[N, 8, 2*A, 2*B]) -> f32[N, 7, 2*A, 2*B] {
  %w: f32[24, 8, 1, 1] = weights
  %v: f32[24, 8, 1, 1] = weights
  %u: f32[7, 24, 3, 3] = weights
  %a = conv %x, %w {window(1, 1, 0), groups = 1, out = f32}
  %b = resize %a {axes = [2, 3], sizes = [2*A, 2*B], scales = [2.0, 2.0], mode = nearest, coordinates = asymmetric, rounding = floor, cubic_coefficient = -0.75}
  %c = conv %y, %v {window(1, 1, 0), groups = 1, out = f32}
  %d = add %b, %c
  %e = conv %d, %u {window(1, 1, 1), groups = 1, out = f32}
  return %e
}",
    );
}

#[test]
fn max_pool() {
    check(
        "graph @pooled(%x: f32[N, 3, A, B]) -> f32[N, 8, (A + 1) / 2, (B + 1) / 2] {
  %w: f32[24, 3, 3, 3] = weights
  %v: f32[8, 24, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = relu %a
  %c = pool %b {function = max, size = [3, 3], window(2, 1, 1)}
  %d = conv %c, %v {window(1, 1, 0), groups = 1, out = f32}
  return %d
}",
    );
}

#[test]
fn average_pool() {
    for function in ["mean", "mean_with_padding"] {
        check(&format!(
            "graph @pooled(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {{
  %w: f32[16, 8, 1, 1] = weights
  %v: f32[8, 16, 1, 1] = weights
  %a = conv %x, %w {{window(1, 1, 0), groups = 1, out = f32}}
  %c = pool %a {{function = {function}, size = [3, 3], window(1, 1, 1)}}
  %d = conv %c, %v {{window(1, 1, 0), groups = 1, out = f32}}
  return %d
}}"
        ));
    }
}

#[test]
fn channel_counts_around_the_vector_widths() {
    for [inputs, middle, outputs] in [
        [1, 8, 3],
        [3, 12, 7],
        [7, 24, 1],
        [12, 40, 8],
        [40, 7, 24],
        [24, 1, 40],
        [8, 3, 12],
    ] {
        check(&format!(
            "graph @channels(%x: f32[N, {inputs}, A, B]) -> f32[N, {outputs}, A, B] {{
  %w: f32[{middle}, {inputs}, 3, 3] = weights
  %u: f32[{middle}, 1, 1] = weights
  %v: f32[{outputs}, {middle}, 1, 1] = weights
  %a = conv %x, %w {{window(1, 1, 1), groups = 1, out = f32}}
  %b = add %a, %u
  %c = relu %b
  %d = conv %c, %v {{window(1, 1, 0), groups = 1, out = f32}}
  return %d
}}"
        ));
    }
}

/// The last use of an image is a matrix product of its flattened elements.
#[test]
fn flattened_for_a_matrix_product() {
    check(
        "graph @flat(%x: f32[N, 8, A, B]) -> f32[N, A*B, 12] {
  %w: f32[24, 8, 3, 3] = weights
  %v: f32[24, 12] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = relu %a
  %c = reshape %b {dims = [N, 24, A*B]}
  %d = transpose %c {permutation = [0, 2, 1]}
  %e = matmul %d, %v
  return %e
}",
    );
}

#[test]
fn nested_concatenations() {
    check(
        "graph @nested(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
  %w: f32[8, 8, 3, 3] = weights
  %v: f32[16, 8, 1, 1] = weights
  %u: f32[24, 24, 1, 1] = weights
  %t: f32[8, 80, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = conv %a, %v {window(1, 1, 0), groups = 1, out = f32}
  %c = concat %a, %b {axis = 1}
  %d = conv %c, %u {window(1, 1, 0), groups = 1, out = f32}
  %e = concat %c, %d, %d, %x {axis = 1}
  %f = conv %e, %t {window(1, 1, 0), groups = 1, out = f32}
  return %f
}",
    );
}

/// Run-time data become a size: values that are needed later outlive the arena.
#[test]
fn values_that_outlive_a_segment() {
    check(
        "graph @segments(%x: f32[N, 8, A, B]) -> (f32[N, 8, A, B], f32[n]) {
  %w: f32[24, 8, 3, 3] = weights
  %v: f32[8, 24, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = relu %a
  %flat = reshape %b {dims = [24*N*A*B]}
  %at: i64[1, 24*N*A*B], %count: i64[] = non_zero %flat
  bind %count -> (n)
  %places = slice %at {starts = [0, 0], sizes = [1, n], steps = [1, 1]}
  %list = reshape %places {dims = [n]}
  %found = gather %flat, %list {axis = 0}
  %c = tanh %a
  %d = conv %c, %v {window(1, 1, 0), groups = 1, out = f32}
  return %d, %found
}",
    );
}

#[test]
fn convolutions_in_a_loop() {
    check(
        "graph @loop(%x: f32[N, 8, A, B]) -> f32[N, 8, A, B] {
  %u: f32[8, 8, 1, 1] = weights
  %trips: i64[] = constant [3]
  %on: bool[] = constant [true]
  %start = conv %x, %u {window(1, 1, 0), groups = 1, out = f32}
  %far: f32[N, 8, A, B] = loop %trips, %on, %start {carried = 1}
    region(%i: i64[], %s: f32[N, 8, A, B]) {
      %w: f32[24, 8, 3, 3] = weights
      %v: f32[8, 24, 1, 1] = weights
      %more: bool[] = constant [true]
      %a: f32[N, 24, A, B] = conv %s, %w {window(1, 1, 1), groups = 1, out = f32}
      %b: f32[N, 24, A, B] = relu %a
      %c: f32[N, 8, A, B] = conv %b, %v {window(1, 1, 0), groups = 1, out = f32}
      %d: f32[N, 8, A, B] = tanh %c
      yield %more, %d
    }
  %y = conv %far, %u {window(1, 1, 0), groups = 1, out = f32}
  return %y
}",
    );
}

#[test]
fn non_finite_elements() {
    for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        check_with(WIDER, Elements::With(number));
        check_with(
            "graph @windows(%x: f32[N, 3, A, B]) -> f32[N, 8, A, B] {
  %w: f32[16, 3, 3, 3] = weights
  %u: f32[16, 1, 5, 5] = weights
  %v: f32[8, 16, 1, 1] = weights
  %a = conv %x, %w {window(1, 1, 1), groups = 1, out = f32}
  %b = conv %a, %u {window(1, 1, 2), groups = 16, out = f32}
  %c = pool %b {function = max, size = [3, 3], window(1, 1, 1)}
  %d = conv %c, %v {window(1, 1, 0), groups = 1, out = f32}
  return %d
}",
            Elements::With(number),
        );
    }
}
