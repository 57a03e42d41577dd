//! Options of an import: sizes, strictness, ranks, custom operators.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use kiln_ir::ValueId;
use kiln_shape_inference::Mode;
use kiln_symbolic_shape::{DimLimits, SymbolicDimension};
use kiln_tensor::Tensor;

use super::NodeContext;
use crate::{Error, Limits};

/// How a model becomes a graph. Build one with [`ImportOptions::new`] and the methods that follow.
#[derive(Clone, Default)]
pub struct ImportOptions {
    pub(crate) dims: BTreeMap<String, SymbolicDimension>,
    pub(crate) strict: bool,
    pub(crate) ranks: BTreeMap<String, usize>,
    pub(crate) fixed: BTreeMap<String, Tensor>,
    pub(crate) lengths: BTreeMap<String, usize>,
    pub(crate) absent: BTreeSet<String>,
    pub(crate) answers: BTreeMap<usize, i64>,
    pub(crate) importers: BTreeMap<(String, String), Arc<dyn OpImporter>>,
    pub(crate) limits: Limits,
    pub(crate) dim_limits: DimLimits,
}

impl ImportOptions {
    /// The default options: no constraints, only standard operators, default limits; where the model's stated types
    /// disagree with the inferred ones, they are checked when the model runs.
    pub fn new() -> Self {
        Self::default()
    }

    /// Constrains the sizes named `name` in the model; one with a single value becomes a constant.
    #[must_use]
    pub fn dim(mut self, name: &str, dimension: SymbolicDimension) -> Self {
        self.dims.insert(name.to_owned(), dimension);
        self
    }

    /// How to handle stated types that inference does not confirm: rejected (strict), or checked when the model runs and
    /// ignored where they are wrong (lenient, the default).
    #[must_use]
    pub fn mode(mut self, mode: Mode) -> Self {
        self.strict = mode == Mode::Strict;
        self
    }

    /// The rank of an input for which the model states none.
    #[must_use]
    pub fn rank(mut self, input: &str, rank: usize) -> Self {
        self.ranks.insert(input.to_owned(), rank);
        self
    }

    /// Makes an input a constant: for inputs that determine shapes or axes that must be known when the model is
    /// imported.
    #[must_use]
    pub fn fix(mut self, input: &str, value: Tensor) -> Self {
        self.fixed.insert(input.to_owned(), value);
        self
    }

    /// The number of entries of an input sequence. Each becomes an input, named `input.0` and so on; ranks and constants
    /// may be given for these, too.
    #[must_use]
    pub fn length(mut self, input: &str, entries: usize) -> Self {
        self.lengths.insert(input.to_owned(), entries);
        self
    }

    /// Imports the model for calls that omit an optional input; by default, calls pass it.
    #[must_use]
    pub fn absent(mut self, input: &str) -> Self {
        self.absent.insert(input.to_owned());
        self
    }

    /// Answers a [`Question`](super::Question) of the model: a `bool` as 0 or 1.
    #[must_use]
    pub fn answer(mut self, question: usize, answer: i64) -> Self {
        self.answers.insert(question, answer);
        self
    }

    /// Imports the operator `op_type` of `domain` with `importer`, overriding any other importer. The standard domain is
    /// the empty one.
    #[must_use]
    pub fn operator(
        mut self,
        domain: &str,
        op_type: &str,
        importer: impl OpImporter + 'static,
    ) -> Self {
        let domain = crate::model::canonical_domain(domain.to_owned());
        self.importers
            .insert((domain, op_type.to_owned()), Arc::new(importer));
        self
    }

    /// Limits on inlining the model's functions.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Limits the size table of the graph, and the work of proofs about sizes.
    #[must_use]
    pub fn dim_limits(mut self, limits: DimLimits) -> Self {
        self.dim_limits = limits;
        self
    }
}

impl fmt::Debug for ImportOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ImportOptions")
            .field("dims", &self.dims)
            .field("strict", &self.strict)
            .field("ranks", &self.ranks)
            .field("fixed", &self.fixed.keys())
            .field("lengths", &self.lengths)
            .field("absent", &self.absent)
            .field("answers", &self.answers)
            .field("importers", &self.importers.keys())
            .field("limits", &self.limits)
            .field("dim_limits", &self.dim_limits)
            .finish()
    }
}

/// Imports one operator: reads the node, adds core operations, returns the results.
///
/// Functions and closures are importers:
///
/// ```
/// use kiln_ir::{Op, ValueId};
/// use kiln_onnx::{Error, ImportOptions, NodeContext};
///
/// fn shifted_relu(ctx: &mut NodeContext<'_>) -> Result<Vec<ValueId>, Error> {
///     let (x, shift) = (ctx.input(0)?, ctx.input(1)?);
///     let sum = ctx.map("add", &[x, shift])?;
///     Ok(vec![ctx.map("relu", &[sum])?])
/// }
/// let options = ImportOptions::new().operator("com.example", "ShiftedRelu", shifted_relu);
/// # let _ = options;
/// ```
pub trait OpImporter: Send + Sync {
    /// Imports the node of `ctx`; returns the results in the operator's order, possibly without trailing ones.
    ///
    /// # Errors
    /// When the node cannot be imported.
    fn import(&self, ctx: &mut NodeContext<'_>) -> Result<Vec<ValueId>, Error>;
}

impl<F> OpImporter for F
where
    F: Fn(&mut NodeContext<'_>) -> Result<Vec<ValueId>, Error> + Send + Sync,
{
    fn import(&self, ctx: &mut NodeContext<'_>) -> Result<Vec<ValueId>, Error> {
        self(ctx)
    }
}
