//! The verifier: reports all structural errors of a graph.
//!
//! A graph for which [`verify`] returns `Ok` has ids in range, operands that are defined before they are read and
//! inside their region, counts and attributes that fit each op, and symbols that have a value wherever they are read;
//! code that walks it needs no checks of its own. Whether result types are correct for their op is checked by
//! `shape-inference`.
//!
//! The files mirror the rules: [`structure`] ids, order and regions; [`signature`] counts and kinds
//! of operands; [`attributes`] attributes against ranks; [`symbols`] sizes.

mod attributes;
mod error;
mod signature;
mod structure;
mod symbols;

pub use error::{Location, VerifyError, VerifyErrorKind, VerifyErrors};

use crate::graph::Graph;
use error::Report;

/// The maximum rank of a tensor.
pub const RANK_LIMIT: usize = 32;

/// The number of errors after which the verifier stops collecting.
pub const ERROR_LIMIT: usize = 100;

/// Checks a graph's structure.
///
/// # Errors
/// Every violated rule, up to [`ERROR_LIMIT`], in the order of the ops.
pub fn verify(graph: &Graph) -> Result<(), VerifyErrors> {
    let mut report = Report::default();
    // The later checks index by id and walk regions, so they need the earlier ones to hold.
    structure::check(graph, &mut report);
    if report.is_empty() {
        for (id, data) in graph.ops() {
            signature::check(graph, id, data, &mut report);
        }
    }
    if report.is_empty() {
        for (id, data) in graph.ops() {
            attributes::check(graph, id, data, &mut report);
        }
        symbols::check(graph, &mut report);
    }
    report.finish()
}
