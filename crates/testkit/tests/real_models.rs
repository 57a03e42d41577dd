//! Four real models through the whole pipeline: imported, optimised, printed, read and run.
//!
//! They need `KILN_MODELS`, a folder with `ocr-det`, `ocr-cls`, `ocr-rec` and `minilm`, each with a `model.onnx`; without
//! it they report that they were skipped. Their expected results were computed with another runtime on the inputs below.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use kiln_interpreter::{
    InterpretError, InterpretOptions, bind_symbols, interpret, plan_facts_hold,
};
use kiln_ir::{Graph, Op, text};
use kiln_onnx::{ImportOptions, Model, import};
use kiln_passes::{PassOptions, optimize};
use kiln_shape_inference::read_graph;
use kiln_tensor::{DType, Tensor};
use kiln_testkit::laws::{blobs_of, check_graph};
use std::path::PathBuf;

/// The path of a model, if an environment variable names the folder of models.
fn path(model: &str) -> Option<PathBuf> {
    let path = std::env::var_os("KILN_MODELS").map(|folder| PathBuf::from(folder).join(model));
    if path.is_none() {
        println!("SKIPPED: {model} needs KILN_MODELS, the folder of the real models");
    }
    Some(path?.join("model.onnx"))
}

fn imported(model: &str) -> Option<Graph> {
    let model = Model::load(path(model)?).unwrap();
    Some(import(&model, &ImportOptions::new()).unwrap())
}

fn optimized(model: &str) -> Option<Graph> {
    let mut options = PassOptions {
        verify: true,
        ..PassOptions::default()
    };
    Some(optimize(imported(model)?, &mut options).unwrap().0)
}

/// Element `i` is `((37 * i) % 101) / 101 - 0.5`.
fn ripple(shape: &[usize]) -> Tensor {
    let count = shape.iter().product();
    let elements: Vec<f32> = (0..count)
        .map(|i: usize| (((i * 37) % 101) as f64 / 101.0 - 0.5) as f32)
        .collect();
    Tensor::from_slice(shape, &elements).unwrap()
}

/// A picture with dark strokes on white, as the detector expects it: `f32[1, 3, height, width]`.
fn strokes(height: usize, width: usize) -> Tensor {
    let ink = |i: usize| {
        let (h, w) = ((i / width) % height, i % width);
        (8..24).contains(&(h % 32)) && w % 9 < 4 && w >= 4
    };
    let elements: Vec<f32> = (0..3 * height * width)
        .map(|i| if ink(i) { -1.0 } else { 1.0 })
        .collect();
    Tensor::from_slice(&[1, 3, height, width], &elements).unwrap()
}

/// A checksum of a tensor: the sum, the sum weighted by `(7 * i) % 13 - 6`, the maximum element and its position.
#[derive(Debug)]
struct Summary {
    sum: f64,
    weighted: f64,
    largest: (f64, usize),
}

impl Summary {
    fn of(tensor: &Tensor) -> Self {
        let mut summary = Self {
            sum: 0.0,
            weighted: 0.0,
            largest: (f64::NEG_INFINITY, 0),
        };
        for (i, element) in tensor.to_vec::<f32>().unwrap().into_iter().enumerate() {
            let element = f64::from(element);
            summary.sum += element;
            summary.weighted += element * (((i * 7) % 13) as f64 - 6.0);
            if element > summary.largest.0 {
                summary.largest = (element, i);
            }
        }
        summary
    }

    #[track_caller]
    fn expect(self, sum: f64, weighted: f64, largest: (f64, usize), tolerance: f64) {
        let close = |expected: f64, found: f64| (expected - found).abs() <= tolerance;
        let same = close(sum, self.sum) && close(weighted, self.weighted);
        let same = same && close(largest.0, self.largest.0) && largest.1 == self.largest.1;
        assert!(
            same,
            "expected sum {sum}, weighted {weighted}, largest {largest:?}, found {self:?}"
        );
    }
}

fn run(graph: &Graph, inputs: &[Tensor]) -> Result<Tensor, InterpretError> {
    let mut outputs = interpret(graph, inputs, &InterpretOptions::default())?;
    assert_eq!(outputs.len(), 1);
    Ok(outputs.remove(0))
}

/// The integer scalars and vectors that are not constants: leftovers of shape arithmetic. The token ids that an encoder
/// looks up have at least two axes.
fn integers(graph: &Graph) -> Vec<String> {
    let computed = graph
        .ops()
        .filter(|(_, data)| !matches!(data.op, Op::Constant(_)));
    computed
        .flat_map(|(_, data)| {
            data.results
                .iter()
                .map(|&value| (data.op.mnemonic(), graph.ty(value)))
        })
        .filter(|(_, ty)| ty.innermost().dtype.is_integer() && ty.innermost().rank() < 2)
        .map(|(op, ty)| format!("{op}: {}", ty.display(graph.dims())))
        .collect()
}

#[test]
fn real_model_texts_read_back() {
    for model in ["ocr-det", "ocr-cls", "ocr-rec", "minilm"] {
        let Some(graph) = imported(model) else {
            continue;
        };
        check_graph(&graph).unwrap_or_else(|error| panic!("{model}: {error}"));
        let Some(fast) = optimized(model) else {
            continue;
        };
        check_graph(&fast).unwrap_or_else(|error| panic!("{model}, optimized: {error}"));
        let printed = text::print(&fast);
        let again = read_graph(&printed, &blobs_of(&fast)).unwrap();
        assert_eq!(text::print(&again), printed, "{model}");
    }
}

#[test]
fn real_model_shape_arithmetic_is_gone_before_run_time() {
    for model in ["ocr-det", "ocr-cls", "ocr-rec", "minilm"] {
        let Some(graph) = optimized(model) else {
            continue;
        };
        for (_, data) in graph.ops() {
            let name = data.op.mnemonic();
            assert!(
                !matches!(data.op, Op::Dims { .. } | Op::Bind),
                "{model} has {name}"
            );
        }
        assert_eq!(integers(&graph), Vec::<String>::new(), "{model}");
    }
}

#[test]
fn real_model_detector_takes_its_plan_facts_as_true_for_usual_sizes() {
    let Some(graph) = optimized("ocr-det") else {
        return;
    };
    assert!(!graph.dims().plan_facts().is_empty());
    for (height, width, all) in [(64, 96, true), (320, 320, true), (100, 100, false)] {
        let binding = bind_symbols(&graph, &[[1, 3, height, width]]).unwrap();
        let facts = plan_facts_hold(&graph, &binding);
        assert!(facts.iter().all(|fact| fact.holds().is_some()));
        assert_eq!(
            facts.iter().all(|fact| fact.holds() == Some(true)),
            all,
            "{height}x{width}"
        );
    }
}

#[test]
fn real_model_detector_finds_strokes() {
    let Some(graph) = optimized("ocr-det") else {
        return;
    };
    let y = run(&graph, &[strokes(64, 96)]).unwrap();
    assert_eq!(y.shape(), [1, 1, 64, 96]);
    Summary::of(&y).expect(
        405.130_755_573_511_1,
        7.881_211_966_276_169,
        (1.0, 1464),
        0.02,
    );
}

#[test]
fn real_model_detector_runs_on_small_pictures() {
    let Some(graph) = optimized("ocr-det") else {
        return;
    };
    let y = run(&graph, &[strokes(1, 1)]).unwrap();
    assert_eq!(y.shape(), [1, 1, 32, 32]);
    assert!(y.to_vec::<f32>().unwrap().iter().all(|&x| x < 1e-6));
    let y = run(&graph, &[strokes(31, 31)]).unwrap();
    assert_eq!(y.shape(), [1, 1, 32, 32]);
    Summary::of(&y).expect(
        30.930_815_845_727_92,
        -12.864_397_853_612_9,
        (0.999_907_8, 559),
        0.01,
    );
}

#[test]
fn real_model_detector_names_both_operands_where_sizes_do_not_meet() {
    for graph in [imported("ocr-det"), optimized("ocr-det")]
        .into_iter()
        .flatten()
    {
        for size in [16, 100] {
            let error = run(&graph, &[strokes(size, size)]).unwrap_err();
            assert_eq!(error.code(), "E0820", "{error}");
            let message = error.to_string();
            // The operands' types where they meet, or the two sizes if these are already known.
            let names_both = |what| message.matches(what).count() == 2;
            assert!(names_both("f32[1, ") || names_both(" = "), "{message}");
            assert!(message.contains("p2o.Add"), "{message}");
        }
    }
}

#[test]
fn real_model_classifier_and_recogniser_give_what_they_gave_elsewhere() {
    if let Some(graph) = optimized("ocr-cls") {
        let y = run(&graph, &[ripple(&[2, 3, 48, 192])]).unwrap();
        assert_eq!(y.shape(), [2, 2]);
        Summary::of(&y).expect(
            2.0,
            -0.677_917_301_654_815_7,
            (0.773_573_875_427_246_1, 3),
            1e-4,
        );
    }
    let Some(graph) = optimized("ocr-rec") else {
        return;
    };
    for (width, weighted, largest) in [
        (
            32,
            1.143_617_756_433_569_9,
            (0.857_791_125_774_383_5, 13250),
        ),
        (
            48,
            -1.237_710_063_609_384_3,
            (0.976_158_261_299_133_3, 6625),
        ),
    ] {
        let y = run(&graph, &[ripple(&[1, 3, 48, width])]).unwrap();
        assert_eq!(y.shape(), [1, width / 8, 6625]);
        Summary::of(&y).expect((width / 8) as f64, weighted, largest, 1e-3);
    }
}

#[test]
fn real_model_encoder_gives_what_it_gave_elsewhere() {
    let Some(graph) = optimized("minilm") else {
        return;
    };
    let ids: Vec<i64> = (0..14).map(|i| 1000 + (i * 313) % 20000).collect();
    let mask: Vec<i64> = (0..14).map(|i| i64::from(i < 11)).collect();
    let inputs = [&ids, &mask].map(|elements| Tensor::from_slice(&[2, 7], elements).unwrap());
    let y = run(&graph, &inputs).unwrap();
    assert_eq!((y.dtype(), y.shape()), (DType::F32, &[2, 384][..]));
    Summary::of(&y).expect(
        0.556_340_139_749_433_9,
        1.637_321_220_100_853_1,
        (0.179_154_545_068_740_84, 483),
        1e-4,
    );
}
