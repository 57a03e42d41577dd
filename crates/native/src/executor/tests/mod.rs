//! The executor as used by the runtime: artifacts of the fixture's phases, launched and rejected.
#![allow(
    unsafe_code,
    reason = "the fixture's code does what it is launched for"
)]

mod launching;
mod memory;
mod packing;
mod pools;
mod refusing;

use crate::NativeExecutor;
use crate::tests::fixtures;
use kiln_backend::{
    Artifact, ArtifactBuffer, ArtifactParts, ExecuteError, Execution, KernelExecutor, Launch,
    LaunchContext, LaunchNumbers, LoadedKernel, Memory, MemorySlice, Phase, Quantity, Schedule,
    Target,
};
use kiln_tensor::{DType, Element, Tensor};

/// A level that this machine has.
const LEVEL: &str = if cfg!(target_arch = "x86_64") {
    "portable"
} else {
    "neon"
};

/// An artifact with some of the fixture's phases, whose numbers are passed at launch: each is a symbol.
fn artifact(phases: &[&str], buffers: &[(&str, DType, bool)], n_arguments: usize) -> Artifact {
    trusted(parts(phases, buffers, n_arguments))
}

/// Launches on memory that nothing else uses.
fn launch_alone(
    execution: &mut dyn Execution,
    kernel: &LoadedKernel,
    launch: &Launch<'_>,
) -> Result<(), ExecuteError> {
    // SAFETY: each of these tests uses its memory exclusively, in buffers that do not overlap.
    unsafe { execution.launch(kernel, launch) }
}

fn trusted(parts: ArtifactParts) -> Artifact {
    // SAFETY: launches in these tests declare the bytes that the fixture's code accesses.
    unsafe { Artifact::trusted(parts) }
}

fn parts(phases: &[&str], buffers: &[(&str, DType, bool)], n_arguments: usize) -> ArtifactParts {
    let mut n_symbols = 0;
    let mut next = || {
        n_symbols += 1;
        Quantity::symbol(n_symbols - 1)
    };
    let buffer = |&(name, dtype, written): &(&str, DType, bool)| ArtifactBuffer {
        name: name.to_owned(),
        dtype,
        written,
        bytes: next(),
    };
    let buffers = buffers.iter().map(buffer).collect();
    let arguments = (0..n_arguments).map(|_| next()).collect();
    let phase = |&entry: &&str| Phase {
        entry: entry.to_owned(),
        tasks: next(),
        block: 1,
        scratch: next(),
    };
    let phases = phases.iter().map(phase).collect();
    ArtifactParts {
        kernel: "tested".to_owned(),
        target: Target {
            backend: "llvm".to_owned(),
            level: LEVEL.to_owned(),
        },
        schedule: Schedule::new("fallback"),
        code: fixtures::host().to_vec(),
        contract: Vec::new(),
        buffers,
        arguments,
        phases,
        shared_scratch: next(),
        packs: Vec::new(),
        in_place: Vec::new(),
        fault_sites: Vec::new(),
    }
}

/// The numbers for a launch of such an artifact.
fn numbers(
    artifact: &Artifact,
    bytes: &[usize],
    arguments: &[i64],
    phases: &[(u64, usize)],
    shared_scratch: usize,
) -> LaunchNumbers {
    let bytes = bytes.iter().map(|&bytes| bytes as i64);
    let phases = phases
        .iter()
        .flat_map(|&(tasks, scratch)| [tasks as i64, scratch as i64]);
    let symbols: Vec<i64> = bytes
        .chain(arguments.iter().copied())
        .chain(phases)
        .chain([shared_scratch as i64])
        .collect();
    let context = LaunchContext {
        symbols: &symbols,
        threads: 1,
        caches: [0; 3],
    };
    artifact.numbers(&context).unwrap()
}

/// `y[i] = x[i] * weights[i % 4] + 0.4`, one task per element.
fn scale() -> Artifact {
    artifact(
        &["scale"],
        &[("x", DType::F32, false), ("y", DType::F32, true)],
        0,
    )
}

fn scaled(x: &[f32]) -> Vec<f32> {
    let weights = [1.0f32, 10.0, 100.0, 1000.0];
    let scaled = x.iter().enumerate().map(|(i, x)| x * weights[i % 4] + 0.4);
    scaled.collect()
}

fn whole(memory: &Memory) -> MemorySlice<'_> {
    MemorySlice {
        memory,
        offset: 0,
        bytes: memory.bytes(),
    }
}

fn uploaded<T: Element>(elements: &[T]) -> Memory {
    let tensor = Tensor::from_slice(&[elements.len()], elements).unwrap();
    NativeExecutor::new().upload(&tensor).unwrap()
}

fn alloc(bytes: usize) -> Memory {
    NativeExecutor::new().alloc(bytes).unwrap()
}

fn elements<T: Element>(memory: &Memory) -> Vec<T> {
    let n = memory.bytes() / T::DTYPE.size_in_bytes();
    let tensor = NativeExecutor::new().download(memory, 0, T::DTYPE, &[n]);
    tensor.unwrap().to_vec().unwrap()
}
