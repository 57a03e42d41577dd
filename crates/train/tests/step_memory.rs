//! A compiled step allocates far less memory, and less often, than a tape, which keeps a tensor for each op.

#![cfg(feature = "llvm")]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../examples/eager_baseline/counting.rs"]
mod counting;
#[path = "../examples/eager_baseline/graphs.rs"]
#[expect(dead_code, reason = "the test measures no time")]
mod graphs;

use counting::{Allocated, counted};
use graphs::{CASES, Case};
use kiln::{Cache, Device, GradientTape, GraphCompiler, Options, Tensor, Var};
use std::time::Duration;

fn record(tape: &GradientTape, case: &Case, inputs: &[Tensor]) -> (Var, Vec<Var>) {
    let variables = inputs.iter().enumerate();
    let variables: Vec<Var> = variables
        .map(|(index, tensor)| tape.watch(&format!("x{index}"), tensor))
        .collect();
    ((case.loss)(&variables), variables)
}

/// The allocations of forward and backward: on a tape, and compiled, in a call that starts without memory kept from the
/// previous one.
fn of_step(case: &Case) -> [Allocated; 2] {
    let inputs = graphs::inputs(case);
    assert_eq!(inputs.len(), case.shapes.len());
    let gradients = || {
        let tape = GradientTape::new();
        let (loss, variables) = record(&tape, case, &inputs);
        tape.gradients(&loss, &variables.iter().collect::<Vec<_>>())
            .unwrap()
    };
    let (expected, eager) = counted(gradients);

    let options = Options::new().cache(Cache::off()).device(Device::cpu());
    let compiler = GraphCompiler::new(options.threads(1).shared_kernels(false));
    let tape = GradientTape::new();
    let (loss, variables) = record(&tape, case, &inputs);
    let compiled = tape
        .compile(&compiler, &loss, &variables.iter().collect::<Vec<_>>())
        .unwrap();
    drop(tape);
    for _ in 0..3 {
        drop(compiled.run(&inputs).unwrap());
    }
    assert!(compiled.joint().wait_for_compiles(Duration::from_secs(60)));
    drop(compiled.run(&inputs).unwrap());
    compiled.joint().trim_memory(0);
    let ((_, found), little) = counted(|| compiled.run(&inputs).unwrap());
    for (found, expected) in found.iter().zip(&expected) {
        let (found, expected) = (found.to_f64_vec().unwrap(), expected.to_f64_vec().unwrap());
        let scale = expected
            .iter()
            .fold(1e-3_f64, |most, value| most.max(value.abs()));
        for (found, expected) in found.iter().zip(&expected) {
            assert!((found - expected).abs() <= 1e-5 * scale, "{}", case.name);
        }
    }
    [eager, little]
}

#[test]
fn a_step_takes_less_than_half_of_the_allocations_and_70_percent_of_the_peak_of_a_tape() {
    for case in CASES {
        let [eager, compiled] = of_step(case);
        assert!(
            2 * compiled.count <= eager.count,
            "{}: {compiled:?} against {eager:?}",
            case.name
        );
        assert!(
            10 * compiled.peak <= 7 * eager.peak,
            "{}: {compiled:?} against {eager:?}",
            case.name
        );
    }
}
