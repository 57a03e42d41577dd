//! Selections whose outcome is known.

use crate::constants::Splat;
use crate::peephole::{Rewrite, Site};
use kiln_ir::Op;

/// Simplifies `select(c, x, x)`, and a selection by a constant.
///
/// A select itself never faults, and the untaken branch is computed by separate ops.
pub(super) fn choose_branch(site: &mut Site<'_>) -> Option<Rewrite> {
    let (Op::Map { function, .. }, &[condition, yes, no]) = (site.op(), site.operands()) else {
        return None;
    };
    if function.name() != "select" {
        return None;
    }
    let chosen = match site.splat(condition) {
        _ if yes == no => yes,
        Some(Splat::Bool(true)) => yes,
        Some(Splat::Bool(false)) => no,
        _ => return None,
    };
    site.as_result(chosen)
}
