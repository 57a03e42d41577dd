//! Compile policies: when kernels are compiled, what runs in the meantime, and how long calls wait.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use kiln_lazy_runtime::{CompileBudget, CompilePolicy, CompiledProgram, Runtime, RuntimeOptions};
use kiln_timing::ManualClock;
use support::{
    FakeCompiler, FakeDevice, Gate, Offer, compiled, error_of, expect_same, graph, ramp,
    runtime_with,
};

/// Longer than any test takes, however busy the machine is; only a hang takes longer.
const LONG: Duration = Duration::from_secs(120);

const TWO_STEPS: &str = "graph @two(%x: f32[A, B]) -> (f32[A], f32[A, B]) {
  %a = reduce %x {function = sum, axes = [1]}
  %y = exp %x
  return %a, %y
}";

fn program(compiler: &FakeCompiler, options: RuntimeOptions) -> (Arc<Runtime>, CompiledProgram) {
    let runtime = runtime_with(compiler.clone(), options);
    let program = compiled(&runtime, &graph(TWO_STEPS), false);
    (runtime, program)
}

fn check(program: &CompiledProgram, shape: &[usize]) {
    expect_same(program, &graph(TWO_STEPS), &[ramp(shape)]);
}

fn gated() -> (FakeCompiler, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let compiler = FakeCompiler {
        gate: Some(Arc::clone(&gate)),
        ..FakeCompiler::default()
    };
    (compiler, gate)
}

#[test]
fn the_interpreter_answers_until_background_code_is_ready() {
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let (runtime, program) = program(&compiler, options);
    for shape in [[2, 3], [2, 3], [0, 4]] {
        check(&program, &shape);
    }
    let stats = runtime.stats();
    assert_eq!((stats.fallbacks, stats.interpreted_steps), (6, 6));
    assert_eq!(stats.compilations, 0);
    gate.open();
    assert!(runtime.wait_idle(LONG));
    for shape in [[2, 3], [5, 1]] {
        check(&program, &shape);
    }
    let stats = runtime.stats();
    assert_eq!((stats.fallbacks, stats.compilations), (6, 2));
    assert!(stats.to_report().contains("steps without code in time"));
}

#[test]
fn background_compiles_are_limited_and_waiting_calls_go_first() {
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let (runtime, program) = program(&compiler, options);
    check(&program, &[2, 2]);
    gate.wait_for(1);
    // There are two kernels and two threads, only one of which compiles in the background.
    assert_eq!(runtime.compiling(), (1, 1));
    gate.open();
    assert!(runtime.wait_idle(LONG));
    assert_eq!(runtime.compiling(), (0, 0));
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 2);
}

#[test]
fn the_queued_background_kernel_that_saves_most_is_next() {
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let runtime = runtime_with(compiler, options);
    let graph = graph(
        "graph @several(%x: f32[N], %y: f32[M]) -> (f32[N], f32[N], f32[M]) {
          %a = neg %x
          %b = exp %x
          %c = tanh %y
          return %a, %b, %c
        }",
    );
    let program = compiled(&runtime, &graph, false);
    expect_same(&program, &graph, &[ramp(&[4]), ramp(&[1000])]);
    gate.open();
    assert!(runtime.wait_idle(LONG));
    let records = runtime.compile_records();
    let place = |name: &str| records.iter().position(|record| record.kernel == name);
    assert!(
        place("tanh").unwrap() < place("exp").unwrap(),
        "{records:?}"
    );
}

#[test]
fn calls_wait_no_longer_than_their_limit() {
    let (compiler, gate) = gated();
    let limit = Duration::from_millis(10);
    for policy in [CompilePolicy::FirstUse, CompilePolicy::Background] {
        let options = RuntimeOptions::new()
            .with_policy(policy)
            .with_max_block(limit);
        let (runtime, program) = program(&compiler, options);
        check(&program, &[3, 3]);
        let blocked = runtime.stats().blocked;
        // The gate stays shut, so a call without a limit would wait forever.
        assert!(blocked < LONG, "{blocked:?}");
        assert_eq!(runtime.stats().fallbacks, 2);
        // The same sizes do not wait again.
        check(&program, &[3, 3]);
        assert_eq!(runtime.stats().blocked, blocked);
    }
    gate.open();
}

#[test]
fn calls_before_the_threshold_are_interpreted() {
    let compiler = FakeCompiler::default();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::AfterCalls(3));
    let (runtime, program) = program(&compiler, options);
    check(&program, &[2, 2]);
    check(&program, &[4, 1]);
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 0);
    check(&program, &[2, 2]);
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 2);
    check(&program, &[4, 1]);
    check(&program, &[2, 2]);
    assert_eq!(runtime.stats().interpreted_steps, 4);
    assert_eq!(
        CompilePolicy::WHEN_USED_OFTEN,
        CompilePolicy::AfterCalls(10)
    );
}

#[test]
fn under_the_ahead_of_time_policy_calls_compile_nothing() {
    let compiler = FakeCompiler::default();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::AheadOfTime);
    let (_, program) = program(&compiler, options);
    let error = error_of(&program, &[ramp(&[2, 2])]);
    assert_eq!(error.code(), "E0891");
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 0);
}

#[test]
fn a_hung_compile_is_a_timeout_and_its_code_may_serve_the_next_call() {
    let (compiler, gate) = gated();
    let limit = Duration::from_millis(50);
    let mut options = RuntimeOptions::new()
        .with_compile_timeout(limit)
        .with_compile_threads(NonZeroUsize::MIN);
    options.cache.trusted = LONG;
    let (runtime, program) = program(&compiler, options);
    // The gate stays shut, so a call without a limit would wait forever.
    let begin = Instant::now();
    let error = error_of(&program, &[ramp(&[2, 2])]);
    assert_eq!(error.code(), "E0890");
    let took = begin.elapsed();
    assert!((limit..LONG).contains(&took), "{took:?}");
    assert!(runtime.stats().timeouts >= 1);
    gate.open();
    assert!(runtime.wait_idle(LONG));
    check(&program, &[2, 2]);
}

/// Two kernels that hang, as many as there are threads.
const HANGING: &str = "graph @hanging(%x: f32[A], %y: f32[A, B]) -> (f32[A], f32[A, B]) {
  %a = exp %x
  %b = tanh %y
  return %a, %b
}";

const OTHER: &str = "graph @other(%x: f32[A, B]) -> (f32[A], f32[A, B]) {
  %a = reduce %x {function = sum, axes = [1]}
  %b = relu %x
  return %a, %b
}";

#[test]
fn a_hung_compile_is_a_timeout_within_its_limit_while_others_compile_and_answer() {
    let (mut compiler, gate) = gated();
    compiler.held_up = &["exp(", "tanh("];
    let limit = Duration::from_millis(200);
    let options = RuntimeOptions::new().with_compile_timeout(limit);
    let runtime = runtime_with(compiler.clone(), options);
    let (hanging, other) = (graph(HANGING), graph(OTHER));
    let hung = compiled(&runtime, &hanging, false);
    let inputs = [ramp(&[3]), ramp(&[3, 2])];
    let mut late = 0;
    for round in 1..=3 {
        let begin = Instant::now();
        assert_eq!(error_of(&hung, &inputs).code(), "E0890");
        let took = begin.elapsed();
        assert!((limit..LONG).contains(&took), "{took:?}");
        gate.wait_for(2);
        // Each gets code although the gate is shut; on a busy machine possibly only on a later attempt.
        let program = compiled(&runtime, &other, false);
        let other_inputs = [ramp(&[round, 4])];
        while let Err(error) = program.run(&other_inputs) {
            assert_eq!(error.code(), "E0890");
            assert!(begin.elapsed() < LONG, "the others have no code");
            late += 1;
        }
        expect_same(&program, &other, &other_inputs);
    }
    let stats = runtime.stats();
    assert_eq!((stats.compilations, stats.interpreted_steps), (2, 0));
    assert_eq!((stats.timeouts, runtime.compiling()), (3 + late, (0, 2)));
    gate.open();
    assert!(runtime.wait_idle(LONG));
    expect_same(&hung, &hanging, &inputs);
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 4);
}

#[test]
fn a_call_queued_behind_hung_compiles_gets_its_own_thread() {
    let (mut compiler, gate) = gated();
    compiler.held_up = &["exp(", "tanh("];
    let mut options = RuntimeOptions::new();
    options.cache.trusted = Duration::from_millis(50);
    let runtime = runtime_with(compiler, options);
    let (hanging, other) = (graph(HANGING), graph(OTHER));
    let hung = compiled(&runtime, &hanging, false);
    thread::scope(|scope| {
        let waits = scope.spawn(|| expect_same(&hung, &hanging, &[ramp(&[3]), ramp(&[3, 2])]));
        gate.wait_for(2);
        // Without a limit, and queued before it was known that the others hang.
        let program = compiled(&runtime, &other, false);
        expect_same(&program, &other, &[ramp(&[2, 4])]);
        gate.open();
        waits.join().unwrap();
    });
    assert!(runtime.wait_idle(LONG));
    assert_eq!(runtime.stats().interpreted_steps, 0);
}

#[test]
fn hung_compile_threads_are_replaced() {
    let (compiler, gate) = gated();
    let limit = Duration::from_millis(200);
    let options = RuntimeOptions::new().with_compile_timeout(limit);
    let (runtime, program) = program(&compiler, options);
    for n in 1..4 {
        // Two threads hang with the two kernels; later callers get new threads, or their timeout.
        assert_eq!(error_of(&program, &[ramp(&[n, 2])]).code(), "E0890");
    }
    let other = compiled(
        &runtime,
        &graph(
            "graph @other(%x: f32[A]) -> f32[A] {
          %y = sqrt %x
          return %y
        }",
        ),
        false,
    );
    let waits = thread::spawn(move || other.run(&[ramp(&[2])]).map(drop));
    gate.wait_for(3);
    gate.open();
    drop(waits.join().unwrap());
    assert!(runtime.wait_idle(LONG));
    check(&program, &[1, 2]);
}

#[test]
fn after_the_compile_budget_is_spent_steps_stay_interpreted() {
    let compiler = FakeCompiler::default();
    let options = RuntimeOptions::new().with_compile_budget(Duration::ZERO);
    let (runtime, program) = program(&compiler, options);
    check(&program, &[2, 2]);
    check(&program, &[2, 2]);
    let stats = runtime.stats();
    assert_eq!((stats.compilations, stats.fallbacks), (0, 4));
    assert_eq!(
        (stats.compile_budget, stats.over_budget),
        (Some(Duration::ZERO), 4)
    );
}

#[test]
fn runtimes_may_share_a_compile_budget() {
    let budget = CompileBudget::new(LONG);
    let compiler = FakeCompiler::default();
    let options = RuntimeOptions::new().with_compile_budget(budget.clone());
    let (runtime, first) = program(&compiler, options.clone());
    check(&first, &[2, 2]);
    let spent = budget.spent();
    assert_eq!(runtime.stats().compile_time, spent);
    assert!(spent > Duration::ZERO);
    // What the first runtime used leaves nothing for the second one.
    let options = options.with_compile_budget(budget.with_limit(spent));
    let (other, second) = program(&compiler, options);
    check(&second, &[2, 2]);
    let stats = other.stats();
    assert_eq!((stats.compilations, stats.compile_budget_spent), (0, spent));
}

#[test]
fn a_compile_that_panics_is_an_error_of_the_step_and_can_be_tried_again() {
    let compiler = FakeCompiler::default();
    compiler.panics.store(2, Ordering::SeqCst);
    let (runtime, program) = program(&compiler, RuntimeOptions::new());
    // Interpreted, since there is no code.
    check(&program, &[2, 2]);
    assert_eq!(runtime.stats().cache.panics, 2);
    assert_eq!(runtime.stats().interpreted_steps, 2);
    check(&program, &[3, 2]);
    assert_eq!(runtime.stats().compilations, 2);
}

#[test]
fn a_step_whose_compile_failed_gets_code_after_a_retry() {
    let compiler = FakeCompiler::default();
    compiler.failures.store(3, Ordering::SeqCst);
    let hand = ManualClock::new();
    let runtime = Runtime::new(
        Some(Arc::new(compiler.clone())),
        Arc::new(FakeDevice::default()),
        RuntimeOptions::new(),
    );
    let runtime = Arc::new(runtime.with_clock(Arc::new(hand.clone())));
    let program = compiled(&runtime, &graph(TWO_STEPS), false);
    let compiles = || {
        let calls = || check(&program, &[2, 2]);
        // If the first call comes too late for the retry, the second one makes it.
        calls();
        calls();
        compiler.compiles.load(Ordering::SeqCst)
    };
    assert_eq!([compiles(), compiles()], [2, 2]);
    hand.set(Duration::from_millis(999));
    assert_eq!(compiles(), 2);
    // One of the two fails again, and is retried after a longer delay.
    hand.set(Duration::from_secs(1));
    assert_eq!(compiles(), 4);
    hand.set(Duration::from_millis(2999));
    assert_eq!(compiles(), 4);
    hand.set(Duration::from_secs(3));
    assert_eq!(compiles(), 5);
    let before = runtime.stats();
    assert_eq!((before.failures, before.fallbacks), (3, 0));
    assert_eq!(compiles(), 5);
    assert_eq!(runtime.stats().interpreted_steps, before.interpreted_steps);
}

#[test]
fn the_interpreter_serves_kernels_on_slices_of_larger_buffers() {
    // Operands of a concatenation are written in place, with other data between their rows.
    let text = "graph @joined(%x: f32[A, B], %y: f32[A, C]) -> f32[A, B + C] {
      %a = exp %x
      %b = sqrt %y
      %j = concat %a, %b {axis = 1}
      return %j
    }";
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let runtime = runtime_with(compiler, options);
    let graph = graph(text);
    for fuse in [false, true] {
        let program = compiled(&runtime, &graph, fuse);
        for (a, b, c) in [(2, 3, 4), (1, 1, 0), (0, 2, 2), (3, 1, 1)] {
            expect_same(&program, &graph, &[ramp(&[a, b]), positive(&[a, c])]);
        }
    }
    assert!(runtime.stats().fallbacks > 0);
    gate.open();
}

fn positive(shape: &[usize]) -> kiln_tensor::Tensor {
    let n: usize = shape.iter().product();
    let elements: Vec<f32> = (0..n).map(|i| i as f32).collect();
    kiln_tensor::Tensor::from_vec(shape, elements).expect("a small tensor")
}

#[test]
fn sixty_four_threads_on_a_cold_program_compile_each_kernel_once() {
    for policy in [CompilePolicy::FirstUse, CompilePolicy::Background] {
        let compiler = FakeCompiler::default();
        let options = RuntimeOptions::new().with_policy(policy);
        let (runtime, program) = program(&compiler, options);
        thread::scope(|scope| {
            for n in 0..64 {
                let program = &program;
                scope.spawn(move || check(program, &[n % 5, 3]));
            }
        });
        assert!(runtime.wait_idle(LONG));
        assert_eq!(compiler.compiles.load(Ordering::SeqCst), 2, "{policy:?}");
    }
}

#[test]
fn dropping_a_runtime_does_not_wait_for_hung_compiles() {
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let (runtime, program) = program(&compiler, options);
    check(&program, &[2, 2]);
    gate.wait_for(1);
    // The gate is shut: this would not return if it waited.
    drop(program);
    drop(runtime);
    gate.open();
}

#[test]
fn a_schedule_that_never_compiles_is_skipped_in_the_background_too() {
    let compiler = FakeCompiler {
        offer: Offer::Broken,
        ..FakeCompiler::default()
    };
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let (runtime, program) = program(&compiler, options);
    for _ in 0..3 {
        check(&program, &[2, 2]);
        assert!(runtime.wait_idle(LONG));
    }
    let before = runtime.stats();
    check(&program, &[2, 2]);
    assert_eq!(runtime.stats().fallbacks, before.fallbacks);
    assert_eq!(before.failures, 2);
}

#[test]
fn the_interpreter_serves_kernels_that_accumulate_into_a_buffer() {
    let text = "graph @added(%x: f32[N], %at: i64[M, 1], %u: f32[M]) -> f32[N] {
      %a = exp %x
      %y = scatter_nd %a, %at, %u {combine = add}
      return %y
    }";
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let runtime = runtime_with(compiler, options);
    let graph = graph(text);
    for fuse in [false, true] {
        let program = compiled(&runtime, &graph, fuse);
        for (n, m) in [(5, 3), (1, 2), (4, 0)] {
            let at = vec![0i64; m];
            let at = kiln_tensor::Tensor::from_vec(&[m, 1], at).unwrap();
            expect_same(&program, &graph, &[ramp(&[n]), at, positive(&[m])]);
        }
    }
    assert!(runtime.stats().fallbacks > 0);
    gate.open();
}
