//! A device may run asynchronously, within rules. A device that breaks a rule is shown to break programs, so the suite,
//! which runs on a late and reordering device, would detect a runtime that depends on more than the rules.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::sync::Arc;

use kiln_backend::{KernelCompiler, KernelExecutor};
use kiln_interpreter::{InterpretOptions, interpret};
use kiln_lazy_runtime::{Runtime, RuntimeOptions};
use kiln_testkit::oracle::{Tolerance, compare_all};
use support::{Broken, FakeCompiler, FakeDevice, compiled, graph, ramp};

/// Steps that depend on each other, and, without a compiler, results that the host uploads to the device.
const CHAIN: &str = "graph @chain(%x: f32[N, 3], %w: f32[3, 3]) -> f32[N, 3] {
  %a = exp %x
  %b = matmul %a, %w
  %c = relu %b
  %d = matmul %c, %w
  %e = add %d, %x
  %f = matmul %e, %w
  return %f
}";

/// How many of twenty calls on a device give the interpreter's results.
fn right_calls(
    device: Arc<dyn KernelExecutor>,
    compiler: Option<Arc<dyn KernelCompiler>>,
) -> usize {
    let graph = graph(CHAIN);
    let runtime = Arc::new(Runtime::new(compiler, device, RuntimeOptions::new()));
    let program = compiled(&runtime, &graph, false);
    let is_right = |&rows: &usize| {
        let inputs = [ramp(&[rows, 3]), ramp(&[3, 3])];
        let expected = interpret(&graph, &inputs, &InterpretOptions::default()).unwrap();
        program
            .run(&inputs)
            .is_ok_and(|found| compare_all(&expected, &found, Tolerance::OfLargest(1e-4)).is_ok())
    };
    (1..=20).filter(is_right).count()
}

fn compiler() -> Option<Arc<dyn KernelCompiler>> {
    Some(Arc::new(FakeCompiler::default()))
}

#[test]
fn calls_on_an_asynchronous_device_are_right() {
    assert_eq!(right_calls(Arc::new(FakeDevice::default()), compiler()), 20);
    assert_eq!(right_calls(Arc::new(FakeDevice::default()), None), 20);
}

#[test]
fn a_device_that_frees_memory_early_is_detected() {
    assert!(right_calls(Arc::new(FakeDevice::broken(Broken::Lifetime)), None) < 20);
}

#[test]
fn a_device_that_reorders_work_is_detected() {
    assert!(right_calls(Arc::new(FakeDevice::broken(Broken::Order)), compiler()) < 20);
}

#[test]
fn reading_device_memory_before_waiting_is_detected() {
    assert!(right_calls(Arc::new(FakeDevice::broken(Broken::Waiting)), compiler()) < 20);
}
