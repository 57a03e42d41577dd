//! The plans of four real models: the number of kernels, and no interpreted ops.
//!
//! They need `KILN_MODELS`, a folder with `ocr-det`, `ocr-cls`, `ocr-rec` and `minilm`, each with a `model.onnx`; without
//! it they report that they were skipped.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test may panic, and say what it did"
)]

use kiln_fusion::{FusionOptions, FusionPlan, plan};
use kiln_ir::{Graph, Op};
use kiln_onnx::{ImportOptions, Model, import};
use kiln_passes::{PassOptions, optimize};
use std::path::PathBuf;

fn optimized(model: &str) -> Option<Graph> {
    let Some(folder) = std::env::var_os("KILN_MODELS").map(PathBuf::from) else {
        println!("SKIPPED: {model} needs KILN_MODELS, the folder of the real models");
        return None;
    };
    let model = Model::load(folder.join(model).join("model.onnx")).unwrap();
    let graph = import(&model, &ImportOptions::new()).unwrap();
    let mut options = PassOptions {
        verify: false,
        ..PassOptions::default()
    };
    Some(optimize(graph, &mut options).unwrap().0)
}

fn planned(model: &str) -> Option<(Graph, FusionPlan)> {
    let graph = optimized(model)?;
    let start = std::time::Instant::now();
    let plan = plan(&graph, &FusionOptions::new()).unwrap();
    println!("{model} planned in {:?}\n{plan}", start.elapsed());
    Some((graph, plan))
}

fn count(graph: &Graph, wanted: impl Fn(&Op) -> bool) -> usize {
    graph.ops().filter(|(_, data)| wanted(&data.op)).count()
}

#[test]
fn minilm_takes_at_most_nine_kernels_a_layer() {
    let Some((_, plan)) = planned("minilm") else {
        return;
    };
    assert_eq!(plan.count("interpret"), 0);
    assert!(
        plan.count("kernel") <= 6 * 9 + 6,
        "{}",
        plan.count("kernel")
    );
}

#[test]
fn ocr_det_takes_at_most_1_3_kernels_a_convolution() {
    let Some((graph, plan)) = planned("ocr-det") else {
        return;
    };
    let is_conv = |op: &Op| matches!(op, Op::Conv { .. } | Op::ConvTranspose { .. });
    let convs = count(&graph, is_conv);
    assert_eq!(plan.count("interpret"), 0);
    assert!(
        plan.count("kernel") * 10 <= convs * 13,
        "{} for {convs}",
        plan.count("kernel")
    );
}

#[test]
fn classifier_and_recognizer_plans_interpret_nothing() {
    for model in ["ocr-cls", "ocr-rec"] {
        if let Some((_, plan)) = planned(model) {
            assert_eq!(plan.count("interpret"), 0);
        }
    }
}
