//! `fold_constants`: ops whose operands are constants become constants.
//!
//! Folding is bounded in three ways, because a small file can describe huge constants (`broadcast` of one element,
//! `iota`) and long computations:
//! - bytes created per graph: the fold budget ([`DEFAULT_FOLD_BUDGET`](crate::DEFAULT_FOLD_BUDGET)); an op that would
//!   exceed it is kept, smaller ones after it may still be folded;
//! - elements that an op may create from few elements: `iota` and `broadcast` beyond [`EXPANSION_LIMIT`] are kept;
//! - steps of computation per graph: [`WORK_LIMIT`].
//!
//! An op that faults on its constants is kept and faults at run time, if it is run.

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::fold::Foldable;
use crate::rebuild::rebuild_with;
use crate::widened_weights::widened_weights;
use kiln_ir::{Graph, Op, OpId, Rebuild, RegionId, Visit};

/// `iota` and `broadcast` with more elements than this are not folded.
pub const EXPANSION_LIMIT: usize = 1024;

/// The maximum number of elements that folding reads, writes or multiplies per graph.
pub const WORK_LIMIT: u64 = 1 << 30;

const PASS: &str = "fold_constants";

/// Computes ops that depend only on constants, within the budget.
///
/// # Errors
/// None today.
pub fn fold_constants(graph: Graph, ctx: &mut PassContext) -> Result<Changed<Graph>, PassError> {
    let before = ctx.rewrites();
    let kept = widened_weights(&graph, ctx.widens_constants());
    let folded = rebuild_with(&graph, &mut |rebuild, into, op| match !kept.contains(&op)
        && fold_op(rebuild, into, op, ctx)
    {
        true => Visit::Done,
        false => Visit::Copy,
    });
    Ok(match ctx.rewrites() - before {
        0 => Changed::unchanged(graph),
        rewrites => Changed {
            graph: folded,
            rewrites,
        },
    })
}

fn fold_op(rebuild: &mut Rebuild<'_>, into: RegionId, op: OpId, ctx: &mut PassContext) -> bool {
    if !ctx.may_rewrite() {
        return false;
    }
    let Some(foldable) = Foldable::of(rebuild, op) else {
        return false;
    };
    let data = rebuild.old().op(op);
    let expands = matches!(data.op, Op::Iota { .. } | Op::Broadcast { .. });
    if expands && foldable.result_elements > EXPANSION_LIMIT {
        return false;
    }
    if !ctx.may_widen(foldable.operand_bytes, foldable.result_bytes) {
        return false;
    }
    if !ctx.spend_on_folding(foldable.result_bytes, foldable.work) {
        return false;
    }
    let folded = foldable.fold(rebuild, into, op);
    if folded {
        ctx.count_rewrite(PASS, data.op.mnemonic());
    }
    folded
}

#[cfg(test)]
mod tests;
