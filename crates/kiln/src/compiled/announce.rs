//! A compiler wrapper that notifies listeners of each compile.
//!
//! Models that share a runtime have their own listeners: a listener whose call is waiting is notified of every kernel
//! that is compiled in the meantime.

use crate::progress::{Listener, Work};
use kiln_backend::{
    Artifact, CompileError, CompileObserver, CompilerWrapper, KernelCompiler, Schedule, Target,
};
use kiln_fork_lock::ForkLock;
use kiln_kernel::VerifiedKernel;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, MutexGuard};

/// The listeners of the calls in progress, by number.
#[derive(Default)]
struct Listeners {
    entries: ForkLock<Vec<(usize, Listener)>>,
    next: AtomicUsize,
}

impl Listeners {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Listener)>> {
        self.entries.lock()
    }
}

/// A compiler and the listeners of its work.
pub(crate) struct Announcer<C> {
    compiler: C,
    listeners: Arc<Listeners>,
    compiled: AtomicUsize,
}

/// A registered listener, until it is dropped.
pub(crate) struct Subscription {
    listeners: Arc<Listeners>,
    number: usize,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listeners
            .lock()
            .retain(|&(number, _)| number != self.number);
    }
}

/// Registers listeners for kernels as they are compiled.
#[derive(Clone)]
pub(crate) struct Announcements(Arc<Listeners>);

impl Announcements {
    /// The listener is called until the returned guard is dropped; `None` without a listener.
    pub(crate) fn subscribe(&self, listener: &Listener) -> Option<Subscription> {
        if !listener.is_some() {
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.lock().push((number, listener.clone()));
        Some(Subscription {
            listeners: Arc::clone(&self.0),
            number,
        })
    }
}

impl<C: KernelCompiler> Announcer<C> {
    pub(crate) fn new(compiler: C) -> Self {
        Self {
            compiler,
            listeners: Arc::default(),
            compiled: AtomicUsize::new(0),
        }
    }

    pub(crate) fn announcements(&self) -> Announcements {
        Announcements(Arc::clone(&self.listeners))
    }
}

impl<C: KernelCompiler> CompilerWrapper for Announcer<C> {
    type Inner = C;

    fn inner(&self) -> &C {
        &self.compiler
    }

    fn compile(
        &self,
        kernel: &VerifiedKernel,
        target: &Target,
        schedule: &Schedule,
        observer: &mut dyn CompileObserver,
    ) -> Result<Artifact, CompileError> {
        let artifact = self.compiler.compile(kernel, target, schedule, observer);
        let compiled = self.compiled.fetch_add(1, Ordering::Relaxed) + 1;
        let listeners = self.listeners.lock().clone();
        for (_, listener) in &listeners {
            listener.notify(Work::Compile, kernel.name(), compiled, None);
        }
        artifact
    }
}
