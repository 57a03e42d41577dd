//! The errors of fusion, except those of lowering.

use kiln_ir::ValueId;

/// An error of fusion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FusionError {
    /// E0420: an id that the graph or the plan does not have.
    #[error("expected {what} of this {of}, found {found}")]
    Unknown {
        /// The kind of id.
        what: &'static str,
        /// Where it was looked up.
        of: &'static str,
        /// The id.
        found: String,
    },
    /// E0421: a shape inside a node is not the one inferred from its ops.
    #[error(
        "expected {expected} for {value} in {node}, found {found} by inference; infer the graph's types again"
    )]
    Shape {
        /// The node's name.
        node: String,
        /// The value.
        value: ValueId,
        /// As declared by the graph.
        expected: String,
        /// As inferred.
        found: String,
    },
    /// E0427: ops that depend on their own results: the graph is invalid, or regions were joined wrongly.
    #[error("the nodes of {region} depend on each other; verify the graph")]
    Cycle {
        /// The region of the graph.
        region: String,
    },
}

impl FusionError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Unknown { .. } => "E0420",
            Self::Shape { .. } => "E0421",
            Self::Cycle { .. } => "E0427",
        }
    }
}
