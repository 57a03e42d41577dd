//! How a runtime behaves.

use std::num::NonZeroUsize;

use kiln_interpreter::CustomOps;
use kiln_kernel::Target;

/// Options of a [`Runtime`](crate::Runtime).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// What to compile for; none is the compiler's host.
    pub target: Option<Target>,
    /// How many launch plans are kept for each segment: combinations of sizes.
    pub launch_plans: NonZeroUsize,
    /// Threads that compile; none is as many as the machine runs at once.
    pub compile_threads: Option<NonZeroUsize>,
    /// What custom ops compute.
    pub custom_ops: CustomOps,
    /// Most iterations of all loops in one run.
    pub loop_iterations: u64,
    /// Most bytes that the values of one run may take, inputs and constants not counted.
    pub live_bytes: u64,
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            target: None,
            launch_plans: NonZeroUsize::MIN.saturating_add(1023),
            compile_threads: None,
            custom_ops: CustomOps::new(),
            loop_iterations: 1 << 32,
            live_bytes: 64 << 30,
        }
    }
}

impl RuntimeOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Compiling for another target than the host.
    #[must_use]
    pub fn with_target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// Keeping another number of launch plans.
    #[must_use]
    pub fn with_launch_plans(mut self, launch_plans: NonZeroUsize) -> Self {
        self.launch_plans = launch_plans;
        self
    }

    /// Compiling on another number of threads.
    #[must_use]
    pub fn with_compile_threads(mut self, threads: NonZeroUsize) -> Self {
        self.compile_threads = Some(threads);
        self
    }

    /// With custom ops.
    #[must_use]
    pub fn with_custom_ops(mut self, custom_ops: CustomOps) -> Self {
        self.custom_ops = custom_ops;
        self
    }
}
