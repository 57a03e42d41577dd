//! `hoist_from_loops`: loop-invariant ops are computed once, before the loop.
//!
//! Two kinds of ops leave a loop's region:
//!
//! - ops that read only captures, if they compute anything (data movement is left to the kernel that reads its result);
//! - products over a slice of a captured value at the iteration number, `x[i] * w`, with the element-wise ops on them, in a
//!   loop that visits the whole axis: they are computed for all slices at once, and the region gathers its slice of the
//!   result. So the product of an LSTM's inputs with its weights is one matrix product.
//!
//! An op moves only if it cannot fault and has no requirements on sizes, since the loop may run no iteration. A product for
//! all slices at once may round differently, where products are not computed exactly.

mod find;
mod movable;
mod moves;

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::rebuild::rebuild_with;
use kiln_ir::{Graph, Op, Visit};

const PASS: &str = "hoist_from_loops";

/// Moves ops out of loops.
///
/// # Errors
/// None today.
pub fn hoist_from_loops(graph: Graph, ctx: &mut PassContext) -> Result<Changed<Graph>, PassError> {
    let is_loop = |op: &Op| matches!(op, Op::Loop { .. });
    if !graph.ops().any(|(_, data)| is_loop(&data.op)) {
        return Ok(Changed::unchanged(graph));
    }
    // Querying the requirements of ops creates sizes.
    let mut scratch = graph.clone();
    let before = ctx.rewrites();
    let hoisted = rebuild_with(&graph, &mut |rebuild, into, op| {
        let found = find::find(rebuild.old(), &mut scratch, op);
        match found {
            Some(found) if ctx.count_rewrites(PASS, "hoist", found.roots.len()) => {
                moves::rebuild_loop(rebuild, into, op, &found);
                Visit::Done
            }
            _ => Visit::Copy,
        }
    });
    let rewrites = ctx.rewrites() - before;
    if rewrites == 0 || !ctx.types_hold(&hoisted) {
        return Ok(Changed::unchanged(graph));
    }
    Ok(Changed {
        graph: hoisted,
        rewrites,
    })
}

#[cfg(test)]
mod tests;
