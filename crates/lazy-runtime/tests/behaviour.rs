//! The runtime around the arithmetic: it compiles once, replans, counts, rejects and reports.

mod support;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread;

use kiln_interpreter::{CustomOp, CustomOps, InterpretOptions, interpret};
use kiln_lazy_runtime::{CompileReason, CompiledProgram, Runtime, RuntimeOptions};
use kiln_program::{BuildOptions, RowMajor};
use kiln_tensor::{DType, Tensor};
use support::{
    FakeCompiler, FakeDevice, Offer, compiled, error_of, expect_same, graph, ramp, runtime,
    runtime_with,
};

const TWO_SUMS: &str = "graph @sums(%x: f32[A, B], %y: f32[A, B]) -> (f32[A], f32[A]) {
  %a = reduce %x {function = sum, axes = [1]}
  %b = reduce %y {function = sum, axes = [1]}
  return %a, %b
}";

#[test]
fn equal_kernels_are_compiled_once_for_all_sizes() {
    let compiler = FakeCompiler::default();
    let compiles = Arc::clone(&compiler.compiles);
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(TWO_SUMS);
    let program = compiled(&runtime, &graph, false);
    assert_eq!(
        compiles.load(Ordering::SeqCst),
        0,
        "nothing is compiled before the first call"
    );
    for (a, b) in [(2, 3), (4, 1), (0, 5), (2, 3), (1, 0)] {
        expect_same(&program, &graph, &[ramp(&[a, b]), ramp(&[a, b])]);
    }
    assert_eq!(compiles.load(Ordering::SeqCst), 1);
    let stats = runtime.stats();
    assert_eq!(
        (stats.compilations, stats.unique_kernels, stats.misses),
        (1, 1, 1)
    );
    assert_eq!((stats.launch_plans, program.n_launch_plans()), (4, 4));
    assert_eq!(
        (stats.interpreted_steps, stats.other_plans, stats.failures),
        (0, 0, 0)
    );
    // Each of the four plans requests the single kernel once.
    assert_eq!((stats.hits, stats.hit_rate()), (3, 0.75));
    // Another program shares the compiled code.
    expect_same(
        &compiled(&runtime, &graph, false),
        &graph,
        &[ramp(&[2, 2]), ramp(&[2, 2])],
    );
    assert_eq!(compiles.load(Ordering::SeqCst), 1);
}

#[test]
fn every_compile_has_a_record() {
    let runtime = runtime();
    let graph = graph(TWO_SUMS);
    expect_same(
        &compiled(&runtime, &graph, false),
        &graph,
        &[ramp(&[2, 2]), ramp(&[2, 2])],
    );
    let records = runtime.compile_records();
    let [record] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!(record.reason, CompileReason::FirstUse);
    assert!(record.schedule.is_fallback() && record.error.is_none() && record.code_bytes > 0);
    assert_eq!(record.phases.len(), 1);
    assert!(!record.is_contraction_left_to_fallback());
    let text = record.to_string();
    assert!(
        text.contains("[row] fallback for fake:any (first use)"),
        "{text}"
    );
}

#[test]
fn errors_and_records_name_the_step() {
    let compiler = FakeCompiler {
        offer: Offer::Broken,
        ..FakeCompiler::default()
    };
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(TWO_SUMS);
    let program = compiled(&runtime, &graph, false);
    expect_same(&program, &graph, &[ramp(&[2, 2]), ramp(&[2, 2])]);
    let name = program.program().steps().next().unwrap().name.clone();
    let records = runtime.compile_records();
    assert!(records.iter().all(|record| record.kernel == name));
    let error = records[0].error.as_deref().unwrap();
    assert!(error.contains(&format!("kernel @{name} ")), "{error}");
}

#[test]
fn a_call_over_the_memory_limit_is_refused() {
    let mut options = RuntimeOptions::new();
    options.live_bytes = 1 << 12;
    let runtime = runtime_with(FakeCompiler::default(), options);
    let graph = graph(TWO_SUMS);
    let program = compiled(&runtime, &graph, false);
    expect_same(&program, &graph, &[ramp(&[2, 2]), ramp(&[2, 2])]);
    let error = error_of(&program, &[ramp(&[3000, 1]), ramp(&[3000, 1])]);
    assert_eq!(error.code(), "E0832");
    assert!(error.to_string().contains("at most 4096 bytes"), "{error}");
    expect_same(&program, &graph, &[ramp(&[3, 2]), ramp(&[3, 2])]);
}

#[test]
fn contractions_left_to_plain_loops_are_counted() {
    let runtime = runtime();
    let graph = graph(
        "graph @p(%x: f32[A, B], %y: f32[B, C]) -> f32[A, C] {
      %p = matmul %x, %y
      return %p
    }",
    );
    expect_same(
        &compiled(&runtime, &graph, true),
        &graph,
        &[ramp(&[2, 2]), ramp(&[2, 2])],
    );
    assert_eq!(runtime.stats().fallback_contractions, 1);
}

#[test]
fn eight_threads_run_one_program_and_compile_each_kernel_once() {
    let compiler = FakeCompiler::default();
    let compiles = Arc::clone(&compiler.compiles);
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(
        "graph @mlp(%x: f32[B, K], %w: f32[K, N], %b: f32[N]) -> (f32[B, N], f32[B]) {
      %p = matmul %x, %w
      %s = add %p, %b
      %y = relu %s
      %z = reduce %y {function = max, axes = [1]}
      return %y, %z
    }",
    );
    let program = compiled(&runtime, &graph, false);
    thread::scope(|scope| {
        for worker in 0..8 {
            let (program, graph) = (&program, &graph);
            scope.spawn(move || {
                for call in 0..6 {
                    let (b, k, n) = ((worker + call) % 4 + 1, 3, worker % 3 + 1);
                    expect_same(program, graph, &[ramp(&[b, k]), ramp(&[k, n]), ramp(&[n])]);
                }
            });
        }
    });
    assert_eq!(
        compiles.load(Ordering::SeqCst) as u64,
        runtime.stats().unique_kernels
    );
}

const BROADCAST: &str = "graph @meet(%x: f32[A], %y: f32[B]) -> f32[bcast(A, B)] {
  %s = add %x, %y
  %e = exp %s
  return %e
}";

#[test]
fn another_plan_runs_if_a_fact_is_false() {
    let runtime = runtime();
    let graph = graph(BROADCAST);
    let program = compiled(&runtime, &graph, true);
    let call = |a, b| [ramp(&[a]), ramp(&[b])];
    expect_same(&program, &graph, &call(3, 3));
    assert_eq!((program.n_plans(), runtime.stats().other_plans), (1, 0));
    for (a, b) in [(1, 4), (4, 1), (1, 1), (3, 3), (1, 0), (1, 4)] {
        expect_same(&program, &graph, &call(a, b));
    }
    let facts = program.program().facts().count();
    if facts > 0 {
        assert_eq!((program.n_plans(), runtime.stats().other_plans), (2, 1));
    }
    let error = error_of(&program, &call(2, 3));
    assert_eq!(error.code(), "E0820", "{error}");
    let text = error.to_string();
    assert!(text.contains("cannot broadcast A = 2 with B = 3"), "{text}");
}

#[test]
fn without_a_planner_a_broken_fact_is_refused() {
    let graph = graph(BROADCAST);
    let plan = kiln_fusion::plan(&graph, &kiln_fusion::FusionOptions::new()).unwrap();
    let program =
        kiln_program::build(graph.clone(), &plan, &RowMajor, &BuildOptions::default()).unwrap();
    let has_facts = program.facts().count() > 0;
    let program = CompiledProgram::of_program(runtime(), program);
    expect_same(&program, &graph, &[ramp(&[2]), ramp(&[2])]);
    if has_facts {
        assert_eq!(
            error_of(&program, &[ramp(&[1]), ramp(&[2])]).code(),
            "E0866"
        );
    }
}

#[test]
fn mismatched_inputs_are_refused_as_by_the_interpreter() {
    let graph = graph(
        "graph @f(%x: f32[A, 4], %y: f32[A]) -> f32[A, 4] where A >= 2 {
      %z = neg %x
      return %z
    }",
    );
    let program = compiled(&runtime(), &graph, true);
    let wrong_dtype = Tensor::zeros(DType::F64, &[3, 4]).unwrap();
    let calls: [&[Tensor]; 6] = [
        &[ramp(&[3, 4])],
        &[wrong_dtype, ramp(&[3])],
        &[ramp(&[12]), ramp(&[3])],
        &[ramp(&[3, 5]), ramp(&[3])],
        &[ramp(&[3, 4]), ramp(&[2])],
        &[ramp(&[1, 4]), ramp(&[1])],
    ];
    for inputs in calls {
        let expected = interpret(&graph, inputs, &InterpretOptions::default()).unwrap_err();
        let found = error_of(&program, inputs);
        assert_eq!(
            (found.code(), found.to_string()),
            (expected.code(), expected.to_string())
        );
    }
    // The next call is unaffected.
    expect_same(&program, &graph, &[ramp(&[2, 4]), ramp(&[2])]);
}

#[test]
fn faults_of_compiled_code_name_the_op() {
    let graph = graph(
        "graph @f(%x: f32[A], %i: i64[B], %a: i64[B], %b: i64[B]) -> (f32[B], i64[B]) {
      %g = gather %x, %i {axis = 0}
      %e = exp %g
      %q = div %a, %b
      return %e, %q
    }",
    );
    let program = compiled(&runtime(), &graph, true);
    let whole = |values: [i64; 2]| Tensor::from_slice(&[2], &values).unwrap();
    let call = |i, b| [ramp(&[3]), whole(i), whole([7, 9]), whole(b)];
    expect_same(&program, &graph, &call([0, -1], [2, 3]));
    let error = error_of(&program, &call([0, 3], [2, 3]));
    assert_eq!(error.code(), "E0822");
    let text = error.to_string();
    assert!(
        text.starts_with("an index is out of range in gather (%"),
        "{text}"
    );
    let error = error_of(&program, &call([0, 1], [2, 0]));
    assert_eq!(error.code(), "E0882");
    assert!(
        error
            .to_string()
            .starts_with("an integer is divided by zero in div (%"),
        "{error}"
    );
    expect_same(&program, &graph, &call([1, 1], [1, 1]));
}

#[test]
fn variants_are_picked_by_their_predicates() {
    let runtime = runtime_with(
        FakeCompiler {
            offer: Offer::MultipleOfFour,
            ..FakeCompiler::default()
        },
        RuntimeOptions::new(),
    );
    let graph = graph(
        "graph @f(%x: f32[A]) -> f32[A] {
      %y = exp %x
      return %y
    }",
    );
    let program = compiled(&runtime, &graph, true);
    let variant_of = |n| {
        let (_, profile) = program.run_profiled(&[ramp(&[n])]).unwrap();
        profile[0].variant.clone().unwrap()
    };
    assert_eq!(
        [variant_of(3), variant_of(4), variant_of(5)],
        ["fallback", "by_four", "fallback"]
    );
    let reasons: Vec<_> = runtime
        .compile_records()
        .into_iter()
        .map(|record| record.reason)
        .collect();
    assert_eq!(
        reasons,
        [CompileReason::FirstUse, CompileReason::NewVariant]
    );
}

#[test]
fn a_schedule_that_does_not_compile_is_skipped() {
    let runtime = runtime_with(
        FakeCompiler {
            offer: Offer::Broken,
            ..FakeCompiler::default()
        },
        RuntimeOptions::new(),
    );
    let graph = graph(TWO_SUMS);
    expect_same(
        &compiled(&runtime, &graph, false),
        &graph,
        &[ramp(&[2, 2]), ramp(&[2, 2])],
    );
    let stats = runtime.stats();
    assert_eq!((stats.failures, stats.interpreted_steps), (1, 0));
    let records = runtime.compile_records();
    assert!(records[0].to_string().ends_with("failed: cannot compile kernel @reduce for fake:any with broken: this schedule never works")
        || records[0].error.is_some(), "{}", records[0]);
}

#[test]
fn kernels_that_do_not_compile_are_interpreted_and_counted() {
    let graph = graph(
        "graph @mlp(%x: f32[B, 3], %w: f32[3, 2]) -> f32[B, 2] {
      %c: f32[2] = constant [1.0, 2.0]
      %p = matmul %x, %w
      %s = add %p, %c
      return %s
    }",
    );
    let inputs = [ramp(&[4, 3]), ramp(&[3, 2])];
    for fuse in [true, false] {
        let broken = FakeCompiler {
            offer: Offer::AllBroken,
            ..FakeCompiler::default()
        };
        let runtime = runtime_with(broken, RuntimeOptions::new());
        expect_same(&compiled(&runtime, &graph, fuse), &graph, &inputs);
        assert!(runtime.stats().interpreted_steps > 0 && runtime.stats().failures > 0);
        let device = Arc::new(FakeDevice::default());
        let without = Arc::new(Runtime::new(None, device, RuntimeOptions::new()));
        expect_same(&compiled(&without, &graph, fuse), &graph, &inputs);
        assert!(without.stats().interpreted_steps > 0 && without.target().is_none());
    }
}

#[test]
fn launch_plans_are_bounded() {
    let options = RuntimeOptions::new().with_launch_plans(NonZeroUsize::MIN.saturating_add(2));
    let runtime = runtime_with(FakeCompiler::default(), options);
    let graph = graph(TWO_SUMS);
    let program = compiled(&runtime, &graph, true);
    for a in 0..20 {
        expect_same(&program, &graph, &[ramp(&[a, 2]), ramp(&[a, 2])]);
    }
    assert_eq!(program.n_launch_plans(), 3);
    program.clear();
    assert_eq!(program.n_launch_plans(), 0);
    runtime.clear_cache();
    assert_eq!(runtime.stats().unique_kernels, 0);
    expect_same(&program, &graph, &[ramp(&[3, 2]), ramp(&[3, 2])]);
}

#[test]
fn a_profile_has_every_step() {
    let graph = graph(
        "graph @f(%x: f32[A, 8]) -> f32[A] {
      %y = exp %x
      %z = reduce %y {function = sum, axes = [1]}
      return %z
    }",
    );
    let program = compiled(&runtime(), &graph, false);
    let (outputs, profile) = program.run_profiled(&[ramp(&[3, 8])]).unwrap();
    assert_eq!(outputs[0].shape(), [3]);
    let rows: Vec<_> = profile
        .iter()
        .map(|step| (step.kind, step.class.unwrap_or(""), step.bytes))
        .collect();
    assert_eq!(rows, [("kernel", "map", 192), ("kernel", "row", 108)]);
    assert_eq!(profile[0].operations, Some(24.0));
    assert_eq!(profile[1].operations, Some(24.0));
}

struct Doubles;

impl CustomOp for Doubles {
    fn evaluate(&self, _arguments: &str, operands: &[Tensor]) -> Result<Vec<Tensor>, String> {
        let x = operands[0]
            .to_vec::<f32>()
            .map_err(|error| error.to_string())?;
        let twice: Vec<f32> = x.iter().flat_map(|&x| [x, x]).collect();
        Ok(vec![
            Tensor::from_vec(&[twice.len()], twice).map_err(|error| error.to_string())?,
        ])
    }
}

#[test]
fn custom_ops_are_interpreted_and_may_decide_sizes() {
    let text = "graph @f(%x: f32[A]) -> f32[n] {
      %0: f32[A] = exp %x
      %1: f32[n] = custom %0 {name = \"doubles\", arguments = \"\"} -> (n)
      %2: f32[n] = neg %1
      return %2
    }";
    let Ok(graph) = kiln_ir::text::read(text, &kiln_ir::BlobMap::new()) else {
        panic!(
            "{:?}",
            kiln_ir::text::read(text, &kiln_ir::BlobMap::new()).err()
        );
    };
    let mut custom_ops = CustomOps::new();
    custom_ops.register("doubles", Arc::new(Doubles));
    let options = InterpretOptions {
        custom_ops: Some(&custom_ops),
        ..InterpretOptions::default()
    };
    let expected = interpret(&graph, &[ramp(&[3])], &options).unwrap();
    let runtime = runtime_with(
        FakeCompiler::default(),
        RuntimeOptions::new().with_custom_ops(custom_ops.clone()),
    );
    let program = compiled(&runtime, &graph, true);
    let found = program.run(&[ramp(&[3])]).unwrap();
    assert_eq!(found[0].shape(), [6]);
    assert!(
        found[0]
            .to_vec::<f32>()
            .unwrap()
            .iter()
            .zip(expected[0].to_vec::<f32>().unwrap())
            .all(|(a, b)| (a - b).abs() < 1e-5)
    );
    assert_eq!(runtime.stats().interpreted_steps, 1);
    let without = compiled(&support::runtime(), &graph, true);
    assert_eq!(error_of(&without, &[ramp(&[3])]).code(), "E0830");
}

#[test]
fn values_of_symbols_that_break_a_promise_are_refused() {
    let graph = graph(
        "graph @f(%x: f32[A], %n: i64[]) -> f32[m] where m <= A, m >= 0 {
      bind %n -> (m)
      %y = slice %x {starts = [0], sizes = [m], steps = [1]}
      %z = exp %y
      return %z
    }",
    );
    let program = compiled(&runtime(), &graph, true);
    let call = |a, n: i64| [ramp(&[a]), Tensor::scalar(n)];
    expect_same(&program, &graph, &call(4, 2));
    expect_same(&program, &graph, &call(4, 4));
    for n in [5, -1] {
        let expected = interpret(&graph, &call(4, n), &InterpretOptions::default()).unwrap_err();
        assert_eq!(error_of(&program, &call(4, n)).code(), expected.code());
    }
}
