//! A compiler that tells who listens what it compiles.
//!
//! A runtime is shared by models, each with a listener of its own: one that waits in a call hears of
//! every kernel compiled meanwhile.

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
struct Audience {
    listeners: ForkLock<Vec<(usize, Listener)>>,
    next: AtomicUsize,
}

impl Audience {
    fn lock(&self) -> MutexGuard<'_, Vec<(usize, Listener)>> {
        self.listeners.lock()
    }
}

/// A compiler and those who hear of its work.
pub(crate) struct Announcer<C> {
    compiler: C,
    audience: Arc<Audience>,
    compiled: AtomicUsize,
}

/// A place in the audience, until it is dropped.
pub(crate) struct Seat {
    audience: Arc<Audience>,
    number: usize,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.audience
            .lock()
            .retain(|&(number, _)| number != self.number);
    }
}

/// Lets a listener hear of kernels as they are compiled.
#[derive(Clone)]
pub(crate) struct Announcements(Arc<Audience>);

impl Announcements {
    /// The listener is called until the returned guard is dropped; `None` without a listener.
    pub(crate) fn hear(&self, listener: &Listener) -> Option<Seat> {
        if !listener.is_some() {
            return None;
        }
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        self.0.lock().push((number, listener.clone()));
        Some(Seat {
            audience: Arc::clone(&self.0),
            number,
        })
    }
}

impl<C: KernelCompiler> Announcer<C> {
    pub(crate) fn new(compiler: C) -> Self {
        Self {
            compiler,
            audience: Arc::default(),
            compiled: AtomicUsize::new(0),
        }
    }

    pub(crate) fn announcements(&self) -> Announcements {
        Announcements(Arc::clone(&self.audience))
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
        let listeners = self.audience.lock().clone();
        for (_, listener) in &listeners {
            listener.tell(Work::Compile, kernel.name(), compiled, None);
        }
        artifact
    }
}
