//! What a model can tell of the time it took and of what was compiled for it.

use super::Model;
#[cfg(feature = "native")]
use kiln_lazy_runtime::Runtime;
use kiln_lazy_runtime::{CompilationStats, CompileRecord, VariantRecord};
use kiln_timing::Timing;
#[cfg(feature = "native")]
use std::sync::Arc;
use std::time::Duration;

impl Model {
    /// Where the time went: a recorder of what this model was loaded, built, compiled and called for.
    ///
    /// ```
    /// use kiln::timing::Category;
    /// use kiln::{Model, Tensor};
    ///
    /// let model = Model::from_text("graph @id(%x: f32[N]) -> f32[N] { return %x }")?;
    /// model.run([("x", &Tensor::full(&[3], 1.5f32)?)])?;
    /// let report = model.timing().report();
    /// assert!(report.category(Category::Build).wall_ns > 0);
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timing(&self) -> &Timing {
        self.0.options.clockwork()
    }

    /// What was compiled so far, and everything that was done otherwise than planned: of this model
    /// and those that share kernels with it. All zero for an interpreted model.
    ///
    /// ```
    /// # #[cfg(feature = "llvm")] {
    /// use kiln::{Device, Cache, Model, Options, Tensor};
    ///
    /// let options = Options::new().device(Device::cpu()).shared_kernels(false).cache(Cache::off());
    /// let text = "graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }";
    /// let model = Model::from_text_with(text, options)?;
    /// for n in [3, 1, 1000] {
    ///     model.run([("x", &Tensor::full(&[n], 1.5f32)?)])?;
    /// }
    /// assert_eq!(model.compilation_stats().compilations, 1);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn compilation_stats(&self) -> CompilationStats {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.stats();
        }
        CompilationStats::default()
    }

    /// The variants of kernels for sizes that came often, why there are, and what each gained: of this model and those that
    /// share kernels with it.
    pub fn variant_records(&self) -> Vec<VariantRecord> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.variant_records();
        }
        Vec::new()
    }

    /// One record per compile, in order: which kernel, why, how long it took. Of this model and
    /// those that share kernels with it.
    pub fn compile_records(&self) -> Vec<CompileRecord> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.compile_records();
        }
        Vec::new()
    }

    /// Waits until nothing is compiled in the background, and all that was is stored; at most so long. Says
    /// whether that is so. Of this model and those that share kernels with it.
    pub fn wait_for_compiles(&self, limit: Duration) -> bool {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.wait_idle(limit);
        }
        let _ = limit;
        true
    }

    /// The runtime of the instances, once there is one that is compiled.
    #[cfg(feature = "native")]
    pub(super) fn runtime(&self) -> Option<Arc<Runtime>> {
        let instance = self.0.instances.any()?;
        instance.executable().runtime().cloned()
    }
}
