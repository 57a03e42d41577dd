//! `freeze_constants`: does work on constant parameters once, at load time.
//!
//! There are two kinds of work, both disabled when gradients of the parameters are needed:
//! - [`layout`]: reshapes, transposes, casts and element-wise functions of weights, whatever their size. The results are
//!   bounded by the constants' own size (see [`GROWTH_LIMIT`]).
//! - [`affine`]: scaling and shifting per channel after a convolution or matmul, such as a batch norm, is folded into the
//!   weights and one addition. The weights are computed in f64 and rounded once, so results may differ from the unfrozen
//!   graph's in their last bits.

mod affine;
mod layout;
mod weights;

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::rebuild::rebuild_with;
use crate::widened_weights::widened_weights;
use kiln_ir::{Graph, Op, Visit};

/// Freezing creates at most this many times the bytes of the graph's constants.
pub const GROWTH_LIMIT: usize = 4;

pub(crate) const PASS: &str = "freeze_constants";

/// Computes on constant parameters at load.
///
/// # Errors
/// None today.
pub fn freeze_constants(graph: Graph, ctx: &mut PassContext) -> Result<Changed<Graph>, PassError> {
    let before = ctx.rewrites();
    let constant_bytes = constant_bytes(&graph);
    let plan = affine::Plan::of(&graph);
    let kept = widened_weights(&graph, ctx.widens_constants());
    let frozen = rebuild_with(&graph, &mut |rebuild, into, op| {
        if !ctx.may_rewrite() {
            return Visit::Copy;
        }
        let budget = constant_bytes.saturating_mul(GROWTH_LIMIT);
        let is_kept = kept.contains(&op);
        let done = (!is_kept && layout::freeze(rebuild, into, op, budget, ctx))
            || affine::freeze(rebuild, into, op, &plan, budget, ctx);
        if done { Visit::Done } else { Visit::Copy }
    });
    Ok(match ctx.rewrites() - before {
        0 => Changed::unchanged(graph),
        rewrites => Changed {
            graph: frozen,
            rewrites,
        },
    })
}

fn constant_bytes(graph: &Graph) -> usize {
    let bytes = graph.ops().filter_map(|(_, data)| match &data.op {
        Op::Constant(constant) => Some(constant.tensor().byte_len()),
        _ => None,
    });
    bytes.fold(0, usize::saturating_add)
}

#[cfg(test)]
mod tests;
