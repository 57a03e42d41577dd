//! Tools for looking into a model: what became of its graph, which ops became one kernel and why, what was compiled, and
//! whether compiled code gives what the interpreter gives.
//!
//! Nothing here changes a model. Plans that are shown are made again, with the same result. What a call's steps cost is asked
//! of the call: [`Call::profile`](crate::Call::profile).
//!
//! | you want to | use |
//! |---|---|
//! | see the graph, or what came of it, at any stage | [`graph`], [`inspect`], [`inspect_kernel`] with a [`Stage`] |
//! | know why ops did or did not become one kernel | [`explain`], [`explain_pair`] |
//! | check compiled code against the interpreter | [`reference()`], [`compare()`] |
//! | know what was compiled, and why | [`compile_records`], [`variant_records`] |
//! | know what a call will take | [`call_memory`] |

mod compare;
mod comparison;
mod explained;
mod inspect;
mod repro;
mod stage;

pub use compare::{compare, reference};
pub use comparison::{Comparison, Difference, OutputComparison, Reference, Verdict, WorstElement};
pub use explained::{Explained, ExplainedStep};
pub use inspect::{explain, explain_pair, graph, inspect, inspect_kernel};
pub use kiln_fusion::Explanation;
pub use kiln_lazy_runtime::{
    CallMemory, CompileRecord, StepProfile, VariantFate, VariantReason, VariantRecord,
};
pub use repro::{Extent, Repro};
pub use stage::Stage;

use crate::error::Error;
use crate::guard::guarded;
use crate::inputs::Inputs;
use crate::model::Model;

/// What a call with inputs of these shapes takes beyond them: its arena, its results, scratch; and the most that values take
/// at one time, which is the least that it could. What such a call needs is compiled. None for an interpreted model, and
/// where the sizes need another plan than the main one.
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

/// One record per compile, in order: which kernel, why, how long it took. Of this model and
/// those that share kernels with it.
pub fn compile_records(model: &Model) -> Vec<CompileRecord> {
    #[cfg(feature = "native")]
    if let Some(runtime) = model.runtime() {
        return runtime.compile_records();
    }
    let _ = model;
    Vec::new()
}

/// The variants of kernels for sizes that came often, why there are, and what each gained: of this model and those that
/// share kernels with it.
pub fn variant_records(model: &Model) -> Vec<VariantRecord> {
    #[cfg(feature = "native")]
    if let Some(runtime) = model.runtime() {
        return runtime.variant_records();
    }
    let _ = model;
    Vec::new()
}
