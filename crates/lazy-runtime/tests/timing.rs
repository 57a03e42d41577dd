//! A program's recorder: one event per kernel, timed once per specialisation, and parts that add up to the total.

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_lazy_runtime::{CompiledProgram, Runtime, RuntimeOptions};
use kiln_timing::{Category, ManualClock, Report, SystemClock, Timing, TimingOptions, Verbosity};
use support::{FakeCompiler, FakeDevice, Offer, compiled, graph, ramp, runtime, runtime_with};

const TWO: &str = "graph @two(%x: f32[A, B]) -> (f32[A], f32[A, B]) {
  %a = reduce %x {function = sum, axes = [1]}
  %b = relu %x
  return %a, %b
}";

fn verbose() -> Timing {
    let options = TimingOptions::new().verbosity(Verbosity::Verbose);
    Timing::new(Arc::new(SystemClock::new()), options)
}

fn timed(runtime: &Arc<Runtime>, text: &str, timing: &Timing) -> CompiledProgram {
    compiled(runtime, &graph(text), false).with_timing(timing.clone())
}

/// The compile events and how often each was timed.
fn compiles(report: &Report) -> Vec<(String, u64)> {
    let events = report.events.iter();
    let events = events.filter(|event| event.name.starts_with("compile_"));
    let mut counts: Vec<_> = events
        .map(|event| (event.name.clone(), event.count))
        .collect();
    counts.sort();
    counts
}

fn expect_whole(report: &Report) {
    let rounding = Duration::from_nanos(report.events.len() as u64);
    assert!(report.sum().abs_diff(report.wall()) <= rounding, "{report}");
    assert_eq!(report.open_ns, 0);
}

#[test]
fn a_verbose_report_has_one_described_event_per_kernel() {
    let runtime = runtime();
    let timing = verbose();
    let program = timed(&runtime, TWO, &timing);
    program.run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    let report = timing.report();
    let kernels = program.program().kernels().len();
    assert_eq!((kernels, compiles(&report).len()), (2, 2), "{report}");
    for (name, count) in compiles(&report) {
        let function = name.trim_start_matches("compile_");
        let event = report.event(&name).unwrap();
        assert_eq!(count, 1);
        assert_eq!(
            event.description,
            format!("Compilation time for {function}")
        );
    }
    assert_eq!(report.event("run_two").unwrap().count, 1);
    assert_eq!(
        report.event("launch_plan").unwrap().category,
        Category::Build
    );
    assert_eq!((report.counters.miss, report.counters.compile_ok), (2, 2));
    assert!(report.counters.blocked_ms > 0.0);
    expect_whole(&report);
}

#[test]
fn a_second_run_and_other_sizes_add_no_compile() {
    let runtime = runtime();
    let timing = verbose();
    let program = timed(&runtime, TWO, &timing);
    program.run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    let first = timing.report();
    program.run(&[ramp(&[2, 3])]).unwrap();
    program.run(&[ramp(&[7, 1])]).unwrap();
    let second = timing.report();
    assert_eq!(compiles(&first), compiles(&second));
    assert_eq!(second.event("run_two").unwrap().count, 3);
    assert_eq!(second.event("launch_plan").unwrap().count, 2);
    assert_eq!((second.counters.miss, second.counters.hit), (2, 2));
    expect_whole(&second);
}

#[test]
fn an_evicted_kernel_is_timed_again_once() {
    let runtime = runtime();
    let timing = verbose();
    let program = timed(&runtime, TWO, &timing);
    let run = || {
        program.clear();
        program.run(&[ramp(&[2, 3])]).unwrap();
        assert!(runtime.wait_idle(Duration::from_secs(60)));
        let counts = compiles(&timing.report());
        counts
            .into_iter()
            .map(|(_, count)| count)
            .collect::<Vec<_>>()
    };
    assert_eq!(run(), [1, 1]);
    assert_eq!(run(), [1, 1]);
    runtime.clear_cache();
    assert_eq!(run(), [2, 2]);
    assert_eq!(run(), [2, 2]);
}

#[test]
fn a_single_kernel_graph_is_timed_under_its_own_name() {
    let timing = verbose();
    let text = "graph @dxdt(%x: f32[N]) -> f32[N] {
      %y = neg %x
      return %y
    }";
    let runtime = runtime();
    timed(&runtime, text, &timing).run(&[ramp(&[3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    assert_eq!(compiles(&timing.report()), [("compile_dxdt".to_owned(), 1)]);
}

#[test]
fn each_program_has_its_own_recorder() {
    let runtime = runtime();
    let (one, other) = (verbose(), verbose());
    timed(&runtime, TWO, &one).run(&[ramp(&[2, 3])]).unwrap();
    timed(&runtime, TWO, &other).run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    let of = |timing: &Timing| {
        let report = timing.report();
        (
            compiles(&report).len(),
            report.counters.miss,
            report.counters.hit,
        )
    };
    assert_eq!((of(&one), of(&other)), ((2, 2, 0), (0, 0, 2)));
}

#[test]
fn with_timing_off_everything_is_still_counted() {
    let runtime = runtime();
    let program = compiled(&runtime, &graph(TWO), false);
    program.run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    let report = program.timing().report();
    assert_eq!(
        (
            report.wall_ns,
            report.counters.miss,
            report.counters.compile_ok
        ),
        (0, 2, 2)
    );
}

#[test]
fn compiles_that_fail_and_steps_left_to_the_interpreter_are_counted() {
    let compiler = FakeCompiler {
        offer: Offer::AllBroken,
        ..FakeCompiler::default()
    };
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let timing = verbose();
    timed(&runtime, TWO, &timing).run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    let report = timing.report();
    assert_eq!(compiles(&report), []);
    assert!(report.event("other_compile").is_some());
    assert_eq!(
        (
            report.counters.compile_ok,
            report.counters.interpreted_steps
        ),
        (0, 2)
    );
    assert!(report.counters.compile_err >= 2);
    expect_whole(&report);
}

#[test]
fn steps_are_timed_on_request() {
    let timing = verbose();
    let runtime = runtime();
    let program = timed(&runtime, TWO, &timing);
    timing.set_verbosity(Verbosity::Default);
    program.run(&[ramp(&[2, 3])]).unwrap();
    let runs = |report: &Report| report.category(Category::Runtime).spans;
    assert_eq!(runs(&timing.report()), 1);
    timing.set_verbosity(Verbosity::Verbose);
    program.run(&[ramp(&[2, 3])]).unwrap();
    assert_eq!(runs(&timing.report()), 4);
}

#[test]
fn programs_without_a_recorder_are_timed_by_the_runtime() {
    let timing = verbose();
    let options = RuntimeOptions::new().with_compile_threads(NonZeroUsize::MIN);
    let runtime = Runtime::new(
        Some(Arc::new(FakeCompiler::default())),
        Arc::new(FakeDevice::default()),
        options,
    );
    let runtime = Arc::new(runtime.with_timing(timing.clone()));
    let program = compiled(&runtime, &graph(TWO), false);
    program.run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    assert_eq!(compiles(&timing.report()).len(), 2);
    assert_eq!(runtime.timing().report().counters.compile_ok, 2);
}

#[test]
fn reported_time_matches_a_stopwatch() {
    // In one of a few attempts, since a busy machine may be delayed between reading the two clocks.
    let is_within = (0..5).any(|_| {
        let timing = verbose();
        let runtime = runtime();
        let program = timed(&runtime, TWO, &timing);
        let begin = Instant::now();
        {
            let _inside = timing.enter();
            for size in 1..40 {
                program.run(&[ramp(&[size, 50])]).unwrap();
            }
        }
        let stopwatch = begin.elapsed().as_secs_f64();
        assert!(runtime.wait_idle(Duration::from_secs(60)));
        let report = timing.report();
        expect_whole(&report);
        (stopwatch - report.wall().as_secs_f64()).abs() <= 0.02 * stopwatch
    });
    assert!(is_within);
}

#[test]
fn a_stopped_clock_records_no_time() {
    let options = TimingOptions::new().verbosity(Verbosity::Verbose);
    let timing = Timing::new(Arc::new(ManualClock::new()), options);
    let runtime = runtime();
    timed(&runtime, TWO, &timing).run(&[ramp(&[2, 3])]).unwrap();
    assert!(runtime.wait_idle(Duration::from_secs(60)));
    let report = timing.report();
    assert_eq!((report.wall_ns, compiles(&report).len()), (0, 2));
}
