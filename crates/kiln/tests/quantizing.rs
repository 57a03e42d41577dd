//! Models written with narrower weights: they compute what their codes represent, stay close to the original, and load
//! like any other ONNX model.

#![cfg(all(feature = "llvm", feature = "onnx"))]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod onnx_writer;

use kiln::{
    Cache, Calibration, Device, Error, Options, Quantization, QuantizedModel, Source, Tensor,
};
use onnx_writer::{F32, floats, graph, int_attribute, model, node, untyped, value};

/// Numbers between -1 and 1 with a long period.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count)
        .map(|k| ((k * 37 + seed * 11) % 101) as f32 / 50.0 - 1.0)
        .collect()
}

fn weights(name: &str, dims: &[i64]) -> Vec<u8> {
    let count: i64 = dims.iter().product();
    floats(
        name,
        dims,
        &numbers(usize::try_from(count).unwrap(), name.len()),
    )
}

/// A product, another with a transposed operand and a bias, and a product of two activations.
fn dense() -> Vec<u8> {
    let nodes = [
        node("a = MatMul(x, w)", &[]),
        node("b = Relu(a)", &[]),
        node(
            "c = Gemm(b, transposed, bias)",
            &[int_attribute("transB", 1)],
        ),
        node("d = Transpose(c)", &[]),
        node("y = MatMul(c, d)", &[]),
    ];
    let constants = [
        weights("w", &[40, 24]),
        weights("transposed", &[20, 24]),
        weights("bias", &[20]),
    ];
    let x = value("x", F32, Some(&["N", "40"]));
    model(&graph(
        &nodes,
        &constants,
        &[x],
        &[untyped("c"), untyped("y")],
    ))
}

fn picture() -> Vec<u8> {
    let nodes = [node("y = Conv(x, kernel, bias)", &[])];
    let constants = [weights("kernel", &[4, 3, 3, 3]), weights("bias", &[4])];
    let x = value("x", F32, Some(&["N", "3", "H", "W"]));
    model(&graph(&nodes, &constants, &[x], &[untyped("y")]))
}

fn options(device: Device) -> Options {
    Options::new()
        .device(device)
        .threads(1)
        .shared_kernels(false)
        .cache(Cache::off())
}

fn input(rows: usize) -> Tensor {
    Tensor::from_vec(&[rows, 40], numbers(rows * 40, 3)).unwrap()
}

fn outputs(bytes: &[u8], x: &Tensor, device: Device) -> Vec<Vec<f32>> {
    let model = options(device).load(Source::onnx(bytes, None)).unwrap();
    let outputs = model.run([("x", x)]).unwrap();
    outputs
        .iter()
        .map(|(_, output)| output.to_vec::<f32>().unwrap())
        .collect()
}

/// The largest difference relative to the largest element.
fn distance(found: &[f32], expected: &[f32]) -> f32 {
    assert_eq!(found.len(), expected.len());
    let largest = expected.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0.0_f32, |most, (a, b)| most.max((a - b).abs())) / largest
}

fn quantized(
    bytes: &[u8],
    format: &str,
    cases: &[Vec<(String, Tensor)>],
) -> Result<QuantizedModel, Error> {
    let quantization = Quantization::of(format.parse()?);
    quantization.run(Source::onnx(bytes, None), cases, &options(Device::cpu()))
}

fn case(x: Tensor) -> Vec<(String, Tensor)> {
    vec![("x".to_owned(), x)]
}

#[test]
fn weights_of_few_bits_stay_close_and_are_the_same_compiled() {
    let bytes = dense();
    // The tolerance of a result, relative to the largest element.
    let formats = [
        ("int8-weights/32", 0.02),
        ("int8-weights/16/zero-points", 0.02),
        ("int4-weights/16", 0.2),
        ("int4-weights/32/zero-points", 0.2),
        ("int4-int8/32", 0.2),
    ];
    for (format, bound) in formats {
        let quantized = quantized(&bytes, format, &[]).unwrap();
        let outcomes: Vec<bool> = quantized
            .products
            .iter()
            .map(|(_, outcome)| outcome.is_ok())
            .collect();
        assert_eq!(
            outcomes,
            [true, true, false],
            "the last product has no weights"
        );
        assert!(quantized.model.len() < bytes.len());
        for rows in [1, 5] {
            let x = input(rows);
            let expected = outputs(&bytes, &x, Device::interpreter());
            let interpreted = outputs(&quantized.model, &x, Device::interpreter());
            let compiled = outputs(&quantized.model, &x, Device::cpu());
            for ((expected, interpreted), compiled) in
                expected.iter().zip(&interpreted).zip(&compiled)
            {
                let off = distance(interpreted, expected);
                assert!(off > 0.0 && off < bound, "{format}: {off}");
                assert!(distance(compiled, interpreted) < 1e-4);
            }
        }
    }
}

#[test]
fn activations_are_rounded_within_the_ranges_of_cases() {
    let cases = [case(input(5)), case(input(3))];
    let bytes = dense();
    let x = input(4);
    let expected = outputs(&bytes, &x, Device::interpreter());
    let quantized_model = quantized(&bytes, "int8", &cases).unwrap();
    for device in [Device::interpreter(), Device::cpu()] {
        let found = outputs(&quantized_model.model, &x, device);
        for (found, expected) in found.iter().zip(&expected) {
            let off = distance(found, expected);
            assert!(off > 0.0 && off < 0.03, "{off}");
        }
    }
    // With half of the elements outside the range, results are far off, which shows that the range is used.
    let narrow =
        Quantization::of("int8".parse().unwrap()).calibration(Calibration::Percentile(50.0));
    let narrow = narrow
        .run(Source::onnx(&bytes, None), &cases, &options(Device::cpu()))
        .unwrap();
    let off = distance(&outputs(&narrow.model, &x, Device::cpu())[0], &expected[0]);
    assert!(off > 0.1, "{off}");
}

#[test]
fn windows_are_quantised_by_channel() {
    let x = Tensor::from_vec(&[1, 3, 7, 6], numbers(126, 5)).unwrap();
    let bytes = picture();
    let expected = outputs(&bytes, &x, Device::interpreter());
    let quantized_model = quantized(&bytes, "int8", &[case(x.clone())]).unwrap();
    let off = distance(
        &outputs(&quantized_model.model, &x, Device::cpu())[0],
        &expected[0],
    );
    assert!(off > 0.0 && off < 0.03, "{off}");
}

#[test]
fn what_has_no_quantised_form_is_an_error() {
    let refused = [
        quantized(&picture(), "int4-weights/32", &[]),
        quantized(&dense(), "int8", &[]),
        quantized(&dense(), "int4-weights/24", &[]),
        quantized(&dense(), "bf16", &[]),
    ];
    for result in refused {
        assert_eq!(result.unwrap_err().code(), "E0928");
    }
    let text = Source::text("graph @id(%x: f32[N]) -> f32[N] { return %x }");
    let quantization = Quantization::of("int8".parse().unwrap());
    assert_eq!(
        quantization
            .run(text, &[], &Options::new())
            .unwrap_err()
            .code(),
        "E0928"
    );
}
