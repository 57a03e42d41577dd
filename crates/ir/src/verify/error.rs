//! Errors of the verifier: the location, and the violated rule.

use crate::graph::Graph;
use crate::ids::{OpId, RegionId, ValueId};
use kiln_symbolic_shape::DimId;
use std::fmt;

/// The place of an error in a graph.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Location {
    /// The graph as a whole.
    Graph,
    /// A value.
    Value(ValueId),
    /// A region.
    Region(RegionId),
    /// An op: its id, its mnemonic, and the node it came from if known.
    Op(OpId, &'static str, Option<String>),
}

impl Location {
    pub(super) fn op(graph: &Graph, id: OpId) -> Self {
        let data = graph.op(id);
        let first = data.results.first().map(|value| value.to_string());
        let origin = data
            .origin
            .as_deref()
            .map(|origin| origin.escape_debug().to_string())
            .or(first);
        Self::Op(id, data.op.mnemonic(), origin)
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Graph => f.write_str("graph"),
            Self::Value(value) => write!(f, "{value}"),
            Self::Region(region) => write!(f, "{region}"),
            Self::Op(id, mnemonic, Some(origin)) => write!(f, "{id} ({mnemonic}, {origin})"),
            Self::Op(id, mnemonic, None) => write!(f, "{id} ({mnemonic})"),
        }
    }
}

/// One violated rule and its place. Always a fault of the code that built the graph.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{at}: {kind}")]
pub struct VerifyError {
    /// Where.
    pub at: Location,
    /// The rule.
    pub kind: VerifyErrorKind,
}

/// The rules that a graph can violate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum VerifyErrorKind {
    /// E0201: an id that is not of this graph.
    #[error("{what} {id} is not in this graph")]
    UnknownId {
        /// The kind of entity.
        what: &'static str,
        /// The id.
        id: String,
    },
    /// E0202: a value that is read before it is defined, or outside its region.
    #[error("{value} is not defined before this point in this region; pass it in as an operand")]
    NotDefined {
        /// The value.
        value: ValueId,
    },
    /// E0203: a wrong number of operands, results, regions or symbols.
    #[error("expected {expected} {what}, found {found}")]
    Count {
        /// What is counted.
        what: &'static str,
        /// The required number.
        expected: String,
        /// The actual number.
        found: usize,
    },
    /// E0204: an attribute that is invalid for these operands.
    #[error("attribute {name}: {problem}")]
    Attribute {
        /// The attribute.
        name: &'static str,
        /// What is wrong with it.
        problem: String,
    },
    /// E0205: a limit was exceeded.
    #[error("{what}: {given} exceeds the limit of {limit}")]
    Limit {
        /// What is limited.
        what: &'static str,
        /// The value.
        given: usize,
        /// The limit.
        limit: usize,
    },
    /// E0206: an operand of a kind that the op does not accept.
    #[error("operand {index}: expected {expected}, found {found}")]
    OperandKind {
        /// Which operand.
        index: usize,
        /// What the op accepts.
        expected: String,
        /// What was given.
        found: String,
    },
    /// E0214: operands that the scalar function does not accept.
    #[error("{0}")]
    ScalarOperands(String),
    /// E0207: the types at a region's edge differ.
    #[error("{what} {index}: expected {expected}, found {found}")]
    EdgeType {
        /// Which edge.
        what: &'static str,
        /// Which position.
        index: usize,
        /// The type outside.
        expected: String,
        /// The type inside.
        found: String,
    },
    /// E0208: a size that is not of this graph's table.
    #[error("size {dim} is not in this graph's dimension table")]
    UnknownDim {
        /// The size.
        dim: DimId,
    },
    /// E0209: a symbol that is bound twice.
    #[error("symbol {symbol} is given a value twice")]
    SymbolTwice {
        /// Its name.
        symbol: String,
    },
    /// E0210: a symbol that is read where it has no value.
    #[error(
        "symbol {symbol} has no value here; an input, region parameter or op must give it one first"
    )]
    SymbolUndefined {
        /// Its name.
        symbol: String,
    },
    /// E0211: a region that no op or several ops own, or an op in several regions.
    #[error("{what} {id} occurs in {found} places, expected one")]
    Shared {
        /// The kind of entity.
        what: &'static str,
        /// The id.
        id: String,
        /// The number of places.
        found: usize,
    },
    /// E0212: two inputs or two outputs with the same name.
    #[error("two {what} are named {name:?}")]
    NameTwice {
        /// Inputs or outputs.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// E0213: a constant whose type differs from its result's.
    #[error("the constant is {found}, its result {expected}")]
    ConstantType {
        /// The result's type.
        expected: String,
        /// The tensor's dtype and shape.
        found: String,
    },
}

impl VerifyErrorKind {
    /// The stable code, documented in the book's error reference.
    pub fn code(&self) -> &'static str {
        match self {
            Self::UnknownId { .. } => "E0201",
            Self::NotDefined { .. } => "E0202",
            Self::Count { .. } => "E0203",
            Self::Attribute { .. } => "E0204",
            Self::Limit { .. } => "E0205",
            Self::OperandKind { .. } => "E0206",
            Self::ScalarOperands(_) => "E0214",
            Self::EdgeType { .. } => "E0207",
            Self::UnknownDim { .. } => "E0208",
            Self::SymbolTwice { .. } => "E0209",
            Self::SymbolUndefined { .. } => "E0210",
            Self::Shared { .. } => "E0211",
            Self::NameTwice { .. } => "E0212",
            Self::ConstantType { .. } => "E0213",
        }
    }
}

/// All structural errors of a graph; never empty.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}", self.summary())]
pub struct VerifyErrors(Vec<VerifyError>);

impl VerifyErrors {
    /// The errors, in the order of the ops.
    pub fn errors(&self) -> &[VerifyError] {
        &self.0
    }

    /// The code of the first error.
    pub fn code(&self) -> &'static str {
        self.0.first().map_or("E0201", |error| error.kind.code())
    }

    fn summary(&self) -> String {
        let lines: Vec<_> = self
            .0
            .iter()
            .map(|error| format!("[{}] {error}", error.kind.code()))
            .collect();
        lines.join("\n")
    }
}

/// Collects errors up to the limit.
#[derive(Debug, Default)]
pub(super) struct Report(Vec<VerifyError>);

impl Report {
    pub(super) fn add(&mut self, at: Location, kind: VerifyErrorKind) {
        if self.0.len() < super::ERROR_LIMIT {
            self.0.push(VerifyError { at, kind });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn finish(self) -> Result<(), VerifyErrors> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(VerifyErrors(self.0))
        }
    }
}
