//! The stored form of programs: the graph and the kernels as text, sizes as expressions, everything else by number. Large
//! constants are stored next to it, by digest.
//!
//! Values, ops and regions of a graph get new ids when its text is read again, so they are numbered here in the order
//! of a walk over the graph; symbols go by name. Everything read is checked: number ranges here, kernels by the
//! verifier, the graph by its reader.

mod check;
mod convert;
mod walk;

use serde::{Deserialize, Serialize};

use crate::buffer::{Buffer, Slot};
use crate::ids::{BlockId, BufferId, SizeId};
use crate::program::Donation;
use crate::step::Step;

/// The format that this version writes and reads.
const FORMAT: u32 = 3;

/// A program in a form that any serde format can represent. Made by [`Program::store`](crate::Program::store).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StoredProgram {
    format: u32,
    graph: String,
    sizes: Vec<String>,
    kernels: Vec<StoredKernel>,
    /// Digests, and whether the graph's text contains the elements.
    constants: Vec<(String, bool)>,
    blocks: Vec<StoredBlock>,
    body: BlockId,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredKernel {
    name: String,
    text: String,
    uses: usize,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredBlock {
    region: usize,
    buffers: Vec<Buffer>,
    parameters: Vec<BufferId>,
    symbols: Vec<String>,
    segments: Vec<StoredSegment>,
    results: Vec<BufferId>,
    donations: Vec<Donation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredSegment {
    steps: Vec<StoredStep>,
    slots: Vec<Slot>,
    own: Vec<BufferId>,
    sizes: Vec<SizeId>,
    /// Left, right, origin.
    facts: Vec<(String, String, String)>,
    contract: Vec<StoredRequirement>,
    /// Predicate, message.
    requirements: Vec<(String, String)>,
}

/// A requirement of an op on sizes: the kind as a word and a number, sizes as expressions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredRequirement {
    kind: String,
    number: i64,
    what: String,
    origin: String,
    left: Vec<String>,
    right: Vec<String>,
}

/// A step whose ops and values are numbers of the walk; its symbols are listed next to it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct StoredStep {
    step: Step,
    symbols: Vec<String>,
}
