//! The shared state of a pipeline's passes: the remaining allowance of rewrites and of new bytes.
//!
//! Invariant: a pass calls [`PassContext::may_rewrite`] before each rewrite and [`PassContext::count_rewrite`] after it,
//! one at a time. So stopping a pipeline after `n` rewrites gives the same graph every time, and bisecting `n` finds a
//! wrong rewrite.

use kiln_ir::Graph;
use kiln_shape_inference::{ShapeInferenceEngine, check_types_with};

/// The default limit on bytes of constants that [`fold_constants`](crate::fold_constants) may create per graph: 4 MiB.
pub const DEFAULT_FOLD_BUDGET: usize = 4 << 20;

/// The size in bytes up to which constants are always widened: scales and biases, not weights.
const WIDENED_LIMIT: usize = 4 << 10;

/// Shared counters of the passes that work on one graph.
#[derive(Clone, Debug)]
pub struct PassContext {
    rewrites: usize,
    rewrite_limit: Option<usize>,
    fold_bytes: usize,
    fold_work: u64,
    freeze_bytes: Option<usize>,
    reorders_sums: bool,
    widens_constants: bool,
    engine: ShapeInferenceEngine,
}

impl PassContext {
    /// No limit on rewrites, and the default budget for folding.
    pub fn new() -> Self {
        Self {
            rewrites: 0,
            rewrite_limit: None,
            fold_bytes: DEFAULT_FOLD_BUDGET,
            fold_work: crate::fold_constants::WORK_LIMIT,
            freeze_bytes: None,
            reorders_sums: true,
            widens_constants: true,
            engine: ShapeInferenceEngine::new(),
        }
    }

    /// At most `limit` rewrites in total.
    pub fn with_rewrite_limit(self, limit: Option<usize>) -> Self {
        Self {
            rewrite_limit: limit,
            ..self
        }
    }

    /// At most `bytes` of constants created by folding in total.
    pub fn with_fold_budget(self, bytes: usize) -> Self {
        Self {
            fold_bytes: bytes,
            ..self
        }
    }

    /// Sets whether a rewrite may reassociate sums, so that a sum of floats is rounded differently.
    pub fn with_reordered_sums(self, allowed: bool) -> Self {
        Self {
            reorders_sums: allowed,
            ..self
        }
    }

    /// Whether a rewrite may reassociate sums.
    pub(crate) fn reorders_sums(&self) -> bool {
        self.reorders_sums
    }

    /// Sets whether constants may be folded and frozen into constants of more bytes.
    pub fn with_widened_constants(self, allowed: bool) -> Self {
        Self {
            widens_constants: allowed,
            ..self
        }
    }

    /// Whether constants may be folded into constants of more bytes.
    pub(crate) fn widens_constants(&self) -> bool {
        self.widens_constants
    }

    /// Whether an op on constants may be computed, by the bytes of its operands and results: those of more than
    /// [`WIDENED_LIMIT`] must not grow if constants may not be widened.
    pub(crate) fn may_widen(&self, from: usize, to: usize) -> bool {
        self.widens_constants || to <= from || to <= WIDENED_LIMIT
    }

    /// Sets the inference rules, including those of custom ops.
    pub fn with_engine(self, engine: ShapeInferenceEngine) -> Self {
        Self { engine, ..self }
    }

    /// Whether the types of a graph follow from its ops' operands. Sizes that became known may show that an op can only
    /// fault; passes must not create such a graph.
    pub(crate) fn types_hold(&self, graph: &Graph) -> bool {
        check_types_with(graph, &self.engine).is_ok()
    }

    /// The rewrites made so far.
    pub fn rewrites(&self) -> usize {
        self.rewrites
    }

    /// Whether one more rewrite is allowed.
    pub fn may_rewrite(&self) -> bool {
        self.rewrite_limit.is_none_or(|limit| self.rewrites < limit)
    }

    /// Counts a rewrite that was made.
    pub fn count_rewrite(&mut self, pass: &'static str, rule: &'static str) {
        self.rewrites += 1;
        tracing::trace!(pass, rule, count = self.rewrites, "rewrite");
    }

    /// Counts rewrites that can only be made together, if all of them are allowed; otherwise allows no more.
    pub fn count_rewrites(&mut self, pass: &'static str, rule: &'static str, n: usize) -> bool {
        if let Some(limit) = self.rewrite_limit
            && limit.saturating_sub(self.rewrites) < n
        {
            self.rewrite_limit = Some(self.rewrites);
            return false;
        }
        self.rewrites = self.rewrites.saturating_add(n);
        tracing::trace!(pass, rule, n, count = self.rewrites, "rewrites");
        true
    }

    /// Takes bytes and steps from the folding budget, if it has enough.
    pub(crate) fn spend_on_folding(&mut self, bytes: usize, work: u64) -> bool {
        match (
            self.fold_bytes.checked_sub(bytes),
            self.fold_work.checked_sub(work),
        ) {
            (Some(bytes), Some(work)) => {
                (self.fold_bytes, self.fold_work) = (bytes, work);
                true
            }
            _ => false,
        }
    }

    /// Takes bytes from the freezing budget, if it has enough; `initial` is the budget at first use.
    pub(crate) fn spend_on_freezing(
        &mut self,
        bytes: usize,
        initial: impl FnOnce() -> usize,
    ) -> bool {
        let left = self.freeze_bytes.get_or_insert_with(initial);
        match left.checked_sub(bytes) {
            Some(rest) => {
                *left = rest;
                true
            }
            None => false,
        }
    }
}

impl Default for PassContext {
    fn default() -> Self {
        Self::new()
    }
}

/// The result of a pass.
#[derive(Clone, Debug)]
pub struct Changed<T> {
    /// The graph after the pass.
    pub graph: T,
    /// The number of rewrites; 0 means that the graph is unchanged.
    pub rewrites: usize,
}

impl<T> Changed<T> {
    /// The unchanged graph.
    pub fn unchanged(graph: T) -> Self {
        Self { graph, rewrites: 0 }
    }

    /// Whether anything changed.
    pub fn is_changed(&self) -> bool {
        self.rewrites > 0
    }
}
