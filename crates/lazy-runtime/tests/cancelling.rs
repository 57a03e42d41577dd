//! Cancelled calls: at any point, with a typed error, and without leaks.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test may panic")]

mod support;

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use kiln_ir::{BlobMap, Constant, Digest};
use kiln_lazy_runtime::{
    CallOptions, Cancellation, CompilePolicy, CompiledProgram, Planner, Runtime, RuntimeError,
    RuntimeOptions,
};
use kiln_program::{BuildOptions, Program};
use kiln_symbolic_shape::FactSelection;
use kiln_tensor::{DType, Tensor};
use support::{
    FakeCompiler, FakeDevice, Gate, TestPlanner, compiled, expect_same, graph, ramp, runtime_with,
};

/// Longer than any test takes, however busy the machine is; only a hang takes longer.
const LONG: Duration = Duration::from_secs(120);

/// Five kernels.
const CHAIN: &str = "graph @chain(%x: f32[A, B]) -> (f32[A, B], f32[A]) {
  %a = exp %x
  %b = neg %a
  %c = abs %b
  %d = sqrt %c
  %e = reduce %d {function = sum, axes = [1]}
  return %d, %e
}";

/// Kernels, a branch, a loop, and sizes from data.
const MIXED: &str = "graph @mixed(%trips: i64[], %x: f32[N]) -> (f32[N], f32[t, N], i64[1, m]) {
  %on: bool[] = constant [true]
  %a = exp %x
  %last: f32[N], %all: f32[t, N] = loop %trips, %on, %a, %x {carried = 1} -> (t)
    region(%i: i64[], %acc: f32[N], %factor: f32[N]) {
      %more: bool[] = constant [true]
      %next: f32[N] = mul %acc, %factor
      yield %more, %next, %next
    }
  %e = neg %all
  %places: i64[1, N], %count: i64[] = non_zero %last
  bind %count -> (m)
  %found = slice %places {starts = [0, 0], sizes = [1, m], steps = [1, 1]}
  return %last, %e, %found
}";

fn gated() -> (FakeCompiler, Arc<Gate>) {
    let gate = Arc::new(Gate::default());
    let compiler = FakeCompiler {
        gate: Some(Arc::clone(&gate)),
        ..FakeCompiler::default()
    };
    (compiler, gate)
}

fn integer(value: i64) -> Tensor {
    Tensor::scalar(value)
}

/// Options for a call that ends at the nth check, and the number of checks so far.
fn ends_at(n: usize) -> (CallOptions, Arc<AtomicUsize>) {
    let asked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&asked);
    let question = move || counted.fetch_add(1, Ordering::SeqCst) + 1 >= n;
    (
        CallOptions::new().with_should_stop(Arc::new(question)),
        asked,
    )
}

fn cancelled(result: Result<Vec<Tensor>, RuntimeError>) {
    assert_eq!(result.expect_err("it was cancelled").code(), "E0835");
}

#[test]
fn a_call_waiting_for_compiles_can_be_cancelled_and_its_queued_jobs_are_dropped() {
    let (compiler, gate) = gated();
    let runtime = runtime_with(compiler.clone(), RuntimeOptions::new());
    let graph = graph(CHAIN);
    let program = compiled(&runtime, &graph, false);
    let cancellation = Cancellation::new();
    let options = CallOptions::new().with_cancellation(&cancellation);
    thread::scope(|scope| {
        let call = scope.spawn(|| program.run_with(&[ramp(&[2, 3])], &options));
        gate.wait_for(2);
        assert_eq!(runtime.compiling(), (3, 2));
        cancellation.cancel();
        cancelled(call.join().unwrap());
    });
    // It ended at once, while the compilers still hang.
    assert_eq!(runtime.compiling(), (0, 2));
    assert_eq!(runtime.stats().cancelled, 1);
    assert!(runtime.stats().to_report().contains("calls cancelled"));
    gate.open();
    assert!(runtime.wait_idle(LONG));
    // Compiled code is kept, and the rest is compiled when needed.
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 2);
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 5);
}

#[test]
fn compiles_running_only_for_a_cancelled_call_are_stopped_and_not_remembered() {
    let (compiler, gate) = gated();
    let compiler = FakeCompiler {
        stops: true,
        ..compiler
    };
    let runtime = runtime_with(compiler.clone(), RuntimeOptions::new());
    let graph = graph(CHAIN);
    let program = compiled(&runtime, &graph, false);
    let cancellation = Cancellation::new();
    let options = CallOptions::new().with_cancellation(&cancellation);
    thread::scope(|scope| {
        let call = scope.spawn(|| program.run_with(&[ramp(&[2, 3])], &options));
        gate.wait_for(2);
        cancellation.cancel();
        cancelled(call.join().unwrap());
    });
    // The gate is closed, so only cancellation ends them.
    assert!(runtime.wait_idle(LONG));
    assert_eq!(runtime.stats().failures, 0);
    gate.open();
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 2 + 5);
    assert_eq!(runtime.stats().interpreted_steps, 0);
}

#[test]
fn other_calls_waiting_for_the_same_code_still_receive_it() {
    let (compiler, gate) = gated();
    let runtime = runtime_with(compiler.clone(), RuntimeOptions::new());
    let graph = graph(CHAIN);
    let program = compiled(&runtime, &graph, false);
    let cancellation = Cancellation::new();
    let options = CallOptions::new().with_cancellation(&cancellation);
    thread::scope(|scope| {
        let ended = scope.spawn(|| program.run_with(&[ramp(&[2, 3])], &options));
        gate.wait_for(2);
        let other = scope.spawn(|| expect_same(&program, &graph, &[ramp(&[3, 1])]));
        // The other call also waits, once all five kernels are requested again.
        let begin = Instant::now();
        while runtime.stats().launch_plans < 2 && begin.elapsed() < LONG {
            thread::yield_now();
        }
        cancellation.cancel();
        cancelled(ended.join().unwrap());
        gate.open();
        other.join().unwrap();
    });
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 5);
}

#[test]
fn a_dropped_compile_is_requested_again_by_a_waiting_plan() {
    let (compiler, gate) = gated();
    let options = RuntimeOptions::new().with_max_block(Duration::ZERO);
    let runtime = runtime_with(compiler.clone(), options);
    let graph = graph(CHAIN);
    let program = compiled(&runtime, &graph, false);
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
    gate.wait_for(2);
    let kernels = || compiled(&runtime, &graph, false);
    // A call of the same kernels that may wait, and is cancelled: nothing waits for the queued kernels.
    let (options, _) = ends_at(1);
    cancelled(kernels().run_with(&[ramp(&[2, 3])], &options));
    gate.open();
    assert!(runtime.wait_idle(LONG));
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
    assert!(runtime.wait_idle(LONG));
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
    assert_eq!(compiler.compiles.load(Ordering::SeqCst), 5);
    let interpreted = runtime.stats().interpreted_steps;
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
    assert_eq!(runtime.stats().interpreted_steps, interpreted);
}

/// Cancels calls of a program at every check, cold and warm.
fn end_everywhere(runtime: &Arc<Runtime>, text: &str, inputs: &[Tensor]) {
    let graph = graph(text);
    for fuse in [false, true] {
        let (mut cancelled, mut late) = (0, 0);
        for n in 1.. {
            let program = compiled(runtime, &graph, fuse);
            let mut ended = 0;
            for _cold_and_warm in 0..2 {
                let (options, asked) = ends_at(n);
                match program.run_with(inputs, &options) {
                    Err(error) => {
                        assert_eq!(error.code(), "E0835", "asked {n} times");
                        cancelled += 1;
                    }
                    Ok(_) if asked.load(Ordering::SeqCst) < n => ended += 1,
                    // The thread that polls every few milliseconds polled when everything was done.
                    Ok(_) => late += 1,
                }
                // The next call is unaffected.
                expect_same(&program, &graph, inputs);
            }
            if ended == 2 {
                assert!(n > 2, "{n}");
                assert!(late <= cancelled / 4, "{late} late, {cancelled} ended");
                break;
            }
        }
    }
}

#[test]
fn a_call_cancelled_at_any_point_ends_and_the_next_one_is_right() {
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    end_everywhere(&runtime, CHAIN, &[ramp(&[2, 3])]);
    end_everywhere(&runtime, MIXED, &[integer(3), ramp(&[4])]);
    // Interpreted steps check between their ops.
    let options = RuntimeOptions::new().with_policy(CompilePolicy::AfterCalls(u32::MAX));
    let runtime = runtime_with(FakeCompiler::default(), options);
    end_everywhere(&runtime, CHAIN, &[ramp(&[2, 3])]);
    end_everywhere(&runtime, MIXED, &[integer(2), ramp(&[3])]);
}

#[test]
fn an_endless_loop_can_be_cancelled() {
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    let graph = graph(
        "graph @forever(%trips: i64[], %x: f32[N]) -> f32[N] {
          %on: bool[] = constant [true]
          %last: f32[N] = loop %trips, %on, %x {carried = 1}
            region(%i: i64[], %acc: f32[N]) {
              %more: bool[] = constant [true]
              %next: f32[N] = neg %acc
              yield %more, %next
            }
          return %last
        }",
    );
    let program = compiled(&runtime, &graph, true);
    let cancellation = Cancellation::new();
    let options = CallOptions::new().with_cancellation(&cancellation);
    let inputs = [integer(1 << 32), ramp(&[2])];
    thread::scope(|scope| {
        let call = scope.spawn(|| program.run_with(&inputs, &options));
        let begin = Instant::now();
        while runtime.stats().launch_plans < 2 && begin.elapsed() < LONG {
            thread::yield_now();
        }
        cancellation.clone().cancel();
        cancelled(call.join().unwrap());
    });
    expect_same(&program, &graph, &[integer(3), ramp(&[2])]);
}

/// A runtime whose clock advances by a millisecond at each reading.
fn ticking() -> (Arc<Runtime>, Arc<AtomicU64>) {
    let now = Arc::new(AtomicU64::new(0));
    let ticks = Arc::clone(&now);
    let clock = move || Duration::from_millis(ticks.fetch_add(1, Ordering::SeqCst));
    let compiler = Arc::new(FakeCompiler::default());
    let options = RuntimeOptions::new();
    let runtime = Runtime::new(Some(compiler), Arc::new(FakeDevice::default()), options);
    (Arc::new(runtime.with_clock(Arc::new(clock))), now)
}

#[test]
fn a_call_ends_at_its_time_limit() {
    let (runtime, _) = ticking();
    let graph = graph(MIXED);
    let program = compiled(&runtime, &graph, true);
    let inputs = [integer(2), ramp(&[3])];
    expect_same(&program, &graph, &inputs);
    let within = |millis| {
        let limit = Duration::from_millis(millis);
        program.run_with(&inputs, &CallOptions::new().with_time_limit(limit))
    };
    let error = within(5).expect_err("it takes longer");
    assert!(matches!(error, RuntimeError::CallTimeout { limit } if limit.as_millis() == 5));
    assert_eq!(error.code(), "E0894");
    assert_eq!(runtime.stats().timeouts, 1);
    assert!(within(100_000).is_ok());
    assert_eq!(runtime.stats().timeouts, 1);
}

#[test]
fn a_time_limit_covers_the_wait_for_a_compiler_that_hangs() {
    let (compiler, gate) = gated();
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(CHAIN);
    let program = compiled(&runtime, &graph, false);
    let limit = Duration::from_millis(20);
    let begin = Instant::now();
    let options = CallOptions::new().with_time_limit(limit);
    let error = program.run_with(&[ramp(&[2, 3])], &options).unwrap_err();
    assert_eq!(error.code(), "E0894");
    let took = begin.elapsed();
    assert!((limit..LONG).contains(&took), "{took:?}");
    gate.open();
    expect_same(&program, &graph, &[ramp(&[2, 3])]);
}

#[test]
fn a_cancelled_call_leaves_output_tensors_unchanged() {
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    let graph = graph(CHAIN);
    let program: CompiledProgram = compiled(&runtime, &graph, false);
    let kept = Mutex::new([ramp(&[2, 3]), ramp(&[2])]);
    let mut outputs = kept.lock().unwrap();
    program.run_into(&[ramp(&[2, 3])], &mut *outputs).unwrap();
    let before = outputs[0].to_vec::<f32>().unwrap();
    for n in 1.. {
        let (options, _) = ends_at(n);
        let other = [Tensor::full(&[2, 3], 0.125f32).unwrap()];
        match program.run_into_with(&other, &mut *outputs, &options) {
            Err(error) => assert_eq!(error.code(), "E0835"),
            Ok(()) => break,
        }
        assert_eq!(outputs[0].to_vec::<f32>().unwrap(), before);
    }
    assert_ne!(outputs[0].to_vec::<f32>().unwrap(), before);
    let few = program.run_into_with(&[ramp(&[2, 3])], &mut outputs[..1], &CallOptions::new());
    assert_eq!(few.unwrap_err().code(), "E0893");
}

/// A planner that makes other plans once a gate is open.
struct SlowPlanner {
    planner: TestPlanner,
    gate: Arc<Gate>,
    plans: Arc<AtomicUsize>,
}

impl Planner for SlowPlanner {
    fn plan(
        &self,
        facts: &FactSelection,
    ) -> Result<Program, Box<dyn std::error::Error + Send + Sync>> {
        self.plans.fetch_add(1, Ordering::SeqCst);
        if *facts != FactSelection::All {
            self.gate.pass(|| true);
        }
        self.planner.plan(facts)
    }
}

/// Cancels a call that waits at a gate.
fn cancel_at(gate: &Gate, program: &CompiledProgram, inputs: &[Tensor]) {
    let cancellation = Cancellation::new();
    let options = CallOptions::new().with_cancellation(&cancellation);
    thread::scope(|scope| {
        let call = scope.spawn(|| program.run_with(inputs, &options));
        gate.wait_for(1);
        cancellation.cancel();
        // While the awaited work continues.
        cancelled(call.join().unwrap());
    });
}

#[test]
fn a_call_waiting_for_another_plan_can_be_cancelled_and_the_next_one_has_the_plan() {
    let graph = graph(
        "graph @sum(%x: f32[A, C], %y: f32[B, C]) -> f32[bcast(A, B), C] {
          %e = exp %x
          %s = add %e, %y
          %r = relu %s
          return %r
        }",
    );
    let (gate, plans) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
    let planner = SlowPlanner {
        planner: TestPlanner {
            graph: graph.clone(),
            fuse: true,
            build: BuildOptions::default(),
        },
        gate: Arc::clone(&gate),
        plans: Arc::clone(&plans),
    };
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    let program = CompiledProgram::new(runtime, Arc::new(planner)).unwrap();
    expect_same(&program, &graph, &[ramp(&[4, 3]), ramp(&[4, 3])]);
    let others = [ramp(&[4, 3]), ramp(&[1, 3])];
    cancel_at(&gate, &program, &others);
    assert_eq!(program.n_plans(), 1);
    // A call that arrives in the meantime waits for the same plan, and no longer than its limit.
    let limit = CallOptions::new().with_time_limit(Duration::from_millis(20));
    let late = program.run_with(&others, &limit).unwrap_err();
    assert_eq!(late.code(), "E0894");
    gate.open();
    expect_same(&program, &graph, &others);
    assert_eq!((program.n_plans(), plans.load(Ordering::SeqCst)), (2, 2));
}

/// Cancels a call that waits for a weight, which is read on first access.
fn cancel_while_weights_are_read(policy: CompilePolicy) {
    let (gate, loads) = (Arc::new(Gate::default()), Arc::new(AtomicUsize::new(0)));
    // Large enough to be read by several threads.
    let shape = [2048, 600];
    let weight = {
        let (gate, loads) = (Arc::clone(&gate), Arc::clone(&loads));
        Tensor::deferred(DType::F32, &shape, move || {
            loads.fetch_add(1, Ordering::SeqCst);
            gate.pass(|| true);
            Ok(ramp(&shape))
        })
    };
    // The digest is known, as for stored programs, so nothing reads the elements before a call.
    let digest = Digest::of_text("the weight");
    let mut blobs = BlobMap::new();
    blobs.insert(Constant::of_known_digest(weight.unwrap(), digest).unwrap());
    let text = format!(
        "graph @f(%x: f32[B, 2048]) -> f32[B, 600] {{
          %w: f32[2048, 600] = constant \"{digest}\"
          %y = matmul %x, %w
          return %y
        }}"
    );
    let graph = kiln_shape_inference::read_graph(&text, &blobs).unwrap();
    let runtime = runtime_with(
        FakeCompiler::default(),
        RuntimeOptions::new().with_policy(policy),
    );
    let program = compiled(&runtime, &graph, true);
    let inputs = [ramp(&[2, 2048])];
    cancel_at(&gate, &program, &inputs);
    gate.open();
    expect_same(&program, &graph, &inputs);
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[test]
fn a_call_waiting_for_weights_can_be_cancelled_and_the_next_one_has_them() {
    cancel_while_weights_are_read(CompilePolicy::FirstUse);
    cancel_while_weights_are_read(CompilePolicy::AfterCalls(u32::MAX));
}
