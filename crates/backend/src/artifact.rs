//! The result of a compile: [`ArtifactParts`], which are data, and [`Artifact`], whose code may be run.
//!
//! Parts can be read, written and sent. Only [`Artifact::trusted`] turns them into code, and it is unsafe: a compiler
//! calls it on its own output, and a store calls it on a verified copy of that output.
#![allow(
    unsafe_code,
    reason = "the caller that makes an artifact vouches for its code"
)]

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use kiln_tensor::DType;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::numbers::{LaunchNumbers, NumbersError};
use crate::pack::PackSpec;
use crate::quantity::{LaunchContext, Quantities, Quantity};
use crate::schedule::{Schedule, Target};

/// A compiled kernel as data.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ArtifactParts {
    /// The kernel's name.
    pub kernel: String,
    /// The target.
    pub target: Target,
    /// The schedule.
    pub schedule: Schedule,
    /// Object code (relocatable ELF, or a cubin).
    pub code: Vec<u8>,
    /// What the code assumes about the sizes with which it is launched.
    pub contract: Vec<Condition>,
    /// The buffers, in the kernel's order, against which a launch is checked.
    pub buffers: Vec<ArtifactBuffer>,
    /// The numbers passed to the code, in order.
    pub arguments: Vec<Quantity>,
    /// The phases, in order, with a barrier between.
    pub phases: Vec<Phase>,
    /// Bytes of scratch that all tasks of all phases share.
    pub shared_scratch: Quantity,
    /// How constant operands are packed before the first launch.
    pub packs: Vec<PackSpec>,
    /// Pairs of an `out` and an `in` buffer, by position, that may share memory.
    pub in_place: Vec<(usize, usize)>,
    /// Descriptions of the fault sites, for messages: a fault word names one by position.
    pub fault_sites: Vec<String>,
}

/// What a launch must provide for a buffer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArtifactBuffer {
    /// Its name.
    pub name: String,
    /// The elements.
    pub dtype: DType,
    /// Whether the code writes to it.
    pub written: bool,
    /// Bytes from the base address to the end of the last element that the code may access.
    pub bytes: Quantity,
}

/// One phase of a launch: tasks that may run in any order and concurrently, each on a block of threads that can wait for
/// each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phase {
    /// The symbol of its code.
    pub entry: String,
    /// The number of tasks.
    pub tasks: Quantity,
    /// Threads of a task: 1 on a CPU, the block size on a GPU.
    pub block: u32,
    /// Bytes of scratch per task; a worker reuses it from task to task.
    pub scratch: Quantity,
}

/// A compiled kernel whose code may be run; cheap to clone. Its parts can be read but not changed.
///
/// Safe code cannot build one from parts, nor deserialise one:
///
/// ```compile_fail,E0133
/// fn artifact(parts: kiln_backend::ArtifactParts) -> kiln_backend::Artifact {
///     kiln_backend::Artifact::trusted(parts)
/// }
/// ```
///
/// ```compile_fail,E0277
/// fn artifact(json: &str) -> kiln_backend::Artifact {
///     serde_json::from_str(json).unwrap()
/// }
/// ```
///
/// ```compile_fail,E0594
/// fn change(artifact: &mut kiln_backend::Artifact) {
///     artifact.code = vec![0xc3];
/// }
/// ```
#[derive(Clone)]
pub struct Artifact(Arc<Trusted>);

struct Trusted {
    parts: ArtifactParts,
    /// The quantities of the parts, to be evaluated together; `None` if one is damaged.
    quantities: Option<Quantities>,
}

impl Artifact {
    /// Vouches for parts.
    ///
    /// # Safety
    /// For all sizes that satisfy `contract`, on any number of threads and with caches of any size: code launched with the
    /// [numbers](Self::numbers) of these parts only reads the buffers, writes those that are `written`, and uses its
    /// scratch, within the bytes that the numbers state, as long as written buffers overlap no others except for the pairs
    /// of `in_place`. This holds for the unchanged output of a correct [`KernelCompiler`](crate::KernelCompiler).
    pub unsafe fn trusted(parts: ArtifactParts) -> Self {
        let quantities = Quantities::new(crate::numbers::quantities(&parts));
        Self(Arc::new(Trusted { parts, quantities }))
    }

    /// A copy, as data.
    pub fn to_parts(&self) -> ArtifactParts {
        self.0.parts.clone()
    }

    /// The numbers of a launch with these sizes.
    ///
    /// # Errors
    /// If the sizes do not satisfy the contract, or a number has no value.
    pub fn numbers(&self, context: &LaunchContext<'_>) -> Result<LaunchNumbers, NumbersError> {
        LaunchNumbers::of(self, self.0.quantities.as_ref(), context)
    }

    /// Whether both are clones of the same artifact.
    #[inline]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Deref for Artifact {
    type Target = ArtifactParts;

    #[inline]
    fn deref(&self) -> &ArtifactParts {
        &self.0.parts
    }
}

impl PartialEq for Artifact {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.0.parts == other.0.parts
    }
}

impl fmt::Debug for Artifact {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0.parts, formatter)
    }
}
