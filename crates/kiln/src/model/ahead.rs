//! Compiling ahead of calls: for any sizes, for some, or for those that came before.

use super::Model;
use crate::error::Error;
use crate::guard::guarded;
use kiln_lazy_runtime::{CompiledProgram, ShapeProfile};

impl Model {
    /// Compiles all that calls may need, at any sizes, packs the weights for it, and stores both; returns the number of
    /// kernels, those of the plan for sizes on which facts do not hold included. None for an interpreted model.
    ///
    /// # Errors
    /// When a kernel does not compile; when the rank of an input is open.
    pub fn compile(&self) -> Result<usize, Error> {
        guarded("compiling", || {
            match self.only_instance()?.executable().compiled() {
                Some(program) => {
                    let kernels = program.compile_all()?;
                    program.place_constants();
                    Ok(kernels)
                }
                None => Ok(0),
            }
        })
    }

    /// Plans calls whose inputs have these shapes, in the model's order, and compiles what they need: such a call then
    /// compiles nothing, as far as sizes do not come from data. Nothing to do for an interpreted model.
    ///
    /// # Errors
    /// When the shapes do not fit the model, or a kernel does not compile.
    ///
    /// ```
    /// use kiln::{Model, ShapeVariantGenerator};
    ///
    /// let model = Model::from_text("graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }")?;
    /// let shapes: Vec<_> = model.inputs().iter().filter_map(|input| input.shape().cloned()).collect();
    /// for shapes in ShapeVariantGenerator::new(1).generate_variants(&shapes, 3) {
    ///     let usizes = |sizes: Vec<i64>| sizes.into_iter().map(|size| size as usize).collect();
    ///     model.precompile(&shapes.into_iter().map(usizes).collect::<Vec<_>>())?;
    /// }
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn precompile(&self, shapes: &[Vec<usize>]) -> Result<(), Error> {
        guarded("compiling", || {
            match self.only_instance()?.executable().compiled() {
                Some(program) => Ok(program.precompile(shapes)?),
                None => Ok(()),
            }
        })
    }

    /// Has what the shapes of a profile need compiled behind the back of calls, those first that took most time, and does
    /// not wait. Answers with how many of them fit the model.
    ///
    /// # Errors
    /// When the rank of an input is open.
    pub fn precompile_in_background(&self, profile: &ShapeProfile) -> Result<usize, Error> {
        guarded("compiling", || {
            let instance = self.only_instance()?;
            let program = instance.executable().compiled();
            Ok(program.map_or(0, |program| program.precompile_in_background(profile)))
        })
    }

    /// Which shapes calls brought, and what they took: to be saved, and given to
    /// [`precompile_in_background`](Self::precompile_in_background) of a later process. Empty for an interpreted model.
    ///
    /// # Errors
    /// When the rank of an input is open.
    pub fn shape_profile(&self) -> Result<ShapeProfile, Error> {
        guarded("a look at the model", || {
            let instance = self.only_instance()?;
            let program = instance.executable().compiled();
            Ok(program.map_or_else(ShapeProfile::default, CompiledProgram::shape_profile))
        })
    }
}
