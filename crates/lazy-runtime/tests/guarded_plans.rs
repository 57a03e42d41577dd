//! Guarded plans: ops fused under size equalities that may not hold, and the general plan for those cases. The sizes of
//! each call decide, independently of earlier calls.

mod support;

use std::sync::Arc;
use std::time::Duration;

use kiln_ir::Graph;
use kiln_lazy_runtime::{CompilePolicy, CompiledProgram, Runtime, RuntimeOptions, VariantOptions};
use proptest::prelude::*;
use support::{FakeCompiler, compiled, error_of, expect_same, graph, ramp, runtime_with};

/// Longer than any test takes, however busy the machine is; only a hang takes longer.
const LONG: Duration = Duration::from_secs(120);

/// One kernel if `A == B`; if one of them is 1, it is broadcast.
const SUM: &str = "graph @sum(%x: f32[A, C], %y: f32[B, C]) -> f32[bcast(A, B), C] {
  %e = exp %x
  %s = add %e, %y
  %r = relu %s
  return %r
}";

struct Bench {
    runtime: Arc<Runtime>,
    program: CompiledProgram,
    graph: Graph,
}

impl Bench {
    fn new(text: &str, options: RuntimeOptions) -> Self {
        let runtime = runtime_with(FakeCompiler::default(), options);
        let graph = graph(text);
        Self {
            program: compiled(&runtime, &graph, true),
            runtime,
            graph,
        }
    }

    fn sum(&self, a: usize, b: usize, c: usize) {
        expect_same(&self.program, &self.graph, &[ramp(&[a, c]), ramp(&[b, c])]);
    }
}

#[test]
fn two_symbols_equal_on_some_calls_are_never_merged() {
    let bench = Bench::new(SUM, RuntimeOptions::new());
    let kernels = bench.program.program().kernels().len();
    assert_eq!(kernels, 1, "under the fact all of it is one kernel");
    bench.sum(4, 4, 3);
    assert_eq!(
        (bench.program.n_plans(), bench.runtime.stats().other_plans),
        (1, 0)
    );
    bench.sum(4, 1, 3);
    assert_eq!(
        (bench.program.n_plans(), bench.runtime.stats().other_plans),
        (2, 1)
    );
    // Alternating between the plans: nothing more is planned or compiled.
    let before = bench.runtime.stats();
    for _ in 0..3 {
        for (a, b) in [(4, 4), (4, 1)] {
            bench.sum(a, b, 3);
        }
    }
    let after = bench.runtime.stats();
    assert_eq!(
        (after.compilations, after.launch_plans, after.other_plans),
        (before.compilations, before.launch_plans, before.other_plans)
    );
    // Sizes that fit neither plan are rejected by name, and the next call is served.
    let error = error_of(&bench.program, &[ramp(&[4, 3]), ramp(&[2, 3])]);
    assert_eq!(error.code(), "E0820");
    assert!(
        error.to_string().contains("A = 4") && error.to_string().contains("B = 2"),
        "{error}"
    );
    bench.sum(1, 1, 3);
}

/// One of the sizes that plans and kernels treat differently.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![3 => 0_usize..3, 2 => 3_usize..6, 1 => 15_usize..18]
}

fn policy() -> impl Strategy<Value = CompilePolicy> {
    prop_oneof![
        Just(CompilePolicy::FirstUse),
        Just(CompilePolicy::Background),
        Just(CompilePolicy::AfterCalls(4)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// From small to large, from large to small, facts that hold and fail, repeated sizes: the interpreter is the
    /// reference.
    #[test]
    fn sequences_of_shapes_agree_with_the_interpreter(
        calls in proptest::collection::vec((size(), size(), size(), 0_u8..4), 1..30),
        policy in policy(),
        eager in any::<bool>(),
    ) {
        let after = if eager { Duration::from_nanos(1) } else { Duration::from_secs(1) };
        let variants = VariantOptions::new().with_after(after).with_per_kernel(3);
        let options = RuntimeOptions::new().with_policy(policy).with_variants(Some(variants));
        let bench = Bench::new(SUM, options);
        let mut before = None;
        for (a, b, c, way) in calls {
            let (a, b) = match way {
                0 => (a, a),
                1 => (a, 1),
                2 => (1, b),
                _ => before.unwrap_or((b, b)),
            };
            before = Some((a, b));
            for _ in 0..1 + usize::from(eager) * 16 {
                bench.sum(a, b, c);
            }
        }
        prop_assert!(bench.runtime.wait_idle(LONG));
        prop_assert!(bench.program.n_plans() <= 2);
    }
}
