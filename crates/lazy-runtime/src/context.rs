//! A kernel of a program, to be compiled when it is first needed: [`LazyCompilationContext`].
//!
//! It says what the kernel is and in which ways it can be compiled, which the compiler is asked once. Not here: what there is
//! code of, which is the manager's to know, and the sizes of a launch.

use std::cell::OnceCell;
use std::sync::Arc;

use kiln_fork_lock::ForkCell;

use crate::compile::{Choice, KernelIdentity, Kernels, Wanted, binding_of};

/// A kernel and the ways to compile it.
#[derive(Debug)]
pub(crate) struct LazyCompilationContext {
    identity: Arc<KernelIdentity>,
    choices: ForkCell<Vec<Choice>>,
}

impl LazyCompilationContext {
    /// Of a kernel. Nothing is compiled yet.
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

    /// The ways to compile it, best first; the last takes every call. None without a compiler.
    pub(crate) fn choices(&self, kernels: &Kernels) -> &[Choice] {
        self.choices.get_or_init(|| kernels.choices(&self.identity))
    }

    /// Code that serves these values of its symbols: the choices whose predicates hold.
    pub(crate) fn wanted_at(&self, kernels: &Kernels, symbols: &[i64]) -> Wanted<'_> {
        let dims = self.identity.kernel.kernel().dims();
        let binding = OnceCell::new();
        let holds = |choice: &&Choice| {
            let predicates = &mut choice.candidate.predicate.iter();
            predicates.all(|predicate| {
                let binding = binding.get_or_init(|| binding_of(&self.identity.kernel, symbols));
                dims.holds(predicate, binding) == Ok(true)
            })
        };
        self.wanted(kernels, holds)
    }

    /// Code that serves all values of its symbols.
    pub(crate) fn wanted_at_all_sizes(&self, kernels: &Kernels) -> Wanted<'_> {
        self.wanted(kernels, |choice| choice.candidate.predicate.is_empty())
    }

    fn wanted(&self, kernels: &Kernels, serves: impl Fn(&&Choice) -> bool) -> Wanted<'_> {
        Wanted {
            identity: &self.identity,
            choices: self.choices(kernels).iter().filter(serves).collect(),
            worth: 0,
        }
    }
}
