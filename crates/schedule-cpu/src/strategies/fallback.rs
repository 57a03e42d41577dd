//! The fallback: plain loops, which suit any verified kernel.

use super::Proposal;
use super::problem::{Kind, Problem};
use crate::loops::When;

pub(super) fn propose(problem: &Problem<'_>) -> Vec<Proposal> {
    let base = &problem.base;
    match base.kind {
        Kind::Fallback => vec![Proposal::new(When::always(), base.tile, base.chunk)],
        _ => Vec::new(),
    }
}
