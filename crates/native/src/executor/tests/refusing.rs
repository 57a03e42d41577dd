//! Invalid launches and artifacts, which are rejected before anything runs.

use super::*;
use kiln_backend::{ExecuteError, Launch, LoadedKernel};
use std::sync::Arc;

fn launch(kernel: &LoadedKernel, launch: &Launch<'_>) -> ExecuteError {
    let mut execution = NativeExecutor::new().begin();
    launch_alone(&mut *execution, kernel, launch).unwrap_err()
}

#[test]
fn launches_with_wrong_counts_are_refused() {
    let cpu = NativeExecutor::new();
    let code = scale();
    let kernel = cpu.load(&code).unwrap();
    let (input, output) = (uploaded(&[1.0f32]), alloc(4));
    let buffers = [whole(&input), whole(&output)];
    let good = &numbers(&code, &[4, 4], &[], &[(1, 0)], 0);
    let too_long = &numbers(&code, &[4, 5], &[], &[(1, 0)], 0);
    let others = &numbers(&scale(), &[4, 4], &[], &[(1, 0)], 0);
    for (buffers, numbers, expected) in [
        (
            &buffers[..1],
            good,
            "buffers of kernel tested: expected 2, found 1",
        ),
        (
            &buffers,
            too_long,
            "buffer y of kernel tested: expected at least 5 bytes, found 4",
        ),
        (
            &buffers,
            others,
            "the numbers of a launch of kernel tested: expected those of the artifact that it was loaded from, found those \
             of another one of tested",
        ),
    ] {
        let error = launch(&kernel, &Launch { buffers, numbers });
        assert_eq!(
            (error.code, error.to_string().as_str()),
            ("E0861", expected)
        );
    }
    let other = LoadedKernel::new(Arc::new("another executor's"));
    let good = Launch {
        buffers: &buffers,
        numbers: good,
    };
    let error = launch(&other, &good);
    assert_eq!(
        error.to_string(),
        "a kernel to launch: expected this executor's own, found another executor's"
    );
}

#[test]
fn launches_with_invalid_memory_slices_are_refused() {
    let code = scale();
    let kernel = NativeExecutor::new().load(&code).unwrap();
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
            numbers: &numbers(&code, &[4, 4], &[], &[(1, 0)], 0),
        };
        let expected = format!("buffer y of kernel tested: {expected}");
        assert_eq!(launch(&kernel, &bad).to_string(), expected);
    }
    // Nothing ran.
    assert_eq!(elements::<f32>(&output), [0.0, 0.0]);
}

#[test]
fn scratch_allocation_failure_is_an_error() {
    let code = scale();
    let kernel = NativeExecutor::new().load(&code).unwrap();
    let (input, output) = (uploaded(&[1.0f32]), alloc(4));
    let buffers = [whole(&input), whole(&output)];
    let scratch = isize::MAX as usize;
    for (scratch, shared_scratch) in [(scratch, 0), (0, scratch)] {
        let bad = Launch {
            buffers: &buffers,
            numbers: &numbers(&code, &[4, 4], &[], &[(1, scratch)], shared_scratch),
        };
        let mut execution = NativeExecutor::new().begin();
        let error = launch_alone(&mut *execution, &kernel, &bad).unwrap_err();
        assert_eq!((error.code, error.out_of_memory), ("E0840", true));
        let good = Launch {
            numbers: &numbers(&code, &[4, 4], &[], &[(1, 64)], 64),
            ..bad
        };
        launch_alone(&mut *execution, &kernel, &good).unwrap();
        assert_eq!(elements::<f32>(&output), [1.4]);
    }
}

#[test]
fn artifacts_for_other_targets_are_refused() {
    let cpu = NativeExecutor::new();
    let changed = |change: fn(&mut ArtifactParts)| {
        let mut parts = scale().to_parts();
        change(&mut parts);
        cpu.load(&trusted(parts)).unwrap_err()
    };
    let error = changed(|parts| parts.target.level = "sm_90".to_owned());
    assert_eq!(
        (error.code, error.to_string().as_str()),
        (
            "E0860",
            "code for level `sm_90` cannot run on this machine; compile for a level that it supports"
        )
    );
    assert_eq!(changed(|parts| parts.code.truncate(500)).code, "E0850");
    assert_eq!(
        changed(|parts| parts.phases[0].entry.push('x')).code,
        "E0857"
    );
}
