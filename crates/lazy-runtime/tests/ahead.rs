//! Compiling ahead of calls: precompiled shapes, and profiles continued by another process.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

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

/// Longer than any test takes, however busy the machine is; only a hang takes longer.
const LONG: Duration = Duration::from_secs(120);

const EXP: &str = "graph @f(%x: f32[A, B]) -> (f32[A, B], f32[A]) {
  %y = exp %x
  %s = reduce %x {function = sum, axes = [1]}
  return %y, %s
}";

#[test]
fn kernels_compiled_ahead_are_not_compiled_again() {
    let compiler = FakeCompiler::default();
    let compiles = Arc::clone(&compiler.compiles);
    let runtime = runtime_with(compiler, RuntimeOptions::new());
    let graph = graph(EXP);
    let program = compiled(&runtime, &graph, false);
    let dimension = |name| SymbolicDimension::range(name, 1..=9).unwrap();
    let shape = SymbolicShape::new([dimension("A"), dimension("B")]);
    for sizes in ShapeVariantGenerator::new(3).generate_variants(&[shape], 5) {
        let sizes: Vec<usize> = sizes[0].iter().map(|&size| size as usize).collect();
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
fn a_profile_lists_the_called_shapes_and_another_process_continues_it() {
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
    // Compilers hang, but no call waits for them.
    assert_eq!(program.precompile_in_background(&saved), 3);
    assert!(program.shape_profile().entries().is_empty());
    expect_same(&program, &graph, &[ramp(&[2, 7])]);
    gate.open();
    assert!(runtime.wait_idle(LONG));
    assert_eq!(compiles.load(Ordering::SeqCst), 2);
    let before = runtime.stats().fallbacks;
    expect_same(&program, &graph, &[ramp(&[40, 7])]);
    assert_eq!(runtime.stats().fallbacks, before);
    // Shapes of another model are skipped.
    let other = ShapeProfile::new([ProfiledShapes {
        shapes: vec![vec![1], vec![2]],
        calls: 1,
        nanoseconds: 1,
    }]);
    assert_eq!(program.precompile_in_background(&other), 0);
}

/// A profile with one shape, as another process saved it.
fn saved(size: usize, nanoseconds: u64) -> ShapeProfile {
    let entry = ProfiledShapes {
        shapes: vec![vec![size]],
        calls: 1,
        nanoseconds,
    };
    ShapeProfile::from_json(&ShapeProfile::new([entry]).to_json()).unwrap()
}

#[test]
fn the_hottest_shapes_of_a_saved_profile_are_compiled_first_in_the_background() {
    for policy in [CompilePolicy::FirstUse, CompilePolicy::Background] {
        let gate = Arc::new(Gate::default());
        let compiler = FakeCompiler {
            offer: Offer::MultiplesOf(&[7, 5, 3, 2]),
            gate: Some(Arc::clone(&gate)),
            ..FakeCompiler::default()
        };
        let options = RuntimeOptions::new().with_policy(policy);
        let runtime = runtime_with(compiler, options);
        let of = |op: &str| {
            let text =
                format!("graph @g(%x: f32[A]) -> f32[A] {{\n  %y = {op} %x\n  return %y\n}}");
            compiled(&runtime, &graph(&text), false)
        };
        // The only background thread is busy when the profile arrives.
        assert_eq!(of("neg").precompile_in_background(&saved(11, 1)), 1);
        gate.wait_for(1);
        // The hot shapes come last, and are in another profile too.
        let program = of("exp");
        let cool = saved(3, 100).merged(saved(5, 500)).merged(saved(11, 1));
        assert_eq!(program.precompile_in_background(&cool), 3);
        assert_eq!(program.precompile_in_background(&saved(7, 900)), 1);
        assert_eq!(program.precompile_in_background(&saved(2, 300)), 1);
        // Compilers hang, no call has waited, and other calls are served.
        assert!(runtime.stats().blocked < Duration::from_secs(1));
        assert_eq!(runtime.compiling(), (5, 1));
        gate.open();
        assert!(runtime.wait_idle(LONG));
        let records = runtime.compile_records();
        let order: Vec<_> = records
            .iter()
            .map(|record| &*record.schedule.name)
            .collect();
        assert_eq!(
            order,
            ["fallback", "by_7", "by_5", "by_2", "by_3", "fallback"]
        );
        // Calls with these shapes compile nothing.
        for size in [7, 5, 2, 3, 11] {
            program.run(&[ramp(&[size])]).unwrap();
        }
        let stats = runtime.stats();
        assert_eq!((stats.compilations, stats.interpreted_steps), (6, 0));
    }
}

#[test]
fn memory_of_a_call_is_known_ahead_and_close_to_the_peak_of_live_bytes() {
    // As symbols, the sizes cannot be compared, so no two of the large values share a slot.
    let graph = graph(
        "graph @apart(%x: f32[A], %y: f32[B], %z: f32[C]) -> (f32[], f32[B]) {
      %a = exp %x
      %ra = reduce %a {function = sum, axes = [0]}
      %b = exp %y
      %rb = reduce %b {function = sum, axes = [0]}
      %c = exp %z
      %rc = reduce %c {function = sum, axes = [0]}
      %s = add %ra, %rb
      %t = add %s, %rc
      %r = neg %y
      return %t, %r
    }",
    );
    let runtime = runtime_with(FakeCompiler::default(), RuntimeOptions::new());
    let program = compiled(&runtime, &graph, false);
    for sizes in [[1000, 3000, 2000], [3000, 1000, 10], [0, 0, 5]] {
        let shapes = sizes.map(|size| vec![size]);
        let memory = program.call_memory(&shapes).unwrap().unwrap();
        let largest = 4 * sizes.iter().max().unwrap();
        assert!(memory.largest_live_set >= largest, "{memory:?}");
        // Three scalars, each on its own cache line.
        assert!(memory.arena <= largest + 4 * 64, "{memory:?}");
        assert_eq!(memory.results, 4 * sizes[1] + 4);
        let inputs = sizes.map(|size| ramp(&[size]));
        expect_same(&program, &graph, &inputs);
    }
    assert!(program.call_memory(&[vec![1]]).is_err());
    let before = runtime.stats();
    assert_eq!((before.interpreted_steps, before.launch_plans), (0, 0));
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
    assert_eq!(error.code(), "E0820");
}
