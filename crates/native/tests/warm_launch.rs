//! A repeated launch allocates nothing.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, KernelExecutor, Launch, LaunchContext, MemorySlice,
    Phase, Quantity, Schedule, Target,
};
use kiln_native::NativeExecutor;
use kiln_tensor::DType;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call is forwarded to the system allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        // SAFETY: the system allocator's contract is upheld by the caller.
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
    let (blocks, constant) = (|| Quantity::symbol(0), Quantity::constant);
    let buffer = |name: &str, written, bytes| ArtifactBuffer {
        name: name.to_owned(),
        dtype: DType::F32,
        written,
        bytes,
    };
    let phase = |entry: &str, tasks, scratch| Phase {
        entry: entry.to_owned(),
        tasks,
        block: 1,
        scratch: constant(scratch),
    };
    let parts = ArtifactParts {
        kernel: "sum".to_owned(),
        target: Target {
            backend: "llvm".to_owned(),
            level: OBJECT.0.to_owned(),
        },
        schedule: Schedule::new("fallback"),
        code: OBJECT.1.to_vec(),
        contract: Vec::new(),
        buffers: vec![
            buffer("x", false, blocks() * constant(16)),
            buffer("y", true, constant(4)),
        ],
        arguments: vec![blocks()],
        phases: vec![
            phase("sum_blocks", blocks(), 256),
            phase("sum_total", constant(1), 64),
        ],
        shared_scratch: blocks() * constant(4),
        packs: Vec::new(),
        in_place: Vec::new(),
        fault_sites: Vec::new(),
    };
    // SAFETY: the fixture's code sums the number of blocks of four elements in its argument.
    let artifact = unsafe { Artifact::trusted(parts) };
    let cpu = NativeExecutor::new();
    let kernel = cpu.load(&artifact).unwrap();
    let (x, y) = (cpu.alloc(1600).unwrap(), cpu.alloc(4).unwrap());
    let mut execution = cpu.begin();
    let mut launch = |blocks: i64| {
        let slice = |memory, bytes| MemorySlice {
            memory,
            offset: 0,
            bytes,
        };
        let context = LaunchContext {
            symbols: &[blocks],
            threads: 1,
            caches: [0; 3],
        };
        let launch = Launch {
            buffers: &[slice(&x, 1600), slice(&y, 4)],
            numbers: &artifact.numbers(&context).unwrap(),
        };
        let before = ALLOCATIONS.get();
        // SAFETY: only this test uses the memory, and the buffers do not overlap.
        unsafe { execution.launch(&kernel, &launch) }.unwrap();
        assert_eq!(execution.finish().unwrap(), None);
        ALLOCATIONS.get() - before
    };
    assert_ne!(launch(100), 0);
    for blocks in [100, 1, 50, 100] {
        assert_eq!(launch(blocks), 0);
    }
}
