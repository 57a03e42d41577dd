//! Before calls: shapes compiled for ahead, profiles that another process continues with.

mod support;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use kiln_lazy_runtime::{
    CompilePolicy, ProfiledShapes, RuntimeOptions, ShapeProfile, ShapeVariantGenerator,
};
use kiln_symbolic_shape::{SymbolicDimension, SymbolicShape};
use support::{
    FakeCompiler, Gate, Offer, compiled, error_of, expect_same, graph, ramp, runtime_with,
};

const LONG: Duration = Duration::from_secs(20);

const EXP: &str = "graph @f(%x: f32[A, B]) -> (f32[A, B], f32[A]) {
  %y = exp %x
  %s = reduce %x {function = sum, axes = [1]}
  return %y, %s
}";

#[test]
fn what_was_compiled_ahead_is_not_compiled_again() {
    let compiler = FakeCompiler::default();
    let compiles = Arc::clone(&compiler.compiles);
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(EXP);
    let program = compiled(&runtime, &graph, false);
    let dimension = |name| SymbolicDimension::range(name, 1..=9).unwrap();
    let shape = SymbolicShape::new([dimension("A"), dimension("B")]);
    for sizes in ShapeVariantGenerator::new(3).generate_variants(&shape, 5) {
        let sizes: Vec<usize> = sizes.into_iter().map(|size| size as usize).collect();
        program.precompile(std::slice::from_ref(&sizes)).unwrap();
        let (before, plans) = (
            compiles.load(Ordering::SeqCst),
            runtime.stats().launch_plans,
        );
        assert_eq!(before, 2);
        expect_same(&program, &graph, &[ramp(&sizes)]);
        assert_eq!(compiles.load(Ordering::SeqCst), before);
        assert_eq!(
            runtime.stats().launch_plans,
            plans,
            "the plan was there too"
        );
        program.precompile(&[sizes]).unwrap();
    }
    assert_eq!(program.n_launch_plans(), 5);
    let error = program.precompile(&[vec![2]]).unwrap_err();
    assert!(error.code().starts_with("E08"), "{error}");
}

#[test]
fn all_kernels_can_be_compiled_without_any_shape() {
    let compiler = FakeCompiler {
        offer: Offer::MultipleOfFour,
        ..FakeCompiler::default()
    };
    let compiles = Arc::clone(&compiler.compiles);
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(EXP);
    let program = compiled(&runtime, &graph, false);
    assert_eq!(program.compile_all().unwrap(), 2);
    assert_eq!(compiles.load(Ordering::SeqCst), 2);
    expect_same(&program, &graph, &[ramp(&[3, 5])]);
    assert_eq!(compiles.load(Ordering::SeqCst), 2);
    let broken = FakeCompiler {
        offer: Offer::AllBroken,
        ..FakeCompiler::default()
    };
    let runtime = runtime_with(broken, RuntimeOptions::new());
    assert_eq!(
        compiled(&runtime, &graph, false)
            .compile_all()
            .unwrap_err()
            .code(),
        "E0599"
    );
}

#[test]
fn a_profile_says_which_shapes_came_and_another_process_goes_on_with_it() {
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    let graph = graph(EXP);
    let program = compiled(&runtime, &graph, false);
    for (rows, calls) in [(2, 3), (40, 2), (1, 1)] {
        for _ in 0..calls {
            expect_same(&program, &graph, &[ramp(&[rows, 7])]);
        }
    }
    let profile = program.shape_profile();
    let calls = |rows: usize| {
        let is_it = |entry: &&ProfiledShapes| entry.shapes == [vec![rows, 7]];
        profile
            .entries()
            .iter()
            .find(is_it)
            .map(|entry| entry.calls)
    };
    assert_eq!(
        [calls(2), calls(40), calls(1), calls(3)],
        [Some(3), Some(2), Some(1), None]
    );
    assert!(profile.entries().iter().all(|entry| entry.nanoseconds > 0));

    let saved = ShapeProfile::from_json(&profile.to_json()).unwrap();
    let gate = Arc::new(Gate::default());
    let compiler = FakeCompiler {
        gate: Some(Arc::clone(&gate)),
        ..FakeCompiler::default()
    };
    let compiles = Arc::clone(&compiler.compiles);
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let runtime = runtime_with(compiler, options);
    let program = compiled(&runtime, &graph, false);
    // Compilers hang, and nobody waits for them.
    assert_eq!(program.precompile_in_background(&saved), 3);
    assert!(program.shape_profile().entries().is_empty());
    expect_same(&program, &graph, &[ramp(&[2, 7])]);
    gate.open();
    assert!(runtime.wait_idle(LONG));
    assert_eq!(compiles.load(Ordering::SeqCst), 2);
    let before = runtime.stats().fallbacks;
    expect_same(&program, &graph, &[ramp(&[40, 7])]);
    assert_eq!(runtime.stats().fallbacks, before);
    // Shapes of another model are passed over.
    let other = ShapeProfile::new([ProfiledShapes {
        shapes: vec![vec![1], vec![2]],
        calls: 1,
        nanoseconds: 1,
    }]);
    assert_eq!(program.precompile_in_background(&other), 0);
}

#[test]
fn the_hottest_shapes_of_a_profile_are_compiled_first() {
    let gate = Arc::new(Gate::default());
    let compiler = FakeCompiler {
        offer: Offer::MultipleOfFour,
        gate: Some(Arc::clone(&gate)),
        ..FakeCompiler::default()
    };
    let options = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let runtime = runtime_with(compiler, options);
    let graph = graph(
        "graph @g(%x: f32[A]) -> f32[A] {
      %y = exp %x
      return %y
    }",
    );
    let program = compiled(&runtime, &graph, false);
    let entry = |size: usize, nanoseconds| ProfiledShapes {
        shapes: vec![vec![size]],
        calls: 1,
        nanoseconds,
    };
    // The first is being compiled when the others come.
    let profile = ShapeProfile::new([entry(4, 900), entry(5, 100)]);
    assert_eq!(program.precompile_in_background(&profile), 2);
    gate.open();
    assert!(runtime.wait_idle(LONG));
    let order: Vec<_> = runtime
        .compile_records()
        .iter()
        .map(|record| record.schedule.name.clone())
        .collect();
    assert_eq!(order, ["by_four", "fallback"]);
}

#[test]
fn sizes_that_need_another_plan_are_left_to_the_call() {
    let graph = graph(
        "graph @add(%x: f32[A], %y: f32[B]) -> f32[bcast(A, B)] {
      %z = add %x, %y
      return %z
    }",
    );
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    let program = compiled(&runtime, &graph, true);
    program.precompile(&[vec![3], vec![3]]).unwrap();
    match program.precompile(&[vec![3], vec![1]]) {
        Ok(()) => {}
        Err(error) => panic!("{error}"),
    }
    expect_same(&program, &graph, &[ramp(&[3]), ramp(&[1])]);
    let error = error_of(&program, &[ramp(&[3]), ramp(&[2])]);
    assert_eq!(error.code(), "E0863");
}
