//! The number of steps in a call of a compiled real model, whether each is compiled well, and whether the results equal
//! the interpreter's.
//!
//! They need `KILN_MODELS`, a folder with `ocr-det`, `ocr-cls`, `ocr-rec` and `minilm`, each with a `model.onnx`; without
//! it they print that they were skipped.

#![cfg(all(feature = "llvm", feature = "onnx"))]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic and print"
)]

use kiln::diagnose::{self, Explained, Stage};
use kiln::internals::ir::Op;
use kiln::{DType, Device, Model, Options, Tensor};
use std::path::PathBuf;

/// The layers of `minilm`.
const LAYERS: usize = 6;

/// Token ids, masks and types, recognised by name, or an image with varied pixels.
fn input(name: &str, dtype: Option<DType>, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    let tensor = match (dtype, name) {
        (Some(DType::I64), "input_ids") => {
            Tensor::from_vec(shape, (0..count as i64).map(|i| 1000 + 37 * i).collect())
        }
        // The last token is padding.
        (Some(DType::I64), "attention_mask") => {
            let is_word = |i: usize| i64::from(i + 1 < count);
            Tensor::from_vec(shape, (0..count).map(is_word).collect())
        }
        (Some(DType::I64), _) => Tensor::full(shape, 0_i64),
        _ => {
            let pixel = |i: usize| (i * 37 % 101) as f32 / 101.0;
            Tensor::from_vec(shape, (0..count).map(pixel).collect())
        }
    };
    tensor.unwrap()
}

/// A model, compiled separately and called once on inputs of this shape, and its explanation afterwards. Its outputs are
/// compared with the interpreter's.
fn called(name: &str, shape: &[usize]) -> Option<(Model, Explained)> {
    let Some(folder) = std::env::var_os("KILN_MODELS").map(PathBuf::from) else {
        println!("SKIPPED: {name} needs KILN_MODELS, the folder of the real models");
        return None;
    };
    let options = Options::new().device(Device::cpu()).shared_kernels(false);
    let model = options.load(folder.join(name).join("model.onnx")).unwrap();
    let tensors: Vec<(String, Tensor)> = model
        .inputs()
        .iter()
        .map(|given| {
            let tensor = input(given.name(), given.dtype(), shape);
            (given.name().to_owned(), tensor)
        })
        .collect();
    let comparison =
        diagnose::compare(&model, &diagnose::reference(&model, &tensors).unwrap()).unwrap();
    let (agrees, outputs) = (comparison.agrees(), &comparison.outputs);
    assert!(agrees, "{name}: {outputs:?}");
    let explained = diagnose::explain(&model).unwrap();
    println!("{name}: {explained}");
    Some((model, explained))
}

/// Nothing is interpreted, no contraction uses plain loops, and no compile failed.
fn assert_compiled_well(explained: &Explained) {
    assert_eq!(explained.device, Device::cpu());
    let interpreted = explained
        .steps
        .iter()
        .filter(|step| step.kind == "interpret");
    let interpreted: Vec<_> = interpreted.map(|step| (&step.name, &step.reason)).collect();
    assert!(interpreted.is_empty(), "{interpreted:?}");
    assert_eq!(explained.stats.interpreted_steps, 0);
    assert!(!explained.compiles.is_empty());
    for compile in &explained.compiles {
        assert!(!compile.is_contraction_left_to_fallback(), "{compile}");
        assert_eq!(compile.error, None, "{compile}");
    }
    assert_eq!(explained.stats.fallback_contractions, 0);
    assert_eq!(explained.stats.other_plans, 0);
}

#[test]
fn real_model_minilm_takes_at_most_nine_steps_a_layer() {
    let Some((_, explained)) = called("minilm", &[2, 12]) else {
        return;
    };
    let of_layers: Vec<_> = explained
        .steps
        .iter()
        .filter(|step| {
            step.gives
                .iter()
                .any(|value| value.contains("/encoder/layer."))
        })
        .collect();
    let least = of_layers.len() >= 4 * LAYERS;
    assert!(least, "no longer recognised by name: {of_layers:?}");
    assert!(of_layers.len() <= 9 * LAYERS, "{}", of_layers.len());
    // Embeddings, masks, pooling and the final norm are not layers.
    assert!(
        explained.steps.len() <= 9 * LAYERS + 6,
        "{}",
        explained.steps.len()
    );
    assert_compiled_well(&explained);
}

#[test]
fn real_model_detector_takes_at_most_1_3_steps_a_convolution() {
    let Some((model, explained)) = called("ocr-det", &[1, 3, 64, 96]) else {
        return;
    };
    let graph = diagnose::graph(&model, Stage::Optimized).unwrap();
    let is_conv = |op: &Op| matches!(op, Op::Conv { .. } | Op::ConvTranspose { .. });
    let convs = graph.ops().filter(|(_, data)| is_conv(&data.op)).count();
    let steps = explained.steps.len();
    assert!(steps * 10 <= convs * 13, "{steps} for {convs} convolutions");
    assert_compiled_well(&explained);
}

#[test]
fn real_model_classifier_and_recogniser_are_compiled_well() {
    for (model, shape) in [("ocr-cls", [1, 3, 48, 192]), ("ocr-rec", [1, 3, 48, 64])] {
        if let Some((_, explained)) = called(model, &shape) {
            assert_compiled_well(&explained);
        }
    }
}
