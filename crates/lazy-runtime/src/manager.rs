//! The kernels of a runtime and the threads that compile them: [`LazyCompilationManager`].
//!
//! A plan requests all its kernels here at once. Which kernels a call needs, and how long it waits for them, is decided
//! elsewhere. A job on a compile thread holds the [`Kernels`] and never the manager, which ends with its threads.

use std::sync::Arc;
use std::thread;

use crate::clock::Clock;
use crate::compile::{
    Chosen, CompilationStats, Kernels, NoCode, Obtaining, Patience, Wanted, Workers,
};
use crate::context::LazyCompilationContext;
use crate::error::RuntimeError;
use crate::options::RuntimeOptions;
use crate::parts::Parts;
use crate::recorder::Recorder;

/// A cache of kernels, its compiler, and the compile threads.
pub(crate) struct LazyCompilationManager {
    kernels: Arc<Kernels>,
    workers: Workers,
    clock: Arc<dyn Clock>,
}

impl LazyCompilationManager {
    /// Without a compiler, there are no kernels.
    pub(crate) fn new(parts: &Parts, options: &RuntimeOptions) -> Self {
        let machine = || thread::available_parallelism().map_or(1, usize::from);
        let workers = Workers::new(
            options.compile_threads.map_or_else(machine, usize::from),
            usize::from(options.background_threads),
            options.compile_timeout.unwrap_or(options.cache.trusted),
            Arc::clone(&parts.clock),
        );
        Self {
            kernels: Arc::new(Kernels::new(parts, options)),
            workers,
            clock: Arc::clone(&parts.clock),
        }
    }

    /// The part that a job may hold for any length of time.
    pub(crate) fn kernels(&self) -> &Arc<Kernels> {
        &self.kernels
    }

    /// The threads.
    pub(crate) fn workers(&self) -> &Workers {
        &self.workers
    }

    /// Code for kernels, compiled where it is missing, as long as the patience lasts; of several threads that request one
    /// kernel concurrently, one compiles it.
    pub(crate) fn get_or_compile(
        &self,
        wanted: &[Wanted<'_>],
        patience: &Patience<'_>,
        recorder: &Recorder,
    ) -> Vec<Chosen> {
        let obtaining = Obtaining {
            kernels: &self.kernels,
            workers: &self.workers,
            clock: &*self.clock,
            recorder,
        };
        obtaining.obtain(wanted, patience)
    }

    /// Compiles the code that serves all sizes of each of these kernels, and waits for it.
    ///
    /// # Errors
    /// The first that does not compile.
    pub(crate) fn precompile(
        &self,
        contexts: &[LazyCompilationContext],
        recorder: &Recorder,
    ) -> Result<(), RuntimeError> {
        let wanted = contexts
            .iter()
            .map(|context| context.wanted_at_all_sizes(&self.kernels));
        let wanted: Vec<Wanted<'_>> = wanted.collect();
        let chosen = self.get_or_compile(&wanted, &Patience::ENDLESS, recorder);
        chosen.into_iter().try_for_each(|chosen| match chosen {
            Ok(_) | Err(NoCode::Later) => Ok(()),
            Err(NoCode::Error(error)) => Err(error),
        })
    }

    /// Clears every kernel and every failure. Kernels in use stay alive until nothing uses them.
    pub(crate) fn clear_cache(&self) {
        if let Some((compiler, _)) = self.kernels.compiler() {
            compiler.forget_failures();
        }
        self.kernels.clear();
    }

    /// Counters of compiles, and their times.
    pub(crate) fn compilation_stats(&self) -> CompilationStats {
        let kernels = &self.kernels;
        let mut stats = kernels
            .counters
            .read(kernels.n_kernels(), kernels.cache_stats());
        stats.add_budget(kernels.budget());
        stats
    }
}
