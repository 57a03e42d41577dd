//! `optimize`: the list of passes, and the driver that runs it.
//!
//! First, the requirements of each call are collected, and the ops are put in an order that does not depend on how they
//! were written (`order_ops`). The list is run again until a whole round changes nothing, at most [`ROUND_LIMIT`]
//! times; stopping there may miss an improvement, but never gives a wrong graph. Each pass is a span, reports when it
//! changed nothing, and is followed by the verifier and a type check when requested (by default in debug builds).

use crate::context::{Changed, DEFAULT_FOLD_BUDGET, PassContext};
use crate::error::PassError;
use crate::order_ops::order_ops;
use crate::report::{PassRun, Report};
use crate::{
    canonicalize, eliminate_common_subexpressions, eliminate_dead_ops, fold_constants,
    freeze_constants, hoist_from_loops, inline_control_flow, resolve_bindings, simplify_algebra,
    sink_constants,
};
use kiln_ir::{Graph, verify};
use kiln_shape_inference::{ShapeInferenceEngine, check_types_with, record_requirements};
use std::fmt;
use tracing::Span;

/// The maximum number of rounds.
pub const ROUND_LIMIT: usize = 8;

/// A pass with its name.
struct Pass {
    name: &'static str,
    run: fn(Graph, &mut PassContext) -> Result<Changed<Graph>, PassError>,
    /// Opens its span, `passes.` and the name.
    span: fn() -> Span,
}

/// Lists passes by the names of their functions.
macro_rules! passes {
    ($($pass:ident),+ $(,)?) => {
        &[$(Pass {
            name: stringify!($pass),
            run: $pass,
            span: || tracing::debug_span!(concat!("passes.", stringify!($pass))),
        }),+]
    };
}

/// The passes in the order in which they run.
const PIPELINE: &[Pass] = passes![
    canonicalize,
    simplify_algebra,
    fold_constants,
    freeze_constants,
    resolve_bindings,
    inline_control_flow,
    hoist_from_loops,
    sink_constants,
    eliminate_common_subexpressions,
    eliminate_dead_ops,
];

/// The observer of the graph after a pass, with the pass's name.
pub type Dump<'a> = dyn FnMut(&str, &Graph) + 'a;

/// Options and observers.
pub struct PassOptions<'a> {
    /// Whether constant parameters are frozen: off when their gradients are needed.
    pub freeze: bool,
    /// Whether a rewrite may reassociate sums, so that a sum of floats is rounded differently, as it is in compiled
    /// code.
    pub reorder_sums: bool,
    /// Whether constants may be folded and frozen into constants of more bytes. Off for weights that were quantised, so
    /// that kernels read the narrow ones.
    pub widen_constants: bool,
    /// The limit on bytes of constants created by folding.
    pub fold_budget: usize,
    /// Called after each pass with its name and the graph, changed or not.
    pub dump: Option<&'a mut Dump<'a>>,
    /// The limit on all rewrites; the graph is then the one at that point of a full run.
    pub stop_after_rewrites: Option<usize>,
    /// Whether the graph is verified before the first pass and after each.
    pub verify: bool,
    /// The rules of type checks, including those of custom ops.
    pub engine: ShapeInferenceEngine,
}

impl Default for PassOptions<'_> {
    fn default() -> Self {
        Self {
            freeze: true,
            reorder_sums: true,
            widen_constants: true,
            fold_budget: DEFAULT_FOLD_BUDGET,
            dump: None,
            stop_after_rewrites: None,
            verify: cfg!(debug_assertions),
            engine: ShapeInferenceEngine::new(),
        }
    }
}

impl fmt::Debug for PassOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PassOptions")
            .field("freeze", &self.freeze)
            .field("reorder_sums", &self.reorder_sums)
            .field("widen_constants", &self.widen_constants)
            .field("fold_budget", &self.fold_budget)
            .field("dump", &self.dump.is_some())
            .field("stop_after_rewrites", &self.stop_after_rewrites)
            .field("verify", &self.verify)
            .finish_non_exhaustive()
    }
}

/// The names of the passes, in the order in which they run.
pub fn pass_names() -> impl Iterator<Item = &'static str> {
    PIPELINE.iter().map(|pass| pass.name)
}

/// Runs the passes over a verified graph.
///
/// The result computes the same as the original graph, bit for bit, except for the documented rounding of some passes
/// (`simplify_algebra`, `freeze_constants`).
///
/// # Errors
/// When the graph is invalid before or after a pass and `verify` is on.
pub fn optimize(
    mut graph: Graph,
    options: &mut PassOptions<'_>,
) -> Result<(Graph, Report), PassError> {
    let mut ctx = PassContext::new()
        .with_fold_budget(options.fold_budget)
        .with_rewrite_limit(options.stop_after_rewrites)
        .with_reordered_sums(options.reorder_sums)
        .with_widened_constants(options.widen_constants)
        .with_engine(options.engine.clone());
    let mut report = Report::default();
    let engine = options.verify.then(|| options.engine.clone());
    if let Some(engine) = &engine {
        check(&graph, engine, || "before the passes".to_owned())?;
    }
    // Before anything is simplified or moved: requirements of ops that a rewrite drops still apply to each call.
    record_requirements(&mut graph);
    // Requirements are in the order in which the interpreter meets them, that of the text; everything after this uses
    // one order, regardless of how the ops were written.
    graph = order_ops(graph);
    while report.rounds < ROUND_LIMIT && !report.converged && ctx.may_rewrite() {
        report.rounds += 1;
        let before = ctx.rewrites();
        for pass in PIPELINE {
            let name = pass.name;
            if name == "freeze_constants" && !options.freeze {
                continue;
            }
            let changed = run_pass(pass, graph, &mut ctx, engine.as_ref())?;
            graph = changed.graph;
            let (round, rewrites, ops) = (report.rounds, changed.rewrites, graph.n_ops());
            report.runs.push(PassRun {
                pass: name,
                round,
                rewrites,
                ops,
            });
            if let Some(dump) = &mut options.dump {
                dump(name, &graph);
            }
        }
        report.converged = ctx.rewrites() == before && ctx.may_rewrite();
    }
    Ok((graph, report))
}

fn run_pass(
    pass: &Pass,
    graph: Graph,
    ctx: &mut PassContext,
    engine: Option<&ShapeInferenceEngine>,
) -> Result<Changed<Graph>, PassError> {
    let (name, span) = (pass.name, (pass.span)());
    let _entered = span.enter();
    let changed = (pass.run)(graph, ctx)?;
    match changed.rewrites {
        0 => tracing::debug!(pass = name, "unchanged"),
        rewrites => tracing::debug!(
            pass = name,
            rewrites,
            ops = changed.graph.n_ops(),
            "changed"
        ),
    }
    if let Some(engine) = engine.filter(|_| changed.is_changed()) {
        check(&changed.graph, engine, || format!("after {name}"))?;
    }
    Ok(changed)
}

fn check(
    graph: &Graph,
    engine: &ShapeInferenceEngine,
    when: impl Fn() -> String,
) -> Result<(), PassError> {
    verify(graph).map_err(|source| PassError::Verify {
        when: when(),
        source,
    })?;
    check_types_with(graph, engine).map_err(|source| PassError::Types {
        when: when(),
        source,
    })
}

#[cfg(test)]
mod tests;
