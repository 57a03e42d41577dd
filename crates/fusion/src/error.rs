//! What can go wrong in fusion, apart from lowering.

use kiln_ir::ValueId;
use kiln_symbolic_shape::EvaluateError;

use crate::lower::LowerError;

/// An error of fusion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FusionError {
    /// E0420: an id that the graph or the plan does not have.
    #[error("expected {what} of this {of}, found {found}")]
    Unknown {
        /// What kind of thing.
        what: &'static str,
        /// Where it was looked for.
        of: &'static str,
        /// The id.
        found: String,
    },
    /// E0421: a shape inside a node is not what the ops give.
    #[error(
        "expected {expected} for {value} in {node}, found {found} by inference; infer the graph's types again"
    )]
    Shape {
        /// The node's name.
        node: String,
        /// The value.
        value: ValueId,
        /// What the graph says.
        expected: String,
        /// What inference says.
        found: String,
    },
    /// E0422: a plan fact that a node rests on is false for these sizes.
    #[error("expected {fact} for {node}, found {left} and {right}; take another plan")]
    FactFails {
        /// The node's name.
        node: String,
        /// The fact.
        fact: String,
        /// The value of its left side.
        left: i64,
        /// The value of its right side.
        right: i64,
    },
    /// E0423: a size has no value under the given binding.
    #[error("a size of {node} has no value: {source}")]
    Size {
        /// The node's name, or what the size is for.
        node: String,
        /// Why.
        source: EvaluateError,
    },
    /// E0424: ops that cannot be one kernel.
    #[error("cannot fuse {consumer} into {producer}: {reason}")]
    Refused {
        /// What was there.
        producer: String,
        /// What was to join it.
        consumer: String,
        /// Which rule is against it.
        reason: String,
    },
    /// E0425: a node that is no kernel, or that cannot be made one.
    #[error("no kernel for {node}: {reason}")]
    NoKernel {
        /// The node's name.
        node: String,
        /// Why not.
        reason: String,
    },
    /// E0426: lowering failed for a node that was to be a kernel.
    #[error("cannot lower {node}: {source}")]
    Lower {
        /// The node's name.
        node: String,
        /// Why not.
        #[source]
        source: Box<LowerError>,
    },
    /// E0427: ops that need their own results: the graph is broken, or regions were joined wrongly.
    #[error("the nodes of {region} wait for each other; verify the graph")]
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
            Self::FactFails { .. } => "E0422",
            Self::Size { .. } => "E0423",
            Self::Refused { .. } => "E0424",
            Self::NoKernel { .. } => "E0425",
            Self::Lower { .. } => "E0426",
            Self::Cycle { .. } => "E0427",
        }
    }
}
