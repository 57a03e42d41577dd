//! The components that a runtime is built from.

use std::fmt;
use std::sync::Arc;

use kiln_backend::{KernelCompiler, KernelExecutor};
use kiln_kernel_cache::Tier;

use crate::clock::Clock;
use crate::recorder::Recorder;

/// The parts that a runtime uses only through their traits.
#[derive(Clone)]
pub(crate) struct Parts {
    pub(crate) compiler: Option<Arc<dyn KernelCompiler>>,
    pub(crate) executor: Arc<dyn KernelExecutor>,
    pub(crate) clock: Arc<dyn Clock>,
    /// Stores after memory, the fastest first.
    pub(crate) tiers: Vec<Arc<dyn Tier>>,
    /// Records timing for programs without a recorder.
    pub(crate) recorder: Recorder,
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tiers: Vec<&str> = self.tiers.iter().map(|tier| tier.name()).collect();
        f.debug_struct("Parts")
            .field("device", &self.executor.device())
            .field("parallelism", &self.executor.parallelism())
            .field("tiers", &tiers)
            .finish_non_exhaustive()
    }
}
