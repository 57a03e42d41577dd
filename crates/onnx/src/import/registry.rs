//! The importer of an operator: the caller's, the model's own function, or a standard one.

use kiln_fork_lock::ForkLazy;
use std::collections::BTreeMap;
use std::sync::Arc;

use super::ImportOptions;
use super::context::{NodeContext, Outputs};
use super::options::OpImporter;
use crate::{Error, Function, Model, ModelNode, Opsets, ops};

/// A standard operator.
pub(crate) struct Operator {
    pub(crate) name: &'static str,
    /// The versions that the importer distinguishes, ascending; the first is the oldest.
    pub(crate) since: &'static [i64],
    pub(crate) import: fn(&mut NodeContext<'_>) -> Result<Outputs, Error>,
    pub(crate) takes: Takes,
}

/// The allowed kinds of operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Takes {
    /// Tensors whose elements have a supported dtype.
    Tensors,
    /// Also tensors of narrow types.
    Narrow,
    /// The same, and the results have the narrow type of the first operand.
    Moved,
    /// Sequences and optionals, too.
    Items,
}

impl Operator {
    /// The same operator, whose operands may be more than plain tensors.
    pub(crate) const fn taking(mut self, takes: Takes) -> Self {
        self.takes = takes;
        self
    }

    /// The newest of the versions in an operator set of version `opset`; `None` before the first.
    pub(crate) fn version(&self, opset: i64) -> Option<i64> {
        let known = self.since.iter().copied();
        known.take_while(|&since| since <= opset).last()
    }
}

/// The importer of a node.
pub(crate) enum Importer<'r> {
    Custom(&'r dyn OpImporter),
    Function(&'r Function),
    Standard(&'static Operator),
}

/// Everything that can import a node.
pub(crate) struct Registry<'m> {
    custom: &'m BTreeMap<(String, String), Arc<dyn OpImporter>>,
    functions: BTreeMap<(&'m str, &'m str, &'m str), &'m Function>,
}

impl<'m> Registry<'m> {
    pub(crate) fn new(model: &'m Model, options: &'m ImportOptions) -> Self {
        let functions = model.functions().iter();
        let functions = functions.map(|function| {
            let key = (function.domain(), function.name(), function.overload());
            (key, function)
        });
        Self {
            custom: &options.importers,
            functions: functions.collect(),
        }
    }

    /// The importer of a node of a graph with these operator sets.
    ///
    /// onnxruntime's optimiser writes some of its own operators into the standard domain. If the model's version of that
    /// domain does not have them, they are those of `com.microsoft`.
    pub(crate) fn find(&self, node: &ModelNode, opsets: &Opsets) -> Option<Importer<'m>> {
        if !self.custom.is_empty() {
            let key = (node.domain().to_owned(), node.op_type().to_owned());
            if let Some(importer) = self.custom.get(&key) {
                return Some(Importer::Custom(importer.as_ref()));
            }
        }
        let key = (node.domain(), node.op_type(), node.overload());
        if let Some(function) = self.functions.get(&key) {
            return Some(Importer::Function(function));
        }
        let of_domain = |domain| STANDARD.get(&(domain, node.op_type())).copied();
        let own = of_domain(node.domain());
        let exists = |operator: &&Operator| {
            let opset = opsets.version(node.domain());
            opset.is_none_or(|opset| operator.version(opset).is_some())
        };
        let found = match own.filter(exists) {
            None if node.domain().is_empty() && LEFT_IN_STANDARD.contains(&node.op_type()) => {
                of_domain(OPTIMIZER_DOMAIN).or(own)
            }
            _ => own,
        };
        found.map(Importer::Standard)
    }
}

/// The domain of the operators that onnxruntime defines.
const OPTIMIZER_DOMAIN: &str = "com.microsoft";

/// The operators that onnxruntime registers for, and writes into, the standard domain.
const LEFT_IN_STANDARD: &[&str] = &["LayerNormalization", "SimplifiedLayerNormalization"];

/// Importers by domain and name.
type Table = BTreeMap<(&'static str, &'static str), &'static Operator>;

static STANDARD: ForkLazy<Table> = ForkLazy::new(|| {
    let standard = ops::FAMILIES.iter().map(|table| ("", *table));
    let tables = standard.chain(ops::OTHER_DOMAINS.iter().copied());
    tables
        .flat_map(|(domain, table)| {
            table
                .iter()
                .map(move |operator| ((domain, operator.name), operator))
        })
        .collect()
});
