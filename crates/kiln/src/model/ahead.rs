//! Compiling ahead of calls: for any sizes, for some, or for those that came before.

use super::Model;
use super::arrange::arrange;
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use kiln_lazy_runtime::{CallMemory, CompiledProgram, ShapeProfile};

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

    /// Plans calls whose inputs have these shapes, by name or by position, and compiles what they need: such a call then
    /// compiles nothing, as far as sizes do not come from data. Nothing to do for an interpreted model.
    ///
    /// # Errors
    /// When the shapes do not fit the model, or a kernel does not compile.
    ///
    /// ```
    /// use kiln::{Model, ShapeVariantGenerator, Source};
    ///
    /// let model = Model::load(Source::text("graph @double(%x: f32[N]) -> f32[N] {
    ///   %y = add %x, %x
    ///   return %y
    /// }"))?;
    /// model.precompile([("x", &vec![16])])?;
    /// let shapes: Vec<_> = model.inputs().iter().filter_map(|input| input.shape().cloned()).collect();
    /// for shapes in ShapeVariantGenerator::new(1).generate_variants(&shapes, 3) {
    ///     let usizes = |sizes: Vec<i64>| sizes.into_iter().map(|size| size as usize).collect();
    ///     model.precompile(&shapes.into_iter().map(usizes).collect::<Vec<Vec<usize>>>())?;
    /// }
    /// # Ok::<(), kiln::Error>(())
    /// ```
    pub fn precompile<'a>(&self, shapes: impl Into<Inputs<'a, Vec<usize>>>) -> Result<(), Error> {
        let shapes = shapes.into();
        guarded("compiling", || {
            let shapes = arrange(&self.0.signature, &shapes)?;
            match self.only_instance()?.executable().compiled() {
                Some(program) => Ok(program.precompile(&shapes)?),
                None => Ok(()),
            }
        })
    }

    /// What a call with inputs of these shapes takes beyond them; see [`diagnose::call_memory`](crate::diagnose::call_memory).
    pub(crate) fn call_memory(
        &self,
        shapes: &Inputs<'_, Vec<usize>>,
    ) -> Result<Option<CallMemory>, Error> {
        let shapes = arrange(&self.0.signature, shapes)?;
        match self.only_instance()?.executable().compiled() {
            Some(program) => Ok(program.call_memory(&shapes)?),
            None => Ok(None),
        }
    }

    /// Compiles what the shapes of a profile need in the background, those first that took most time, and does not wait. Returns
    /// how many of them fit the model.
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
