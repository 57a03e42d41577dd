//! A kernel of a program, compiled when it is first needed: [`LazyCompilationContext`].
//!
//! It holds the kernel and its possible schedules, for which the compiler is queried once. The manager owns the code; the
//! sizes of a launch are not part of it.

use std::sync::Arc;

use kiln_fork_lock::ForkCell;
use kiln_program::PlanOperation;

use crate::compile::{Choice, KernelIdentity, Kernels, Wanted, binding_of};

/// A kernel and the ways to compile it.
#[derive(Debug)]
pub(crate) struct LazyCompilationContext {
    identity: Arc<KernelIdentity>,
    choices: ForkCell<PlanOperation<Choice>>,
}

impl LazyCompilationContext {
    /// The context of a kernel. Nothing is compiled yet.
    pub(crate) fn new(identity: KernelIdentity) -> Self {
        Self {
            identity: Arc::new(identity),
            choices: ForkCell::new(),
        }
    }

    /// The kernel.
    pub(crate) fn identity(&self) -> &Arc<KernelIdentity> {
        &self.identity
    }

    /// The ways to launch it; empty without a compiler.
    pub(crate) fn choices(&self, kernels: &Kernels) -> &PlanOperation<Choice> {
        self.choices.get_or_init(|| kernels.choices(&self.identity))
    }

    /// Code that serves these values of its symbols.
    pub(crate) fn wanted_at(&self, kernels: &Kernels, symbols: &[i64]) -> Wanted<'_> {
        let kernel = &self.identity.kernel;
        let binding = || binding_of(kernel, symbols);
        let launches = self.choices(kernels);
        self.wanted(launches.launches_for(kernel.kernel().dims(), binding))
    }

    /// Code that serves all values of its symbols.
    pub(crate) fn wanted_at_all_sizes(&self, kernels: &Kernels) -> Wanted<'_> {
        self.wanted(self.choices(kernels).launches_for_all())
    }

    fn wanted<'a>(&'a self, choices: impl Iterator<Item = &'a Choice>) -> Wanted<'a> {
        Wanted {
            identity: &self.identity,
            choices: choices.collect(),
            worth: 0,
        }
    }
}
