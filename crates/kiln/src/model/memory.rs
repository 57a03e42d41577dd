//! What calls of a model take: memory that they have, that they would have, and that is kept for them.

use super::Model;
use crate::error::Error;
use crate::guard::guarded;
use kiln_backend::MemoryStats;
use kiln_lazy_runtime::CallMemory;

impl Model {
    /// What memory calls have, and what is kept for later ones: of this model and those that share kernels with it. None for
    /// an interpreted model.
    pub fn memory_stats(&self) -> Option<MemoryStats> {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.memory_stats();
        }
        None
    }

    /// What a call with inputs of these shapes, in the order of [`inputs`](Self::inputs), takes beyond them: its arena, its
    /// results, scratch; and the most that values take at one time, which is the least that it could. What such a call
    /// needs is compiled. None for an interpreted model, and where the sizes need another plan than the main one.
    ///
    /// # Errors
    /// As [`precompile`](Self::precompile).
    pub fn call_memory(&self, shapes: &[Vec<usize>]) -> Result<Option<CallMemory>, Error> {
        guarded("compiling", || {
            match self.only_instance()?.executable().compiled() {
                Some(program) => Ok(program.call_memory(shapes)?),
                None => Ok(None),
            }
        })
    }

    /// Forgets what was compiled and planned, and packed weights: of this model, and kernels and weights of those that
    /// share them. The cache's folder is unchanged; the next calls load from it, or compile again, and are timed again.
    ///
    /// ```
    /// use kiln::{Cache, Device, Model, Options, Tensor};
    ///
    /// let options = Options::new().device(Device::interpreter()).cache(Cache::off());
    /// let model = Model::from_text_with("graph @id(%x: f32[N]) -> f32[N] { return %x }", options)?;
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

    /// Frees memory that no call needs now, all but so many bytes; answers with how many bytes that gave. Of this model and
    /// those that share kernels with it. Kernels and weights stay; the next calls take longer.
    pub fn trim_memory(&self, keep: usize) -> usize {
        #[cfg(feature = "native")]
        if let Some(runtime) = self.runtime() {
            return runtime.trim_memory(keep);
        }
        let _ = keep;
        0
    }
}
