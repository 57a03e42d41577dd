//! Rewritten graphs: well typed, close to the original graph's results, and of the expected size.

use crate::{Format, Precision, Reason, reduce_precision};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_ir::{Graph, Op, verify};
use kiln_shape_inference::{GraphBuilder, check_types};
use kiln_tensor::{DType, Tensor};

const FORMATS: [&str; 13] = [
    "bf16",
    "f16",
    "int8",
    "int8-weights",
    "int8-weights/32",
    "int8-weights/zero-points",
    "int4-weights",
    "int4-weights/4",
    "int4-weights/32",
    "int4-weights/32/zero-points",
    "int4-int8",
    "int4-int8/32",
    "int4-int8/4/zero-points",
];

fn wave(shape: &[usize], phase: f64) -> Tensor {
    let count = shape.iter().product::<usize>();
    let numbers: Vec<f64> = (0..count)
        .map(|i| ((i as f64) * 0.7 + phase).sin() + ((i * i) as f64 * 0.013).cos() * 0.3)
        .collect();
    Tensor::from_f64_slice(DType::F32, shape, &numbers).unwrap()
}

/// `x: f32[B, K] * w: f32[K, N]`; on request the weights are stored transposed.
fn linear(depth: usize, columns: usize, transposed: bool) -> Graph {
    let mut b = GraphBuilder::new("linear");
    let (batch, k) = (b.symbol("B").unwrap(), b.size(depth as i64));
    let x = b.input("x", DType::F32, &[batch, k]);
    let weights = wave(&[depth, columns], 0.2);
    let w = match transposed {
        true => {
            let stored = weights.transpose(&[1, 0]).unwrap().contiguous().unwrap();
            let stored = b.constant(stored).unwrap();
            b.transpose(stored, &[1, 0]).unwrap()
        }
        false => b.constant(weights).unwrap(),
    };
    b.origin("layer/0/MatMul");
    let y = b.matmul(x, w).unwrap();
    b.finish(&[("y", y)]).unwrap()
}

fn run(graph: &Graph, x: &Tensor) -> Vec<f64> {
    let outputs = interpret(graph, std::slice::from_ref(x), &InterpretOptions::default()).unwrap();
    outputs[0].to_f64_vec().unwrap()
}

/// The largest difference, relative to the usual size of a sum of `depth` products, or to the largest element if
/// greater.
fn error(found: &[f64], expected: &[f64], depth: usize) -> f64 {
    assert_eq!(found.len(), expected.len());
    let usual = 0.5 * (depth as f64).sqrt();
    let largest = expected.iter().fold(usual, |most, x| most.max(x.abs()));
    let pairs = found.iter().zip(expected);
    pairs.fold(0.0_f64, |most, (a, b)| most.max((a - b).abs())) / largest
}

fn reduced(graph: &Graph, format: &str) -> (Graph, crate::PrecisionReport) {
    let precision = Precision::of(format.parse().unwrap());
    let (reduced, report) = reduce_precision(graph, &precision).unwrap();
    verify(&reduced).unwrap();
    check_types(&reduced).unwrap();
    (reduced, report)
}

fn bound(format: &str) -> f64 {
    match format {
        _ if format.starts_with("int4") => 0.25,
        "f16" => 2e-3,
        _ => 0.03,
    }
}

#[test]
fn matmuls_of_every_format_are_near_those_of_f32_at_edge_sizes() {
    for (depth, columns) in [(1, 1), (2, 3), (7, 1), (32, 17), (33, 5), (96, 8)] {
        for transposed in [false, true] {
            let graph = linear(depth, columns, transposed);
            for format in FORMATS {
                let (narrow, report) = reduced(&graph, format);
                assert_eq!(report.changes.len(), 1, "{format}");
                assert_eq!(report.changes[0].op, "layer/0/MatMul");
                for batch in [0, 1, 5] {
                    let x = wave(&[batch, depth], 1.0);
                    let error = error(&run(&narrow, &x), &run(&graph, &x), depth);
                    assert!(error < bound(format), "{format} {depth}x{columns}: {error}");
                }
            }
        }
    }
}

#[test]
fn convolutions_are_near_those_of_f32_where_the_format_is_for_them() {
    let mut b = GraphBuilder::new("conv");
    let [n, h, w] = ["N", "H", "W"].map(|name| b.symbol(name).unwrap());
    let channels = b.size(4);
    let x = b.input("x", DType::F32, &[n, channels, h, w]);
    let weights = b.constant(wave(&[6, 2, 3, 3], 0.4)).unwrap();
    let window = b.plain_window(2);
    let y = b.conv(x, weights, window, 2).unwrap();
    let graph = b.finish(&[("y", y)]).unwrap();
    for format in FORMATS {
        let (narrow, report) = reduced(&graph, format);
        let per_channel = ["bf16", "f16", "int8", "int8-weights"].contains(&format);
        assert_eq!(report.changes.len(), usize::from(per_channel), "{format}");
        if !per_channel {
            assert_eq!(report.unchanged[0].reason, Reason::Convolution);
        }
        let x = wave(&[2, 4, 5, 4], 0.1);
        let error = error(&run(&narrow, &x), &run(&graph, &x), 18);
        assert!(error < 0.03, "{format}: {error}");
    }
}

#[test]
fn batches_of_weights_are_quantised_matrix_by_matrix() {
    let mut b = GraphBuilder::new("experts");
    let [batch, e, k] = [3, 2, 40].map(|size| b.size(size));
    let x = b.input("x", DType::F32, &[e, batch, k]);
    let w = b.constant(wave(&[2, 40, 3], 0.9)).unwrap();
    let y = b.matmul(x, w).unwrap();
    let graph = b.finish(&[("y", y)]).unwrap();
    for format in FORMATS {
        let (narrow, _) = reduced(&graph, format);
        let x = wave(&[2, 3, 40], 0.1);
        let error = error(&run(&narrow, &x), &run(&graph, &x), 40);
        assert!(error < bound(format), "{format}: {error}");
    }
}

#[test]
fn weights_take_the_bytes_of_their_codes_and_scales() {
    let graph = linear(64, 16, false);
    for (format, bytes) in [
        ("bf16", 64 * 16 * 2),
        ("int8-weights", 64 * 16 + 16 * 4),
        ("int8", 64 * 16 + 16 * 4),
        ("int4-weights/32", 64 * 16 / 2 + 2 * 16 * 4),
        ("int4-weights/32/zero-points", 64 * 16 / 2 + 2 * 16 * 5),
        ("int4-int8/32", 64 * 16 / 2 + 2 * 16 * 4),
    ] {
        let (narrow, report) = reduced(&graph, format);
        assert_eq!(report.bytes_before(), 64 * 16 * 4);
        assert_eq!(report.bytes_after(), bytes, "{format}");
        let constants = narrow.ops().filter_map(|(_, data)| match &data.op {
            Op::Constant(constant) => Some(constant.tensor().byte_len()),
            _ => None,
        });
        // The old weights stay until dead ops are removed; shifts, masks and limits take a few bytes.
        let stored = constants.sum::<usize>() - 64 * 16 * 4;
        assert!((bytes..bytes + 32).contains(&stored), "{format}: {stored}");
    }
}

#[test]
fn weights_of_four_bits_are_the_same_whatever_the_activations() {
    let graph = linear(64, 16, false);
    // Activations that are integers up to 127 in each row are quantised exactly.
    let numbers: Vec<f32> = (0..64).map(|i| (i * 37 % 255) as f32 - 127.0).collect();
    assert!(numbers.contains(&-127.0));
    let x = Tensor::from_slice(&[1, 64], &numbers).unwrap();
    for groups in ["", "/32", "/16/zero-points"] {
        let (expected, _) = reduced(&graph, &format!("int4-weights{groups}"));
        let (found, _) = reduced(&graph, &format!("int4-int8{groups}"));
        let error = error(&run(&found, &x), &run(&expected, &x), 64);
        assert!(error < 1e-6, "{groups}: {error}");
    }
}

#[test]
fn a_product_without_constant_weights_is_left_or_rounded() {
    let mut b = GraphBuilder::new("scores");
    let n = b.symbol("N").unwrap();
    let x = b.input("x", DType::F32, &[n, n]);
    let y = b.matmul(x, x).unwrap();
    let graph = b.finish(&[("y", y)]).unwrap();
    let (_, report) = reduced(&graph, "int4-weights");
    assert_eq!(report.unchanged[0].reason, Reason::NoWeights);
    let (narrow, report) = reduced(&graph, "bf16");
    assert_eq!(
        (
            report.changes[0].bytes_after,
            report.changes[0].weight_error
        ),
        (0, None)
    );
    let x = wave(&[9, 9], 0.3);
    assert!(error(&run(&narrow, &x), &run(&graph, &x), 9) < 0.02);
}

#[test]
fn weights_that_are_not_finite_are_left_and_those_of_zero_are_exact() {
    for (number, changes) in [(f32::NAN, 0), (f32::INFINITY, 0), (0.0, 1)] {
        let mut b = GraphBuilder::new("main");
        let (batch, k) = (b.symbol("B").unwrap(), b.size(4));
        let x = b.input("x", DType::F32, &[batch, k]);
        let w = b.constant(Tensor::full(&[4, 2], number).unwrap()).unwrap();
        let y = b.matmul(x, w).unwrap();
        let graph = b.finish(&[("y", y)]).unwrap();
        for format in ["int8", "int8-weights", "int4-weights/2/zero-points"] {
            let (narrow, report) = reduced(&graph, format);
            assert_eq!(report.changes.len(), changes, "{number} {format}");
            if changes == 1 {
                assert_eq!(run(&narrow, &wave(&[3, 4], 0.5)), [0.0; 6]);
            }
        }
    }
}

#[test]
fn activations_of_zero_and_those_that_are_not_finite_keep_their_meaning() {
    for format in ["int8", "int4-int8", "int4-int8/2/zero-points"] {
        zero_and_not_finite(format);
    }
}

fn zero_and_not_finite(format: &str) {
    let (narrow, _) = reduced(&linear(4, 2, false), format);
    let rows = [
        [0.0_f32; 4],
        [f32::NAN, 1.0, 0.0, 2.0],
        [f32::INFINITY, 1.0, 0.0, 2.0],
    ];
    let x = Tensor::from_slice(&[3, 4], rows.as_flattened()).unwrap();
    let found = run(&narrow, &x);
    assert_eq!(found[..2], [0.0, 0.0], "{format}");
    assert!(found[2..].iter().all(|y| y.is_nan()), "{format}: {found:?}");
}

#[test]
fn the_last_pattern_that_matches_decides() {
    let precision = Precision::of(Format::F32)
        .and("layer/*", Format::BF16)
        .and_then(|precision| precision.and("*/1/*", Format::F16))
        .unwrap();
    assert_eq!(precision.format_of("layer/0/MatMul"), Format::BF16);
    assert_eq!(precision.format_of("layer/1/MatMul"), Format::F16);
    assert_eq!(precision.format_of("head"), Format::F32);
}

#[test]
fn a_pattern_without_a_product_is_an_error_that_lists_them() {
    let precision = Precision::of(Format::BF16)
        .and("lm_head", Format::F32)
        .unwrap();
    let error = reduce_precision(&linear(4, 2, false), &precision).unwrap_err();
    assert_eq!(error.code(), "E0644");
    assert!(error.to_string().contains("layer/0/MatMul"), "{error}");
    let error = Precision::of(Format::F32)
        .and("[", Format::F32)
        .unwrap_err();
    assert_eq!(error.code(), "E0643");
}
