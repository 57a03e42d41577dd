//! A kind of program, and how it is run.

use std::sync::{Arc, OnceLock};

use kiln_backend::{KernelCompiler, Target};
use kiln_lazy_runtime::Runtime;
use kiln_native::NativeExecutor;
use kiln_tensor::Tensor;

use super::run::Run;
use crate::kernels::Plainest;
use crate::programs::runtimes;

/// A program of a case, read.
pub(super) trait Form {
    /// Its text at a stage; `None` if there is no such stage.
    ///
    /// # Errors
    /// Why the stage cannot be reached.
    fn stage(&self, name: &str, engine: &Engine) -> Result<Option<String>, String>;

    /// Runs it, compiled in every way, and compares; returns the interpreter's results of the last call, by name.
    ///
    /// # Errors
    /// The problem.
    fn run(&self, run: &Run, engine: &Engine) -> Result<Vec<(String, Tensor)>, String>;
}

/// A compiler, with the targets to compile for.
pub struct Engine {
    /// The compiler of every program.
    pub(super) compiler: Arc<dyn KernelCompiler>,
    /// The executor of kernels.
    pub(super) executor: NativeExecutor,
    /// The targets that this machine runs.
    pub(super) here: Vec<Target>,
    /// Other targets: their schedules run with the instructions of the last target of this machine.
    pub(super) others: Vec<Target>,
    runtimes: OnceLock<Vec<Arc<Runtime>>>,
}

impl Engine {
    /// A compiler with the targets that this machine runs, and with other targets.
    pub fn new(compiler: Arc<dyn KernelCompiler>, here: Vec<Target>, others: Vec<Target>) -> Self {
        Self {
            compiler,
            executor: NativeExecutor::new(),
            here,
            others,
            runtimes: OnceLock::new(),
        }
    }

    /// A runtime with the fallback schedule, and one per target with the best ones.
    pub(super) fn runtimes(&self) -> &[Arc<Runtime>] {
        self.runtimes.get_or_init(|| {
            let plain: Arc<dyn KernelCompiler> = Arc::new(Plainest(Arc::clone(&self.compiler)));
            let mut all = runtimes(&plain, self.here.last().cloned());
            all.extend(runtimes(&self.compiler, self.here.iter().cloned()));
            all
        })
    }
}
