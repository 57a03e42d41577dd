//! Kernels by themselves, compiled on demand or ahead: [`LazyCompilationManager`].

use std::sync::Arc;

use kiln_kernel::VerifiedKernel;

use crate::compile::{CompilationStats, CompiledKernel, KernelIdentity};
use crate::error::RuntimeError;
use crate::runtime::Runtime;

/// Compiles kernels that are part of no program, through the runtime's store.
#[derive(Clone, Debug)]
pub struct LazyCompilationManager {
    runtime: Arc<Runtime>,
}

impl LazyCompilationManager {
    /// A manager of a runtime's kernels.
    pub fn new(runtime: Arc<Runtime>) -> Self {
        Self { runtime }
    }

    /// The runtime.
    pub fn runtime(&self) -> &Arc<Runtime> {
        &self.runtime
    }

    /// The code of a kernel for these values of its symbols; compiled if no code that serves them is there. Of threads
    /// that ask at one time one compiles.
    ///
    /// # Errors
    /// A kernel that does not compile.
    pub fn get_or_compile(
        &self,
        kernel: &VerifiedKernel,
        symbols: &[i64],
    ) -> Result<Arc<CompiledKernel>, RuntimeError> {
        let identity = Arc::new(KernelIdentity::of(kernel, kernel.name()));
        let mut code = self.runtime.obtain_alone(&identity, &[symbols]).into_iter();
        match code.next() {
            Some(code) => code,
            None => unreachable!("one was asked for"),
        }
    }

    /// Compiles what these values of a kernel's symbols need, on all compile threads; answers with how many pieces of
    /// code serve them.
    ///
    /// # Errors
    /// The first of the variants that does not compile.
    pub fn precompile(
        &self,
        kernel: &VerifiedKernel,
        variants: &[Vec<i64>],
    ) -> Result<usize, RuntimeError> {
        let identity = Arc::new(KernelIdentity::of(kernel, kernel.name()));
        let variants: Vec<&[i64]> = variants.iter().map(Vec::as_slice).collect();
        let code = self.runtime.obtain_alone(&identity, &variants).into_iter();
        let keys = code.map(|code| Ok(code?.key.clone()));
        let mut keys = keys.collect::<Result<Vec<String>, RuntimeError>>()?;
        keys.sort_unstable();
        keys.dedup();
        Ok(keys.len())
    }

    /// Forgets every kernel; those in use live on until nothing uses them.
    pub fn clear_cache(&self) {
        self.runtime.clear_cache();
    }

    /// What was compiled so far.
    pub fn compilation_stats(&self) -> CompilationStats {
        self.runtime.stats()
    }
}
