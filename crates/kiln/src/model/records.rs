//! The records of a model (times, compiles, memory), and freeing of memory.

use super::Model;
use kiln_backend::MemoryStats;
use kiln_lazy_runtime::CompilationStats;
#[cfg(feature = "native")]
use kiln_lazy_runtime::Runtime;
use kiln_timing::Timing;
#[cfg(feature = "native")]
use std::sync::Arc;
use std::time::Duration;

impl Model {
    /// Where the time went: the recorder for loading, building, compiling and calling this model.
    ///
    /// ```
    /// use kiln::timing::Category;
    /// use kiln::{Model, Source, Tensor};
    ///
    /// let model = Model::load(Source::text("graph @id(%x: f32[N]) -> f32[N] { return %x }"))?;
    /// model.run([("x", &Tensor::full(&[3], 1.5f32)?)])?;
    /// let report = model.timing().report();
    /// assert!(report.category(Category::Build).wall_ns > 0);
    /// println!("{report}");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn timing(&self) -> &Timing {
        self.0.options.timing()
    }

    /// Counts of what was compiled, and of what did not go as planned, for this model and those that share kernels with
    /// it. All zero for an interpreted model.
    ///
    /// ```
    /// # #[cfg(feature = "llvm")] {
    /// use kiln::{Cache, Device, Options, Source, Tensor};
    ///
    /// let options = Options::new().device(Device::cpu()).shared_kernels(false).cache(Cache::off());
    /// let text = "graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }";
    /// let model = options.load(Source::text(text))?;
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

    /// Memory used by calls and kept for later ones, for this model and those that share kernels with it. `None` for an
    /// interpreted model.
    pub fn memory_stats(&self) -> Option<MemoryStats> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.memory_stats();
        }
        None
    }

    /// Counters of the device, for all models, by name; for example, of the work that it had no code for and that ran
    /// on the host. Empty for devices that have no counters, such as the CPU.
    pub fn device_counts(&self) -> Vec<(&'static str, u64)> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.device_counts();
        }
        Vec::new()
    }

    /// Whether the device works: false once it is lost, such as a GPU after an illegal access. A lost device stays lost
    /// until the process ends.
    pub fn is_healthy(&self) -> bool {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.is_healthy();
        }
        true
    }

    /// Waits, for at most `limit`, until nothing is compiled in the background and everything compiled is stored, and
    /// returns whether that is so. Covers this model and those that share kernels with it.
    pub fn wait_for_compiles(&self, limit: Duration) -> bool {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.wait_idle(limit);
        }
        let _ = limit;
        true
    }

    /// Drops compiled code, plans and packed weights: of this model, and kernels and weights of those that share them. The
    /// cache's folder is unchanged; the next calls load from it, or recompile, and are timed again.
    ///
    /// ```
    /// use kiln::{Model, Source, Tensor};
    ///
    /// let model = Model::load(Source::text("graph @id(%x: f32[N]) -> f32[N] { return %x }"))?;
    /// let x = Tensor::full(&[3], 1.5f32)?;
    /// model.run([("x", &x)])?;
    /// model.clear_cache();
    /// assert_eq!(model.run([("x", &x)])?[0].to_vec::<f32>()?, [1.5; 3]);
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn clear_cache(&self) {
        for instance in self.0.instances.all() {
            if let Some(program) = instance.executable().compiled() {
                program.clear();
            }
        }
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            runtime.clear_cache();
        }
    }

    /// Frees memory that no call is using, except `keep` bytes; returns how many bytes were freed. Covers this model and
    /// those that share kernels with it. Kernels and weights stay; the next calls take longer.
    pub fn trim_memory(&self, keep: usize) -> usize {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.trim_memory(keep);
        }
        let _ = keep;
        0
    }

    /// The runtime of the instances, once one is compiled.
    #[cfg(feature = "native")]
    pub(crate) fn runtime(&self) -> Option<Arc<Runtime>> {
        let instance = self.0.instances.any()?;
        instance.executable().runtime().cloned()
    }
}
