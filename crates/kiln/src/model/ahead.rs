//! Compiling ahead of calls: for any sizes, for given shapes, or for those of a profile.

use super::Model;
use super::arrange::arrange;
use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use kiln_lazy_runtime::{CallMemory, CompiledProgram, ShapeProfile};

impl Model {
    /// Compiles everything that calls may need, at any sizes, packs the weights for it, and stores both; returns the number
    /// of kernels, including those of the plan for sizes for which facts do not hold. Returns 0 for an interpreted model.
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

    /// Plans calls whose inputs have these shapes, by name or by position, and compiles the kernels that they need:
    /// such a call then compiles nothing, unless sizes come from data. Does nothing for an interpreted model.
    ///
    /// # Errors
    /// When the shapes do not match the model, or a kernel does not compile.
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

    /// The memory of a call with inputs of these shapes; see [`diagnose::call_memory`](crate::diagnose::call_memory).
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

    /// Compiles the kernels that the shapes of a profile need in the background, those of the shapes that took most
    /// time first, and returns immediately with the number of shapes that match the model.
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

    /// The shapes of past calls, and the time they took: to be saved, and passed to
    /// [`precompile_in_background`](Self::precompile_in_background) of a later process. Empty for an interpreted model.
    ///
    /// # Errors
    /// When the rank of an input is open.
    pub fn shape_profile(&self) -> Result<ShapeProfile, Error> {
        guarded("inspecting the model", || {
            let instance = self.only_instance()?;
            let program = instance.executable().compiled();
            Ok(program.map_or_else(ShapeProfile::default, CompiledProgram::shape_profile))
        })
    }
}
