//! The options of a runtime.

use std::num::NonZeroUsize;
use std::str::FromStr;
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
    /// The target; `None` is the compiler's host.
    pub target: Option<Target>,
    /// The number of launch plans (combinations of sizes) kept for each segment.
    pub launch_plans: NonZeroUsize,
    /// When kernels are compiled, and how calls are computed meanwhile.
    pub policy: CompilePolicy,
    /// How long a call may wait for code, in total over its kernels, before it is interpreted. `None` is unlimited if
    /// the policy waits at all.
    pub max_block: Option<Duration>,
    /// How long a call may wait for code before it fails.
    pub compile_timeout: Option<Duration>,
    /// Compile threads; `None` is the number of threads that the machine runs in parallel.
    pub compile_threads: Option<NonZeroUsize>,
    /// How many of them compile kernels that no call waits for.
    pub background_threads: NonZeroUsize,
    /// The compile-time budget; when it is spent, steps without code are interpreted.
    pub compile_budget: Option<CompileBudget>,
    /// Variants for frequent sizes; `None` disables them.
    pub variants: Option<VariantOptions>,
    /// Whether the same inputs always give the same bits: nothing that depends on measured time decides which code
    /// runs, so no variants are made. Results of the interpreter while code is compiled have other bits:
    /// [`CompilePolicy::FirstUse`] and [`CompilePolicy::AheadOfTime`] without [`max_block`](Self::max_block) and
    /// [`compile_budget`](Self::compile_budget) do not use the interpreter.
    pub deterministic: bool,
    /// Limits of the kernels in memory, and times for waiting and retrying.
    pub cache: CacheOptions,
    /// The version of the code that makes kernels from graphs: part of every key.
    pub version: String,
    /// The implementations of custom ops.
    pub custom_ops: CustomOps,
    /// The maximum number of iterations of all loops in one run.
    pub loop_iterations: u64,
    /// The maximum number of bytes of the values of one run, excluding inputs and constants.
    pub live_bytes: u64,
    /// The maximum number of elements of a window of a pooling or a convolution.
    pub window_elements: u64,
}

/// The location of outputs when a call returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum OutputPlacement {
    /// Where they were computed. On a device with its own memory, an output is then a [resident](kiln_backend::Resident)
    /// tensor: calls on that device read it in place, and the host's first access to its elements downloads it. On a device
    /// that shares the host's memory there is nothing to download.
    #[default]
    Device,
    /// In the host's memory: the call downloads them, which is then part of its time and its errors.
    Host,
}

/// When kernels are compiled. Whatever the policy, code in a store is loaded and not compiled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum CompilePolicy {
    /// When a call first needs them; the call waits, at most [`RuntimeOptions::max_block`].
    #[default]
    FirstUse,
    /// When a call first needs them, in the background; calls are interpreted until they are ready. A call waits at
    /// most [`RuntimeOptions::max_block`], and not at all if that is unset.
    Background,
    /// As [`FirstUse`](Self::FirstUse) from this call of a program on, counted from 1; earlier calls are interpreted.
    AfterCalls(u32),
    /// Never in a call: code in no store is an error.
    AheadOfTime,
}

impl CompilePolicy {
    /// After ten calls.
    pub const WHEN_USED_OFTEN: Self = Self::AfterCalls(10);
}

/// A text that names no [`CompilePolicy`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected first-use, background, after=N or ahead")]
pub struct UnknownPolicy;

/// `first-use`, `background`, `after=N` (from the Nth call on) or `ahead`.
impl FromStr for CompilePolicy {
    type Err = UnknownPolicy;

    fn from_str(text: &str) -> Result<Self, UnknownPolicy> {
        match text {
            "first-use" => Ok(Self::FirstUse),
            "background" => Ok(Self::Background),
            "ahead" => Ok(Self::AheadOfTime),
            _ => {
                let calls = text.strip_prefix("after=").and_then(|n| n.parse().ok());
                calls.map(Self::AfterCalls).ok_or(UnknownPolicy)
            }
        }
    }
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

    /// The limits of the interpreter.
    pub(crate) fn interpret_limits(&self) -> InterpretLimits {
        InterpretLimits {
            live_bytes: self.live_bytes,
            iterations: self.loop_iterations,
            window_elements: self.window_elements,
        }
    }

    /// With this target instead of the host.
    #[must_use]
    pub fn with_target(mut self, target: Target) -> Self {
        self.target = Some(target);
        self
    }

    /// With this number of launch plans.
    #[must_use]
    pub fn with_launch_plans(mut self, launch_plans: NonZeroUsize) -> Self {
        self.launch_plans = launch_plans;
        self
    }

    /// With this policy.
    #[must_use]
    pub fn with_policy(mut self, policy: CompilePolicy) -> Self {
        self.policy = policy;
        self
    }

    /// With this maximum wait for code before a call is interpreted.
    #[must_use]
    pub fn with_max_block(mut self, max_block: Duration) -> Self {
        self.max_block = Some(max_block);
        self
    }

    /// With this maximum wait for code before a call fails.
    #[must_use]
    pub fn with_compile_timeout(mut self, timeout: Duration) -> Self {
        self.compile_timeout = Some(timeout);
        self
    }

    /// With this number of compile threads.
    #[must_use]
    pub fn with_compile_threads(mut self, threads: NonZeroUsize) -> Self {
        self.compile_threads = Some(threads);
        self
    }

    /// With this compile-time budget, for all kernels together, including those of other runtimes that have a clone of the
    /// budget.
    #[must_use]
    pub fn with_compile_budget(mut self, budget: impl Into<CompileBudget>) -> Self {
        self.compile_budget = Some(budget.into());
        self
    }

    /// With or without variants for frequent sizes.
    #[must_use]
    pub fn with_variants(mut self, variants: Option<VariantOptions>) -> Self {
        self.variants = variants;
        self
    }

    /// With or without the guarantee that the same inputs always give the same bits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_are_read_from_text() {
        let read = |text: &str| text.parse::<CompilePolicy>();
        assert_eq!(read("first-use"), Ok(CompilePolicy::FirstUse));
        assert_eq!(read("background"), Ok(CompilePolicy::Background));
        assert_eq!(read("ahead"), Ok(CompilePolicy::AheadOfTime));
        assert_eq!(read("after=3"), Ok(CompilePolicy::AfterCalls(3)));
        for text in ["after=soon", "after=-1", "never", ""] {
            assert_eq!(read(text), Err(UnknownPolicy), "{text}");
        }
    }
}
