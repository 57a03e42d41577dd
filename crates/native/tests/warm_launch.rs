//! A launch that was made before allocates nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on panics")]

use kiln_backend::{
    Artifact, ArtifactBuffer, CallerOnly, KernelExecutor, Launch, MemorySlice, Phase, PhaseLaunch,
    Quantity, Schedule, Target,
};
use kiln_native::NativeExecutor;
use kiln_tensor::DType;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::sync::Arc;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: everything is the system allocator's doing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is the system allocator's.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[cfg(target_arch = "x86_64")]
const OBJECT: (&str, &[u8]) = ("portable", include_bytes!("fixtures/kernels.x86_64.o"));
#[cfg(target_arch = "aarch64")]
const OBJECT: (&str, &[u8]) = ("neon", include_bytes!("fixtures/kernels.aarch64.o"));

#[test]
fn a_warm_launch_allocates_nothing() {
    let zero = || Quantity::constant(0);
    let buffer = |name: &str, written| ArtifactBuffer {
        name: name.to_owned(),
        dtype: DType::F32,
        written,
        bytes: zero(),
    };
    let phase = |entry: &str| Phase {
        entry: entry.to_owned(),
        tasks: zero(),
        scratch: zero(),
    };
    let artifact = Artifact {
        kernel: "sum".to_owned(),
        target: Target {
            backend: "llvm".to_owned(),
            level: OBJECT.0.to_owned(),
        },
        schedule: Schedule::new("fallback"),
        code: OBJECT.1.to_vec(),
        buffers: vec![buffer("x", false), buffer("y", true)],
        arguments: vec![zero()],
        phases: vec![phase("sum_blocks"), phase("sum_total")],
        shared_scratch: zero(),
        packs: Vec::new(),
        in_place: Vec::new(),
        fault_sites: Vec::new(),
    };
    let cpu = NativeExecutor::new();
    let kernel = cpu.load(&artifact).unwrap();
    let (x, y) = (cpu.alloc(1600).unwrap(), cpu.alloc(4).unwrap());
    let mut execution = cpu.begin(Arc::new(CallerOnly));
    let mut launch = |blocks: usize| {
        let slice = |memory, bytes| MemorySlice {
            memory,
            offset: 0,
            bytes,
        };
        let tasks = |tasks, scratch| PhaseLaunch { tasks, scratch };
        let launch = Launch {
            buffers: &[slice(&x, 1600), slice(&y, 4)],
            bytes: &[16 * blocks, 4],
            arguments: &[blocks as i64],
            phases: &[tasks(blocks as u64, 256), tasks(1, 64)],
            shared_scratch: 4 * blocks,
        };
        let before = ALLOCATIONS.get();
        execution.launch(&kernel, &launch).unwrap();
        assert_eq!(execution.finish().unwrap(), None);
        ALLOCATIONS.get() - before
    };
    assert_ne!(launch(100), 0);
    for blocks in [100, 1, 50, 100] {
        assert_eq!(launch(blocks), 0);
    }
}
