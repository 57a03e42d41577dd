//! Variants: compiled in the background for the sizes that take the most time, kept if they are faster, invisible
//! elsewhere.

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_ir::Graph;
use kiln_lazy_runtime::{
    CompilePolicy, CompiledProgram, Runtime, RuntimeOptions, ShapeProfile, VariantFate,
    VariantOptions, VariantReason,
};
use kiln_timing::ManualClock;
use support::{FakeCompiler, FakeDevice, Gate, TimedDevice, compiled, expect_same, graph, ramp};

const LONG: Duration = Duration::from_secs(20);

const EXP: &str = "graph @f(%x: f32[A, B]) -> f32[A, B] {
  %y = exp %x
  return %y
}";

/// The duration of a launch: half as long if the kernel has no symbols.
fn fixed_is_quick(text: &str) -> Duration {
    Duration::from_micros(if is_generic(text) { 1000 } else { 500 })
}

/// Variants are no faster.
fn all_alike(_: &str) -> Duration {
    Duration::from_micros(1000)
}

fn is_generic(text: &str) -> bool {
    text.contains("< s0") || text.contains("< n0")
}

struct Bench {
    runtime: Arc<Runtime>,
    program: CompiledProgram,
    graph: Graph,
    compiler: FakeCompiler,
}

impl Bench {
    fn new(text: &str, cost: fn(&str) -> Duration, options: RuntimeOptions) -> Self {
        Self::with(FakeCompiler::default(), text, cost, options)
    }

    fn with(
        compiler: FakeCompiler,
        text: &str,
        cost: fn(&str) -> Duration,
        options: RuntimeOptions,
    ) -> Self {
        let clock = ManualClock::new();
        let device = TimedDevice {
            device: FakeDevice::default(),
            clock: clock.clone(),
            cost,
        };
        let options = options.with_compile_threads(NonZeroUsize::MIN.saturating_add(1));
        let runtime = Runtime::new(Some(Arc::new(compiler.clone())), Arc::new(device), options);
        let runtime = Arc::new(runtime.with_clock(Arc::new(clock)));
        let graph = graph(text);
        Self {
            program: compiled(&runtime, &graph, true),
            runtime,
            graph,
            compiler,
        }
    }

    fn call(&self, sizes: &[usize]) {
        expect_same(&self.program, &self.graph, &[ramp(sizes)]);
    }

    /// This many calls, each made after everything has been compiled.
    fn calls(&self, sizes: &[usize], count: usize) {
        for _ in 0..count {
            self.call(sizes);
            assert!(self.runtime.wait_idle(LONG));
        }
    }

    fn compiles(&self) -> usize {
        self.compiler.compiles.load(Ordering::SeqCst)
    }

    fn fates(&self) -> Vec<VariantFate> {
        let records = self.runtime.variant_records().into_iter();
        records.map(|record| record.fate).collect()
    }
}

/// Makes variants after this many calls of a millisecond.
fn after(calls: u64) -> RuntimeOptions {
    let options = VariantOptions::new().with_after(Duration::from_millis(calls));
    RuntimeOptions::new().with_variants(Some(options))
}

#[test]
fn a_hot_kernel_gets_a_variant_that_is_kept_if_it_wins() {
    let bench = Bench::new(EXP, fixed_is_quick, after(30));
    bench.calls(&[3, 4], 31);
    assert_eq!(
        (bench.compiles(), bench.fates().len()),
        (1, 0),
        "it is not hot yet"
    );
    bench.calls(&[3, 4], 2);
    assert_eq!(
        (bench.compiles(), bench.fates()),
        (2, vec![VariantFate::OnTrial])
    );
    bench.calls(&[3, 4], 40);
    let [record] = &bench.runtime.variant_records()[..] else {
        panic!("there is one variant");
    };
    let ms = Duration::from_micros;
    assert_eq!(
        record.fate,
        VariantFate::Kept {
            generic: ms(1000),
            variant: ms(500)
        }
    );
    assert_eq!(record.gain(), Some(0.5));
    assert!(
        matches!(record.reason, VariantReason::Hot(spent) if spent >= ms(30_000)),
        "{record}"
    );
    // From now on nothing is planned, compiled or measured, and calls are as fast as the variant.
    let before = bench.runtime.stats();
    let start = bench.runtime.clock().now();
    bench.calls(&[3, 4], 20);
    assert_eq!(bench.runtime.clock().now() - start, 20 * ms(500));
    let stats = bench.runtime.stats();
    assert_eq!(stats.launch_plans, before.launch_plans);
    assert_eq!(
        (stats.variants, stats.variants_kept, stats.variants_dropped),
        (1, 1, 0)
    );
    let record = bench.runtime.compile_records().pop().unwrap();
    assert!(
        record.facts.contains("== 3") || record.facts.contains("== 12"),
        "{record}"
    );
    assert_eq!(record.reason.to_string(), "new variant");
}

#[test]
fn a_variant_serves_its_sizes_and_slows_no_others() {
    let bench = Bench::new(EXP, fixed_is_quick, after(16));
    bench.calls(&[2, 2], 80);
    assert!(matches!(bench.fates()[..], [VariantFate::Kept { .. }]));
    let start = bench.runtime.clock().now();
    for sizes in [[2, 3], [0, 2], [1, 1], [2, 2], [5, 7]] {
        bench.call(&sizes);
    }
    let took = bench.runtime.clock().now() - start;
    assert_eq!(took, Duration::from_micros(4 * 1000 + 500));
}

#[test]
fn a_variant_that_does_not_win_is_dropped_and_not_tried_again() {
    let bench = Bench::new(EXP, all_alike, after(16));
    bench.calls(&[3, 4], 100);
    assert!(
        matches!(bench.fates()[..], [VariantFate::Lost { .. }]),
        "{:?}",
        bench.fates()
    );
    let compiles = bench.compiles();
    bench.calls(&[3, 4], 100);
    assert_eq!((bench.compiles(), bench.fates().len()), (compiles, 1));
    let stats = bench.runtime.stats();
    assert_eq!((stats.variants_kept, stats.variants_dropped), (0, 1));
}

#[test]
fn variants_per_kernel_are_limited_and_refusals_reported() {
    let options = VariantOptions::new()
        .with_after(Duration::from_millis(16))
        .with_per_kernel(2);
    let bench = Bench::new(
        EXP,
        fixed_is_quick,
        RuntimeOptions::new().with_variants(Some(options)),
    );
    for size in 1..6 {
        bench.calls(&[size, 3], 64);
    }
    let stats = bench.runtime.stats();
    assert_eq!(
        (stats.variants, stats.variants_kept, stats.variants_refused),
        (2, 2, 3)
    );
    let fates = bench.fates();
    let refused = VariantFate::Refused {
        limit: 2,
        in_process: false,
    };
    assert_eq!(fates[2..], [refused.clone(), refused.clone(), refused]);
}

#[test]
fn likely_sizes_get_variants_at_once() {
    let text = "graph @f(%x: f32[A, B]) -> f32[A, B] likely A == 3 {
      %y = exp %x
      return %y
    }";
    let bench = Bench::new(text, fixed_is_quick, after(1_000_000));
    bench.calls(&[4, 4], 40);
    assert!(bench.fates().is_empty());
    bench.calls(&[3, 4], 50);
    let records = bench.runtime.variant_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].reason, VariantReason::Likely);
    assert!(
        matches!(records[0].fate, VariantFate::Kept { .. }),
        "{}",
        records[0]
    );
}

#[test]
fn bit_reproducible_mode_makes_no_variants() {
    for options in [
        after(1).with_deterministic(true),
        RuntimeOptions::new().with_variants(None),
    ] {
        let bench = Bench::new(EXP, fixed_is_quick, options);
        bench.calls(&[3, 4], 50);
        assert_eq!((bench.compiles(), bench.fates().len()), (1, 0));
    }
}

#[test]
fn variants_are_not_compiled_when_compiling_is_forbidden() {
    let bench = Bench::new(
        EXP,
        fixed_is_quick,
        after(16).with_policy(CompilePolicy::AheadOfTime),
    );
    bench.program.compile_all().unwrap();
    bench.calls(&[3, 4], 40);
    assert_eq!(bench.compiles(), 1);
    assert!(
        matches!(&bench.fates()[..], [VariantFate::Impossible(reason)] if reason.contains("no store has it"))
    );
}

#[test]
fn calls_go_on_while_a_variant_is_compiled() {
    let gate = Arc::new(Gate::default());
    let compiler = FakeCompiler {
        gate: Some(Arc::clone(&gate)),
        ..FakeCompiler::default()
    };
    let bench = Bench::with(
        compiler,
        EXP,
        fixed_is_quick,
        after(16).with_policy(CompilePolicy::Background),
    );
    // The generic kernel waits at the gate, and calls are interpreted.
    bench.call(&[3, 4]);
    gate.wait_for(1);
    gate.open();
    assert!(bench.runtime.wait_idle(LONG));
    gate.close();
    for _ in 0..50 {
        bench.call(&[3, 4]);
    }
    gate.wait_for(2);
    assert_eq!(bench.fates(), [VariantFate::Queued]);
    for _ in 0..50 {
        bench.call(&[3, 4]);
    }
    assert_eq!(bench.runtime.stats().blocked, Duration::ZERO);
    gate.open();
    bench.calls(&[3, 4], 50);
    assert!(matches!(bench.fates()[..], [VariantFate::Kept { .. }]));
}

#[test]
fn a_variant_that_does_not_compile_leaves_the_generic_kernel_alone() {
    let bench = Bench::new(EXP, fixed_is_quick, after(16));
    bench.calls(&[3, 4], 1);
    // The next two: there is only one schedule, so it is tried once.
    bench.compiler.panics.store(1, Ordering::SeqCst);
    bench.calls(&[3, 4], 60);
    assert!(
        matches!(bench.fates()[..], [VariantFate::Impossible(_)]),
        "{:?}",
        bench.fates()
    );
    bench.calls(&[5, 4], 60);
    assert_eq!(bench.runtime.stats().variants_kept, 1);
}

#[test]
fn any_order_of_sizes_agrees_with_the_interpreter() {
    let text = "graph @f(%x: f32[A, B], %w: f32[B, C]) -> (f32[A, C], f32[A, B]) {
      %p = matmul %x, %w
      %y = relu %p
      %e = exp %x
      return %y, %e
    }";
    let options = VariantOptions::new()
        .with_after(Duration::from_millis(16))
        .with_per_kernel(3);
    let bench = Bench::new(
        text,
        fixed_is_quick,
        RuntimeOptions::new().with_variants(Some(options)),
    );
    let sizes = [
        [1, 1, 1],
        [4, 3, 2],
        [0, 3, 2],
        [4, 3, 2],
        [2, 0, 5],
        [17, 9, 4],
    ];
    let mut state = 12345_u64;
    for _ in 0..400 {
        state = state
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        // From small to large and from large to small, some far more often than others.
        let pick = (state >> 33) as usize % 10;
        let [a, b, c] = sizes[if pick < 5 { 1 } else { pick - 5 }];
        expect_same(
            &bench.program,
            &bench.graph,
            &[ramp(&[a, b]), ramp(&[b, c])],
        );
        assert!(bench.runtime.wait_idle(LONG));
    }
    let stats = bench.runtime.stats();
    assert!(stats.variants_kept > 0, "{stats:?}");
    bench.runtime.clear_cache();
    assert!(bench.fates().is_empty());
    expect_same(
        &bench.program,
        &bench.graph,
        &[ramp(&[4, 3]), ramp(&[3, 2])],
    );
}

#[test]
fn sizes_hot_in_another_process_get_variants_at_once() {
    let first = Bench::new(EXP, all_alike, after(100));
    first.calls(&[3, 4], 120);
    first.calls(&[2, 2], 3);
    let profile = ShapeProfile::from_json(&first.program.shape_profile().to_json()).unwrap();
    let second = Bench::new(EXP, fixed_is_quick, after(100));
    assert_eq!(second.program.precompile_in_background(&profile), 2);
    assert!(second.runtime.wait_idle(LONG));
    second.calls(&[2, 2], 50);
    assert!(second.fates().is_empty());
    second.calls(&[3, 4], 50);
    let records = second.runtime.variant_records();
    assert_eq!(records.len(), 1);
    assert_eq!(records[0].reason, VariantReason::Likely);
}
