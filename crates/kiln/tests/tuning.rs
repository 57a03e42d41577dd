//! Tuning: candidates compute the same, a choice is remembered, and what the options set is left unchanged.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use kiln::internals::ir::Graph;
use kiln::{
    AutoTuner, Cache, Compiling, Device, Model, OptimizationConfig, Options, Source, Tensor,
};

const TEXT: &str = "graph @mlp(%x: f32[B, 12], %w: f32[12, 9], %b: f32[9]) -> f32[B, 9] {
  %p = matmul %x, %w
  %s = add %p, %b
  %y = tanh %s
  return \"y\" = %y
}";

fn options(cache: Cache) -> Options {
    Options::new().cache(cache).device(Device::cpu())
}

fn graph() -> Graph {
    Model::load(Source::text(TEXT)).unwrap().graph().unwrap()
}

fn sample(batch: usize) -> [Tensor; 3] {
    let values = |shape: &[usize]| {
        let count = shape.iter().product();
        let values = (0..count).map(|index| (index % 13) as f32 / 7.0 - 0.9);
        Tensor::from_slice(shape, &values.collect::<Vec<f32>>()).unwrap()
    };
    [values(&[batch, 12]), values(&[12, 9]), values(&[9])]
}

fn y(options: Options, inputs: &[Tensor]) -> Vec<f32> {
    let model = options.load(Source::graph(graph())).unwrap();
    model
        .run(inputs)
        .unwrap()
        .get("y")
        .unwrap()
        .to_vec()
        .unwrap()
}

#[test]
fn every_candidate_computes_the_same() {
    let sample = sample(5);
    let tuner = AutoTuner::new(options(Cache::off())).rounds(3);
    let report = tuner.report(&graph(), &sample).unwrap();
    assert!(!report.is_remembered);
    assert_eq!(report.measured[0].config, OptimizationConfig::default());
    let fusions = report.measured.iter();
    let limited = fusions.filter(|measured| measured.config.kernel_ops.is_some());
    assert!(limited.count() >= 2, "{report}");
    let expected = y(options(Cache::off()), &sample);
    for measured in &report.measured {
        let found = y(measured.config.apply(options(Cache::off())), &sample);
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() < 1e-5, "{}", measured.config);
        }
    }
    // Either the defaults, or a configuration confirmed to be faster.
    match report.confirmed {
        Some([defaults, choice]) => assert!(choice < defaults, "{report}"),
        None => assert_eq!(report.config, OptimizationConfig::default()),
    }
}

#[test]
fn a_choice_is_remembered_for_its_graph_and_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let cached = || options(Cache::folder(folder.path()));
    let tuner = || AutoTuner::new(cached()).rounds(3);
    let first = tuner().report(&graph(), &sample(5)).unwrap();
    assert!(!first.is_remembered);
    let again = tuner().report(&graph(), &sample(5)).unwrap();
    assert!(again.is_remembered && again.measured.is_empty());
    assert_eq!(again.config, first.config);
    assert!(again.to_string().ends_with("as remembered"));
    // Other sizes and other options are tuned separately.
    assert!(!tuner().report(&graph(), &sample(6)).unwrap().is_remembered);
    let one = AutoTuner::new(cached().threads(1)).rounds(3);
    let one = one.report(&graph(), &sample(5)).unwrap();
    assert!(!one.is_remembered);
    assert!(
        one.measured
            .iter()
            .all(|measured| measured.config.threads.is_none())
    );
}

#[test]
fn precision_is_given_up_only_where_the_options_allow_it() {
    let sample = sample(2);
    let products = |fewer_products: bool| {
        let options = options(Cache::off()).compiling(Compiling {
            fewer_products,
            ..Compiling::default()
        });
        let report = AutoTuner::new(options)
            .rounds(3)
            .report(&graph(), &sample)
            .unwrap();
        let measured = report.measured.into_iter();
        measured
            .filter_map(|measured| measured.config.fewer_products)
            .collect::<Vec<bool>>()
    };
    assert!(products(false).is_empty());
    assert_eq!(products(true), [false]);
}

#[test]
fn the_interpreter_has_nothing_to_tune() {
    let options = Options::new()
        .cache(Cache::off())
        .device(Device::interpreter());
    let report = AutoTuner::new(options)
        .report(&graph(), &sample(2))
        .unwrap();
    assert_eq!(report.config, OptimizationConfig::default());
    assert!(report.measured.is_empty());
}

#[test]
fn inputs_that_do_not_fit_are_an_error_of_the_call() {
    let tuner = AutoTuner::new(options(Cache::off()));
    let error = tuner.tune(&graph(), &sample(2)[..2]).unwrap_err();
    assert_eq!(error.code(), "E0871");
}
