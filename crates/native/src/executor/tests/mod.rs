//! The executor as the runtime uses it: artifacts of the fixture's phases, launched and refused.

mod launching;
mod memory;
mod packing;
mod pools;
mod refusing;

use crate::NativeExecutor;
use crate::tests::fixtures;
use kiln_backend::{
    Artifact, ArtifactBuffer, KernelExecutor, Memory, MemorySlice, Phase, Quantity, Schedule,
    Target,
};
use kiln_tensor::{DType, Element, Tensor};

/// A level that this machine has.
const LEVEL: &str = if cfg!(target_arch = "x86_64") {
    "portable"
} else {
    "neon"
};

/// An artifact of some of the fixture's phases. The quantities say nothing: launches are evaluated.
fn artifact(phases: &[&str], buffers: &[(&str, DType, bool)], n_arguments: usize) -> Artifact {
    let zero = || Quantity::constant(0);
    let buffer = |&(name, dtype, written): &(&str, DType, bool)| ArtifactBuffer {
        name: name.to_owned(),
        dtype,
        written,
        bytes: zero(),
    };
    let phase = |&entry: &&str| Phase {
        entry: entry.to_owned(),
        tasks: zero(),
        scratch: zero(),
    };
    Artifact {
        kernel: "tested".to_owned(),
        target: Target {
            backend: "llvm".to_owned(),
            level: LEVEL.to_owned(),
        },
        schedule: Schedule::new("fallback"),
        code: fixtures::host().to_vec(),
        buffers: buffers.iter().map(buffer).collect(),
        arguments: (0..n_arguments).map(|_| zero()).collect(),
        phases: phases.iter().map(phase).collect(),
        shared_scratch: zero(),
        packs: Vec::new(),
        in_place: Vec::new(),
        fault_sites: Vec::new(),
    }
}

/// `y[i] = x[i] * weights[i % 4] + 0.4`, a task an element.
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
