//! Launches and artifacts that do not fit: refused before anything runs.

use super::*;
use kiln_backend::{CallerOnly, ExecuteError, Launch, LoadedKernel, PhaseLaunch};
use std::sync::Arc;

fn launch(kernel: &LoadedKernel, launch: &Launch<'_>) -> ExecuteError {
    let mut execution = NativeExecutor::new().begin(Arc::new(CallerOnly));
    execution.launch(kernel, launch).unwrap_err()
}

#[test]
fn numbers_of_things() {
    let cpu = NativeExecutor::new();
    let kernel = cpu.load(&scale()).unwrap();
    let (input, output) = (uploaded(&[1.0f32]), alloc(4));
    let buffers = [whole(&input), whole(&output)];
    let good = Launch {
        buffers: &buffers,
        bytes: &[4, 4],
        arguments: &[],
        phases: &[PhaseLaunch {
            tasks: 1,
            scratch: 0,
        }],
        shared_scratch: 0,
    };
    for (bad, expected) in [
        (
            Launch {
                buffers: &buffers[..1],
                ..good
            },
            "buffers of kernel tested: expected 2, found 1",
        ),
        (
            Launch {
                bytes: &[4, 4, 4],
                ..good
            },
            "sizes of buffers of kernel tested: expected 2, found 3",
        ),
        (
            Launch {
                arguments: &[0],
                ..good
            },
            "arguments of kernel tested: expected 0, found 1",
        ),
        (
            Launch {
                phases: &[],
                ..good
            },
            "phases of kernel tested: expected 1, found 0",
        ),
        (
            Launch {
                bytes: &[4, 5],
                ..good
            },
            "buffer y of kernel tested: expected at least 5 bytes, found 4",
        ),
    ] {
        let error = launch(&kernel, &bad);
        assert_eq!(
            (error.code, error.to_string().as_str()),
            ("E0861", expected)
        );
    }
    let other = LoadedKernel::new(Arc::new("another executor's"));
    let error = launch(&other, &good);
    assert_eq!(
        error.to_string(),
        "a kernel to launch: expected this executor's own, found another executor's"
    );
}

#[test]
fn slices_of_memory() {
    let kernel = NativeExecutor::new().load(&scale()).unwrap();
    let (input, output) = (uploaded(&[1.0f32, 2.0]), alloc(8));
    let foreign = Memory::new(Arc::new(5u8), 8);
    let slice = |memory, offset, bytes| MemorySlice {
        memory,
        offset,
        bytes,
    };
    for (slice, expected) in [
        (
            slice(&output, 4, 8),
            "expected a slice within 8 bytes of memory, found 8 bytes at offset 4",
        ),
        (
            slice(&output, usize::MAX, 8),
            "expected a slice within 8 bytes of memory, found 8 bytes at offset 18446744073709551615",
        ),
        (
            slice(&output, 2, 4),
            "expected an address that is a multiple of 4, found offset 2",
        ),
        (
            slice(&foreign, 0, 8),
            "expected this executor's own, found another executor's",
        ),
    ] {
        let bad = Launch {
            buffers: &[whole(&input), slice],
            bytes: &[4, 4],
            arguments: &[],
            phases: &[PhaseLaunch {
                tasks: 1,
                scratch: 0,
            }],
            shared_scratch: 0,
        };
        let expected = format!("buffer y of kernel tested: {expected}");
        assert_eq!(launch(&kernel, &bad).to_string(), expected);
    }
    // Nothing ran.
    assert_eq!(elements::<f32>(&output), [0.0, 0.0]);
}

#[test]
fn scratch_that_cannot_be_had() {
    let kernel = NativeExecutor::new().load(&scale()).unwrap();
    let (input, output) = (uploaded(&[1.0f32]), alloc(4));
    let buffers = [whole(&input), whole(&output)];
    let scratch = isize::MAX as usize;
    for (scratch, shared_scratch) in [(scratch, 0), (0, scratch)] {
        let bad = Launch {
            buffers: &buffers,
            bytes: &[4, 4],
            arguments: &[],
            phases: &[PhaseLaunch { tasks: 1, scratch }],
            shared_scratch,
        };
        let mut execution = NativeExecutor::new().begin(Arc::new(CallerOnly));
        let error = execution.launch(&kernel, &bad).unwrap_err();
        assert_eq!((error.code, error.out_of_memory), ("E0840", true));
        let good = Launch {
            phases: &[PhaseLaunch {
                tasks: 1,
                scratch: 64,
            }],
            shared_scratch: 64,
            ..bad
        };
        execution.launch(&kernel, &good).unwrap();
        assert_eq!(elements::<f32>(&output), [1.4]);
    }
}

#[test]
fn artifacts() {
    let cpu = NativeExecutor::new();
    let mut other_level = scale();
    other_level.target.level = "sm_90".to_owned();
    let error = cpu.load(&other_level).unwrap_err();
    assert_eq!(
        (error.code, error.to_string().as_str()),
        (
            "E0860",
            "code for level `sm_90` cannot run on this machine; compile for a level that it has"
        )
    );
    let mut damaged = scale();
    damaged.code.truncate(500);
    assert_eq!(cpu.load(&damaged).unwrap_err().code, "E0850");
    let mut renamed = scale();
    renamed.phases[0].entry.push('x');
    assert_eq!(cpu.load(&renamed).unwrap_err().code, "E0857");
}
