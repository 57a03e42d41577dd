//! The runtime on the CUDA executor with a simulated driver: work runs late, copies read page-locked memory late,
//! memory is reused as soon as that is allowed, and out-of-bounds accesses lose the device. Random graphs agree with
//! the interpreter.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot continue panics"
)]

mod support;

use std::sync::Arc;

use arbitrary::Unstructured;
use kiln_backend::{ExecuteError, KernelExecutor};
use kiln_codegen_cuda::CudaExecutor;
use kiln_codegen_cuda::driver::mock::{ILLEGAL_ADDRESS, MockCompiler, MockDriver};
use kiln_interpreter::{InterpretLimits, InterpretOptions, interpret};
use kiln_lazy_runtime::{OutputPlacement, Runtime, RuntimeOptions};
use kiln_native::NativeExecutor;
use kiln_tensor::Tensor;
use kiln_testkit::generate::{Flavor, GraphOptions, input_shapes, input_tensors, random_graph};
use kiln_testkit::oracle::{Tolerance, compare_all};
use kiln_testkit::random::seeded_bytes;
use support::{compiled, graph, ramp};

/// Steps that depend on each other, so that a batch of launches becomes a graph.
const CHAIN: &str = "graph @chain(%x: f32[N, 3], %w: f32[3, 3]) -> f32[N, 3] {
  %a = exp %x
  %b = matmul %a, %w
  %c = relu %b
  %d = matmul %c, %w
  %e = add %d, %x
  %f = matmul %e, %w
  return %f
}";

/// A runtime on a simulated device.
fn runtime(driver: &MockDriver) -> (Arc<Runtime>, CudaExecutor) {
    let host = Arc::new(NativeExecutor::new());
    let device = CudaExecutor::on(driver.clone()).unwrap().with_host(host);
    let executor: Arc<dyn KernelExecutor> = Arc::new(device.clone());
    let compiler = Arc::new(MockCompiler);
    let runtime = Runtime::new(Some(compiler), executor, RuntimeOptions::new());
    (Arc::new(runtime), device)
}

#[test]
fn random_graphs_on_a_simulated_gpu_agree_with_the_interpreter() {
    let limits = InterpretLimits {
        live_bytes: 1 << 20,
        iterations: 50,
        ..InterpretLimits::default()
    };
    let options = InterpretOptions {
        limits,
        ..InterpretOptions::default()
    };
    let (mut calls, mut agreed) = (0, 0);
    for seed in 0..60 {
        let bytes = seeded_bytes(seed, 4096);
        let mut choices = Unstructured::new(&bytes);
        let smooth = GraphOptions {
            max_ops: 10,
            smooth: true,
        };
        let graph = random_graph(&mut choices, &smooth).expect("bytes enough");
        let driver = MockDriver::new();
        let (runtime, device) = runtime(&driver);
        let program = compiled(&runtime, &graph, seed % 3 != 0);
        let program = match seed % 2 {
            0 => program,
            _ => program.with_outputs(OutputPlacement::Host),
        };
        for _ in 0..3 {
            let Some(shapes) = input_shapes(&mut choices, &graph).expect("bytes enough") else {
                break;
            };
            if shapes.iter().flatten().any(|&size| size > 40) {
                continue;
            }
            let Ok(inputs) = input_tensors(&mut choices, &graph, &shapes, Flavor::Small) else {
                break;
            };
            calls += 1;
            let Ok(expected) = interpret(&graph, &inputs, &options) else {
                // The runtime may or may not reject it, since sizes that are never read are not checked in the same
                // way.
                let _ = program.run(&inputs);
                continue;
            };
            // The third call launches graphs.
            for _ in 0..3 {
                let found = match program.run(&inputs) {
                    Ok(found) => found,
                    Err(error) => panic!("seed {seed}: {error}\n{}", program.program()),
                };
                if let Err(mismatch) = compare_all(&expected, &found, Tolerance::OfLargest(1e-4)) {
                    panic!("seed {seed}: {mismatch}\n{}", program.program());
                }
            }
            agreed += 1;
        }
        assert!(device.is_healthy(), "seed {seed}");
        drop((program, runtime, device));
        assert_eq!(
            (driver.used_bytes(), driver.living()),
            ((0, 0), [0; 4]),
            "seed {seed}"
        );
    }
    assert!(calls > 60 && agreed * 2 > calls, "{agreed} of {calls}");
}

#[test]
fn repeated_calls_on_a_simulated_gpu_are_graphs() {
    let driver = MockDriver::new();
    let (runtime, device) = runtime(&driver);
    let graph = graph(CHAIN);
    let program = compiled(&runtime, &graph, false);
    for rows in [1, 2, 5, 5, 5, 2, 2, 1] {
        let inputs = [ramp(&[rows, 3]), ramp(&[3, 3])];
        let expected = interpret(&graph, &inputs, &InterpretOptions::default()).unwrap();
        let found = program.run(&inputs).unwrap();
        compare_all(&expected, &found, Tolerance::OfLargest(1e-4)).unwrap();
    }
    let statistics = device.statistics();
    assert_eq!(statistics.graphs_built, 3, "{statistics:?}");
    assert_eq!(
        (statistics.graphs_launched, statistics.graphs_refused),
        (5, 0)
    );
}

#[test]
fn a_gpu_lost_at_any_point_gives_typed_errors_and_nothing_panics() {
    let graph = graph(CHAIN);
    let inputs = [ramp(&[2, 3]), ramp(&[3, 3])];
    let mut n_lost = 0;
    for calls in (0..).step_by(3) {
        let driver = MockDriver::new();
        let (runtime, device) = runtime(&driver);
        let program = compiled(&runtime, &graph, true);
        let kept = program.run(&inputs).unwrap();
        driver.fail_after(calls, ILLEGAL_ADDRESS);
        let again = (0..3).map(|_| {
            let outputs = program.run(&inputs)?;
            Ok::<_, kiln_lazy_runtime::RuntimeError>(outputs[0].to_vec::<f32>().is_ok())
        });
        let again: Result<Vec<bool>, _> = again.collect();
        if device.is_healthy() {
            assert!(again.unwrap().into_iter().all(|is_read| is_read));
            break;
        }
        n_lost += 1;
        if let Err(error) = again {
            assert_eq!(
                error.code(),
                ExecuteError::DEVICE_LOST,
                "after {calls}: {error}"
            );
        }
        let error = program.run(&inputs).unwrap_err();
        assert_eq!(error.code(), ExecuteError::DEVICE_LOST);
        let unread: Result<Vec<f32>, _> = Tensor::to_vec(&kept[0]);
        assert!(unread.is_err(), "after {calls}");
    }
    assert!(n_lost > 5, "{n_lost}");
}
