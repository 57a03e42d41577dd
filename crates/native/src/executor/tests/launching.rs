//! Valid launches: phases, scratch, arguments, faults, several threads.

use super::pools::Threads;
use super::*;
use kiln_backend::{CallerOnly, Fault, FaultCause, Launch, TaskPool};
use std::sync::Arc;

fn pools() -> [Arc<dyn TaskPool>; 3] {
    [
        Arc::new(CallerOnly),
        Arc::new(Threads(2)),
        Arc::new(Threads(5)),
    ]
}

#[test]
fn every_task_runs_on_any_number_of_threads() {
    let cpu = NativeExecutor::new();
    let code = scale();
    let kernel = cpu.load(&code).unwrap();
    let x: Vec<f32> = (0..1001).map(|i| i as f32).collect();
    let (input, output) = (uploaded(&x), alloc(4 * x.len()));
    for pool in pools() {
        let mut execution = cpu.clone().with_pool(pool).begin();
        for n in [1001, 1000, 3, 1, 0] {
            let launch = Launch {
                buffers: &[whole(&input), whole(&output)],
                numbers: &numbers(&code, &[4 * n, 4 * n], &[], &[(n as u64, 0)], 0),
            };
            launch_alone(&mut *execution, &kernel, &launch).unwrap();
            assert_eq!(elements::<f32>(&output)[..n], scaled(&x[..n]));
        }
        assert_eq!(execution.finish().unwrap(), None);
    }
}

#[test]
fn phases_run_one_after_another_on_shared_scratch() {
    let cpu = NativeExecutor::new();
    let buffers = [("x", DType::F32, false), ("y", DType::F32, true)];
    let code = artifact(&["sum_blocks", "sum_total"], &buffers, 1);
    let kernel = cpu.load(&code).unwrap();
    let x: Vec<f32> = (0..4000).map(|i| i as f32).collect();
    let (input, output) = (uploaded(&x), alloc(4));
    for pool in pools() {
        let mut execution = cpu.clone().with_pool(pool).begin();
        for blocks in [1u64, 1000, 0, 7] {
            let n = 4 * blocks as usize;
            let launch = Launch {
                buffers: &[whole(&input), whole(&output)],
                numbers: &numbers(
                    &code,
                    &[4 * n, 4],
                    &[blocks as i64],
                    &[(blocks, 0), (1, 0)],
                    n,
                ),
            };
            launch_alone(&mut *execution, &kernel, &launch).unwrap();
            let total: f32 = x[..n].iter().sum();
            assert_eq!(elements::<f32>(&output), [total]);
        }
    }
}

#[test]
fn scratch_grows_with_the_launches() {
    let cpu = NativeExecutor::new();
    let buffers = [("x", DType::U8, false), ("y", DType::U8, true)];
    let code = artifact(&["copy"], &buffers, 1);
    let kernel = cpu.load(&code).unwrap();
    for pool in pools() {
        let mut execution = cpu.clone().with_pool(pool).begin();
        for n in [10, 100_000, 1000, 0] {
            let x: Vec<u8> = (0..n).map(|i| i as u8).collect();
            let (input, output) = (uploaded(&x), alloc(n));
            let launch = Launch {
                buffers: &[whole(&input), whole(&output)],
                numbers: &numbers(&code, &[n, n], &[n as i64], &[(1, n)], 0),
            };
            launch_alone(&mut *execution, &kernel, &launch).unwrap();
            assert_eq!(elements::<u8>(&output), x);
        }
    }
}

#[test]
fn the_first_fault_is_kept_until_the_end() {
    let cpu = NativeExecutor::new();
    let buffers = [
        ("x", DType::F32, false),
        ("index", DType::I64, false),
        ("y", DType::F32, true),
    ];
    let code = artifact(&["gather"], &buffers, 1);
    let kernel = cpu.load(&code).unwrap();
    let x = uploaded(&[1.0f32, 2.0, 3.0]);
    let output = alloc(16);
    let mut execution = cpu.clone().with_pool(Arc::new(Threads(2))).begin();
    for indices in [[0i64, 1, 2, 0], [0, 3, 0, 0], [-1, 0, 0, 0], [2, 2, 2, 2]] {
        let index = uploaded(&indices);
        let launch = Launch {
            buffers: &[whole(&x), whole(&index), whole(&output)],
            numbers: &numbers(&code, &[12, 32, 16], &[3], &[(4, 0)], 0),
        };
        launch_alone(&mut *execution, &kernel, &launch).unwrap();
    }
    // A kernel that faults terminates and stays in bounds, and so do those that run after it.
    assert_eq!(elements::<f32>(&output), [3.0; 4]);
    let fault = Fault {
        launch: 1,
        cause: FaultCause::IndexOutOfRange,
        site: 7,
    };
    assert_eq!(execution.finish().unwrap(), Some(fault));
    assert_eq!(execution.finish().unwrap(), None);
}

#[test]
fn many_executions_run_one_kernel_at_a_time() {
    let cpu = NativeExecutor::new();
    let code = scale();
    let kernel = cpu.load(&code).unwrap();
    let x: Vec<f32> = (0..100).map(|i| i as f32).collect();
    let input = uploaded(&x);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let output = alloc(400);
                let mut execution = cpu.begin();
                for _ in 0..200 {
                    let launch = Launch {
                        buffers: &[whole(&input), whole(&output)],
                        numbers: &numbers(&code, &[400, 400], &[], &[(100, 0)], 0),
                    };
                    launch_alone(&mut *execution, &kernel, &launch).unwrap();
                }
                assert_eq!(elements::<f32>(&output), scaled(&x));
            });
        }
    });
}

#[test]
fn the_executor_names_its_device_and_caches() {
    let cpu = NativeExecutor::default();
    assert_eq!(cpu.device(), "cpu");
    assert!(cpu.caches().iter().all(|&bytes| bytes > 0));
}
