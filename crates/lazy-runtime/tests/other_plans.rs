//! Plans for sizes at which some plan facts fail: how many there are, which one serves a call, and which calls wait.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use kiln_ir::Graph;
use kiln_lazy_runtime::{CompilePolicy, CompiledProgram, Planner, Runtime, RuntimeOptions};
use kiln_program::{BuildOptions, Program};
use kiln_symbolic_shape::FactSelection;
use kiln_tensor::Tensor;
use proptest::prelude::*;
use support::{
    FakeCompiler, Gate, TestPlanner, compiled, expect_same, graph, ramp, runtime, runtime_with,
};

/// Longer than any test takes, however busy the machine is.
const LONG: Duration = Duration::from_secs(120);

/// The number of facts, each about separate sizes.
const FACTS: usize = 10;

/// Pairs of inputs, each of which gives one kernel if its sizes are equal.
fn pairs() -> Graph {
    let numbers = || 0..FACTS;
    let inputs = numbers().map(|i| format!("%x{i}: f32[A{i}], %y{i}: f32[B{i}]"));
    let types = numbers().map(|i| format!("f32[bcast(A{i}, B{i})]"));
    let ops = numbers().map(|i| {
        format!("  %e{i} = exp %x{i}\n  %s{i} = add %e{i}, %y{i}\n  %r{i} = relu %s{i}\n")
    });
    let results = numbers().map(|i| format!("%r{i}"));
    graph(&format!(
        "graph @pairs({}) -> ({}) {{\n{}  return {}\n}}",
        inputs.collect::<Vec<_>>().join(", "),
        types.collect::<Vec<_>>().join(", "),
        ops.collect::<String>(),
        results.collect::<Vec<_>>().join(", "),
    ))
}

/// Inputs for which the facts whose bits are set fail.
fn inputs(failing: usize) -> Vec<Tensor> {
    let pair = |i: usize| {
        let other = if failing & (1 << i) == 0 { 4 } else { 1 };
        [ramp(&[4]), ramp(&[other])]
    };
    (0..FACTS).flat_map(pair).collect()
}

fn names(failing: usize) -> FactSelection {
    let failing = (0..FACTS).filter(|i| failing & (1 << i) != 0);
    FactSelection::Without(failing.map(|i| format!("A{i} == B{i}")).collect())
}

#[test]
fn only_false_facts_are_dropped() {
    let (graph, runtime) = (pairs(), runtime());
    let program = compiled(&runtime, &graph, true);
    assert_eq!(program.program().facts().count(), FACTS);
    expect_same(&program, &graph, &inputs(0b101));
    let others = program.other_plans();
    let [(facts, plan)] = others.as_slice() else {
        panic!("one other plan, found {}", others.len());
    };
    assert_eq!(*facts, names(0b101));
    assert_eq!(plan.facts().count(), FACTS - 2);
    let steps = program.program().steps().count();
    assert!(plan.steps().count() <= steps + 2 * 2, "{plan}");
    // It also serves sizes for which more facts fail.
    for failing in [0b001, 0b100, 0b101, 0] {
        expect_same(&program, &graph, &inputs(failing));
    }
    assert_eq!(program.n_plans(), 2);
    // The plan that omits the fewest facts is taken.
    expect_same(&program, &graph, &inputs(0b1));
    expect_same(&program, &graph, &inputs(0b11));
    assert_eq!(program.n_plans(), 3);
    assert_eq!(runtime.stats().interpreted_steps, 0);
}

#[test]
fn all_combinations_of_false_facts_need_at_most_twelve_plans() {
    let (graph, runtime) = (pairs(), runtime());
    let program = compiled(&runtime, &graph, true);
    // Single facts first, so that none of their plans serves the next call.
    let single = (0..FACTS).map(|i| 1 << i);
    let mixed = (0..60).map(|i: usize| (i * 389 + 7) % (1 << FACTS));
    let all = [(1 << FACTS) - 1, 0];
    for failing in single.chain(mixed).chain(all) {
        expect_same(&program, &graph, &inputs(failing));
    }
    assert_eq!(program.n_plans(), 12);
    assert_eq!(runtime.stats().other_plans, 11);
    let others = program.other_plans();
    let general = others
        .iter()
        .find(|(facts, _)| *facts == FactSelection::None);
    assert_eq!(general.map(|(_, plan)| plan.facts().count()), Some(0));
    // All of this is known by now.
    let before = runtime.stats();
    for failing in [0b11, 0b1110, (1 << FACTS) - 1, 0] {
        expect_same(&program, &graph, &inputs(failing));
    }
    let after = runtime.stats();
    assert_eq!(
        (after.other_plans, after.compilations),
        (before.other_plans, before.compilations)
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn any_sequence_of_false_facts_agrees_with_the_interpreter(
        calls in proptest::collection::vec(0_usize..1 << FACTS, 1..24),
    ) {
        let (graph, runtime) = (pairs(), runtime());
        let program = compiled(&runtime, &graph, true);
        for failing in calls {
            expect_same(&program, &graph, &inputs(failing));
        }
        prop_assert!(program.n_plans() <= 12);
    }
}

#[test]
fn a_precompiled_program_serves_all_sizes_without_a_planner() {
    let (graph, runtime) = (pairs(), runtime());
    let made = compiled(&runtime, &graph, true);
    made.compile_all().unwrap();
    let others = made.other_plans();
    assert_eq!(others.len(), 1);
    let mut program = CompiledProgram::of_program(Arc::clone(&runtime), made.program().clone());
    for (facts, plan) in others {
        program = program.with_other_plan(facts, plan);
    }
    let compilations = runtime.stats().compilations;
    for failing in [0, 0b1, 0b1010, (1 << FACTS) - 1] {
        expect_same(&program, &graph, &inputs(failing));
    }
    assert_eq!(runtime.stats().compilations, compilations);
    // Without that plan, other sizes are rejected.
    let alone = CompiledProgram::of_program(runtime, made.program().clone());
    let error = alone.run(&inputs(0b1)).unwrap_err();
    assert_eq!(error.code(), "E0866");
    assert!(error.to_string().contains("A0 == B0"), "{error}");
}

#[test]
fn shapes_are_precompiled_for_the_plan_that_serves_them() {
    let (graph, runtime) = (pairs(), runtime());
    let program = compiled(&runtime, &graph, true);
    let inputs = inputs(0b1);
    let shapes: Vec<Vec<usize>> = inputs
        .iter()
        .map(|tensor| tensor.shape().to_vec())
        .collect();
    program.precompile(&shapes).unwrap();
    let before = runtime.stats();
    expect_same(&program, &graph, &inputs);
    let after = runtime.stats();
    assert_eq!(
        (after.compilations, after.other_plans),
        (before.compilations, before.other_plans)
    );
    assert_eq!(program.n_plans(), 2);
}

/// A planner that makes other plans once a gate is open.
struct Gated {
    planner: TestPlanner,
    gate: Arc<Gate>,
}

impl Planner for Gated {
    fn plan(&self, facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        if *facts != FactSelection::All {
            self.gate.pass(|| true);
        }
        self.planner.plan(facts)
    }
}

fn gated(options: RuntimeOptions) -> (Arc<Runtime>, CompiledProgram, Arc<Gate>) {
    let runtime = runtime_with(FakeCompiler::default(), options);
    let gate = Arc::new(Gate::default());
    let planner = Gated {
        planner: TestPlanner {
            graph: pairs(),
            fuse: true,
            build: BuildOptions::default(),
        },
        gate: Arc::clone(&gate),
    };
    let program = CompiledProgram::new(Arc::clone(&runtime), Arc::new(planner)).unwrap();
    (runtime, program, gate)
}

#[test]
fn a_call_that_must_not_wait_is_answered_before_its_plan_is_made() {
    let background = RuntimeOptions::new().with_policy(CompilePolicy::Background);
    let short = RuntimeOptions::new().with_max_block(Duration::from_millis(5));
    for options in [background, short] {
        let (runtime, program, gate) = gated(options);
        let graph = pairs();
        for _ in 0..2 {
            expect_same(&program, &graph, &inputs(0b1));
        }
        assert_eq!(program.n_plans(), 1);
        assert!(runtime.stats().interpreted_steps > 0);
        gate.open();
        let begin = Instant::now();
        while program.n_plans() == 1 && begin.elapsed() < LONG {
            expect_same(&program, &graph, &inputs(0b1));
        }
        expect_same(&program, &graph, &inputs(0b1));
        assert_eq!((program.n_plans(), runtime.stats().other_plans), (2, 1));
        assert!(runtime.wait_idle(LONG));
    }
}

#[test]
fn a_call_that_times_out_waiting_for_a_plan_fails_and_planning_continues() {
    let limit = Duration::from_millis(5);
    let (_, program, gate) = gated(RuntimeOptions::new().with_compile_timeout(limit));
    let error = program.run(&inputs(0b1)).unwrap_err();
    assert_eq!(error.code(), "E0897");
    gate.open();
    let begin = Instant::now();
    while program.n_plans() == 1 && begin.elapsed() < LONG {
        std::thread::yield_now();
    }
    assert_eq!(program.n_plans(), 2);
}

/// A planner that fails, or panics, except for the main plan.
struct Broken {
    planner: TestPlanner,
    panics: bool,
}

impl Planner for Broken {
    fn plan(&self, facts: &FactSelection) -> Result<Program, Box<dyn Error + Send + Sync>> {
        match facts {
            FactSelection::All => self.planner.plan(facts),
            _ if self.panics => panic!("at work"),
            _ => Err("no more plans".into()),
        }
    }
}

#[test]
fn a_failing_planner_is_an_error_of_the_calls_that_need_it() {
    let limit = Duration::from_secs(60);
    for panics in [false, true] {
        let options = RuntimeOptions::new().with_compile_timeout(limit);
        let runtime = runtime_with(FakeCompiler::default(), options);
        let planner = TestPlanner {
            graph: pairs(),
            fuse: true,
            build: BuildOptions::default(),
        };
        let planner = Arc::new(Broken { planner, panics });
        let program = CompiledProgram::new(runtime, planner).unwrap();
        for _ in 0..2 {
            let error = program.run(&inputs(0b1)).unwrap_err();
            assert_eq!(error.code(), "E0866");
        }
        expect_same(&program, &pairs(), &inputs(0));
    }
}
