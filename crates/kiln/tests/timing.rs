//! The time breakdown of a model, as users see it.
#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use kiln::timing::{Category, Filter, Report, SystemClock, Timing, TimingOptions, Verbosity};
use kiln::{Cache, Device, Model, Observation, Options, Source, Tensor, Var, diagnose};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const MLP: &str = "graph @mlp(%x: f32[B, 8], %w: f32[8, 4]) -> (f32[B, 4], f32[B]) {
  %y = matmul %x, %w
  %z = relu %y
  %s = reduce %x {function = sum, axes = [1]}
  return %z, %s
}";

fn options() -> Options {
    Options::new()
        .device(Device::cpu())
        .shared_kernels(false)
        .cache(Cache::off())
        .threads(1)
}

fn run(model: &Model, rows: usize) {
    let x = Tensor::full(&[rows, 8], 0.5f32).unwrap();
    let w = Tensor::full(&[8, 4], 0.25f32).unwrap();
    model.run([("x", &x), ("w", &w)]).unwrap();
}

/// The names of events with this prefix.
fn named<'a>(report: &'a Report, prefix: &str) -> Vec<&'a str> {
    let names = report.events.iter().map(|event| event.name.as_str());
    names.filter(|name| name.starts_with(prefix)).collect()
}

#[test]
fn a_verbose_report_has_each_kernel_and_a_second_run_adds_none() {
    let options = options().observe(Observation::new().timing(Verbosity::Verbose));
    let model = options.load(Source::text(MLP)).unwrap();
    run(&model, 3);
    // A call continues as soon as its code exists, before the compile threads have finished storing it.
    assert!(model.wait_for_compiles(Duration::from_secs(60)));
    let report = model.timing().report();
    let kernels = diagnose::compile_records(&model).len();
    assert!(kernels > 0);
    assert_eq!(named(&report, "compile_").len(), kernels, "{report}");
    assert_eq!(named(&report, "codegen_").len(), kernels, "{report}");
    for name in named(&report, "compile_") {
        let event = report.event(name).unwrap();
        let function = name.trim_start_matches("compile_");
        assert_eq!(
            (event.count, event.description.as_str()),
            (1, format!("Compilation time for {function}").as_str())
        );
    }
    for name in [
        "read",
        "import",
        "passes",
        "fusion",
        "plan",
        "launch_plan",
        "run_mlp",
    ] {
        assert!(report.event(name).is_some(), "{name}: {report}");
    }
    let passes = report.event("passes").unwrap();
    assert_eq!(passes.description, "Passes over the graph");
    let parts = report.category(Category::Compile).parts;
    let parts: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(parts, ["emit", "load", "optimize", "verify"]);
    let rounding = report.events.len() as u128;
    assert!(
        report.sum().abs_diff(report.wall()).as_nanos() <= rounding,
        "{report}"
    );
    run(&model, 3);
    run(&model, 5);
    let later = model.timing().report();
    assert_eq!(named(&later, "compile_").len(), kernels);
    assert_eq!(
        later.category(Category::Compile).wall_ns,
        report.category(Category::Compile).wall_ns
    );
    assert_eq!(later.event("run_mlp").unwrap().count, 3);
}

#[test]
fn events_and_unattributed_time_add_up_to_the_stopwatch() {
    // One of a few attempts must pass, since a busy machine may be delayed between reading the two clocks.
    let is_within = (0..5).any(|_| {
        let begin = Instant::now();
        let model = options().load(Source::text(MLP)).unwrap();
        run(&model, 3);
        let stopwatch = begin.elapsed().as_secs_f64();
        let sum = model.timing().report().sum().as_secs_f64();
        (stopwatch - sum).abs() <= 0.02 * stopwatch
    });
    assert!(is_within);
}

#[test]
fn the_first_call_is_reported_once_without_a_request() {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listener = Arc::clone(&told);
    let options = options().observe(
        Observation::new().on_timing(move |report| listener.lock().unwrap().push(report.clone())),
    );
    let model = options.load(Source::text(MLP)).unwrap();
    assert!(told.lock().unwrap().is_empty());
    run(&model, 3);
    run(&model, 4);
    let told = told.lock().unwrap();
    assert_eq!((told.len(), told[0].verbosity), (1, Verbosity::Default));
    assert!(told[0].category(Category::Compile).wall_ns > 0 && told[0].events.is_empty());
    assert!(told[0].to_text().contains("unattributed"));
}

#[test]
fn with_timing_off_nothing_is_reported_and_counters_continue() {
    let options = options().observe(
        Observation::new()
            .timing(Verbosity::Off)
            .on_timing(|report| panic!("{report}")),
    );
    let model = options.load(Source::text(MLP)).unwrap();
    run(&model, 3);
    let report = model.timing().report();
    assert_eq!(report.wall_ns, 0);
    assert!(report.counters.compile_ok > 0 && report.counters.miss > 0);
}

#[test]
fn a_filter_hides_events_and_keeps_the_sum() {
    let timing = TimingOptions::new()
        .verbosity(Verbosity::Debug)
        .filter(Filter::new().category(Category::Build))
        .records(1000);
    let options = options().observe(Observation::new().timing(timing));
    let model = options.load(Source::text(MLP)).unwrap();
    run(&model, 3);
    let report = model.timing().report();
    assert!(report.hidden_ns > 0 && named(&report, "compile_").is_empty());
    assert!(report.sum().abs_diff(report.wall()).as_nanos() <= 1000);
    assert!(model.timing().trace().n_spans() > 0);
    assert!(
        model
            .timing()
            .trace()
            .to_json()
            .unwrap()
            .contains("\"traceEvents\"")
    );
}

#[test]
fn interpreted_calls_are_timed() {
    let options = Options::new()
        .device(Device::interpreter())
        .observe(Observation::new().timing(Verbosity::Verbose));
    let model = options.load(Source::text(MLP)).unwrap();
    run(&model, 3);
    let report = model.timing().report();
    assert_eq!(report.event("interpret_mlp").unwrap().count, 1);
    assert_eq!(report.category(Category::Compile).spans, 0);
}

#[test]
fn models_may_share_a_recorder() {
    let timing = Timing::new(
        Arc::new(SystemClock::new()),
        TimingOptions::new().verbosity(Verbosity::Verbose),
    );
    for _ in 0..2 {
        run(
            &options()
                .observe(Observation::new().timing(timing.clone()))
                .load(Source::text(MLP))
                .unwrap(),
            3,
        );
    }
    assert_eq!(timing.report().event("read").unwrap().count, 2);
}

#[test]
fn a_functions_name_appears_in_its_events() {
    let dxdt = kiln::jit(|x: Var| -x)
        .named("dxdt")
        .with_options(options().observe(Observation::new().timing(Verbosity::Verbose)));
    let x = Tensor::full(&[4], 1.5f32).unwrap();
    for _ in 0..2 {
        assert_eq!(dxdt.call([&x]).unwrap().to_vec::<f32>().unwrap(), [-1.5; 4]);
    }
    let report = dxdt.timing().report();
    assert_eq!(named(&report, "compile_"), ["compile_dxdt"], "{report}");
    assert_eq!(report.event("trace").unwrap().count, 1);
    assert_eq!(report.event("run_dxdt").unwrap().count, 2);
}
