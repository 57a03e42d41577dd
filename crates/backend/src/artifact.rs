//! What compiling gives: code as bytes, and the metadata to launch it. Plain data, to be kept on disk and sent about.

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::compile::{Schedule, Target};
use crate::pack::PackSpec;
use crate::quantity::Quantity;

/// A compiled kernel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Artifact {
    /// The kernel's name.
    pub kernel: String,
    /// What it is compiled for.
    pub target: Target,
    /// The schedule it is compiled with.
    pub schedule: Schedule,
    /// Object code (relocatable ELF, or a cubin).
    pub code: Vec<u8>,
    /// The buffers, in the kernel's order: what a launch is checked against.
    pub buffers: Vec<ArtifactBuffer>,
    /// The numbers that the code is given, in order.
    pub arguments: Vec<Quantity>,
    /// The phases, in the order in which they run, with a barrier between.
    pub phases: Vec<Phase>,
    /// Bytes of scratch that all tasks of all phases share.
    pub shared_scratch: Quantity,
    /// How constant operands are laid out before the first launch.
    pub packs: Vec<PackSpec>,
    /// Pairs of an `out` and an `in` buffer, by position, that may be the same memory.
    pub in_place: Vec<(usize, usize)>,
    /// What each site that can fault is, for messages: a fault word names one by position.
    pub fault_sites: Vec<String>,
}

/// What a launch must give for a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactBuffer {
    /// Its name.
    pub name: String,
    /// The elements.
    pub dtype: DType,
    /// Whether the code writes to it.
    pub written: bool,
    /// Bytes from the base address to the end of the last element that the code may touch.
    pub bytes: Quantity,
}

/// One phase of a launch: tasks that may run in any order, on any thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The symbol of its code.
    pub entry: String,
    /// The number of tasks.
    pub tasks: Quantity,
    /// Bytes of scratch per task; a worker reuses it from task to task.
    pub scratch: Quantity,
}
