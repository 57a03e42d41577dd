//! The limits of a compile in a worker.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// When a compile in a worker process is ended.
///
/// They bound one compile, not the process: a worker compiles many kernels. In-process compiles have none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CompileLimits {
    /// The time from sending a kernel to having its code, after which the worker is killed.
    pub wall_clock: Duration,
    /// The processor time of a compile, in whole seconds, rounded up.
    pub cpu: Duration,
    /// The bytes of address space of a worker, including its libraries.
    pub address_space: u64,
    /// The bytes of stack of the compiler.
    pub stack: usize,
    /// The bytes of a message between the processes: a kernel's text, or an artifact.
    pub message: usize,
    /// The time in which a worker must have started.
    pub start: Duration,
}

impl Default for CompileLimits {
    fn default() -> Self {
        Self {
            wall_clock: Duration::from_secs(60),
            cpu: Duration::from_secs(60),
            address_space: 4 << 30,
            stack: 64 << 20,
            message: 256 << 20,
            start: Duration::from_secs(30),
        }
    }
}
