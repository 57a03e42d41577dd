//! The messages between the two processes. A kernel is sent as its text, and code as bytes: they are bodies of frames.

use kiln_backend::{ArtifactParts, CompilePhase, Listing, Schedule, Target};
use kiln_symbolic_shape::DimLimits;
use serde::{Deserialize, Serialize};

/// The version of the protocol, which changes with the messages.
pub(crate) const PROTOCOL: u32 = 3;

/// The start argument of a worker: its one argument after the marker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Start {
    pub(crate) protocol: u32,
    /// The parent process.
    pub(crate) parent: i32,
    pub(crate) limits: crate::CompileLimits,
}

/// A request from the parent; the body is the kernel's text.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) target: Target,
    pub(crate) schedule: Schedule,
    pub(crate) want: Want,
    /// The limits of the kernel's size table: a kernel that the parent's limits allow is accepted here.
    pub(crate) dims: DimLimits,
}

/// The purpose of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Want {
    Artifact,
    Source,
    Assembly,
}

impl From<Listing> for Want {
    fn from(listing: Listing) -> Self {
        match listing {
            Listing::Assembly => Self::Assembly,
            _ => Self::Source,
        }
    }
}

/// A message from a worker.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Reply {
    /// The first message: the worker is ready.
    Ready { protocol: u32, compiler: String },
    /// A request was read; failures from here on are the kernel's.
    Begun,
    /// A part of the compile begins.
    Begin(Phase),
    /// The part that began last ends.
    End(Phase),
    /// The artifact without its code, which is the body.
    Artifact(Box<ArtifactParts>),
    /// The listing is the body.
    Listing,
    /// The artifact exceeds the limit on messages.
    TooLong { given: usize },
    /// The compiler's own error.
    Failed { code: String, message: String },
}

/// A part of a compile, in the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Phase {
    Lower,
    Verify,
    Optimize,
    Emit,
}

impl Phase {
    /// `None` for a phase that this protocol does not have.
    pub(crate) fn of(phase: CompilePhase) -> Option<Self> {
        match phase {
            CompilePhase::Lower => Some(Self::Lower),
            CompilePhase::Verify => Some(Self::Verify),
            CompilePhase::Optimize => Some(Self::Optimize),
            CompilePhase::Emit => Some(Self::Emit),
            _ => None,
        }
    }
}

impl From<Phase> for CompilePhase {
    fn from(phase: Phase) -> Self {
        match phase {
            Phase::Lower => Self::Lower,
            Phase::Verify => Self::Verify,
            Phase::Optimize => Self::Optimize,
            Phase::Emit => Self::Emit,
        }
    }
}
