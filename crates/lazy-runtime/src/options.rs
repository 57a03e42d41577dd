//! The options of a runtime.

use std::num::NonZeroUsize;
use std::time::Duration;

use kiln_backend::Target;
use kiln_interpreter::{CustomOps, InterpretLimits};
use kiln_kernel_cache::CacheOptions;

use crate::compile::CompileBudget;
use crate::variants::VariantOptions;

/// Options of a [`Runtime`](crate::Runtime).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RuntimeOptions {
    /// What to compile for; none is the compiler's host.
    pub target: Option<Target>,
    /// How many launch plans are kept for each segment: combinations of sizes.
    pub launch_plans: NonZeroUsize,
    /// When kernels are compiled, and what answers meanwhile.
    pub policy: CompilePolicy,
    /// How long a call may wait for code, all its kernels together, before the interpreter answers in its place. None
    /// is without end where the policy waits at all.
    pub max_block: Option<Duration>,
    /// How long a call may wait for code before it fails.
    pub compile_timeout: Option<Duration>,
    /// Threads that compile; none is as many as the machine runs at once.
    pub compile_threads: Option<NonZeroUsize>,
    /// How many of them compile what no call waits for.
    pub background_threads: NonZeroUsize,
    /// How much time may go into compiling; when it is spent, what is not there is left to the interpreter.
    pub compile_budget: Option<CompileBudget>,
    /// Kernels for sizes that come often; none for no such kernels.
    pub variants: Option<VariantOptions>,
    /// Whether the same inputs give the same bits whenever they come: nothing that depends on measured time decides
    /// which code answers, so no variants are made. What the interpreter answers while code is compiled has other bits:
    /// [`CompilePolicy::FirstUse`] and [`CompilePolicy::AheadOfTime`] without [`max_block`](Self::max_block) and
    /// [`compile_budget`](Self::compile_budget) leave nothing to it.
    pub deterministic: bool,
    /// Limits of the kernels in memory, and times of waiting and trying again.
    pub cache: CacheOptions,
    /// The version of what makes kernels from graphs: part of every key.
    pub version: String,
    /// What custom ops compute.
    pub custom_ops: CustomOps,
    /// Most iterations of all loops in one run.
    pub loop_iterations: u64,
    /// Most bytes that the values of one run may take, inputs and constants not counted.
    pub live_bytes: u64,
    /// Elements of a window of a pooling or a convolution, at the most.
    pub window_elements: u64,
}

/// Where the outputs of calls are when a call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputPlacement {
    /// Where they were computed. On a device with a memory of its own, an output is then a
    /// [resident](kiln_backend::Resident) tensor: calls on that device read it where it is, and the host's first look at its
    /// elements downloads it. On a device that shares the host's memory there is nothing to download.
    #[default]
    Device,
    /// In the host's memory: the call downloads them. Its time then includes that, and so do its errors.
    Host,
}

/// When kernels are compiled. Whatever the policy, what a store has is loaded and not compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompilePolicy {
    /// When a call first needs them; the call waits, at most [`RuntimeOptions::max_block`].
    #[default]
    FirstUse,
    /// When a call first needs them, behind its back; the interpreter answers until they are there. A call waits at most
    /// [`RuntimeOptions::max_block`], and without it not at all.
    Background,
    /// As [`FirstUse`](Self::FirstUse) from this call of a program on, counted from 1; the calls before are interpreted.
    AfterCalls(u32),
    /// Never in a call: what is in no store is an error.
    AheadOfTime,
}

impl CompilePolicy {
    /// After ten calls.
    pub const WHEN_USED_OFTEN: Self = Self::AfterCalls(10);
}

impl Default for RuntimeOptions {
    fn default() -> Self {
        Self {
            target: None,
            launch_plans: NonZeroUsize::MIN.saturating_add(1023),
            policy: CompilePolicy::default(),
            max_block: None,
            compile_timeout: None,
            compile_threads: None,
            background_threads: NonZeroUsize::MIN,
            compile_budget: None,
            variants: Some(VariantOptions::default()),
            deterministic: false,
            cache: CacheOptions::default(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            custom_ops: CustomOps::new(),
            loop_iterations: 1 << 32,
            live_bytes: 64 << 30,
            window_elements: 1 << 24,
        }
    }
}

impl RuntimeOptions {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// The limits of what is interpreted.
    pub(crate) fn interpret_limits(&self) -> InterpretLimits {
        InterpretLimits {
            live_bytes: self.live_bytes,
            iterations: self.loop_iterations,
            window_elements: self.window_elements,
        }
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

    /// Compiling at other times.
    #[must_use]
    pub fn with_policy(mut self, policy: CompilePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// Waiting for code at most so long, before the interpreter answers.
    #[must_use]
    pub fn with_max_block(mut self, max_block: Duration) -> Self {
        self.max_block = Some(max_block);
        self
    }

    /// Waiting for code at most so long, before the call fails.
    #[must_use]
    pub fn with_compile_timeout(mut self, timeout: Duration) -> Self {
        self.compile_timeout = Some(timeout);
        self
    }

    /// Compiling on another number of threads.
    #[must_use]
    pub fn with_compile_threads(mut self, threads: NonZeroUsize) -> Self {
        self.compile_threads = Some(threads);
        self
    }

    /// Compiling for at most so long, all kernels together; those of other runtimes too that have a clone of the budget.
    #[must_use]
    pub fn with_compile_budget(mut self, budget: impl Into<CompileBudget>) -> Self {
        self.compile_budget = Some(budget.into());
        self
    }

    /// Kernels for sizes that come often, or none.
    #[must_use]
    pub fn with_variants(mut self, variants: Option<VariantOptions>) -> Self {
        self.variants = variants;
        self
    }

    /// The same bits for the same inputs, whenever they come.
    #[must_use]
    pub fn with_deterministic(mut self, deterministic: bool) -> Self {
        self.deterministic = deterministic;
        self
    }

    /// With custom ops.
    #[must_use]
    pub fn with_custom_ops(mut self, custom_ops: CustomOps) -> Self {
        self.custom_ops = custom_ops;
        self
    }
}
