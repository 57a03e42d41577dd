//! Tools for inspecting a model: its graph at each stage, which ops were fused and why, what was compiled, and whether
//! compiled code agrees with the interpreter.
//!
//! Nothing here changes a model. Plans are recomputed for display, with the same result. The cost of each step of a
//! call is measured by [`Call::profile`](crate::Call::profile).
//!
//! | you want to | use |
//! |---|---|
//! | see the graph, or a later form of it, at any stage | [`graph`], [`inspect`], [`inspect_kernel`] with a [`Stage`] |
//! | find out why ops were or were not fused | [`explain`], [`explain_pair`] |
//! | check compiled code against the interpreter | [`reference()`], [`compare()`] |
//! | measure the error of reduced precision | [`compare_precision`] |
//! | find out what was compiled, and why | [`compile_records`], [`variant_records`] |
//! | predict how much memory a call needs | [`call_memory`] |
//! | see everything about a call on one page | [`CallReport`] |
//! | call a model without input data | [`draw_inputs`] |

mod compare;
mod comparison;
mod draw_inputs;
mod explained;
mod inspect;
mod precision;
mod report;
mod repro;
mod stage;

pub use compare::{compare, reference};
pub use comparison::{Comparison, Difference, OutputComparison, Reference, Verdict, WorstElement};
pub use draw_inputs::{DrawnInputs, draw_inputs};
pub use explained::{Explained, ExplainedStep};
pub use inspect::{explain, explain_pair, graph, inspect, inspect_kernel};
pub use kiln_fusion::Explanation;
pub use kiln_lazy_runtime::{
    CallMemory, CompileRecord, LiveValue, StepProfile, VariantFate, VariantReason, VariantRecord,
};
pub use precision::{LayerError, PrecisionComparison, compare_precision};
pub use report::{
    Advice, Apart, CallReport, Edge, MachineRates, MemoryValue, ReportedCompile, ReportedInput,
    ReportedMemory, ReportedStep, StepRun,
};
pub use repro::{Extent, Repro};
pub use stage::Stage;

use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::Model;

/// The memory of a call with inputs of these shapes, in addition to those inputs: its arena, its results and scratch;
/// also the peak of live values, which is a lower bound. This compiles the kernels that such a call needs. `None` for
/// an interpreted model, and for sizes that need a plan other than the main one.
///
/// # Errors
/// As [`Model::precompile`].
pub fn call_memory<'a>(
    model: &Model,
    shapes: impl Into<Inputs<'a, Vec<usize>>>,
) -> Result<Option<CallMemory>, Error> {
    let shapes = shapes.into();
    guarded("compiling", || model.call_memory(&shapes))
}

/// The nodes of the source model that each step of a profile computes, in order, each once; an empty list for a step
/// whose ops came from no node.
///
/// # Errors
/// E0976 and E0995 as [`graph`].
///
/// ```
/// use kiln::{Device, Model, Options, Source, Tensor, diagnose};
///
/// let text = "graph @f(%x: f32[N]) -> f32[N] {
///   %a = exp %x from \"Exp_1\"
///   %b = sqrt %a from \"Sqrt_2\"
///   return %b
/// }";
/// # #[cfg(feature = "llvm")] {
/// let model = Options::new().device(Device::cpu()).load(Source::text(text))?;
/// let mut steps = Vec::new();
/// model.call(&[Tensor::from_slice(&[2], &[0.0_f32, 1.0])?]).profile(&mut steps).run()?;
/// assert_eq!(diagnose::step_nodes(&model, &steps)?, [["Exp_1", "Sqrt_2"]]);
/// # }
/// # Ok::<(), kiln::Error>(())
/// ```
pub fn step_nodes(model: &Model, steps: &[StepProfile]) -> Result<Vec<Vec<String>>, Error> {
    guarded("inspecting the model", || {
        let instance = model.only_instance()?;
        let graph = instance.optimized();
        let nodes = steps.iter();
        Ok(nodes
            .map(|step| explained::origins(graph, &step.ops))
            .collect())
    })
}

/// One record per compile, in order: which kernel, why, how long it took. Covers this model and those that share kernels
/// with it.
pub fn compile_records(model: &Model) -> Vec<CompileRecord> {
    #[cfg(feature = "native")]
    if let Some(runtime) = model.runtime() {
        return runtime.compile_records();
    }
    let _ = model;
    Vec::new()
}

/// The variants of kernels for frequent sizes, why each was made, and what it gained. Covers this model and those that
/// share kernels with it.
pub fn variant_records(model: &Model) -> Vec<VariantRecord> {
    #[cfg(feature = "native")]
    if let Some(runtime) = model.runtime() {
        return runtime.variant_records();
    }
    let _ = model;
    Vec::new()
}
