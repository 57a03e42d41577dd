//! `eliminate_common_subexpressions`: an op that computes what an earlier op of its region computed
//! is replaced by it.
//!
//! Ops are equal when their attributes are, bit for bit, their operands are, and their results are proved to have the same
//! sizes. Ops that define symbols, control flow and custom ops are never merged.

use crate::context::{Changed, PassContext};
use crate::error::PassError;
use crate::op_key::OpKey;
use crate::rebuild::rebuild_with;
use kiln_ir::{Graph, OpId, Rebuild, RegionId, TensorType, ValueId, Visit};
use kiln_symbolic_shape::{DimTable, Proof};
use smallvec::SmallVec;
use std::collections::HashMap;

const PASS: &str = "eliminate_common_subexpressions";

/// Earlier computations: looked up only, never iterated.
type Seen = HashMap<(RegionId, OpKey), SmallVec<[ValueId; 1]>>;

/// Merges equal ops.
///
/// # Errors
/// None today.
pub fn eliminate_common_subexpressions(
    graph: Graph,
    ctx: &mut PassContext,
) -> Result<Changed<Graph>, PassError> {
    let before = ctx.rewrites();
    let mut seen = Seen::new();
    let merged = rebuild_with(&graph, &mut |rebuild, into, op| {
        if merge(rebuild, into, op, ctx, &mut seen) {
            Visit::Done
        } else {
            Visit::Copy
        }
    });
    Ok(match ctx.rewrites() - before {
        0 => Changed::unchanged(graph),
        rewrites => Changed {
            graph: merged,
            rewrites,
        },
    })
}

/// Whether the op's results were mapped.
fn merge(
    rebuild: &mut Rebuild<'_>,
    into: RegionId,
    id: OpId,
    ctx: &mut PassContext,
    seen: &mut Seen,
) -> bool {
    let data = rebuild.old().op(id);
    if !data.op.is_pure() || !data.regions.is_empty() || !data.symbols.is_empty() {
        return false;
    }
    let operands: SmallVec<[ValueId; 4]> = data
        .operands
        .iter()
        .map(|&value| rebuild.value(value))
        .collect();
    let key = (into, OpKey::new(&data.op, &operands));
    if let Some(earlier) = seen.get(&key) {
        if !ctx.may_rewrite() || !same_types(rebuild, &data.results, earlier) {
            return false;
        }
        for (&result, &value) in data.results.iter().zip(earlier) {
            rebuild.map(result, value);
        }
        ctx.count_rewrite(PASS, data.op.mnemonic());
        return true;
    }
    rebuild.copy_op(into, id);
    let copies = data
        .results
        .iter()
        .map(|&value| rebuild.value(value))
        .collect();
    seen.insert(key, copies);
    true
}

fn same_types(rebuild: &Rebuild<'_>, old: &[ValueId], new: &[ValueId]) -> bool {
    let graph = rebuild.new_graph();
    old.len() == new.len()
        && old.iter().zip(new).all(|(&old, &new)| {
            match (rebuild.old().tensor_ty(old), graph.tensor_ty(new)) {
                (Some(left), Some(right)) => equal(graph.dims(), left, right),
                _ => false,
            }
        })
}

fn equal(dims: &DimTable, left: &TensorType, right: &TensorType) -> bool {
    left.dtype == right.dtype
        && left.rank() == right.rank()
        && left
            .dims
            .iter()
            .zip(&right.dims)
            .all(|(&a, &b)| a == b || dims.equal(a, b) == Proof::Proved)
}

#[cfg(test)]
mod tests;
